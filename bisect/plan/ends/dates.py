"""Commits that are named by a date: `2026-06-01`, `@{2 weeks ago}`, `main@{yesterday}`.

Git looks `@{...}` up in the reflog, which tells when this clone was fetched; what is wanted here is when a commit was
made.
"""

import re
from dataclasses import dataclass
from datetime import date

from ....runner.errors import UsageError, UserError
from ....runner.git.repository import GitRepository

_OF_LINE = re.compile(r"(?P<line>.*)@\{(?P<date>.+)\}")
_OF_GIT = re.compile(r"-?\d+|u|upstream|push", re.IGNORECASE)
"""What stands in `@{...}` and is no date: an entry of the reflog, a checkout before this one, a remote's branch."""
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2})(?P<time>[ T]\d{2}:\d{2}(:\d{2})?( ?(Z|[+-]\d{2}:?\d{2}))?)?")
_BEFORE_NOW = re.compile(
    r"yesterday|(\d+|an?|last)[ .](second|minute|hour|day|week|month|year)s?([ .]ago)?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Dated:
    """The last commit before a date, and the sentence that says which one was taken."""

    commit: str
    notice: str


def commit_of_date(
    repository: GitRepository, text: str, *, option: str, line: str, where: str
) -> Dated | None:
    """The last commit before a date, along first parents of the branch that the text names, else of `line`, which
    `where` tells.

    None where the text names no date: then it is a revision as git has them. Raises `UserError` where no commit is that
    old, or a date cannot be read.
    """
    named = _OF_LINE.fullmatch(text)
    if named is not None and not _OF_GIT.fullmatch(named["date"]):
        branch = named["line"]
        when = _git_date(named["date"], f"{option} {text}")
        if branch:
            line, where = repository.resolve(branch, option=option), f"on {branch}"
    elif _ISO.fullmatch(text) and not repository.names_commit(text):
        when = _git_date(text, f"{option} {text}")
    elif _BEFORE_NOW.fullmatch(text) and not repository.names_commit(text):
        raise UsageError(f"{option} {text}: expected a date as '@{{{text}}}', found no revision of that name")
    else:
        return None
    commit = repository.last_before(when, line)
    if commit is None:
        hint = (
            f"a shallow clone ends there; run: git -C {repository.path} fetch --unshallow, or --shallow-since=DATE "
            "with an older date"  # that of the end would fetch what follows it, and not the commit before
            if repository.boundary
            else f"name a commit, see git -C {repository.path} log --first-parent"
        )
        raise UserError(
            f"{option} {text}: expected a commit before that among the first parents of {line[:12]}, found none; {hint}"
        )
    taken = repository.commit(commit)
    return Dated(
        commit=commit,
        notice=f"{option} {text}: {commit[:12]} of {taken.date:%Y-%m-%d %H:%M} UTC {where}, {taken.subject}",
    )


def _git_date(text: str, where: str) -> str:
    """A date as git reads it without a guess. A day begins at midnight, where git would take the time of day of now."""
    absolute = _ISO.fullmatch(text)
    if absolute is None and not _BEFORE_NOW.fullmatch(text):
        raise UsageError(
            f"{where}: expected a date like 2026-06-01, yesterday or 2 weeks ago, found {text!r}"
        )
    if absolute is None:
        return text
    try:
        date.fromisoformat(absolute[1])
    except ValueError as error:
        raise UsageError(f"{where}: expected a date like 2026-06-01, found {absolute[1]}: {error}") from error
    return text if absolute["time"] else f"{text} 00:00:00"

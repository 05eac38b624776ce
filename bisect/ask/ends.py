"""Resolves what the user named: the ends of the range, and the commits, paths and files that belong to them.

`find_ends` turns revisions and dates into full commit ids. The older end must be an ancestor of the newer one. If it is
not, their merge base is run in its place. `check_command` finds what is wrong with a command behind `--` at the ends.
`find_variables` finds which variables of the shell a case may read.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from pathlib import Path, PurePosixPath

from ...runner.errors import EndsError, UsageError, UserError
from ...runner.git import GITLINK, GitRepository
from ...runner.overlays import CherryPicks, list_patches
from ...runner.pins import Revisions
from ...runner.stack import Overlay, display_text
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import InheritedVariables, case_variables
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.vocabulary import Seeks, plural
from ..history.range import LoadedRange
from .predicate import CommitFile, Predicate, import_notice, interpreter_of
from .question import BisectRequest, Question, overlay_option, suggest_file


def content_and_revisions(request: BisectRequest, workspace: Workspace) -> tuple[StackContent, Revisions]:
    """Return the reader of contents, and the one that finds which commits of the repositories go together."""
    content = StackContent(request.stack, workspace)
    name = request.repository
    picks = None
    if request.cherry_picks:
        picks = CherryPicks(request.cherry_picks, repository=name, git=workspace.clones[name])
    return content, Revisions(request.stack, workspace.clones, request.fixed, picks=picks)


_OLD_OPTION = {Seeks.REGRESSION: "--good", Seeks.FIX: "--bad"}
_NEW_OPTION = {Seeks.REGRESSION: "--bad", Seeks.FIX: "--good"}


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Both ends as full commit ids. `also_old` and `parted` are as of `BisectRequest`."""

    good: str
    bad: str
    also_old: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()
    commit_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The commit that each name of an end stood for."""
    notices: tuple[str, ...] = ()


def find_ends(question: Question, repository: GitRepository) -> Ends:
    """Return the ends of the range that a question asks about. Raises `EndsError`, and `UserError`."""
    seeks = question.seeks
    goods, bads = question.good, (question.bad,)
    older, (newer, *_) = (goods, bads) if seeks is Seeks.REGRESSION else (bads, goods)
    older = (*older, *question.also_old)
    notices: list[str] = []
    commit_names: dict[str, str] = {}

    def resolve(text: str, option: str, tip: str, where: str) -> str:
        dated = commit_before_date(repository, text, option=option, tip=tip, where=where)
        if dated is not None:
            notices.append(dated.notice)
        commit_names[text] = repository.resolve(text, option=option) if dated is None else dated.commit
        return commit_names[text]

    new = resolve(
        newer, _NEW_OPTION[seeks], "HEAD", f"on {repository.branch or 'HEAD'}, which is checked out"
    )
    if not older:
        root = _furthest_good_end(repository, new)
        notices += _shallow_clone_notice(repository, root)
        return Ends(good=root, bad=new, commit_names=commit_names, notices=tuple(notices))
    olds = tuple(
        dict.fromkeys(resolve(text, _OLD_OPTION[seeks], new, "behind the later end") for text in older)
    )
    if new in olds:
        same = [text for text in dict.fromkeys(older) if commit_names[text] == new]
        raise _same_ends_error(new, newer, same, seeks, notices)
    old = _old_end(repository, olds, new, seeks)
    diverged = tuple(sha for sha in olds if sha != old and not repository.is_ancestor(sha, new))
    notices += _merge_base_notices(repository, olds, new, old)
    notices += [_replaced_end_notice(sha, old, new, diverged, seeks) for sha in olds if sha != old]
    return Ends(
        good=old if seeks is Seeks.REGRESSION else new,
        bad=new if seeks is Seeks.REGRESSION else old,
        also_old=tuple(sha for sha in olds if sha != old),
        parted=() if old in olds else diverged,
        commit_names=commit_names,
        notices=tuple(notices),
    )


def _furthest_good_end(repository: GitRepository, bad: str) -> str:
    """Return the oldest commit that may be a good end. Raises `EndsError` where no commit precedes the bad end."""
    root = repository.first_parents(bad)[-1]
    if root == bad:
        why = (
            f"a shallow clone ends there; run: {repository.deepen_hint}"
            if repository.shallow_commits
            else "it is a root"
        )
        raise EndsError(f"expected commits before bad {bad[:12]} to look for a good end, found none: {why}")
    return root


def _shallow_clone_notice(repository: GitRepository, furthest: str) -> list[str]:
    """Return the notice that a shallow clone limits how far back a good end is searched for, if it does."""
    if furthest not in repository.shallow_commits:
        return []
    return [
        f"a good end is looked for back to {furthest[:12]} of {repository.commit(furthest).date:%Y-%m-%d}, where this "
        f"shallow clone ends; for more: {repository.deepen_hint}"
    ]


def _same_ends_error(
    sha: str, newer: str, older: Sequence[str], seeks: Seeks, dated: Sequence[str]
) -> EndsError:
    """Return the error that both ends are the commit `sha`. `dated` holds the notices about dates.

    `newer` is the user's name of the newer end, and `older` are those of the older ends.
    """
    good, bad = (older, [newer]) if seeks is Seeks.REGRESSION else ([newer], older)
    return EndsError(
        f"expected two different ends, found --good {' and '.join(good)} and --bad {' and '.join(bad)} to name one "
        f"commit, {sha[:12]}" + "".join(f"; {notice}" for notice in dated)
    )


def _old_end(repository: GitRepository, olds: Sequence[str], new: str, seeks: Seeks) -> str:
    """Return the old end that is run, as git chooses it.

    It is one of `olds`, else the best common ancestor of all ends. Raises `EndsError` where an old end builds on the
    newer one, or where there is no common ancestor.
    """
    bases = repository.merge_bases(new, olds)
    if new in bases:
        old_option, new_option = _OLD_OPTION[seeks], _NEW_OPTION[seeks]
        sha = next(sha for sha in olds if repository.is_ancestor(new, sha))
        hint = f"did you mean {old_option} {new[:12]} {new_option} {sha[:12]}? To find what fixed it, add --find-fix"
        raise EndsError(
            f"expected {old_option} to be an ancestor of {new_option}, found {sha[:12]} to follow {new[:12]}: the ends "
            f"are swapped; {hint if seeks is Seeks.REGRESSION else 'leave out --find-fix'}"
        )
    if not bases:
        hint = f" in a shallow clone; run: {repository.deepen_hint}" if repository.shallow_commits else ""
        raise EndsError(
            f"expected related ends, found {olds[0][:12]} and {new[:12]} without a common ancestor{hint}"
        )
    return next((base for base in bases if base in olds), bases[0])


def _merge_base_notices(repository: GitRepository, olds: Sequence[str], new: str, old: str) -> list[str]:
    """Return a notice that names the merge bases other than `old`, if there are any."""
    others = [] if old in olds else [base for base in repository.merge_bases(new, olds) if base != old]
    if not others:
        return []
    names = ", ".join(base[:12] for base in others)
    return [
        f"the ends have several merge bases: {old[:12]} is run as the old end; the search runs {names} only if the "
        "culprit builds on it"
    ]


def _replaced_end_notice(sha: str, old: str, new: str, diverged: Sequence[str], seeks: Seeks) -> str:
    """Return the notice that another commit, `old`, is run in place of the old end `sha`.

    `diverged` holds the old ends that are not ancestors of the new end.
    """
    option = f"{_OLD_OPTION[seeks]} {sha[:12]}"
    if sha not in diverged:
        return f"{option}: its ancestors are no candidates; {old[:12]} is run as the old end instead"
    base = "their merge base" if len(diverged) == 1 else "the best common ancestor"
    return (
        f"{option} is no ancestor of {_NEW_OPTION[seeks]} {new[:12]}: the common ancestors of both are no candidates; "
        f"{old[:12]}, {base}, is run as the old end instead"
    )


_DATE_ON_BRANCH = re.compile(r"(?P<branch>.*)@\{(?P<date>.+)\}")
_NOT_A_DATE = re.compile(r"-?\d+|u|upstream|push", re.IGNORECASE)
"""Matches what may stand in `@{...}` and is no date: a reflog entry, an earlier checkout, or a remote's branch."""
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?P<time>[ T]\d{2}:\d{2}(:\d{2})?( ?(Z|[+-]\d{2}:?\d{2}))?)?")
_RELATIVE_DATE = re.compile(
    r"yesterday|(\d+|an?|last)[ .](second|minute|hour|day|week|month|year)s?([ .]ago)?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class DatedCommit:
    """The last commit before a date, and a notice that names this commit."""

    commit: str
    notice: str


def commit_before_date(
    repository: GitRepository, text: str, *, option: str, tip: str, where: str
) -> DatedCommit | None:
    """Return the last commit that was made before a date, along first parents.

    This function resolves `@{DATE}` by commit date. Git would use the reflog, which records when this clone updated
    the branch.

    The search begins at the branch that the text names, else at `tip`, which `where` describes for the notice. Returns
    None for a text that is no date.

    Raises:
        UsageError: the date cannot be read, or a relative date such as `yesterday` stands without `@{...}`.
        UserError: no commit is that old.
    """
    dated = _DATE_ON_BRANCH.fullmatch(text)
    if dated is not None and not _NOT_A_DATE.fullmatch(dated["date"]):
        when = _git_date(dated["date"], f"{option} {text}")
        if branch := dated["branch"]:
            tip, where = repository.resolve(branch, option=option), f"on {branch}"
    elif _ISO_DATE.fullmatch(text) and not repository.names_commit(text):
        when = _git_date(text, f"{option} {text}")
    elif _RELATIVE_DATE.fullmatch(text) and not repository.names_commit(text):
        raise UsageError(f"{option} {text}: expected a date as '@{{{text}}}', found no revision of that name")
    else:
        return None
    commit = repository.commit_at_date(when, tip)
    if commit is None:
        hint = (
            f"a shallow clone ends there; run: git -C {repository.path} fetch --unshallow, or --shallow-since=DATE "
            "with an older date"  # The date itself would fetch only newer commits, and not the one before it.
            if repository.shallow_commits
            else f"name a commit, see git -C {repository.path} log --first-parent"
        )
        raise UserError(
            f"{option} {text}: expected a commit before that among the first parents of {tip[:12]}, found none; {hint}"
        )
    taken = repository.commit(commit)
    return DatedCommit(
        commit=commit,
        notice=f"{option} {text}: {commit[:12]} of {taken.date:%Y-%m-%d %H:%M} UTC {where}, {taken.subject}",
    )


def _git_date(text: str, where: str) -> str:
    """Return a date for git. Raises `UsageError` if it cannot be read.

    A date without a time means midnight. Git itself would add the current time of day.
    """
    absolute = _ISO_DATE.fullmatch(text)
    if absolute is None and not _RELATIVE_DATE.fullmatch(text):
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


_PLAIN_FILE = "100644"
"""Git gives this mode to a file that may not be executed."""


def check_command(
    question: Question, ends: Ends, repository: GitRepository, overlays: Sequence[Overlay]
) -> list[str]:
    """Return notices about the files that the command after `--` runs.

    For example, a build step may have to make a file.

    Raises `UsageError` where an end does not have the file or the folder of the command. Overlays put their files at
    both ends.
    """
    command, is_built = question.command, bool(question.stack.steps)
    if command is None:
        return []
    notices: list[str] = []
    sha_by_end = {"good": ends.good, "bad": ends.bad} if question.good else {"bad": ends.bad}
    _check_words(command, repository)
    if (notice := import_notice(question.stack, question.repository or question.stack.searched)) is not None:
        notices.append(notice)
    for file in command.commit_files():
        if file.is_program and (repository.path / file.path).is_dir():
            raise UsageError(f"-- {file.word}: expected a file to run, found a folder; name the file")
        if not any(overlay.covers(str(file.path)) for overlay in overlays):
            notices += _check_file(file, ends, sha_by_end, repository, is_built=is_built)
    notices += _argument_notices(command, ends, sha_by_end, repository, overlays)
    _check_folder(command.folder, sha_by_end, repository, overlays, is_built=is_built)
    return notices


def _check_file(
    file: CommitFile, ends: Ends, sha_by_end: Mapping[str, str], repository: GitRepository, *, is_built: bool
) -> Iterator[str]:
    """Yield notices about a file that the command runs. `sha_by_end` has the commit of each end, by "good" or "bad".

    Raises `UsageError` where an end does not have the file, or has one that cannot be run.
    """
    modes = {end: _mode(repository, sha, file.path) for end, sha in sha_by_end.items()}
    missing_at = next((end for end, mode in modes.items() if not mode), None)
    if missing_at is None:
        plain = next((end for end, mode in modes.items() if mode == _PLAIN_FILE and file.is_program), None)
        if plain is not None:
            raise UsageError(
                f"-- {file.word}: expected a file that may be executed, found one that may not at {plain} "
                f"{sha_by_end[plain][:12]}; name its interpreter: "
                f"-- {interpreter_of(file.word)} {shlex.quote(file.word)}"
            )
        return
    other = next((sha for end, sha in sha_by_end.items() if modes[end]), None)
    if other is not None or (repository.path / file.path).exists():
        overlay = overlay_option(repository, file.path, ends.good, ends.bad, other)
        advice = "" if overlay is None else f"lay it over every commit with {overlay}, or "
        raise UsageError(
            f"-- {file.word}: expected it at both ends, for git tracks it and each commit runs its own, found none at "
            f"{missing_at} {sha_by_end[missing_at][:12]}; {advice}name a copy outside of the repository"
        )
    suggested = suggest_file(repository, sha_by_end["bad"], file.path)
    if not is_built:
        raise UsageError(
            f"-- {file.word}: expected a file to run, found none at either end, nor in the checkout"
            f"{suggested or '; name one that is there'}"
        )
    yield f"-- {file.word}: neither an end nor the checkout has it; a build step has to make it{suggested}"


def _check_words(command: Predicate, repository: GitRepository) -> None:
    """Raise `UsageError` where the command is one word that a shell would split, and no file has that name."""
    first, *others = command.words
    if others or " " not in first.strip() or (repository.path / command.folder / first).exists():
        return
    raise UsageError(
        f"-- {shlex.quote(first)}: expected the program and each argument as separate words, found one word; remove "
        "the quotes, or run a shell line with: -- sh -c 'LINE'"
    )


def _argument_notices(
    command: Predicate,
    ends: Ends,
    sha_by_end: Mapping[str, str],
    repository: GitRepository,
    overlays: Sequence[Overlay],
) -> Iterator[str]:
    """Yield a notice for each argument that is a file at one end only, such as a test that came with the fix."""
    run = {file.word for file in command.commit_files()}
    for word in command.words[1:]:
        file = PurePosixPath(posixpath.normpath(command.folder / word))
        is_path = "/" in word and not word.startswith(("/", "-")) and file.parts[:1] != ("..",)
        if word in run or not is_path or any(overlay.covers(str(file)) for overlay in overlays):
            continue
        has_file = {end: _has_path(repository, sha, file) for end, sha in sha_by_end.items()}
        if any(has_file.values()) and not all(has_file.values()):
            end_with, end_without = sorted(has_file, key=lambda end: not has_file[end])
            overlay = overlay_option(repository, file, ends.good, ends.bad, sha_by_end[end_with])
            advice = (
                f"lay the {end_with} end's over every commit with {overlay} if the command needs it there"
            )
            yield f"{word} is not at the {end_without} end" + ("" if overlay is None else f"; {advice}")


def _check_folder(
    folder: PurePosixPath,
    sha_by_end: Mapping[str, str],
    repository: GitRepository,
    overlays: Sequence[Overlay],
    *,
    is_built: bool,
) -> None:
    """Raise `UsageError` where an end does not have the folder in which the command was typed and runs.

    If `is_built`, a build step may make a folder that neither end has.
    """
    if folder == PurePosixPath() or any(PurePosixPath(each.path).is_relative_to(folder) for each in overlays):
        return
    missing_at = [end for end, sha in sha_by_end.items() if not _has_path(repository, sha, folder)]
    if not missing_at or (is_built and len(missing_at) == len(sha_by_end)):
        return
    end = missing_at[0]
    raise UsageError(
        f"--: expected the folder {folder}, where the command was typed and runs, at both ends, found none at "
        f"{end} {sha_by_end[end][:12]}; type it in a folder that every commit has, such as {repository.path}"
    )


def _has_path(repository: GitRepository, sha: str, path: PurePosixPath) -> bool:
    return bool(_mode(repository, sha, path))


def _mode(repository: GitRepository, sha: str, path: PurePosixPath) -> str:
    """Return git's mode of a path at a commit.

    A path inside a submodule gets the submodule's mode, unchecked. A missing path gives an empty text.
    """
    found = repository.run("ls-tree", "--full-tree", sha, "--", str(path))
    if found:
        return found.split()[0]
    holders = (str(folder) for folder in path.parents if folder.name)
    return GITLINK if any(repository.gitlink(sha, folder) for folder in holders) else ""


def tree_paths(texts: Sequence[str], *, checkout: Path, here: Path) -> tuple[str, ...]:
    """Return paths as a commit's tree has them. An empty text means the whole tree.

    A relative path begins at the folder `here`, or at the root of the checkout if `here` lies outside. Raises
    `UsageError` where a path leads out of the checkout.
    """
    root = checkout.resolve()
    start = here.resolve() if here.resolve().is_relative_to(root) else root
    found: list[str] = []
    for text in texts:
        path = _remove_dots(start / text)
        # Only links on the way to the checkout are followed. A link within it is what commits change.
        top = next((folder for folder in reversed((path, *path.parents)) if folder.resolve() == root), None)
        if top is None:
            raise UsageError(f"--path {text}: expected a path inside {root}, found one outside")
        inside = path.relative_to(top).as_posix()
        found.append("" if inside == "." else inside)
    return tuple(dict.fromkeys(found))


def path_notices(paths: Sequence[str], loaded: LoadedRange | None) -> list[str]:
    """Return the notice about the paths of a question, with the number of commits that touch them."""
    if not paths:
        return []
    limit = " or ".join(path or "." for path in paths)
    count = ""
    if loaded is not None:
        touching = len(loaded.commits) - len(loaded.unrelated)
        count = f", {touching} of {plural(len(loaded.commits), 'commit')}{_describe_kept_commits(loaded)}"
    return [f"--path {limit}: only commits that touch it are searched{count}"]


def _describe_kept_commits(loaded: LoadedRange) -> str:
    """Return a phrase that counts the candidates that touch none of the paths.

    The phrase is empty if there are no such candidates.
    """
    kept = [sha for sha in loaded.candidates if sha in loaded.unrelated]
    others = [sha for sha in kept if sha != loaded.range.new]
    parts = [f"the end {sha[:12]}" for sha in kept if sha == loaded.range.new]
    parts += [f"{plural(len(others), 'other')} that cannot be left out"] if others else []
    return f", and {' and '.join(parts)}" if parts else ""


def _remove_dots(path: Path) -> Path:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1] or parts
        else:
            parts.append(part)
    return Path(*parts)


_SKIP_OPTION = "--skip"


def resolve_skips(texts: tuple[str, ...], git: GitRepository) -> dict[str, str]:
    """Return the commit id, or `ID..ID`, that each `REV` or `A..B` stands for now. Raises `UserError`."""
    return {text: _resolve_skip(text, git) for text in texts}


def skipped_commits(skips: Mapping[str, str], git: GitRepository) -> tuple[str, ...]:
    """Expand the result of `resolve_skips` to single commits. Raises `UsageError` if an `A..B` contains no commit."""
    commits = (_skipped_commits(text, ids, git) for text, ids in skips.items())
    return tuple(dict.fromkeys(chain.from_iterable(commits)))


def _resolve_skip(text: str, git: GitRepository) -> str:
    old, dots, new = text.partition("..")
    if not dots:
        return git.resolve(text, option=_SKIP_OPTION)
    if not (old and new):
        raise UsageError(f"{_SKIP_OPTION} {text}: expected REV, or A..B for the commits of B that A has not")
    return f"{git.resolve(old, option=_SKIP_OPTION)}..{git.resolve(new, option=_SKIP_OPTION)}"


def _skipped_commits(text: str, ids: str, git: GitRepository) -> list[str]:
    if ".." not in ids:
        return [ids]
    commits = git.run("rev-list", ids, "--").splitlines()
    if not commits:
        raise UsageError(
            f"{_SKIP_OPTION} {text}: expected commits in it, found none: the older end comes first"
        )
    return commits


def skip_notices(request: BisectRequest) -> list[str]:
    """Return a notice for each skipped commit that is an end. An end is run all the same, as in git."""
    return [
        f"{_SKIP_OPTION} {sha[:12]}: it is an end of the range, which is run all the same"
        for sha in request.ends.values()
        if sha in request.skip
    ]


_WORD = re.compile(r"\w+")
_FILE = re.compile(r"/[^\s'\";|&<>()]+")
_MAX_SCRIPT_BYTES = 1 << 20
"""A larger file of the command is not searched for names of variables. It is data, or a program."""


def find_variables(request: BisectRequest, workspace: Workspace, home: Home) -> InheritedVariables:
    """Return the shell variables that reach the runs of a case, split by whether something is known to read them."""
    inherited = case_variables(request.stack, home)
    variable_names = [*inherited.digests]
    mentioned_words = {word for text in _texts_of_command(request) for word in _WORD.findall(text)}
    for repository, commit in _commits(request, workspace):
        mentioned_words |= workspace.clones[repository].grep_words(commit, variable_names)
    return inherited.split_by_use(mentioned_words)


def _commits(request: BisectRequest, workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Yield the repository and the commit of everything that the ends are built from."""
    stack, (_, revisions) = request.stack, content_and_revisions(request, workspace)
    for end in request.ends.values():
        complete = revisions.complete({**request.frozen, request.repository: end})
        yield from ((name, complete[name]) for name in stack.repositories if name in complete)
        yield from ((name, patch) for name in stack.repositories for patch in list_patches(complete, name))
    for name, repository in stack.repositories.items():
        yield from ((name, overlay.commit) for overlay in repository.overlays)


def files_of_command(request: BisectRequest) -> Iterator[Path]:
    """Yield the files that the commands name by their full path, such as a script outside of the repositories."""
    for text in _words_of_command(request):
        for word in {text, *_FILE.findall(text)}:
            # A line of a shell may be too long for a path, for which pathlib raises.
            if word.startswith("/") and os.path.isfile(word):  # noqa: PTH113
                yield Path(word)


def programs_of_command(request: BisectRequest) -> Iterator[Path]:
    """Yield the programs that the case's command may find in the folders of PATH."""
    found = (shutil.which(word) for word in request.stack.case.command if "/" not in word)
    yield from (Path(program) for program in found if program is not None)


def _texts_of_command(request: BisectRequest) -> Iterator[str]:
    """Yield the words of the commands, and the texts of the files that they name by their full path."""
    yield from _words_of_command(request)
    for file in files_of_command(request):
        # A file that cannot be read, such as one of another user, names no variable here.
        if file.stat().st_size <= _MAX_SCRIPT_BYTES and os.access(file, os.R_OK):
            yield file.read_text(encoding="utf-8", errors="replace")


def _words_of_command(request: BisectRequest) -> Iterator[str]:
    case = request.stack.case
    steps = (word for step in request.stack.steps.values() for word in step.command)
    yield from map(display_text, (*case.command, *case.after, *steps, request.case_text))

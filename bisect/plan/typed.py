"""The command line of a bisection, as somebody would type it to search the same range again."""

import shlex
from collections.abc import Mapping, Sequence

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ...runner.workspace.home import command_line

_STORE = "--store"
_NAME = "--name"


HeldCommits = Mapping[str, Mapping[str, str]]
"""By option: what each of its values was at the time, in commit ids."""


def with_commits_held(words: Sequence[str], commits: HeldCommits) -> tuple[str, ...]:
    """The words of a command with commit ids in place of names of commits, which may move on, and without the name
    that it gave, which is taken. A password in the store's URL is `***`."""
    last = list(words).index("--") if "--" in words else len(words)
    held: list[str] = []
    for place, word in enumerate(words[:last]):
        name, equals, value = word.partition("=")
        before = words[place - 1] if place else ""
        if _NAME in (name, before):
            continue
        if equals and name in (*commits, _STORE):
            held.append(f"{name}={_held(name, value, commits)}")
        else:
            held.append(_held(before, word, commits))
    return (*held, *words[last:])


def _held(option: str, value: str, commits: HeldCommits) -> str:
    if option in commits:
        return commits[option].get(value, value)
    if option != _STORE:
        return value
    try:
        return make_url(value).render_as_string()
    except (ArgumentError, ValueError):  # it is refused when it is opened
        return value


def repeating(folder: str, words: Sequence[str]) -> str:
    """One line for a shell that begins the bisection again, from the folder where it was begun."""
    return f"cd {shlex.quote(folder)} && {command_line(['bisect-precision', *words])}"

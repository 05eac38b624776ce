"""The command line of a bisection, as somebody would type it to search the same range again."""

import shlex
from collections.abc import Mapping, Sequence

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ...runner.workspace.home import command_line

_ENDS = ("--good", "--bad")
_STORE = "--store"
_NAME = "--name"


def with_ends_held(words: Sequence[str], ends: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command with the commits that its ends were at the time in place of names, which may move on,
    and without the name that it gave, which is taken. A password in the store's URL is `***`.

    ends: the commit of each end as it was typed."""
    last = list(words).index("--") if "--" in words else len(words)
    held: list[str] = []
    for place, word in enumerate(words[:last]):
        name, equals, value = word.partition("=")
        before = words[place - 1] if place else ""
        if _NAME in (name, before):
            continue
        if equals and name in (*_ENDS, _STORE):
            held.append(f"{name}={_held(name, value, ends)}")
        else:
            held.append(_held(before, word, ends))
    return (*held, *words[last:])


def _held(option: str, value: str, ends: Mapping[str, str]) -> str:
    if option in _ENDS:
        return ends.get(value, value)
    if option != _STORE:
        return value
    try:
        return make_url(value).render_as_string()
    except ArgumentError:
        return value


def repeating(folder: str, words: Sequence[str]) -> str:
    """One line for a shell that begins the bisection again, from the folder where it was begun."""
    return f"cd {shlex.quote(folder)} && {command_line(['bisect-precision', *words])}"

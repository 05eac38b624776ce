"""Pins: what a commit of one repository says about the versions of others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..runner.git import GitRepository, is_commit_id
from ..runner.revisions import Revisions
from ..runner.stack import CommitFilePin, GitlinkPin, Pin, Stack, VersionFilePin
from .conclusion import PinRecord


@dataclass(frozen=True, kw_only=True)
class MovedLink:
    """A submodule that a commit moves from one of its commits to another."""

    pin: GitlinkPin
    old: str
    new: str


def pin_records(
    stack: Stack,
    repositories: Mapping[str, GitRepository],
    *,
    good: Mapping[str, str],
    bad: Mapping[str, str],
) -> tuple[PinRecord, ...]:
    """All pins of the stack, at the revisions of both ends."""
    return tuple(
        PinRecord(
            name=name,
            holder=pin.holder,
            path=pin.path,
            value_good=_value(pin, repositories[pin.holder], good[pin.holder]),
            value_bad=_value(pin, repositories[pin.holder], bad[pin.holder]),
            searched=isinstance(pin, GitlinkPin) and pin.search,
        )
        for name, pin in stack.pins.items()
    )


def _value(pin: Pin, holder: GitRepository, sha: str) -> str | None:
    """What a pin says at a commit; None where it is missing or unreadable there."""
    match pin:
        case GitlinkPin():
            return holder.gitlink(sha, pin.path)
        case CommitFilePin():
            text = (holder.read_text(sha, pin.path) or "").strip()
            return text if is_commit_id(text) else None
        case VersionFilePin():
            return _version(holder.read_text(sha, pin.path) or "", pin.key)


def moved_links(stack: Stack, pinned: Revisions, *, repository: str, old: str, new: str) -> list[MovedLink]:
    """The submodules whose pin differs between two commits of their holder, among those that may be searched."""
    moved: list[MovedLink] = []
    for pin in stack.gitlinks.values():
        if pin.holder == repository and pin.search:
            before = pinned.gitlink(repository, old, pin.path)
            after = pinned.gitlink(repository, new, pin.path)
            if before is not None and after is not None and before != after:
                moved.append(MovedLink(pin=pin, old=before, new=after))
    return moved


def _version(text: str, key: str) -> str | None:
    """The value of a `KEY=VALUE` line as a shell reads it: the last one counts, quotes and comments do not.

    >>> _version("PTOAS_VERSION=v0.56\\nPTOAS_VERSION='v0.57'  # newer\\n", "PTOAS_VERSION")
    'v0.57'
    """
    assignment = (
        rf"^[ \t]*(?:export[ \t]+)?{re.escape(key)}[ \t]*=[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|([^\s#'\"]*))"
    )
    found = re.findall(assignment, text, re.MULTILINE)
    return "".join(found[-1]) or None if found else None

"""Pins: what a commit of one repository says about the versions of others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..runner.git import GitRepository, is_commit_id
from ..runner.revisions import Revisions
from ..runner.stack import CommitFilePin, GitlinkPin, Stack, VersionFilePin


@dataclass(frozen=True, kw_only=True)
class PinValue:
    """What a pin says at one commit of its holder; None where it is missing or unreadable there."""

    name: str
    holder: str
    path: str
    value: str | None


@dataclass(frozen=True, kw_only=True)
class MovedLink:
    """A submodule that a commit moves from one of its commits to another."""

    pin: GitlinkPin
    old: str
    new: str


def pin_values(
    stack: Stack, repositories: Mapping[str, GitRepository], revisions: Mapping[str, str]
) -> list[PinValue]:
    """All pins of the stack at the given commits."""
    values: list[PinValue] = []
    for name, pin in stack.pins.items():
        holder, sha = repositories[pin.holder], revisions[pin.holder]
        match pin:
            case GitlinkPin():
                value = holder.gitlink(sha, pin.path)
            case CommitFilePin():
                text = (holder.read_text(sha, pin.path) or "").strip()
                value = text if is_commit_id(text) else None
            case VersionFilePin():
                value = _version(holder.read_text(sha, pin.path) or "", pin.key)
        values.append(PinValue(name=name, holder=pin.holder, path=pin.path, value=value))
    return values


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
    """The value of a `KEY=VALUE` line, quotes removed.

    >>> _version("# tools\\nPTOAS_VERSION='v0.57'\\n", "PTOAS_VERSION")
    'v0.57'
    """
    found = re.search(rf"^\s*(?:export\s+)?{re.escape(key)}\s*=\s*(.*?)\s*$", text, re.MULTILINE)
    return found[1].strip("'\"") if found else None

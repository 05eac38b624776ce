"""Edits of a source tree held in memory, as values: what a commit changes, and what a fault plants.

A tree maps each path (POSIX, relative) to the file's text. An edit never changes the tree it is given.

>>> edit = TreeEdit("Refactor: say five", (Replace("a.py", "x = 4", "x = 5"),))
>>> edit.apply({"a.py": "x = 4\\n"})
{'a.py': 'x = 5\\n'}
"""

from collections.abc import Mapping
from dataclasses import dataclass

Tree = Mapping[str, str]


class EditError(ValueError):
    """An edit does not fit the tree; the message names the file."""


@dataclass(frozen=True)
class Write:
    """Create the file, or replace all of it."""

    path: str
    text: str

    def apply(self, tree: Tree) -> dict[str, str]:
        """The tree with the file, written anew where it is there already."""
        return {**tree, self.path: self.text}


@dataclass(frozen=True)
class Remove:
    """Removes a file, which must be there."""

    path: str

    def apply(self, tree: Tree) -> dict[str, str]:
        """The tree without the file. Raises `EditError` where it is not there."""
        _text(tree, self.path)
        return {path: text for path, text in tree.items() if path != self.path}


@dataclass(frozen=True)
class Replace:
    """Replace `old`, which stands exactly once in the file, by `new`."""

    path: str
    old: str
    new: str

    def apply(self, tree: Tree) -> dict[str, str]:
        """The tree with the new text. Raises `EditError` where the old one is not there exactly once."""
        text = _text(tree, self.path)
        found = text.count(self.old)
        if found != 1:
            raise EditError(
                f"{self.path}: expected this text exactly once, found it {found} times: {self.old!r}"
            )
        return {**tree, self.path: text.replace(self.old, self.new)}


@dataclass(frozen=True)
class ReplaceAll:
    """Replace every `old`, of which there is at least one, by `new`."""

    path: str
    old: str
    new: str

    def apply(self, tree: Tree) -> dict[str, str]:
        """The tree with the new text everywhere. Raises `EditError` where the old one is not there."""
        text = _text(tree, self.path)
        if self.old not in text:
            raise EditError(f"{self.path}: expected this text at least once: {self.old!r}")
        return {**tree, self.path: text.replace(self.old, self.new)}


Change = Write | Remove | Replace | ReplaceAll


@dataclass(frozen=True)
class TreeEdit:
    """Changes made together, and the subject line of the commit that makes them."""

    subject: str
    changes: tuple[Change, ...]

    @property
    def paths(self) -> frozenset[str]:
        """The files that the edit changes."""
        return frozenset(change.path for change in self.changes)

    @property
    def replaced(self) -> tuple[tuple[str, str], ...]:
        """The texts that the edit looks for: path and text of each."""
        return tuple((c.path, c.old) for c in self.changes if isinstance(c, Replace | ReplaceAll))

    def apply(self, tree: Tree) -> dict[str, str]:
        """The tree after all changes, in order.

        Raises EditError where a text to replace, or a file to remove, is not there.
        """
        edited = dict(tree)
        for change in self.changes:
            edited = change.apply(edited)
        return edited


def append(tree: Tree, path: str, text: str, *, head: str) -> Write:
    """The change that adds `text` at the end of a file, which begins with `head` where it is new."""
    return Write(path, tree.get(path, head) + text)


def _text(tree: Tree, path: str) -> str:
    if path not in tree:
        raise EditError(f"{path}: expected this file in the tree, found none of that name")
    return tree[path]

"""A commit as every room knows it: read from git, searched, and kept in the store."""

from dataclasses import dataclass
from datetime import datetime

MAKER = "precision-bisect"
MAKER_EMAIL = "precision-bisect@localhost"
"""The author of commits that this tool makes in repositories of its own: releases, files of the user's disk. Their
dates tell nothing."""


@dataclass(frozen=True)
class TreeChange:
    """One path that differs from the first parent: modes and object ids, old and new (all zeros: absent)."""

    path: str
    old_mode: str
    old_object: str
    new_mode: str
    new_object: str


@dataclass(frozen=True)
class Commit:
    """A commit as git describes it; `changes` are against the first parent."""

    sha: str
    parents: tuple[str, ...]
    author: str
    email: str
    date: datetime
    subject: str
    changes: tuple[TreeChange, ...]

    @property
    def is_made_here(self) -> bool:
        """Whether this tool made it: nobody else's name and date belong to it."""
        return self.email == MAKER_EMAIL

    @property
    def files(self) -> list[str]:
        """The changed paths."""
        return [change.path for change in self.changes]

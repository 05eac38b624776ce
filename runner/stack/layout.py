"""Paths that a stack file may name in a slot: nothing outside of it, and no worktree in it, is ever removed."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

VENV = "venv"
"""The folder of a slot that holds its virtual environment."""


def _relative(text: str) -> str:
    """The path in its shortest spelling. Raises `ValueError` where it could lead elsewhere.

    >>> _relative("minirt/build/")
    'minirt/build'
    """
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or ".." in path.parts or set(text) & {"{", "}", "\0"}:
        raise ValueError("expected a path inside the slot, relative, without .. and placeholders")
    return str(path)


RelativePath = Annotated[str, AfterValidator(_relative)]


def check_removable(path: str, worktrees: Iterable[PurePosixPath], *, where: str) -> None:
    """Check that removing a path removes no worktree and not the virtual environment.

    Raises:
        ValueError: it would.
    """
    for kept in (*worktrees, PurePosixPath(VENV)):
        if kept.is_relative_to(path):
            raise ValueError(
                f"{where}: expected a path that is removed before each use, found {path!r}, which holds {kept}"
            )

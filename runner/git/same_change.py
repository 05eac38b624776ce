"""Commits that make one change, as `git cherry-pick` makes it once more on another branch."""

import re
from collections.abc import Sequence

from .repository import GitRepository

_OBJECTS = re.compile(r"^index .*\n(?!Binary files )", re.MULTILINE)
"""What files were and became as a whole; of a binary file nothing else is told."""
_PLACE = re.compile(r"^@@ .*$", re.MULTILINE)


def making_same_change(repository: GitRepository, sha: str, among: Sequence[str]) -> tuple[str, ...]:
    """Those of some commits that change the same lines of the same files as one of them, wherever these stand by
    then."""
    patches = repository.patches([sha, *among])
    change = _without_places(patches[sha])
    return tuple(other for other in among if _without_places(patches[other]) == change)


def _without_places(patch: str) -> str:
    return _PLACE.sub("@@", _OBJECTS.sub("", patch))

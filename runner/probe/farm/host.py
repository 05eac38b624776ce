"""What a driver asks of a host beside its probes: which of a parcel's contents it lacks, and to take or give data.

Each function gets the host's own home first.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError, reason
from ...workspace.home import Home
from .mirrors import LackedCommits, Mirror, NeededCommits
from .objects import PIECE, Objects
from .parcel import ProbeParcel


@dataclass(frozen=True)
class Lacking:
    """What of a parcel's contents a host lacks."""

    commits: Mapping[str, LackedCommits]
    """By repository."""
    objects: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.commits or self.objects)


def lacking(home: Home, parcel: ProbeParcel) -> Lacking:
    """What a host lacks for a probe."""
    lacked = {name: Mirror(home, needed).lacked() for name, needed in parcel.commits.items()}
    objects = Objects(home.objects)
    return Lacking(
        commits={name: commits for name, commits in lacked.items() if commits is not None},
        objects=tuple(sorted(digest for digest in parcel.objects if not objects.has(digest))),
    )


def receive(home: Home, digest: str, sender: str, offset: int, piece: bytes) -> None:
    """Take a piece of an object. Raises `UserError`, also where there is no room."""
    objects = Objects(home.objects)
    try:
        objects.receive(digest, sender, offset, piece)
    except OSError as error:
        objects.abandon(digest, sender)
        raise _no_room(home, error) from error


def seal(home: Home, digest: str, sender: str) -> None:
    """Take in an object whose last piece has come. Raises `UserError`."""
    Objects(home.objects).seal(digest, sender)


def take_pack(home: Home, digest: str, sender: str, needed: NeededCommits) -> None:
    """Put the commits of a pack whose last piece has come into their mirror. Workers of one host may be sent the same
    pack at once: each is a file of its own. Raises `UserError`."""
    objects = Objects(home.objects)
    try:
        Mirror(home, needed).take_in(objects.received(digest, sender))
    except OSError as error:
        raise _no_room(home, error) from error
    finally:
        objects.abandon(digest, sender)


def kept_of(home: Home, key: str) -> Path:
    """The file that holds what came of a probe."""
    return home.made / key / "kept"


def piece(home: Home, key: str, offset: int) -> bytes:
    """What came of a probe from an offset on, as much as travels at once; nothing at its end. Raises `OSError`."""
    with kept_of(home, key).open("rb") as file:
        file.seek(offset)
        return file.read(PIECE)


def forget(home: Home, key: str) -> None:
    """Remove what came of a probe: the driver has it, or does not want it."""
    shutil.rmtree(home.made / key, ignore_errors=True)


def _no_room(home: Home, error: OSError) -> UserError:
    return UserError(f"{error.filename or home.cache}: expected room to write here: {reason(error)}")

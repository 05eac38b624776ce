"""Data between a driver and the hosts of a farm: what a host lacks is sent, what came of a probe there is fetched."""

import secrets
import shutil
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import UserError
from ..files.archive import unpack_folder
from ..files.digest import digest_of
from ..records import ProbeResult
from . import host
from .engine import Engine
from .making import MadeProbe
from .mirrors import pack_of
from .objects import PIECE
from .parcel import ParcelMaker, ProbeParcel


class Delivery:
    """Sends and fetches by way of an engine. Its methods are for any thread."""

    def __init__(self, engine: Engine, parcels: ParcelMaker) -> None:
        self._engine = engine
        self._parcels = parcels
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def send(self, parcel: ProbeParcel, place: str) -> None:
        """Send a host what it lacks for a probe. Raises `UserError`, and what the engine raises."""
        # What one probe of a host has been sent, the next one there does not lack.
        with self._turns[place], tempfile.TemporaryDirectory() as temporary:
            lacking = self._engine.ask(place, host.lacking, parcel)
            for name, lacked in lacking.commits.items():
                pack = Path(temporary) / name
                pack_of(self._parcels.clone(name), lacked, pack)
                digest = digest_of(pack)
                sender = self._send_pieces(place, digest, pack)
                self._engine.ask(place, host.take_pack, digest, sender, parcel.commits[name])
            for digest in lacking.objects:
                sender = self._send_pieces(place, digest, self._parcels.source(digest))
                self._engine.ask(place, host.seal, digest, sender)

    def _send_pieces(self, place: str, digest: str, file: Path) -> str:
        """Send a file; the name by which its pieces are known as this sender's."""
        sender = secrets.token_hex(8)
        with file.open("rb") as stream:
            piece = stream.read(PIECE)
            # An empty file is one empty piece.
            while piece or stream.tell() == 0:
                self._engine.ask(place, host.receive, digest, sender, stream.tell() - len(piece), piece)
                if not (piece := stream.read(PIECE)):
                    break
        return sender

    def fetch(self, made: MadeProbe, place: str, beside: Path) -> "ArrivedProbe":
        """What came of a probe, in a folder of its own beside another. Raises `OSError` where there is no room, and
        what the engine raises."""
        beside.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{beside.name}-arriving-", dir=beside.parent))
        try:
            archive = folder / "archive"
            self._fetch_file(place, made, archive)
            unpack_folder(archive, folder / "run")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._engine.ask(place, host.forget, made.key)
        return ArrivedProbe(made, folder)

    def _fetch_file(self, place: str, made: MadeProbe, target: Path) -> None:
        with target.open("wb") as file:
            while piece := self._engine.ask(place, host.piece, made.key, file.tell()):
                file.write(piece)
        if digest_of(target) != made.kept:
            raise UserError(f"{place}: expected what a probe left to arrive as it was kept, found it changed")


@dataclass(frozen=True)
class ArrivedProbe:
    """What came of a probe, at the driver, in a folder that is not its own yet."""

    made: MadeProbe
    folder: Path

    def kept_in(self, directory: Path) -> ProbeResult:
        """The result, whose logs and build directory become `directory`. Raises `OSError`."""
        shutil.rmtree(directory, ignore_errors=True)
        (self.folder / "run").rename(directory)
        self.discard()
        result, build, there = self.made.result, self.made.result.build_directory, self.made.directory
        return replace(
            result,
            log=directory / result.log.relative_to(there),
            build_directory=None if build is None else directory / build.relative_to(there),
        )

    def discard(self) -> None:
        """Nobody wants it any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

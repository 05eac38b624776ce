"""`passes_dump/`: the program as it was after each compiler pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .files.folder import Folder

MOST_BYTES = 64 * 2**20

# `00_frontend.py`, `07_after_InferTileMemorySpace.py`.
_NAME = re.compile(r"(\d{1,6})_(?:after_)?([\w.-]+)\.(?:py|txt)\Z", re.ASCII)


@dataclass(frozen=True)
class PassDump:
    """The program after pass `number`, called `name`."""

    number: int
    name: str
    file_name: str


@dataclass(frozen=True)
class PassesDump:
    """The dumps of one compilation, in the order of the passes."""

    folder: Folder
    passes: tuple[PassDump, ...]

    @classmethod
    def open(cls, path: Path) -> PassesDump:
        """Lists the dumps in `path`; `MissingFileError` where there is no such folder."""
        folder = Folder.open(path, expected="a folder of pass dumps")
        found: list[PassDump] = []
        for file_name in folder.names():
            match = _NAME.match(file_name)
            if match and folder.has_file(file_name):
                found.append(PassDump(int(match[1]), match[2], file_name))
        return cls(folder, tuple(sorted(found, key=lambda dump: (dump.number, dump.name))))

    def text(self, dump: PassDump) -> str:
        """The dumped program; `BuildOutputError` where its file is gone or larger than 64 MiB."""
        data = self.folder.read(dump.file_name, expected="a pass dump", limit=MOST_BYTES)
        return data.decode("utf-8", "replace")

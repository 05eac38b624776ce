"""`name_map_<case>.json`: the kernels' names by function id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from .files.errors import MalformedFileError
from .files.folder import Folder
from .files.json_text import JsonError, json_reader

MOST_BYTES = 4 * 2**20


class _Spelled(msgspec.Struct):
    callable_id_to_name: dict[Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,18}$")], str]
    level: int | None = None
    orchestrator_name: str | None = None


_read = json_reader(_Spelled)


@dataclass(frozen=True)
class NameMap:
    """Names by function id; `level` is 2 for one chip, 3 for several."""

    names: Mapping[int, str]
    level: int | None
    orchestrator: str | None

    @classmethod
    def open(cls, path: Path) -> NameMap:
        """Reads one file; `BuildOutputError` where it is missing or malformed."""
        folder = Folder.open(path.parent, expected="the folder of a name map")
        data = folder.read(path.name, expected="a name map", limit=MOST_BYTES)
        try:
            spelled = _read(data)
        except JsonError as error:
            raise MalformedFileError(
                path=path, expected="a name map", found=f"one that does not fit: {error}"
            ) from error
        names = {int(number): name for number, name in spelled.callable_id_to_name.items()}
        return cls(names, spelled.level, spelled.orchestrator_name)

"""A whole build directory, or a scene test's output folder: says what is there and opens it.

Every part is read when it is asked for. Parts are found in all places where some era left them:
`dfx_outputs/` or, for a scene test, the folder itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from .args.dump import ArgsDump
from .files.errors import MalformedFileError, MissingFileError
from .files.folder import Folder
from .files.json_text import JsonError, json_reader
from .golden_data import GoldenData
from .graph.task_graph import TaskGraph
from .kernel_config import FILE_NAME as KERNEL_CONFIG
from .kernel_config import KernelConfig
from .name_map import NameMap
from .orchestration.orchestration import Orchestration
from .passes_dump import PassesDump

_DFX = ("dfx_outputs", ".")
_DISTRIBUTED = "distributed_meta.json"
_MOST_META_BYTES = 4 * 2**20
_read_object = json_reader(dict[str, object])


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Paths, relative to the build directory, of the parts that are there; None or empty for the others.

    `dumps` and `graphs` have every one found; a folder that two eras' runtimes wrote to may hold two.
    `ranks` are the complete builds below `next_levels/` of a build for several chips.
    """

    kernel_config: str | None
    orchestrations: tuple[str, ...]
    dumps: tuple[str, ...]
    graphs: tuple[str, ...]
    name_maps: tuple[str, ...]
    golden_data: str | None
    passes: str | None
    distributed_meta: str | None
    ranks: tuple[str, ...]


@dataclass(frozen=True)
class BuildDirectory:
    """One build directory. Opening a part that is missing raises `MissingFileError`."""

    folder: Folder
    contents: Contents

    @classmethod
    def open(cls, path: Path) -> BuildDirectory:
        """Lists what is in `path`.

        Raises:
            MissingFileError: there is no such folder, or nothing in it that belongs to a build.
        """
        folder = Folder.open(path, expected="a build directory")
        contents = _contents(folder)
        if not any(vars(contents).values()):
            raise MissingFileError(
                path=folder.root,
                expected="a build directory",
                found="no part of one",
                remedy="check the path",
            )
        return cls(folder, contents)

    def kernel_config(self) -> KernelConfig:
        """The kernel list, `kernel_config.py`."""
        return KernelConfig.open(self.folder.root)

    def orchestration(self) -> Orchestration:
        """The orchestration source that the kernel list names."""
        entry = self.kernel_config().orchestration
        return Orchestration.open(self.folder, entry.source, entry_function=entry.function_name)

    def args_dump(self) -> ArgsDump:
        """The argument dump; `MalformedFileError` where there are several, as nothing tells which is meant."""
        dump = self._only(self.contents.dumps, "argument dump")
        return ArgsDump.open(self._path(dump, "an argument dump", "run it with --dump-args 2"))

    def task_graph(self) -> TaskGraph:
        """The task graph; `MalformedFileError` where there are several."""
        graph = self._only(self.contents.graphs, "task graph")
        return TaskGraph.open(self._path(graph, "deps.json", "run it with --enable-dep-gen"))

    def name_maps(self) -> tuple[NameMap, ...]:
        """All name maps; empty if there are none."""
        return tuple(NameMap.open(self.folder.locate(path)) for path in self.contents.name_maps)

    def golden_data(self) -> GoldenData:
        """Frozen inputs and golden outputs."""
        return GoldenData.open(self._path(self.contents.golden_data, "data/in", "run it with --save-data"))

    def passes(self) -> PassesDump:
        """The program after each pass."""
        return PassesDump.open(self._path(self.contents.passes, "passes_dump", "compile with --dump-passes"))

    def rank(self, path: str) -> BuildDirectory:
        """The build of one chip, by its path in `contents.ranks`; it may read nothing outside of itself."""
        return BuildDirectory.open(self.folder.locate(path))

    def distributed_meta(self) -> Mapping[str, object]:
        """What a build for several chips says about itself, as plain JSON."""
        path = self._path(self.contents.distributed_meta, _DISTRIBUTED, "compile the case for several chips")
        data = self.folder.read(_DISTRIBUTED, expected="JSON", limit=_MOST_META_BYTES)
        try:
            return _read_object(data)
        except JsonError as error:
            raise MalformedFileError(path=path, expected="a JSON object", found=str(error)) from error

    def _only(self, paths: tuple[str, ...], what: str) -> str | None:
        if len(paths) > 1:
            raise MalformedFileError(
                path=self.folder.root,
                expected=f"one {what}",
                found=", ".join(paths),
                remedy="remove the one of the older run",
            )
        return paths[0] if paths else None

    def _path(self, relative: str | None, expected: str, remedy: str) -> Path:
        if relative is None:
            raise MissingFileError(path=self.folder.root, expected=expected, found="none", remedy=remedy)
        return self.folder.locate(relative)


def _contents(folder: Folder) -> Contents:
    recorded = [str(PurePath(place, name)) for place in _DFX for name in _names(folder, place)]
    dumps = (path for path in recorded if _is_dump(PurePath(path).name))
    return Contents(
        kernel_config=_if_file(folder, KERNEL_CONFIG),
        orchestrations=_matching(folder, "orchestration", ".cpp"),
        dumps=tuple(dump for dump in dumps if folder.has_folder(dump)),
        graphs=tuple(path for path in recorded if PurePath(path).name == "deps.json"),
        name_maps=tuple(path for path in recorded if PurePath(path).match("name_map*.json")),
        golden_data="data" if folder.has_folder("data/in") else None,
        passes="passes_dump" if folder.has_folder("passes_dump") else None,
        distributed_meta=_if_file(folder, _DISTRIBUTED),
        ranks=tuple(
            path
            for name in _names(folder, "next_levels")
            if folder.has_file(f"{(path := f'next_levels/{name}')}/{KERNEL_CONFIG}")
        ),
    )


def _is_dump(name: str) -> bool:
    return name in ("args_dump", "tensor_dump") or name.startswith("tensor_dump_")


def _if_file(folder: Folder, relative: str) -> str | None:
    return relative if folder.has_file(relative) else None


def _matching(folder: Folder, place: str, suffix: str) -> tuple[str, ...]:
    return tuple(f"{place}/{name}" for name in _names(folder, place) if name.endswith(suffix))


def _names(folder: Folder, place: str) -> list[str]:
    return folder.names(place) if folder.has_folder(place) else []

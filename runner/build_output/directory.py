"""Opens a build directory, or a scene test's output folder, and reads its parts.

`BuildDirectory` lists the parts at all places where a runtime of any era left them. It reads a part when it is asked
for. Some parts are read in this module:

- `KernelConfig` is `kernel_config.py`: the sources of the kernels, and the directions of their arguments. The file is
  never executed.
- `read_name_map` reads `name_map_<case>.json`: the names of kernels by function id.
- `PassesDump` is `passes_dump/`: the program after each compiler pass.
- `GoldenData` is `data/in` and `data/out`: the frozen inputs and golden outputs of a case.

`compare_generated` compares the sources that the compiler generated for two builds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from ..tensor import TensorView
from .args_dump import ArgsDump
from .files import (
    BuildOutputError,
    FileRelativePath,
    Folder,
    JsonError,
    LiteralValue,
    MalformedFileError,
    Member,
    MissingFileError,
    NotUnderstoodError,
    UnsafePathError,
    json_reader,
    read_literals,
)
from .orchestration import Orchestration
from .task_graph import TaskGraph
from .tensor_files import load_tensor

_SUFFIX = ".pt"


@dataclass(frozen=True)
class TensorFolder:
    """A folder of `<name>.pt` files with one tensor each. Scalars are 0-dimensional tensors."""

    folder: Folder
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> TensorFolder:
        """List the tensors in `path`. Raises `MissingFileError` if there is no such folder."""
        folder = Folder.open(path, expected=f"a folder of <name>{_SUFFIX} files")
        # A link that leads out of the folder is listed as well. Opening it raises an error that says so.
        names = (
            name
            for name in folder.names()
            if name.endswith(_SUFFIX) and (folder.has_file(name) or folder.is_link(name))
        )
        return cls(folder, tuple(name.removesuffix(_SUFFIX) for name in names))

    def tensor(self, name: str) -> TensorView:
        """Return the tensor `name`, memory-mapped. Raises `BuildOutputError` if its file is missing or unsound."""
        return load_tensor(self.folder, name + _SUFFIX)


@dataclass(frozen=True)
class GoldenData:
    """The frozen inputs and golden outputs of a case. An in-out tensor is in both."""

    inputs: TensorFolder
    outputs: TensorFolder

    @classmethod
    def open(cls, path: Path) -> GoldenData:
        """List the tensors of the folder with `in` and `out`, for instance `data` of a build directory.

        Raises:
            BuildOutputError: `in` or `out` is missing or empty.
        """
        folder = Folder.open(path, expected="a folder of golden data")
        inputs, outputs = (TensorFolder.open(folder.locate(name)) for name in ("in", "out"))
        for tensors in (inputs, outputs):
            if not tensors.names:
                raise MissingFileError(
                    path=tensors.folder.root,
                    expected=f"<name>{_SUFFIX} files",
                    found="none",
                    remedy="run the case with --save-data",
                )
        return cls(inputs, outputs)


KERNEL_CONFIG_FILE = "kernel_config.py"
MAX_CONFIG_BYTES = 2**20
"""A larger list of kernels is not read. A real one takes some kilobytes."""

T = TypeVar("T")
Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str | int, Plain] | None"


class Direction(Enum):
    """What a kernel does with a tensor argument (`ArgDirection` in the runtime)."""

    IN = "IN"
    OUT = "OUT"
    INOUT = "INOUT"


class CoreType(Enum):
    """The core that a kernel runs on: cube (`AIC`) or vector (`AIV`)."""

    AIC = "aic"
    AIV = "aiv"


@dataclass(frozen=True, kw_only=True)
class OrchestrationEntry:
    """The orchestration source, relative to the build's folder, and its entry function.

    `signature` has the directions of the entry function's tensors in order. It is None before July 2026.
    """

    source: PurePosixPath
    function_name: str
    signature: tuple[Direction, ...] | None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel. `source` is relative to the build's folder. That of an external kernel may be absolute."""

    func_id: int
    name: str
    source: PurePosixPath
    core_type: CoreType
    external: bool
    include_dirs: tuple[str, ...]
    signature: tuple[Direction, ...] | None


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """All of `kernel_config.py`. `kernels` are keyed by function id."""

    runtime: Mapping[str, Plain]
    orchestration: OrchestrationEntry
    kernels: Mapping[int, Kernel]

    @classmethod
    def open(cls, build: Path) -> KernelConfig:
        """Read the file in the build directory `build`.

        Raises:
            BuildOutputError: it is missing or not understood. Or a source is outside of `build`, and not external.
        """
        folder = Folder.open(build, expected="a build directory")
        source = folder.read(KERNEL_CONFIG_FILE, expected="the build's kernel list", limit=MAX_CONFIG_BYTES)
        path = folder.root / KERNEL_CONFIG_FILE
        try:
            names = ("RUNTIME_CONFIG", "ORCHESTRATION", "KERNELS")
            values = read_literals(source, path, names)
            runtime = _dictionary("RUNTIME_CONFIG", values.get("RUNTIME_CONFIG", {}))
            orchestration = _orchestration(folder, _dictionary("ORCHESTRATION", values.get("ORCHESTRATION")))
            kernels = _kernels(folder, values.get("KERNELS"))
        except NotUnderstoodError as error:
            raise MalformedFileError(
                path=path, expected="the generated kernel list", found=f"one that does not fit: {error}"
            ) from error
        plain = {key: _plain(value) for key, value in runtime.items() if _is_plain(value)}
        return cls(runtime=plain, orchestration=orchestration, kernels=kernels)

    def kernel_named(self, name: str) -> Kernel | None:
        """Return the kernel with this name; None if there is none."""
        return next((kernel for kernel in self.kernels.values() if kernel.name == name), None)


def kernel_names(build: Path) -> dict[int, str]:
    """Return the names of a build directory's kernels by function id, for messages.

    The result is empty if its kernel list cannot be read.
    """
    try:
        kernels = KernelConfig.open(build).kernels
    except BuildOutputError:
        return {}
    return {func_id: kernel.name for func_id, kernel in kernels.items()}


def _is_plain(value: LiteralValue) -> bool:
    if isinstance(value, list | dict):
        return all(map(_is_plain, value if isinstance(value, list) else value.values()))
    return not isinstance(value, FileRelativePath | Member)


def _plain(value: LiteralValue) -> Plain:
    match value:
        case FileRelativePath() | Member():
            raise NotUnderstoodError("expected a plain value")
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case _:
            return value


def _orchestration(folder: Folder, entry: dict[str, LiteralValue]) -> OrchestrationEntry:
    return OrchestrationEntry(
        source=_inner_source(folder, entry.get("source"), "ORCHESTRATION"),
        function_name=_require_type(entry.get("function_name"), str, "ORCHESTRATION['function_name']"),
        signature=_signature(entry.get("signature"), "ORCHESTRATION"),
    )


def _kernels(folder: Folder, entries: LiteralValue) -> dict[int, Kernel]:
    if not isinstance(entries, list):
        raise NotUnderstoodError("KERNELS is no list")
    kernels: dict[int, Kernel] = {}
    for index, entry in enumerate(entries):
        where = f"KERNELS[{index}]"
        kernel = _kernel(folder, _dictionary(where, entry), where)
        if kernel.func_id in kernels:
            raise NotUnderstoodError(f"{where} has the func_id {kernel.func_id} of an earlier kernel")
        kernels[kernel.func_id] = kernel
    return kernels


def _kernel(folder: Folder, entry: dict[str, LiteralValue], where: str) -> Kernel:
    external = _require_type(entry.get("external", False), bool, f"{where}['external']")
    if external:
        source = PurePosixPath(_require_type(entry.get("source"), str, f"{where}['source']"))
    else:
        source = _inner_source(folder, entry.get("source"), where)
    core_type = _require_type(entry.get("core_type"), str, f"{where}['core_type']").lower()
    if core_type not in (CoreType.AIC.value, CoreType.AIV.value):
        raise NotUnderstoodError(f"{where}['core_type'] is {core_type!r}, neither aic nor aiv")
    include_dirs = entry.get("extra_include_dirs", [])
    if not isinstance(include_dirs, list):
        raise NotUnderstoodError(f"{where}['extra_include_dirs'] is no list")
    return Kernel(
        func_id=_require_type(entry.get("func_id"), int, f"{where}['func_id']"),
        # Before April 23, 2026 a kernel had no name but its file's.
        name=_require_type(entry.get("name", source.stem), str, f"{where}['name']"),
        source=source,
        core_type=CoreType(core_type),
        external=external,
        include_dirs=tuple(
            _require_type(path, str, f"{where}['extra_include_dirs']") for path in include_dirs
        ),
        signature=_signature(entry.get("signature"), where),
    )


def _inner_source(folder: Folder, value: LiteralValue, where: str) -> PurePosixPath:
    """Return the path of a source relative to the folder, with links and `..` resolved."""
    spelled = (
        value.relative
        if isinstance(value, FileRelativePath)
        else _require_type(value, str, f"{where}['source']")
    )
    path = Path(spelled)
    if path.is_absolute():
        if not path.is_relative_to(folder.root):
            raise UnsafePathError(
                path=folder.root / KERNEL_CONFIG_FILE,
                expected=f"{where}['source'] inside {folder.root}, or marked external",
                found=str(path)[:200],
            )
        path = path.relative_to(folder.root)
    return PurePosixPath(folder.locate(path).relative_to(folder.root))


def _signature(value: LiteralValue, where: str) -> tuple[Direction, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise NotUnderstoodError(f"{where}['signature'] is no list")
    members = [member.name if isinstance(member, Member) else None for member in value]
    unknown = [member for member in members if member not in Direction.__members__]
    if unknown:
        raise NotUnderstoodError(f"{where}['signature'] has a member that is none of IN, OUT, INOUT")
    return tuple(Direction[member] for member in members if member is not None)


def _dictionary(where: str, value: LiteralValue) -> dict[str, LiteralValue]:
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"{where} is no dictionary")
    return {key: entry for key, entry in value.items() if isinstance(key, str)}


def _require_type(value: LiteralValue, kind: type[T], where: str) -> T:
    # True is an int to isinstance, but it is no function id.
    if isinstance(value, kind) and type(value) is kind:
        return value
    raise NotUnderstoodError(f"{where} is {value!r:.60}, expected {kind.__name__}")


MAX_NAME_MAP_BYTES = 4 * 2**20
"""A larger name map is not read. A real one takes some kilobytes."""


class _JsonNameMap(msgspec.Struct):
    callable_id_to_name: dict[Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,18}$")], str]


_read_json_name_map = json_reader(_JsonNameMap)


def read_name_map(path: Path) -> dict[int, str]:
    """Return the names of kernels by function id. Raises `BuildOutputError` if the file is missing or malformed."""
    folder = Folder.open(path.parent, expected="the folder of a name map")
    data = folder.read(path.name, expected="a name map", limit=MAX_NAME_MAP_BYTES)
    try:
        names = _read_json_name_map(data).callable_id_to_name
    except JsonError as error:
        raise MalformedFileError(
            path=path, expected="a name map", found=f"one that does not fit: {error}"
        ) from error
    return {int(number): name for number, name in names.items()}


MAX_PASS_BYTES = 64 * 2**20
"""A larger dump of a compiler pass is not read. A dump is one text in memory."""

# It matches `00_frontend.py` and `07_after_InferTileMemorySpace.py`.
_NAME = re.compile(r"(\d{1,6})_(?:after_)?([\w.-]+)\.(?:py|txt)\Z", re.ASCII)


@dataclass(frozen=True)
class PassDump:
    """The file with the program after pass `number`, which is called `name`."""

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
        """List the dumps in `path`. Raises `MissingFileError` if there is no such folder."""
        folder = Folder.open(path, expected="a folder of pass dumps")
        found: list[PassDump] = []
        for file_name in folder.names():
            match = _NAME.match(file_name)
            if match and folder.has_file(file_name):
                found.append(PassDump(int(match[1]), match[2], file_name))
        return cls(folder, tuple(sorted(found, key=lambda dump: (dump.number, dump.name))))

    def text(self, dump: PassDump) -> str:
        """Return the dumped program. Raises `BuildOutputError` if its file is gone, or larger than 64 MiB."""
        data = self.folder.read(dump.file_name, expected="a pass dump", limit=MAX_PASS_BYTES)
        return data.decode("utf-8", "replace")


_RECORDED_IN = ("dfx_outputs", ".")
"""Runtimes write dumps, graphs and name maps to one of these folders. A scene test has them in its own folder."""
_DISTRIBUTED_META = "distributed_meta.json"
MAX_SOURCE_BYTES = 16 * 2**20
"""A larger source of a build is not read."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The paths of a build's parts, relative to the build directory. Missing parts are None or empty.

    There may be two `dumps` and two `graphs`, if runtimes of two eras wrote to the folder. Only a build for several
    chips has `distributed_meta`.
    """

    kernel_config: str | None
    dumps: tuple[str, ...]
    graphs: tuple[str, ...]
    name_maps: tuple[str, ...]
    golden_data: str | None
    passes: str | None
    distributed_meta: str | None


@dataclass(frozen=True)
class BuildDirectory:
    """One build directory. A method for a missing part raises `MissingFileError`."""

    folder: Folder
    contents: Contents

    @classmethod
    def open(cls, path: Path) -> BuildDirectory:
        """List the parts in `path`.

        Raises:
            MissingFileError: there is no such folder, or it has no part of a build.
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
        """Read the kernel list, `kernel_config.py`."""
        return KernelConfig.open(self.folder.root)

    def orchestration(self) -> Orchestration:
        """Read the orchestration source that the kernel list names."""
        entry = self.kernel_config().orchestration
        return Orchestration.open(self.folder, entry.source, entry_function=entry.function_name)

    def source(self, path: PurePath) -> bytes:
        """Return the text of a source, or of the kernel list, by its path in the build."""
        return self.folder.read(path, expected="a source of the build", limit=MAX_SOURCE_BYTES)

    def args_dump(self) -> ArgsDump:
        """Open the argument dump. Raises `MalformedFileError` if there are several."""
        dump = self._single_path(self.contents.dumps, "argument dump")
        return ArgsDump.open(self._path(dump, "an argument dump", "run it with --dump-args 2"))

    def task_graph(self) -> TaskGraph:
        """Read the task graph. Raises `MalformedFileError` if there are several."""
        graph = self._single_path(self.contents.graphs, "task graph")
        return TaskGraph.open(self._path(graph, "deps.json", "run it with --enable-dep-gen"))

    def read_name_maps(self) -> dict[int, str]:
        """Return the names of kernels by function id, from all name maps."""
        names: dict[int, str] = {}
        for path in self.contents.name_maps:
            names |= read_name_map(self.folder.locate(path))
        return names

    def golden_data(self) -> GoldenData:
        """Open the frozen inputs and golden outputs."""
        return GoldenData.open(self._path(self.contents.golden_data, "data/in", "run it with --save-data"))

    def passes(self) -> PassesDump:
        """List the dumps of the program after each pass."""
        return PassesDump.open(self._path(self.contents.passes, "passes_dump", "compile with --dump-passes"))

    def _single_path(self, paths: tuple[str, ...], what: str) -> str | None:
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
    recorded = [str(PurePath(place, name)) for place in _RECORDED_IN for name in _names(folder, place)]
    dumps = (path for path in recorded if _is_dump(PurePath(path).name))
    return Contents(
        kernel_config=_existing_file(folder, KERNEL_CONFIG_FILE),
        dumps=tuple(dump for dump in dumps if folder.has_folder(dump)),
        graphs=tuple(path for path in recorded if PurePath(path).name == "deps.json"),
        name_maps=tuple(path for path in recorded if PurePath(path).match("name_map*.json")),
        golden_data="data" if folder.has_folder("data/in") else None,
        passes="passes_dump" if folder.has_folder("passes_dump") else None,
        distributed_meta=_existing_file(folder, _DISTRIBUTED_META),
    )


def _is_dump(name: str) -> bool:
    return name in ("args_dump", "tensor_dump") or name.startswith("tensor_dump_")


def _existing_file(folder: Folder, relative: str) -> str | None:
    return relative if folder.has_file(relative) else None


def _names(folder: Folder, place: str) -> list[str]:
    return folder.names(place) if folder.has_folder(place) else []


_GENERATED_PATHS = (KERNEL_CONFIG_FILE, "orchestration", "kernels")
_SUFFIXES = (".cpp", ".py", ".h")
_DIFF_LINES = 40
"""A diff has at most this many lines. Further lines are counted."""
# The times of a build, and addresses of the process that made it, differ between any two builds.
_VOLATILE_TEXT = re.compile(
    r"(?<!\d)\d{8}_\d{6}(?!\d)|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?|\bat 0x[0-9a-f]+"
)


@dataclass(frozen=True, kw_only=True)
class PassDifference:
    """The first pass after which the programs differ, with a unified diff from reference to failing."""

    number: int
    name: str
    diff: str


@dataclass(frozen=True, kw_only=True)
class GeneratedDifference:
    """The generated sources that differ in more than times, addresses, and the builds' own paths.

    `first_pass` is None if one of the builds has no dumps of passes, or no dump differs.
    """

    differing: tuple[str, ...]
    only_failing: tuple[str, ...]
    only_reference: tuple[str, ...]
    first_pass: PassDifference | None

    @property
    def is_empty(self) -> bool:
        """Return whether the compiler generated the same sources. Then the fault is in the runtime, or in its use."""
        return not (self.differing or self.only_failing or self.only_reference)


def compare_generated(failing: BuildDirectory, reference: BuildDirectory) -> GeneratedDifference:
    """Compare the generated sources of two builds, and their programs after each pass.

    Raises:
        BuildOutputError: a file is too large, or leads out of its build.
    """
    in_failing, in_reference = set(_sources(failing)), set(_sources(reference))
    common = sorted(in_failing & in_reference)
    return GeneratedDifference(
        differing=tuple(path for path in common if _text(failing, path) != _text(reference, path)),
        only_failing=tuple(sorted(in_failing - in_reference)),
        only_reference=tuple(sorted(in_reference - in_failing)),
        first_pass=_first_pass(failing, reference),
    )


def _sources(build: BuildDirectory) -> Iterator[str]:
    """Yield the paths of the generated sources."""
    waiting = [
        name for name in _GENERATED_PATHS if build.folder.has_file(name) or build.folder.has_folder(name)
    ]
    while waiting:
        path = waiting.pop()
        if build.folder.has_folder(path):
            # A link may lead to a folder that contains the link.
            if not (build.folder.root / path).is_symlink():
                waiting += [f"{path}/{name}" for name in build.folder.names(path)]
        elif path.endswith(_SUFFIXES) and build.folder.has_file(path):
            yield path


def _text(build: BuildDirectory, path: str) -> str:
    data = build.folder.read(path, expected="a generated source", limit=MAX_SOURCE_BYTES)
    return _mask_volatile_text(data.decode("utf-8", "replace"), build)


def _mask_volatile_text(text: str, build: BuildDirectory) -> str:
    return _VOLATILE_TEXT.sub("_", text.replace(str(build.folder.root), "_"))


def _first_pass(failing: BuildDirectory, reference: BuildDirectory) -> PassDifference | None:
    if failing.contents.passes is None or reference.contents.passes is None:
        return None
    failing_passes, reference_passes = failing.passes(), reference.passes()
    reference_dumps = {(dump.number, dump.name): dump for dump in reference_passes.passes}
    for dump in failing_passes.passes:
        text = _mask_volatile_text(failing_passes.text(dump), failing)
        counterpart = reference_dumps.get((dump.number, dump.name))
        reference_text = ""
        if counterpart is not None:
            reference_text = _mask_volatile_text(reference_passes.text(counterpart), reference)
        if counterpart is None or text != reference_text:
            diff = _short_diff(reference_text.splitlines(), text.splitlines())
            return PassDifference(number=dump.number, name=dump.name, diff=diff)
    return None


def _short_diff(reference: Sequence[str], failing: Sequence[str]) -> str:
    lines = list(difflib.unified_diff(reference, failing, "reference", "failing", n=1, lineterm=""))
    more = len(lines) - _DIFF_LINES
    return "\n".join([*lines[:_DIFF_LINES], f"... {more} more lines"] if more > 0 else lines)

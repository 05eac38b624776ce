"""Lists what a path given to `diff-tensors` holds, by name: golden folders, argument dumps, build directories, files.

A folder is read to the bottom. Each file below it is one of these:

- a file of tensors, or a part of an argument dump: its tensors have names, by which they are compared;
- a plain file, which is compared by its bytes;
- refused: a link that leads out of the folder, or something unreadable. A reason says why it is not compared;
- left out: what the user ignores, parts of a build, and metadata of a dump.

Names are listed in the order in which a run makes them: data first, then task by task, inputs before outputs. For an
argument dump, `DumpContext` knows the names of its kernels and the order in which its tasks were executed.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path, PurePath

from ...store.vocabulary import plural
from ..build_output.args_dump import ArgRecord, ArgsDump, ArgumentKind, DumpStage
from ..build_output.directory import KERNEL_CONFIG_FILE, KernelConfig, NameMap
from ..build_output.files import BuildOutputError, Folder, MalformedFileError, MissingFileError, Refusal, Tree
from ..build_output.task_graph import TaskGraph
from ..build_output.tensor_files import SUFFIXES, FileContents, Scalar, load_tensors
from ..tensor import StoredTensor, TensorLayout, TensorView

TASK_GRAPH_FILE, NAME_MAP, RECORDINGS = "deps.json", "name_map*.json", "dfx_outputs"


@dataclass(frozen=True, kw_only=True)
class DumpContext:
    """Kernel names by function id and task positions, read from the files around an argument dump."""

    names: Mapping[int, str]
    positions: Mapping[int, int]
    read_errors: tuple[str, ...]

    @classmethod
    def read_around(cls, dump: Path) -> DumpContext:
        """Read the parent of the dump's folder. If it is `dfx_outputs`, also read the build directory above it."""
        names: dict[int, str] = {}
        positions: dict[int, int] = {}
        read_errors: list[str] = []
        around = dump.parent
        for folder in (around.parent, around) if around.name == RECORDINGS else (around,):
            try:
                if (folder / KERNEL_CONFIG_FILE).is_file():
                    kernels = KernelConfig.open(folder).kernels
                    names |= {number: kernel.name for number, kernel in kernels.items()}
                for file in sorted(folder.glob(NAME_MAP)):
                    names |= NameMap.open(file).names
                if (folder / TASK_GRAPH_FILE).is_file():
                    graph = TaskGraph.open(folder / TASK_GRAPH_FILE)
                    positions = {task: place for place, task in enumerate(graph.topological_order)}
            except BuildOutputError as error:
                read_errors.append(str(error))
        return cls(names=names, positions=positions, read_errors=tuple(read_errors))

    def kernels_of(self, record: ArgRecord) -> str:
        """Return the names of the kernels of a record's task; empty where none is known."""
        return "+".join(self.names[number] for number in record.kernels if number in self.names)

    def sort_key(self, record: ArgRecord) -> tuple[int, int, bool, int, int]:
        """Return a key that sorts records as they are executed. Threads append them to the file in any order.

        Tasks follow the graph's order. Tasks that it does not list follow their ids. Inputs come before outputs.
        """
        place = self.positions.get(record.task_id, len(self.positions))
        after = record.stage is DumpStage.AFTER_COMPLETION
        return place, record.task_id, after, record.arg_index, record.index


_SUFFIX = ".pt"
_GOLDEN = "golden data (in/ and out/, or one of them, with *.pt files; or *.pt files themselves)"
_EXPECTED_KINDS = f"a file named *{', *'.join(SUFFIXES)}, {_GOLDEN}, an argument dump or a build directory"
_MANIFESTS = ("args_dump.json", "tensor_dump.json")
_BUILD_PARTS = frozenset(
    (
        KERNEL_CONFIG_FILE,
        "distributed_meta.json",
        "kernels",
        "orchestration",
        "ptoas",
        "passes_dump",
        "report",
        "debug",
        "__pycache__",
    )
)
"""A compiler and a runtime put these files and folders beside `kernel_config.py`."""
_MAX_CACHED_BYTES, _FILE_OVERHEAD_BYTES = 2**28, 2**14
"""The cache holds at most the first number of bytes. The second is counted as the overhead of each file that is read
whole."""
_MAX_MAPPED_FILES = 32
"""At most this many files stay mapped or open. An operation has at most 32 tensors."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tensor that can be opened. `is_input` says that it was given to the case, not computed by it.

    `load_layout` returns its dtype, shape and strides without loading the elements.
    """

    load_layout: Callable[[], TensorLayout]
    open: Callable[[], TensorView]
    is_input: bool


@dataclass(frozen=True, kw_only=True)
class Source:
    """Everything under one path.

    Names are the same for the same thing in two sources: `in/x`, `out/y`, or task, argument and stage of a dump.

    Attributes:
        flawed: by name, why a recorded tensor must not be compared.
        platform: the target a build was made for, where it says so.
        incomplete: a description of lost records whose names are unknown; empty if none.
        kernels: the kernels of a dump's records, as far as a name map or a kernel list tells.
        read_errors: the errors met while reading name maps, kernel lists and task graphs.
        renamed: the source's own names of tensors that were given another source's names.
        files: the file of a folder that holds each name.
        plain: the files of a folder that are compared by their bytes.
        refused, left_out: the other files of a folder, and why they are not compared.
    """

    path: Path
    tensors: Mapping[str, Entry]
    scalars: Mapping[str, Scalar]
    flawed: Mapping[str, str]
    platform: str | None = None
    incomplete: str = ""
    kernels: Mapping[str, str] = field(default_factory=dict[str, str])
    read_errors: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    plain: tuple[str, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict[str, Refusal])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def tensor_names(self) -> Sequence[str]:
        """Return the names of the tensors, in the order of the listing."""
        return tuple(self.tensors)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Return the place of each tensor in `tensor_names`."""
        return {name: place for place, name in enumerate(self.tensor_names)}

    def names(self) -> KeysView[str]:
        """Return all names, whatever they stand for."""
        return self._kinds.keys()

    @cached_property
    def _kinds(self) -> dict[str, object]:
        return {**self.tensors, **self.scalars, **self.flawed}

    def is_refused(self, path: str) -> bool:
        """Return whether the file `path`, or a folder that it lies in, is refused."""
        return any(str(part) in self.refused for part in (path, *PurePath(path).parents))


def open_sources(paths: Sequence[Path], ignored: Sequence[str] = ()) -> list[Source]:
    """List what is at each path. Tensors of folders are read when they are opened.

    `ignored` are globs of paths below the folders, in which * matches / too.

    Raises:
        BuildOutputError: at one of them nothing can be read as tensors.
    """
    listings = [None if path.is_file() else _Listing.open(path, ignored) for path in paths]
    several = any(listing is not None and len(listing.top_level_dumps) > 1 for listing in listings)
    return [
        _file_source(path) if listing is None else listing.source(several_dumps=several)
        for path, listing in zip(paths, listings, strict=True)
    ]


def _file_source(path: Path) -> Source:
    # The user typed the path itself, which may be a link. A tensor file cannot refer to other files.
    real = path.resolve()
    files = _FileCache(Folder.open(real.parent, expected="a folder"))
    contents = files.contents(real.name, mapped=True)
    tensors: dict[str, Entry] = {}
    for key, tensor in contents.tensors.items():
        geometry = tensor.geometry()  # the user's own file is refused whole if a tensor in it is unsound
        tensors[key or path.stem] = Entry(
            load_layout=partial(_identity, geometry),
            open=cache(partial(files.open, real.name, key)),
            is_input=False,
        )
    return Source(path=path, tensors=tensors, scalars=contents.scalars, flawed={})


def _identity(geometry: TensorLayout) -> TensorLayout:
    return geometry


@dataclass(frozen=True, kw_only=True)
class _Listing:
    """The files below a folder. `dumps` are the folders that, by their file names, hold an argument dump."""

    path: Path
    folder: Folder
    tree: Tree
    dumps: tuple[str, ...]

    @classmethod
    def open(cls, path: Path, ignored: Sequence[str]) -> _Listing:
        folder = Folder.open(path, expected=_EXPECTED_KINDS)
        tree = folder.tree(partial(_ignore_reason, ignored))
        files = frozenset(tree.files)
        dumps = tuple(place for place in tree.folders if _manifest(folder, place, files))
        return cls(path=path, folder=folder, tree=tree, dumps=dumps)

    @property
    def top_level_dumps(self) -> list[str]:
        """Return the dumps that lie where a runtime leaves them: the folder itself, one in it, or one of the
        recordings."""
        return [dump for dump in self.dumps if not dump or str(PurePath(dump).parent) in (".", RECORDINGS)]

    def source(self, *, several_dumps: bool) -> Source:
        """Return everything in the folder. With `several_dumps`, names of records begin with the dump's folder.

        Raises:
            BuildOutputError: it holds no tensor; or it is a dump itself, and unsound.
        """
        refused = dict(self.tree.refused)
        dumps, read = self._read_dumps(refused, several_dumps=several_dumps)
        data = self._read_data(refused, read)
        source = _merge_sources(self.path, [data, *dumps])
        self._refuse_empty_halves(source, refused)
        if not (source.names() or refused):
            raise self._no_tensors_error()
        rest = [
            file for file in self.tree.files if file not in read and PurePath(file).suffix not in SUFFIXES
        ]
        of_build = dict.fromkeys(self._parts_of_builds(rest), "part of the build")
        platform, unread = self._platform()
        return replace(
            source,
            platform=platform,
            read_errors=tuple(dict.fromkeys((*source.read_errors, *unread))),
            plain=tuple(file for file in rest if file not in of_build),
            refused=refused,
            left_out={**self.tree.left_out, **of_build},
        )

    def _read_data(self, refused: dict[str, Refusal], read: set[str]) -> Source:
        """Read all files of tensors. Those that cannot be read are added to `refused`."""
        opened = _FileCache(self.folder)
        tensors: dict[str, Entry] = {}
        scalars: dict[str, Scalar] = {}
        files: dict[str, str] = {}
        for file in self.tree.files:
            path = PurePath(file)
            if path.suffix not in SUFFIXES or file in read:
                continue
            try:
                contents = opened.contents(file, mapped=True)
            except BuildOutputError as error:
                refused[file] = _refusal(error, self.folder.locate(file))
                continue
            if not (contents.tensors or contents.scalars):
                refused[file] = Refusal(found="a file without tensors")
            names = {key: _name(file, key) for key in (*contents.tensors, *contents.scalars)}
            if (name := next((name for name in names.values() if name in files), None)) is not None:
                refused[file] = Refusal(
                    found=f"{name!r}, which is also what {files[name]} holds",
                    remedy="rename one of the files",
                )
                continue
            files |= dict.fromkeys(names.values(), file)
            for key in contents.tensors:
                tensors[names[key]] = Entry(
                    load_layout=cache(partial(opened.geometry, file, key)),
                    open=partial(opened.open, file, key),
                    is_input=path.parent.name == "in",
                )
            scalars |= {names[key]: value for key, value in contents.scalars.items()}
        return Source(path=self.path, tensors=tensors, scalars=scalars, flawed={}, files=files)

    def _read_dumps(
        self, refused: dict[str, Refusal], *, several_dumps: bool
    ) -> tuple[list[Source], set[str]]:
        """Return the records of all dumps, and the files that they were read from."""
        sources: list[Source] = []
        read: set[str] = set()
        unprefixed = () if several_dumps else self.top_level_dumps
        files = frozenset(self.tree.files)
        for place in self.dumps:
            manifest = _manifest(self.folder, place, files)
            read.add(manifest)
            try:
                dump = self._open_dump(place)
            except BuildOutputError as error:
                if not place:
                    raise
                refused[manifest] = _refusal(error, self.folder.locate(place))
                # The manifest cannot be read, so any of these files may hold its payloads.
                read |= {file for file in files if file.endswith(".bin") and file.rpartition("/")[0] == place}
                continue
            if dump.bin_file is not None:
                read.add(str(PurePath(place, dump.bin_file)))
            source = _dump_source(self.path / place, dump, "" if place in unprefixed else f"{place} ")
            sources.append(replace(source, files=dict.fromkeys(source.names(), manifest)))
        return sources, read

    def _open_dump(self, place: str) -> ArgsDump:
        dump = ArgsDump.open(self.folder.locate(place))
        if dump.bin_file is not None and str(PurePath(place, dump.bin_file)) in self.tree.left_out:
            raise MissingFileError(
                path=dump.folder.root,
                expected=f"its payloads, {dump.bin_file}",
                found="them ignored",
                remedy="ignore the whole dump",
            )
        return dump

    def _refuse_empty_halves(self, source: Source, refused: dict[str, Refusal]) -> None:
        """Add an `in` or `out` folder without tensors to `refused` if its counterpart holds some."""
        held = {
            str(folder) for file in (*source.files.values(), *refused) for folder in PurePath(file).parents
        }
        for empty, other in (("in", "out"), ("out", "in"), ("data/in", "data/out"), ("data/out", "data/in")):
            if other in held and empty not in held and empty in self.tree.folders:
                refused[empty] = Refusal(
                    found="a folder without tensors", remedy="run the case with --save-data"
                )

    def _parts_of_builds(self, files: Sequence[str]) -> list[str]:
        """Return the files that are parts of a build or metadata of a dump."""
        builds = {
            str(PurePath(file).parent)
            for file in self.tree.files
            if PurePath(file).name == KERNEL_CONFIG_FILE
        }
        beside_dumps = {str(PurePath(dump).parent) for dump in self.dumps}
        return [
            file
            for file, path in zip(files, map(PurePath, files), strict=True)
            if _is_recording(path)
            or (str(path.parent) in beside_dumps and (path.name == TASK_GRAPH_FILE or path.match(NAME_MAP)))
            or any(
                str(build) in builds and path.relative_to(build).parts[0] in _BUILD_PARTS
                for build in path.parents
            )
        ]

    def _no_tensors_error(self) -> MissingFileError:
        if KERNEL_CONFIG_FILE in self.tree.files:
            return MissingFileError(
                path=self.path,
                expected="data/in and data/out, or an argument dump",
                found="neither",
                remedy="run the case with --save-data or --dump-args 2",
            )
        if not self.folder.names():
            return MissingFileError(path=self.path, expected=_EXPECTED_KINDS, found="an empty folder")
        others = f", but files such as {self.tree.files[0]}" if self.tree.files else ""
        found = f"a folder with none of these{others}"
        return MissingFileError(
            path=self.path, expected=_EXPECTED_KINDS, found=found, remedy="check the path"
        )

    def _platform(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the target of a build directory, and why it cannot be read."""
        if KERNEL_CONFIG_FILE not in self.tree.files:
            return None, ()
        try:
            platform = KernelConfig.open(self.folder.root).runtime.get("platform")
        except BuildOutputError as error:
            return None, (str(error),)
        return platform if isinstance(platform, str) else None, ()


@dataclass
class _FileCache:
    """Caches a folder's most recently used tensor files, memory-mapped or read whole."""

    folder: Folder
    kept: OrderedDict[str, FileContents] = field(default_factory=OrderedDict[str, FileContents])
    cost: int = 0

    def geometry(self, file: str, key: str) -> TensorLayout:
        """Return the layout of the tensor `key` of a file. Raises the errors of `open`."""
        found = self._stored_tensor(file, key, mapped=True).geometry()
        # Copy the layout: the reader's object may keep the whole file in memory.
        return TensorLayout(dtype=found.dtype, shape=found.shape, strides=found.strides)

    def open(self, file: str, key: str) -> TensorView:
        """Return the tensor `key` of a file; `BuildOutputError` where it cannot be read, or is no longer there."""
        return self._stored_tensor(file, key, mapped=False).open()

    def contents(self, file: str, *, mapped: bool) -> FileContents:
        """Return what a file holds. Raises `BuildOutputError` where it cannot be read."""
        contents = self.kept.get(file)
        if contents is not None and (mapped or not contents.mapped):
            self.kept.move_to_end(file)
            return contents
        if contents is not None:
            self._drop(file)
        self.kept[file] = contents = load_tensors(self.folder, file, mapped=mapped)
        self.cost += _cost(contents)
        while len(self.kept) > 1 and self.cost > _MAX_CACHED_BYTES:
            self._drop(next(iter(self.kept)))
        return contents

    def _drop(self, file: str) -> None:
        self.cost -= _cost(self.kept.pop(file))

    def _stored_tensor(self, file: str, key: str, *, mapped: bool) -> StoredTensor:
        contents = self.contents(file, mapped=mapped)
        if key not in contents.tensors:
            raise MalformedFileError(
                path=self.folder.locate(file),
                expected=f"a tensor {key!r}, as when the folder was listed",
                found="none: the file was written meanwhile",
            )
        return contents.tensors[key]


def _cost(contents: FileContents) -> int:
    """Return the share of `_MAX_CACHED_BYTES` that a file takes."""
    if contents.mapped or contents.is_open:
        return _MAX_CACHED_BYTES // _MAX_MAPPED_FILES
    return contents.held + _FILE_OVERHEAD_BYTES


def _ignore_reason(globs: Sequence[str], path: str) -> str:
    """Return why the file or folder `path` is left out; empty where no glob matches."""
    return next((f"--ignore {glob}" for glob in globs if fnmatchcase(path, glob)), "")


def _manifest(folder: Folder, place: str, files: frozenset[str]) -> str:
    """Return the manifest that makes the folder `place` a dump; empty where there is none."""
    dated = PurePath(place).name or folder.root.name
    for name in (*_MANIFESTS, f"{dated}.json"):
        path = str(PurePath(place, name))
        is_dump = name in _MANIFESTS or dated.startswith("tensor_dump_")
        if path in files and (is_dump or str(PurePath(place, f"{dated}.bin")) in files):
            return path
    return ""


def _is_recording(path: PurePath) -> bool:
    """Return whether a runtime wrote the file beside an argument dump, not into one."""
    around = path.parts[:-1]
    return RECORDINGS in around and not any(part.startswith(("args_dump", "tensor_dump")) for part in around)


def _name(file: str, key: str) -> str:
    """Return the name of a tensor, or of a value, in a file of a folder: `x` for `x.pt`, but not `x.npy` for
    `x.npy.pt`.
    """
    if key:
        return f"{file} {key}"
    stem = file.removesuffix(_SUFFIX)
    return file if PurePath(stem).suffix in SUFFIXES else stem


def _refusal(error: BuildOutputError, path: Path) -> Refusal:
    """Return why the file `path` cannot be read. The message omits the path, which stands before it.

    For a dump, `path` is its folder.
    """
    if isinstance(error, MalformedFileError) and error.path == path:
        return Refusal(found=error.found, remedy=error.remedy)
    name = "" if error.path == path else f"{error.path.name}: "
    return Refusal(found=f"{name}expected {error.expected}, found {error.found}", remedy=error.remedy)


def _merge_sources(path: Path, parts: Sequence[Source]) -> Source:
    """Merge the contents of several parts of one folder."""
    return Source(
        path=path,
        tensors={name: entry for part in parts for name, entry in part.tensors.items()},
        scalars={name: value for part in parts for name, value in part.scalars.items()},
        flawed={name: flaw for part in parts for name, flaw in part.flawed.items()},
        incomplete="; ".join(part.incomplete for part in parts if part.incomplete),
        kernels={name: kernel for part in parts for name, kernel in part.kernels.items()},
        read_errors=tuple(reason for part in parts for reason in part.read_errors),
        files={name: file for part in parts for name, file in part.files.items()},
    )


def _dump_source(path: Path, dump: ArgsDump, prefix: str) -> Source:
    tensors: dict[str, Entry] = {}
    scalars: dict[str, Scalar] = {}
    flawed: dict[str, str] = {}
    kernels: dict[str, str] = {}
    surroundings = DumpContext.read_around(dump.folder.root)
    records = [dump.record(index) for index in range(len(dump))]
    for record in sorted(records, key=surroundings.sort_key):
        name = _unused_name(prefix + record.name, tensors, scalars, flawed)
        if called := surroundings.kernels_of(record):
            kernels[name] = called
        if record.kind is ArgumentKind.SCALAR:
            scalars[name] = record.value
        elif record.flaw is not None:
            flawed[name] = record.flaw.value
        else:
            tensors[name] = Entry(
                load_layout=partial(dump.geometry, record), open=partial(dump.numbers, record), is_input=False
            )
    dropped = dump.header.dropped_records
    lost = [f"{plural(dropped, 'record')} {'was' if dropped == 1 else 'were'} dropped"] if dropped else []
    return Source(
        path=path,
        tensors=tensors,
        scalars=scalars,
        flawed=flawed,
        incomplete="; ".join((*lost, *dump.inconsistencies)),
        kernels=kernels,
        read_errors=surroundings.read_errors,
    )


def _unused_name(name: str, *taken: Mapping[str, object]) -> str:
    """Return `name`, numbered where a task was recorded more than once."""
    number, unused = 1, name
    while any(unused in names for names in taken):
        number += 1
        unused = f"{name} ({number})"
    return unused


def are_single(*sources: Source) -> bool:
    """Return whether each source is one tensor. Such tensors belong together whatever their names.

    Two folders are excepted: the tensor's file must have the same name in both.
    """
    if not all(len(source.names()) == len(source.tensors) == 1 for source in sources):
        return False
    files = {source.files.get(name) for source in sources for name in source.tensors}
    return None in files or len(files) == 1


def are_unrelated(one: Source, other: Source) -> bool:
    """Return whether nothing in one belongs to anything in the other, so that there is nothing to compare."""
    return not (
        one.names() & other.names()
        or are_single(one, other)
        or one.refused.keys() & other.refused.keys()
        or any(map(one.is_refused, other.files.values()))
        or any(map(other.is_refused, one.files.values()))
    )


def copy_names(source: Source, other: Source) -> Source:
    """Rename the tensors of `source` as in `other`, if they have no names in common.

    For instance, `out/y` of golden data becomes `y` of a state dict. Each source must have only one tensor with the
    same part after the last `/`.
    """
    if not are_unrelated(source, other):
        return source
    ours, theirs = _names_by_last_part(source), _names_by_last_part(other)
    renamed = {theirs[part]: name for part, name in ours.items() if part in theirs}
    names = {name: theirs_name for theirs_name, name in renamed.items()}
    tensors = {names.get(name, name): entry for name, entry in source.tensors.items()}
    files = {names.get(name, name): file for name, file in source.files.items()}
    return replace(source, tensors=tensors, files=files, renamed=renamed)


def _names_by_last_part(source: Source) -> dict[str, str]:
    """Return the tensors by the part of their names after the last `/`, where only one has it."""
    parts = {name: name.rpartition("/")[2] for name in source.tensors}
    often = Counter(parts.values())
    return {part: name for name, part in parts.items() if often[part] == 1}


def same_scalar(first: Scalar, second: Scalar) -> bool:
    """Return whether two scalars are the same. NaN equals NaN."""
    if isinstance(first, float) and isinstance(second, float):
        return struct.pack("<d", first) == struct.pack("<d", second) or first == second
    return first == second

"""Lists the tensors under a path given to `diff-tensors`: a file, golden data, argument dumps, or a build directory.

`open_sources` returns a `Source` for each path. It reads a folder to the bottom, and gives each file one of four roles:

- A file of tensors, or a part of an argument dump. Its tensors are compared by name.
- A plain file. It is compared by its bytes.
- Refused, with the reason: a link that leads out of the folder, or an unreadable file.
- Left out, with the reason: a file that the user ignores, a part of a build, or metadata of a dump.

Names are listed in the order in which a run makes their values: data first, then task by task, inputs before outputs.
`DumpContext` reads the kernels' names and the order of the tasks of an argument dump.
"""

from __future__ import annotations

import os
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path, PurePath

from ...store.vocabulary import plural
from ..build_output.args_dump import ArgRecord, ArgsDump, ArgumentKind, DumpStage
from ..build_output.directory import KERNEL_CONFIG_FILE, KernelConfig, read_name_map
from ..build_output.files import BuildOutputError, Folder, MalformedFileError, MissingFileError, Refusal, Tree
from ..build_output.task_graph import TaskGraph
from ..build_output.tensor_files import SUFFIXES, FileContents, Scalar, load_tensors
from ..errors import nearest_path
from ..tensor import StoredTensor, TensorLayout, TensorView

TASK_GRAPH_FILE, NAME_MAP, RECORDINGS = "deps.json", "name_map*.json", "dfx_outputs"


@dataclass(frozen=True, kw_only=True)
class DumpContext:
    """Kernel names by function id, and positions by task id, from the files around an argument dump."""

    names: Mapping[int, str]
    positions: Mapping[int, int]
    read_errors: tuple[str, ...]

    @classmethod
    def read(cls, dump: Path) -> DumpContext:
        """Read the parent of a dump's folder. If it is `dfx_outputs`, also read the build directory above it."""
        names: dict[int, str] = {}
        positions: dict[int, int] = {}
        read_errors: list[str] = []
        parent = dump.parent
        for folder in (parent.parent, parent) if parent.name == RECORDINGS else (parent,):
            try:
                if (folder / KERNEL_CONFIG_FILE).is_file():
                    kernels = KernelConfig.open(folder).kernels
                    names |= {number: kernel.name for number, kernel in kernels.items()}
                for file in sorted(folder.glob(NAME_MAP)):
                    names |= read_name_map(file)
                if (folder / TASK_GRAPH_FILE).is_file():
                    graph = TaskGraph.open(folder / TASK_GRAPH_FILE)
                    positions = {task: place for place, task in enumerate(graph.topological_order)}
            except BuildOutputError as error:
                read_errors.append(str(error))
        return cls(names=names, positions=positions, read_errors=tuple(read_errors))

    def kernels_of(self, record: ArgRecord) -> str:
        """Return the names of the kernels that a record's task ran, joined by `+`; empty if none is known."""
        return "+".join(self.names[number] for number in record.kernels if number in self.names)

    def sort_key(self, record: ArgRecord) -> tuple[int, int, bool, int, int]:
        """Return a key that sorts records in the order of their execution. In the file they are in any order.

        Tasks come in the graph's order. Tasks that are not in the graph come last, by their ids. Inputs come before
        outputs.
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
"""A compiler and a runtime write these files and folders next to `kernel_config.py`."""
_MAX_CACHED_BYTES = 2**28
"""The cache of files holds at most this many bytes."""
_FILE_OVERHEAD_BYTES = 2**14
"""Each file that is read whole counts for this many bytes more than it has."""
_MAX_MAPPED_FILES = 32
"""At most this many files stay mapped or open. An operation has at most 32 tensors."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tensor that is read when it is needed.

    Attributes:
        load_layout: returns its type, shape and strides without loading the elements.
        open: returns the tensor. Both functions raise `BuildOutputError` if it cannot be read.
        is_input: whether it is an input of the case, and not computed by it.
    """

    load_layout: Callable[[], TensorLayout]
    open: Callable[[], TensorView]
    is_input: bool


@dataclass(frozen=True, kw_only=True)
class Source:
    """Everything under one path.

    Things that belong together have the same name in two sources: `in/x`, `out/y`, or task, argument and stage.

    Attributes:
        tensors, scalars: by name.
        flawed: the recorded tensors that must not be compared, by name, with the reason.
        platform: the target that a build was made for, if it says so.
        incomplete: a description of lost records, whose names are unknown; empty if there are none.
        kernels: the names of the kernels of a dump's records, as far as known, by the records' names.
        read_errors: the errors of name maps, kernel lists and task graphs.
        renamed: the own names of tensors that were renamed as in another source, by their new names.
        files: the files of a folder, by the names of what they hold.
        plain_files: the files of a folder that are compared by their bytes.
        refused, left_out: the other files of a folder, with the reasons.
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
    plain_files: tuple[str, ...] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict[str, Refusal])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def tensor_names(self) -> Sequence[str]:
        """Return the names of the tensors, in the order of the listing."""
        return tuple(self.tensors)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Return the index of each name in `tensor_names`."""
        return {name: place for place, name in enumerate(self.tensor_names)}

    def names(self) -> KeysView[str]:
        """Return the names of all tensors, scalars and flawed tensors."""
        return self._values.keys()

    @cached_property
    def _values(self) -> dict[str, object]:
        return {**self.tensors, **self.scalars, **self.flawed}

    def is_refused(self, path: str) -> bool:
        """Return whether the file `path`, or a folder that it lies in, is refused."""
        return any(str(part) in self.refused for part in (path, *PurePath(path).parents))


def open_sources(paths: Sequence[Path], ignored: Sequence[str] = ()) -> list[Source]:
    """List what is at each path. Tensors of folders are read when they are opened.

    `ignored` are globs of paths below the folders. In them, * also matches /.

    Raises:
        BuildOutputError: one of the paths has no tensors.
    """
    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110 (pathlib's raises where the name is too long)
            near = nearest_path(path)
            raise MissingFileError(
                path=path,
                expected="a file or folder of tensors",
                found="nothing",
                remedy="check the path" if near is None else f"did you mean {near}?",
            )
    listings = [None if path.is_file() else _Listing.open(path, ignored) for path in paths]
    # Names of records must correspond in all sources, so one folder with several dumps decides for all.
    has_several_dumps = any(listing is not None and len(listing.top_level_dumps) > 1 for listing in listings)
    return [
        _file_source(path) if listing is None else listing.source(several_dumps=has_several_dumps)
        for path, listing in zip(paths, listings, strict=True)
    ]


def _file_source(path: Path) -> Source:
    # The user named this file, which may be a link to anywhere. A tensor file cannot refer to other files.
    real = path.resolve()
    # A store that names files by their content links to them from their own names.
    suffix = "" if real.suffix in SUFFIXES else path.suffix
    files = _FileCache(Folder.open(real.parent, expected="a folder"), suffix=suffix)
    contents = files.contents(real.name, mapped=True)
    tensors: dict[str, Entry] = {}
    for key, tensor in contents.tensors.items():
        layout = tensor.geometry()  # read now: the whole file is refused if one of its tensors is unsound
        tensors[key or path.stem] = Entry(
            load_layout=partial(_identity, layout),
            open=cache(partial(files.open, real.name, key)),
            is_input=False,
        )
    return Source(path=path, tensors=tensors, scalars=contents.scalars, flawed={})


def _identity(layout: TensorLayout) -> TensorLayout:
    return layout


@dataclass(frozen=True, kw_only=True)
class _Listing:
    """The files below a folder. `dumps` are the folders of argument dumps, recognized by their file names."""

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
        """Return the dumps at the usual places: the folder itself, a folder in it, or one in its `dfx_outputs`."""
        return [dump for dump in self.dumps if not dump or str(PurePath(dump).parent) in (".", RECORDINGS)]

    def source(self, *, several_dumps: bool) -> Source:
        """Return everything in the folder. With `several_dumps`, names of records begin with the dump's folder.

        Raises:
            BuildOutputError: the folder has no tensor, or is itself an unsound dump.
        """
        refused = dict(self.tree.refused)
        dumps, dump_files = self._read_dumps(refused, several_dumps=several_dumps)
        data = self._read_data(refused, dump_files)
        source = _merge_sources(self.path, [data, *dumps])
        self._refuse_empty_halves(source, refused)
        if not (source.names() or refused):
            raise self._no_tensors_error()
        without_tensors = [
            file
            for file in self.tree.files
            if file not in dump_files and PurePath(file).suffix not in SUFFIXES
        ]
        build_parts = dict.fromkeys(filter(self._is_build_part, without_tensors), "part of the build")
        platform, platform_errors = self._platform()
        return replace(
            source,
            platform=platform,
            read_errors=tuple(dict.fromkeys((*source.read_errors, *platform_errors))),
            plain_files=tuple(file for file in without_tensors if file not in build_parts),
            refused=refused,
            left_out={**self.tree.left_out, **build_parts},
        )

    def _read_data(self, refused: dict[str, Refusal], dump_files: set[str]) -> Source:
        """Read all files of tensors except `dump_files`. Unreadable ones are added to `refused`."""
        cache_of_files = _FileCache(self.folder)
        tensors: dict[str, Entry] = {}
        scalars: dict[str, Scalar] = {}
        files: dict[str, str] = {}
        for file in self.tree.files:
            path = PurePath(file)
            if path.suffix not in SUFFIXES or file in dump_files:
                continue
            try:
                contents = cache_of_files.contents(file, mapped=True)
            except BuildOutputError as error:
                refused[file] = _refusal(error, self.folder.locate(file))
                continue
            if not (contents.tensors or contents.scalars):
                refused[file] = Refusal(found="a file without tensors")
            names = {key: _name(file, key) for key in (*contents.tensors, *contents.scalars)}
            duplicate = next((name for name in names.values() if name in files), None)
            if duplicate is not None:
                refused[file] = Refusal(
                    found=f"{duplicate!r}, which is also what {files[duplicate]} holds",
                    remedy="rename one of the files",
                )
                continue
            files |= dict.fromkeys(names.values(), file)
            for key in contents.tensors:
                tensors[names[key]] = Entry(
                    load_layout=cache(partial(cache_of_files.layout, file, key)),
                    open=partial(cache_of_files.open, file, key),
                    is_input=path.parent.name == "in",
                )
            scalars |= {names[key]: value for key, value in contents.scalars.items()}
        return Source(path=self.path, tensors=tensors, scalars=scalars, flawed={}, files=files)

    def _read_dumps(
        self, refused: dict[str, Refusal], *, several_dumps: bool
    ) -> tuple[list[Source], set[str]]:
        """Return the records of all dumps, and the files that belong to these dumps.

        The manifests of unsound dumps are added to `refused`, unless the folder itself is the dump. Then the error is
        raised.
        """
        sources: list[Source] = []
        dump_files: set[str] = set()
        unprefixed = () if several_dumps else self.top_level_dumps
        files = frozenset(self.tree.files)
        for place in self.dumps:
            manifest = _manifest(self.folder, place, files)
            dump_files.add(manifest)
            try:
                dump = self._open_dump(place)
            except BuildOutputError as error:
                if not place:
                    raise
                refused[manifest] = _refusal(error, self.folder.locate(place))
                # The manifest is unreadable and cannot name its payload file, so every .bin beside it counts.
                dump_files |= {
                    file for file in files if file.endswith(".bin") and file.rpartition("/")[0] == place
                }
                continue
            if dump.bin_file is not None:
                dump_files.add(str(PurePath(place, dump.bin_file)))
            source = _dump_source(self.path / place, dump, "" if place in unprefixed else f"{place} ")
            sources.append(replace(source, files=dict.fromkeys(source.names(), manifest)))
        return sources, dump_files

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
        """Add an `in` or `out` folder without tensors to `refused` if its counterpart has some."""
        filled = {
            str(folder) for file in (*source.files.values(), *refused) for folder in PurePath(file).parents
        }
        for empty, other in (("in", "out"), ("out", "in"), ("data/in", "data/out"), ("data/out", "data/in")):
            if other in filled and empty not in filled and empty in self.tree.folders:
                refused[empty] = Refusal(
                    found="a folder without tensors", remedy="run the case with --save-data"
                )

    def _is_build_part(self, file: str) -> bool:
        """Return whether a file is a part of a build or metadata of a dump."""
        path = PurePath(file)
        is_metadata = path.name == TASK_GRAPH_FILE or path.match(NAME_MAP)
        if is_metadata and any(path.parent == PurePath(dump).parent for dump in self.dumps):
            return True
        return _is_recording(path) or any(
            str(folder) in self._builds and path.relative_to(folder).parts[0] in _BUILD_PARTS
            for folder in path.parents
        )

    @cached_property
    def _builds(self) -> frozenset[str]:
        """Return the folders with a `kernel_config.py`."""
        paths = map(PurePath, self.tree.files)
        return frozenset(str(path.parent) for path in paths if path.name == KERNEL_CONFIG_FILE)

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
        """Return the target of a build directory, None if unknown, and the errors of its kernel list."""
        if KERNEL_CONFIG_FILE not in self.tree.files:
            return None, ()
        try:
            platform = KernelConfig.open(self.folder.root).runtime.get("platform")
        except BuildOutputError as error:
            return None, (str(error),)
        return platform if isinstance(platform, str) else None, ()


@dataclass
class _FileCache:
    """Keeps the most recently used tensor files of a folder, memory-mapped or read whole.

    `suffix` counts in place of those of their names, if given.
    """

    folder: Folder
    suffix: str = ""
    entries: OrderedDict[str, FileContents] = field(default_factory=OrderedDict[str, FileContents])
    cost: int = 0

    def layout(self, file: str, key: str) -> TensorLayout:
        """Return the layout of the tensor `key` of a file. Raises `BuildOutputError` if it cannot be read."""
        layout = self._stored_tensor(file, key, mapped=True).geometry()
        # Copy the layout: the reader's object may keep the whole file in memory.
        return TensorLayout(dtype=layout.dtype, shape=layout.shape, strides=layout.strides)

    def open(self, file: str, key: str) -> TensorView:
        """Return the tensor `key` of a file. Raises `BuildOutputError` if it cannot be read."""
        return self._stored_tensor(file, key, mapped=False).open()

    def contents(self, file: str, *, mapped: bool) -> FileContents:
        """Return the tensors and scalars of a file. Raises `BuildOutputError` if it cannot be read."""
        contents = self.entries.get(file)
        if contents is not None and (mapped or not contents.mapped):
            self.entries.move_to_end(file)
            return contents
        if contents is not None:
            self._drop(file)
        self.entries[file] = contents = load_tensors(self.folder, file, mapped=mapped, suffix=self.suffix)
        self.cost += _cost(contents)
        while len(self.entries) > 1 and self.cost > _MAX_CACHED_BYTES:
            self._drop(next(iter(self.entries)))
        return contents

    def _drop(self, file: str) -> None:
        self.cost -= _cost(self.entries.pop(file))

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
    """Return the part of `_MAX_CACHED_BYTES` that a file takes."""
    if contents.mapped or contents.is_open:
        return _MAX_CACHED_BYTES // _MAX_MAPPED_FILES
    return contents.held + _FILE_OVERHEAD_BYTES


def _ignore_reason(globs: Sequence[str], path: str) -> str:
    """Return the option that leaves out the file or folder `path`; empty if no glob matches."""
    return next((f"--ignore {glob}" for glob in globs if fnmatchcase(path, glob)), "")


def _manifest(folder: Folder, place: str, files: frozenset[str]) -> str:
    """Return the path of the manifest of the dump in the folder `place`; empty if it is no dump."""
    folder_name = PurePath(place).name or folder.root.name
    for name in (*_MANIFESTS, f"{folder_name}.json"):
        path = str(PurePath(place, name))
        # A manifest of the folder's name counts in a `tensor_dump_*`, or beside a .bin of that name.
        is_dump = name in _MANIFESTS or folder_name.startswith("tensor_dump_")
        if path in files and (is_dump or str(PurePath(place, f"{folder_name}.bin")) in files):
            return path
    return ""


def _is_recording(path: PurePath) -> bool:
    """Return whether the file is in `dfx_outputs`, but in no argument dump."""
    folders = path.parts[:-1]
    is_in_dump = any(part.startswith(("args_dump", "tensor_dump")) for part in folders)
    return RECORDINGS in folders and not is_in_dump


def _name(file: str, key: str) -> str:
    """Return the name of the value `key` in a file. The only tensor of `x.pt` is named `x`.

    The tensor of `x.npy.pt` keeps its whole name, because `x.npy` may exist as well.
    """
    if key:
        return f"{file} {key}"
    stem = file.removesuffix(_SUFFIX)
    return file if PurePath(stem).suffix in SUFFIXES else stem


def _refusal(error: BuildOutputError, path: Path) -> Refusal:
    """Return why the file, or the folder of a dump, at `path` cannot be read. The message omits the path."""
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
    context = DumpContext.read(dump.folder.root)
    records = [dump.record(index) for index in range(len(dump))]
    for record in sorted(records, key=context.sort_key):
        name = _unused_name(prefix + record.name, tensors, scalars, flawed)
        if kernel_names := context.kernels_of(record):
            kernels[name] = kernel_names
        if record.kind is ArgumentKind.SCALAR:
            scalars[name] = record.value
        elif record.flaw is not None:
            flawed[name] = record.flaw.value
        else:
            tensors[name] = Entry(
                load_layout=partial(dump.comparable_layout, record),
                open=partial(dump.comparable_tensor, record),
                is_input=False,
            )
    dropped = dump.dropped_records
    losses = [f"{plural(dropped, 'record')} {'was' if dropped == 1 else 'were'} dropped"] if dropped else []
    return Source(
        path=path,
        tensors=tensors,
        scalars=scalars,
        flawed=flawed,
        incomplete="; ".join((*losses, *dump.inconsistencies)),
        kernels=kernels,
        read_errors=context.read_errors,
    )


def _unused_name(name: str, *taken: Mapping[str, object]) -> str:
    """Return `name`, with a number if it is taken: a task may be recorded more than once."""
    number, unused = 1, name
    while any(unused in names for names in taken):
        number += 1
        unused = f"{name} ({number})"
    return unused


def are_single_tensors(*sources: Source) -> bool:
    """Return whether each source is one tensor. They are compared with each other whatever their names.

    If all of them are in folders, their files must have the same name.
    """
    if not all(len(source.names()) == len(source.tensors) == 1 for source in sources):
        return False
    files = {source.files.get(name) for source in sources for name in source.tensors}
    return None in files or len(files) == 1


def are_unrelated(one: Source, other: Source) -> bool:
    """Return whether two sources have nothing in common, so that there is nothing to compare."""
    return not (
        one.names() & other.names()
        or are_single_tensors(one, other)
        or one.refused.keys() & other.refused.keys()
        or any(map(one.is_refused, other.files.values()))
        or any(map(other.is_refused, one.files.values()))
    )


def copy_names(source: Source, other: Source) -> Source:
    """Return `source` with its tensors named as in `other`, if the two have no names in common.

    Tensors belong together if the part of their names after the last `/` is the same. For instance, `out/y` of golden
    data becomes `y` of a state dict.
    """
    if not are_unrelated(source, other):
        return source
    old_names, new_names = _names_by_last_part(source), _names_by_last_part(other)
    renamed = {new_names[part]: old for part, old in old_names.items() if part in new_names}
    new_by_old = {old: new for new, old in renamed.items()}
    tensors = {new_by_old.get(name, name): entry for name, entry in source.tensors.items()}
    files = {new_by_old.get(name, name): file for name, file in source.files.items()}
    return replace(source, tensors=tensors, files=files, renamed=renamed)


def _names_by_last_part(source: Source) -> dict[str, str]:
    """Return the tensors' names by their part after the last `/`. Parts that several names have are left out."""
    parts = {name: name.rpartition("/")[2] for name in source.tensors}
    counts = Counter(parts.values())
    return {part: name for name, part in parts.items() if counts[part] == 1}


def are_equal_scalars(first: Scalar, second: Scalar) -> bool:
    """Return whether two scalars are equal. NaN equals NaN of the same bits."""
    if isinstance(first, float) and isinstance(second, float):
        return struct.pack("<d", first) == struct.pack("<d", second) or first == second
    return first == second

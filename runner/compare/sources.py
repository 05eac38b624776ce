"""What a path given to `diff-tensors` holds, by name: golden folders, argument dumps, build directories, files.

Names are listed in the order in which a run makes them: data first, then task by task, inputs before outputs.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ...store.words import plural
from ..build_output.args.dump import ArgsDump
from ..build_output.args.records import ArgRecord, Kind
from ..build_output.build_directory import BuildDirectory
from ..build_output.files.errors import MissingFileError
from ..build_output.files.folder import Folder
from ..build_output.files.tensor_file import SUFFIXES, Scalar, load_real_tensor, load_tensors
from ..build_output.golden_data import GoldenData, TensorFolder
from ..tensor.view import DType, TensorView
from .surroundings import DumpSurroundings

_SUFFIX = ".pt"
_GOLDEN = "golden data (in/ and out/, or one of them, with *.pt files; or *.pt files themselves)"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tensor that can be opened. `is_input`: it was given to the case, not computed by it.

    `dtype` is its type where that is known before it is read; its elements then lie in row-major order.
    """

    open: Callable[[], TensorView]
    is_input: bool
    dtype: DType | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Everything under one path. `flawed` says why a recorded tensor may not be compared.

    Names are the same for the same thing in two sources: `in/x`, `out/y`, or task, argument and stage of a dump.
    `platform` is the target a build was made for, where it says so. `incomplete` says what a dump lost without a
    trace of its name, and is empty if nothing. `kernels` names the kernels of a dump's records, as far as a name map
    or a kernel list tells; `unread` says what of these, or of the task graph, could not be read. `renamed` has its own
    names of tensors that go by another source's.
    """

    path: Path
    tensors: Mapping[str, Entry]
    scalars: Mapping[str, Scalar]
    flawed: Mapping[str, str]
    platform: str | None = None
    incomplete: str = ""
    kernels: Mapping[str, str] = field(default_factory=dict[str, str])
    unread: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def ordered(self) -> Sequence[str]:
        """Names of the tensors, as they are listed."""
        return tuple(self.tensors)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Place of each tensor in `ordered`."""
        return {name: place for place, name in enumerate(self.ordered)}

    def names(self) -> KeysView[str]:
        """All names, whatever they stand for."""
        return self._kinds.keys()

    @cached_property
    def _kinds(self) -> dict[str, object]:
        return {**self.tensors, **self.scalars, **self.flawed}


def open_source(path: Path) -> Source:
    """Lists what is at `path`; tensors of folders are read when they are opened.

    Raises:
        BuildOutputError: nothing there can be read as tensors.
    """
    if path.is_file():
        return _from_file(path)
    expected = f"a file named *{', *'.join(SUFFIXES)}, {_GOLDEN}, an argument dump or a build directory"
    folder = Folder.open(path, expected=expected)
    if not folder.names():
        raise MissingFileError(path=path, expected=expected, found="an empty folder")
    for name in ("in", "out"):
        if folder.is_link(name):
            folder.locate(name)  # one that leads elsewhere is refused as such
    if folder.has_folder("in") and folder.has_folder("out"):
        return Source(path=path, tensors=_golden(GoldenData.open(folder.root)), scalars={}, flawed={})
    if any(
        folder.has_file(name) for name in ("args_dump.json", "tensor_dump.json", f"{folder.root.name}.json")
    ):
        return _from_dump(path, ArgsDump.open(path))
    named = TensorFolder.open(path)
    if named.names:
        return Source(path=path, tensors=_folder("", named, is_input=False), scalars={}, flawed={})
    if tensors := _golden_half(folder):
        return Source(path=path, tensors=tensors, scalars={}, flawed={})
    try:
        build = BuildDirectory.open(path)
    except MissingFileError as error:
        raise MissingFileError(
            path=path, expected=expected, found="a folder with none of these", remedy="check the path"
        ) from error
    return _from_build(path, build)


def _from_file(path: Path) -> Source:
    # The path itself was typed by the user and may be a link; nothing in the file leads anywhere.
    real = path.resolve()
    contents = load_tensors(Folder.open(real.parent, expected="a folder"), real.name)

    def opener(view: TensorView) -> Callable[[], TensorView]:
        return lambda: view

    single = len(contents.tensors) == 1 and not contents.scalars
    return Source(
        path=path,
        tensors={
            path.stem if single and name == real.stem else name: Entry(open=opener(view), is_input=False)
            for name, view in contents.tensors.items()
        },
        scalars=contents.scalars,
        flawed={},
    )


def _golden(data: GoldenData) -> dict[str, Entry]:
    return _folder("in/", data.inputs, is_input=True) | _folder("out/", data.outputs, is_input=False)


def _golden_half(folder: Folder) -> dict[str, Entry]:
    """The tensors of golden data that have only `in/`, or only `out/`."""
    tensors: dict[str, Entry] = {}
    for name in ("in", "out"):
        if folder.has_folder(name):
            half = TensorFolder.open(folder.locate(name))
            tensors |= _folder(f"{name}/", half, is_input=name == "in")
    return tensors


def _folder(prefix: str, folder: TensorFolder, *, is_input: bool) -> dict[str, Entry]:
    def opener(name: str) -> Callable[[], TensorView]:
        return lambda: load_real_tensor(folder.folder, f"{name}{_SUFFIX}")

    return {prefix + name: Entry(open=opener(name), is_input=is_input) for name in folder.names}


def _from_dump(path: Path, dump: ArgsDump) -> Source:
    tensors: dict[str, Entry] = {}
    scalars: dict[str, Scalar] = {}
    flawed: dict[str, str] = {}
    kernels: dict[str, str] = {}

    def opener(record: ArgRecord) -> Callable[[], TensorView]:
        return lambda: dump.numbers(record)

    surroundings = DumpSurroundings.of(dump.folder.root)
    records = [dump.record(index) for index in range(len(dump))]
    for record in sorted(records, key=surroundings.order):
        name = _unused(record.name, tensors, scalars, flawed)
        if called := surroundings.kernels_of(record):
            kernels[name] = called
        if record.kind is Kind.SCALAR:
            scalars[name] = record.value
        elif record.flaw is not None:
            flawed[name] = record.flaw.value
        else:
            tensors[name] = Entry(open=opener(record), is_input=False, dtype=record.dtype)
    dropped = dump.header.dropped_records
    lost = [f"{plural(dropped, 'record')} {'was' if dropped == 1 else 'were'} dropped"] if dropped else []
    return Source(
        path=path,
        tensors=tensors,
        scalars=scalars,
        flawed=flawed,
        incomplete="; ".join((*lost, *dump.inconsistencies)),
        kernels=kernels,
        unread=surroundings.unread,
    )


def _unused(name: str, *taken: Mapping[str, object]) -> str:
    """`name`, numbered where a task was recorded more than once."""
    number, unused = 1, name
    while any(unused in names for names in taken):
        number += 1
        unused = f"{name} ({number})"
    return unused


def _from_build(path: Path, build: BuildDirectory) -> Source:
    contents = build.contents
    if contents.golden_data is None and not contents.dumps:
        raise MissingFileError(
            path=path,
            expected="data/in and data/out, or an argument dump",
            found="neither",
            remedy="run the case with --save-data or --dump-args 2",
        )
    golden = _golden(build.golden_data()) if contents.golden_data is not None else {}
    dump = _from_dump(path, build.args_dump()) if contents.dumps else None
    platform = build.kernel_config().runtime.get("platform") if contents.kernel_config is not None else None
    return Source(
        path=path,
        tensors={f"data/{name}": entry for name, entry in golden.items()}
        | dict(dump.tensors if dump else {}),
        scalars=dump.scalars if dump else {},
        flawed=dump.flawed if dump else {},
        platform=platform if isinstance(platform, str) else None,
        incomplete=dump.incomplete if dump else "",
        kernels=dump.kernels if dump else {},
        unread=dump.unread if dump else (),
    )


def are_single(*sources: Source) -> bool:
    """Whether each source is one tensor; such ones belong together whatever their names."""
    return all(len(source.names()) == len(source.tensors) == 1 for source in sources)


def are_unrelated(one: Source, other: Source) -> bool:
    """Whether nothing in one belongs to anything in the other, so that there is nothing to compare."""
    return not (one.names() & other.names() or are_single(one, other))


def named_as(source: Source, other: Source) -> Source:
    """`source` with the names of `other` where they have none in common: `out/y` of golden data is `y` of a state dict.

    What stands behind the last `/` has to be one tensor's in each of them.
    """
    if not are_unrelated(source, other):
        return source
    ours, theirs = _by_last_part(source), _by_last_part(other)
    renamed = {theirs[part]: name for part, name in ours.items() if part in theirs}
    names = {name: theirs_name for theirs_name, name in renamed.items()}
    tensors = {names.get(name, name): entry for name, entry in source.tensors.items()}
    return replace(source, tensors=tensors, renamed=renamed)


def _by_last_part(source: Source) -> dict[str, str]:
    """The tensors by what stands behind the last `/` of their names, where only one has that."""
    parts = {name: name.rpartition("/")[2] for name in source.tensors}
    often = Counter(parts.values())
    return {part: name for name, part in parts.items() if often[part] == 1}


def same_scalar(first: Scalar, second: Scalar) -> bool:
    """Whether two scalars are the same, a NaN the same as a NaN."""
    if isinstance(first, float) and isinstance(second, float):
        return struct.pack("<d", first) == struct.pack("<d", second) or first == second
    return first == second

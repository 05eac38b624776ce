"""Reads files of tensors: what `torch.save` wrote, `.npy` and `.npz`.

`load_tensors` reads any file that a person may want to compare, with state dicts and lists, float8 and complex numbers.
It can read all into memory, because such a file may be written again or cut short during the comparison. `load_tensor`
maps the file of a build directory, which has one tensor.

Nothing in a file is executed. No pickle in a numpy file is read, and torch unpickles only tensors and plain values. The
sizes that a file claims are checked against its own size first.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ..tensor import (
    DType,
    NarrowFloat,
    Storage,
    StoredTensor,
    TensorLayout,
    TensorView,
    ViewError,
    contiguous_strides,
)
from .files import (
    NUMPY_ARRAY,
    SAFETENSORS,
    BuildOutputError,
    FileTooLargeError,
    Folder,
    MalformedFileError,
    describe_non_archive,
    read_into_memory,
    require_memory,
)

if TYPE_CHECKING:
    import torch


MAX_UNPACKED_BYTES = 2**32
"""Arrays of at most this many bytes in total are unpacked from an archive. They may be a thousand times its size."""

_MAX_HEADER_BYTES = 10_000
"""At most this many bytes of an array's header are read. It is numpy's own limit. A header may claim any length."""
_NUMPY = "an array saved by numpy.save"
_MAX_ITEMSIZE = {"f": 8, "c": 16}
"""An element has at most this many bytes, by numpy's kind of its type."""
_RESAVE_NUMPY = "save it again with numpy.save(path, array)"


@dataclass(frozen=True, kw_only=True, eq=False)
class _NumpyLayout(TensorLayout):
    """The type and placement of an array's elements. `stored` is numpy's type. `converted` describes a conversion."""

    stored: np.dtype[Any]
    converted: str = ""

    def view(self, name: str, content: Storage) -> TensorView:
        """Return the tensor whose bytes are `content`."""
        return TensorView(
            name=name,
            dtype=self.dtype,
            shape=self.shape,
            strides=self.strides,
            storage=content.view(self.dtype.storage),
            converted=self.converted,
        )


def npy_tensor(folder: Folder, relative: PurePath | str) -> StoredTensor:
    """Return the array in the file `relative` to `folder`. It is read later, which may raise `BuildOutputError`."""
    return StoredTensor(
        geometry=partial(_npy_layout, folder, relative), open=partial(_load_npy, folder, relative)
    )


def _npy_layout(folder: Folder, relative: PurePath | str) -> _NumpyLayout:
    path, size = folder.find(relative, expected=_NUMPY)
    _require_content(path, size)
    with _wrap_parse_errors(path), path.open("rb") as file:
        return _read_layout(path, PurePath(relative).stem, file, size)


def _load_npy(folder: Folder, relative: PurePath | str) -> TensorView:
    path, size = folder.find(relative, expected=_NUMPY)
    _require_content(path, size)
    with _wrap_parse_errors(path), path.open("rb") as file:
        layout = _read_layout(path, PurePath(relative).stem, file, size)
        content, read = read_into_memory(path, file, layout.nbytes)
    if read < layout.nbytes:
        raise _size_error(path, layout, read)
    return layout.view(PurePath(relative).stem, content)


def list_npz(folder: Folder, relative: PurePath | str) -> Mapping[str, StoredTensor]:
    """Return the arrays of an archive by name. They are read later, which may raise `BuildOutputError`.

    Raises:
        BuildOutputError: the archive is missing or unsound, or two of its arrays have one name.
    """
    path, size = folder.find(relative, expected="an archive of arrays saved by numpy.savez")
    _require_content(path, size)
    with _wrap_parse_errors(path):
        # The archive stays open until its arrays are deleted, because reading its listing again takes long.
        archive = zipfile.ZipFile(path)
        entries = archive.infolist()
        for entry in entries[:MAX_ENTRIES]:
            archive.open(entry).close()  # raises an error if the two copies of the entry's name differ
    if len(entries) > MAX_ENTRIES:
        raise FileTooLargeError(
            path=path,
            expected=f"at most {MAX_ENTRIES} arrays",
            found=f"{len(entries)}",
            remedy="save fewer arrays in a file",
        )
    total = sum(entry.file_size for entry in entries)
    if total > MAX_UNPACKED_BYTES:
        raise FileTooLargeError(
            path=path,
            expected=f"arrays of at most {MAX_UNPACKED_BYTES} bytes together",
            found=f"{total} bytes",
            remedy="save each array with numpy.save",
        )
    found: dict[str, StoredTensor] = {}
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name in found:
            raise MalformedFileError(
                path=path,
                expected="arrays of different names",
                found=f"two named {name!r}",
                remedy=_RESAVE_NUMPY,
            )
        found[name] = StoredTensor(
            geometry=partial(_member_layout, archive, path, name, entry),
            open=partial(_load_member, archive, path, name, entry),
        )
    return found


def _member_layout(archive: zipfile.ZipFile, path: Path, name: str, entry: zipfile.ZipInfo) -> _NumpyLayout:
    with _wrap_parse_errors(path), archive.open(entry) as member:
        return _read_layout(path, name, member, entry.file_size)


def _load_member(archive: zipfile.ZipFile, path: Path, name: str, entry: zipfile.ZipInfo) -> TensorView:
    """Read one array of an archive. It is unpacked in pieces."""
    with _wrap_parse_errors(path), archive.open(entry) as member:
        layout = _read_layout(path, name, member, entry.file_size)
        content, read = read_into_memory(path, member, layout.nbytes)
        if read < layout.nbytes:
            raise _size_error(path, layout, read)
        return layout.view(name, content)


def _require_content(path: Path, size: int) -> None:
    if size == 0:
        raise MalformedFileError(path=path, expected=_NUMPY, found="an empty file", remedy=_RESAVE_NUMPY)


@contextmanager
def _wrap_parse_errors(path: Path) -> Generator[None]:
    """Turn any exception of a parser into a `MalformedFileError` that names the file."""
    try:
        yield
    except (BuildOutputError, MemoryError):
        raise
    except Exception as error:
        found = describe_non_archive(path)
        if found is None or (found == NUMPY_ARRAY and path.suffix == ".npy"):
            found = f"{type(error).__name__}: {error}"
        raise MalformedFileError(path=path, expected=_NUMPY, found=found, remedy=_RESAVE_NUMPY) from error


def _read_layout(path: Path, name: str, file: IO[bytes], size: int) -> _NumpyLayout:
    """Return the layout of the array in `file`, which has `size` bytes. Leave `file` at the array's content."""
    # numpy allocates memory for any header length that the file claims, so that it gets only a part of the file.
    head = io.BytesIO(file.read(_MAX_HEADER_BYTES))
    version = np.lib.format.read_magic(head)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, stored = read(head, max_header_size=_MAX_HEADER_BYTES)
    file.seek(head.tell())
    if min(shape, default=0) < 0:
        raise MalformedFileError(
            path=path, expected=_NUMPY, found=f"{name} of shape {shape}", remedy=_RESAVE_NUMPY
        )
    if stored.hasobject:
        raise MalformedFileError(
            path=path,
            expected=f"{_NUMPY}, of numbers",
            found="pickled objects, which are not read",
            remedy="save the numbers in it with numpy.save(path, array.astype(float))",
        )
    complex_numbers = stored.kind == "c"
    try:
        dtype = DType.parse(f"float{4 * stored.itemsize}" if complex_numbers else stored.name)
    except ValueError:
        dtype = None
    if dtype is None or stored.byteorder == ">":
        raise MalformedFileError(
            path=path,
            expected=f"{_NUMPY}, of {'numbers' if dtype is None else 'little-endian numbers'}",
            found=f"{name} of type {stored.str}",
            remedy=_dtype_remedy(stored),
        )
    strides = contiguous_strides(shape[::-1])[::-1] if fortran_order else contiguous_strides(shape)
    layout = _NumpyLayout(dtype=dtype, shape=shape, strides=strides, stored=stored)
    if complex_numbers:
        layout = replace(
            layout,
            shape=(2, *shape),
            strides=(1, *(2 * stride for stride in strides)),
            converted=f"{stored.name} as two parts: [0, ...] are real, [1, ...] imaginary",
        )
    if layout.nbytes != size - file.tell():
        raise _size_error(path, layout, size - file.tell())
    return layout


def _dtype_remedy(dtype: np.dtype[Any]) -> str:
    """Return how to save an array of an unknown type, or of the other byte order."""
    if dtype.kind in "SU":
        return "leave it out: texts are not compared"
    if dtype.names:
        return f"save each of its fields alone: numpy.save(path, array[{dtype.names[0]!r}])"
    known = {"f": "float64", "c": "complex128", "m": "int64", "M": "int64", "V": "float32"}
    spelled = dtype.newbyteorder("<").str
    if dtype.kind in "mMV" or dtype.itemsize > _MAX_ITEMSIZE.get(dtype.kind, dtype.itemsize):
        spelled = known[dtype.kind]
    return f"numpy.save(path, array.astype({spelled!r}))"


def _size_error(path: Path, layout: _NumpyLayout, found: int) -> MalformedFileError:
    return MalformedFileError(
        path=path,
        expected=f"{layout.nbytes // layout.stored.itemsize} elements of {layout.stored.itemsize} bytes",
        found=f"{found} bytes",
        remedy=_RESAVE_NUMPY,
    )


MAX_DIRECTORY_BYTES = 2**20
"""A larger listing of an archive, or a larger pickle in it is not read. Real ones take some hundred."""

MAX_EXPANDED_ELEMENTS = 2**28
"""An expanded tensor, which has more elements than its storage, has at most this many. A file may claim any number."""

MAX_UNMAPPED_BYTES = 2**16
"""A file of at most this many bytes is never mapped, because reading it takes no longer."""

_TORCH = "one tensor saved by torch.save"
_RESAVE_TORCH = "save the tensor again with torch.save(tensor, path)"
_CONVERT = "torch.save(safetensors.torch.load_file(path), 'tensors.pt') makes one of it"
_SAVE_TENSORS = "save tensors alone: those of a module with torch.save(module.state_dict(), path)"
_GLOBAL = re.compile(r"GLOBAL (\S+)")


def load_tensor(folder: Folder, relative: PurePath | str) -> TensorView:
    """Return the tensor in the file `relative` to `folder`, as a view of the mapped file.

    Raises:
        BuildOutputError: the file is missing, outside of the folder, cut short, or anything but one tensor.
    """
    loaded = load_object(folder, relative, mapped=True)
    path = folder.locate(relative)
    return view_of(path, PurePath(relative).name.removesuffix(".pt"), require_dense(path, loaded))


def load_object(folder: Folder, relative: PurePath | str, *, mapped: bool) -> object:
    """Return the object in the file `relative` to `folder`: tensors, in lists, dictionaries and other plain values.

    With `mapped`, tensors are mapped instead of read. If a mapped file is cut short, an access to it kills the process.

    Raises:
        BuildOutputError: the file is missing, outside of the folder, cut short, or has other objects.
    """
    path, size = folder.find(relative, expected=_TORCH)
    if size == 0:
        raise MalformedFileError(path=path, expected=_TORCH, found="an empty file", remedy=_RESAVE_TORCH)
    _check_archive(path)
    if not mapped:
        require_memory(path, size)
    return _load(path, mapped=mapped)


def _check_archive(path: Path) -> None:
    """Raise `BuildOutputError` for an archive that torch cannot read, or that would take much memory."""
    try:
        with _ShortReads(path) as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except _TooLongError as error:
        raise FileTooLargeError(
            path=path, expected=f"{_TORCH}, with a listing below {MAX_DIRECTORY_BYTES} bytes", found="more"
        ) from error
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeError) as error:
        found = describe_non_archive(path) or f"a file of unknown format: {error}"
        remedy = _CONVERT if found == SAFETENSORS else _RESAVE_TORCH
        raise MalformedFileError(path=path, expected=_TORCH, found=found, remedy=remedy) from error
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise MalformedFileError(
                path=path, expected=f"{_TORCH}, uncompressed", found=f"compressed {entry.filename[:80]!r}"
            )
        if entry.filename.endswith(".pkl") and entry.file_size > MAX_DIRECTORY_BYTES:
            raise FileTooLargeError(
                path=path,
                expected=f"{_TORCH}, with a pickle of at most {MAX_DIRECTORY_BYTES} bytes",
                found=f"{entry.file_size} bytes",
            )


class _TooLongError(Exception):
    """A single read asked for more than `MAX_DIRECTORY_BYTES`."""


class _ShortReads(io.FileIO):
    """A file that refuses single reads of more than `MAX_DIRECTORY_BYTES`. A sound archive's listing is smaller."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = MAX_DIRECTORY_BYTES
        if size > MAX_DIRECTORY_BYTES:
            raise _TooLongError
        return super().read(size) or b""


def _load(path: Path, *, mapped: bool) -> object:
    import torch

    try:
        with warnings.catch_warnings():
            # The error below says what is wrong with the file. torch's warnings would only repeat it.
            warnings.simplefilter("ignore", UserWarning)
            return cast(
                object,
                torch.load(  # pyright: ignore[reportUnknownMemberType]
                    path, map_location="cpu", weights_only=True, mmap=mapped
                ),
            )
    # torch raises any exception of its parser for a bad file.
    except Exception as error:
        found, remedy = _describe_load_error(error)
        raise MalformedFileError(path=path, expected=_TORCH, found=found, remedy=remedy) from error


def require_dense(path: Path, loaded: object) -> torch.Tensor:
    """Return the object `loaded` from the file `path` as a dense tensor.

    Raises:
        BuildOutputError: it is no tensor, has no data, or is not dense; or it is expanded to too many elements.
    """
    import torch

    if not isinstance(loaded, torch.Tensor):
        raise MalformedFileError(
            path=path, expected=f"{_TORCH}, dense", found=type(loaded).__name__, remedy=_RESAVE_TORCH
        )
    if (kind := _non_dense_kind(loaded)) is not None:
        found, made_dense = kind
        remedy = f"save it dense: torch.save(tensor.{made_dense}, path)"
        raise MalformedFileError(path=path, expected=f"{_TORCH}, dense", found=found, remedy=remedy)
    if loaded.device.type != "cpu":
        raise MalformedFileError(
            path=path,
            expected=f"{_TORCH}, with its data",
            found=f"a tensor on {loaded.device}",
            remedy="save the one that was computed: this one never had values",
        )
    stored = loaded.untyped_storage().nbytes() // loaded.element_size()
    if loaded.numel() > max(stored, MAX_EXPANDED_ELEMENTS):
        raise FileTooLargeError(
            path=path,
            expected=f"{_TORCH}, expanded to at most {MAX_EXPANDED_ELEMENTS} elements",
            found=f"{loaded.numel()} elements on a storage of {stored}",
            remedy="save what it was expanded from",
        )
    return loaded.detach()


def _non_dense_kind(tensor: torch.Tensor) -> tuple[str, str] | None:
    """Return the kind of a tensor that is not dense, and the call that makes it dense; None for a dense tensor."""
    import torch

    if tensor.is_nested:
        return "a nested tensor", "to_padded_tensor(0)"
    if tensor.is_quantized:
        return "a quantized tensor", "dequantize()"
    return None if tensor.layout == torch.strided else (f"a tensor of layout {tensor.layout}", "to_dense()")


def view_of(path: Path, name: str, tensor: torch.Tensor) -> TensorView:
    """Return a dense tensor of the file `path` as a view that shares its memory.

    Raises:
        MalformedFileError: its elements are no real numbers of a known type, or are outside of its storage.
    """
    import torch

    try:
        dtype = DType.parse(str(tensor.dtype))
    except ValueError as error:
        real = "torch.view_as_real(tensor)" if tensor.is_complex() else "tensor.to(torch.float32)"
        raise MalformedFileError(
            path=path,
            expected="a tensor of real numbers",
            found=str(tensor.dtype),
            remedy=f"save it as such: torch.save({real}, path)",
        ) from error
    storage = tensor.untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    whole = raw[: raw.size - raw.size % dtype.itemsize]
    try:
        return TensorView(
            name=name,
            dtype=dtype,
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            storage=whole.view(dtype.storage),
            offset=int(tensor.storage_offset()),
        )
    except ViewError as error:
        raise MalformedFileError(
            path=path, expected=_TORCH, found=str(error), remedy=_RESAVE_TORCH
        ) from error


def _describe_load_error(error: Exception) -> tuple[str, str]:
    """Return torch's message, without its advice to load the file unsafely, and a remedy."""
    message = str(error)
    if message.startswith("Weights only load failed"):
        asked = _GLOBAL.search(message)
        found = "a pickle of more than tensors" + (f": it asks for {asked[1][:80]}" if asked else "")
        return found, _SAVE_TENSORS
    lines = message.splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}", _RESAVE_TORCH


SUFFIXES = (".pt", ".pth", ".npy", ".npz")

Scalar: TypeAlias = int | float | bool | str | None

_PACKED_FLOAT4 = "float4_e2m1fn_x2"

MAX_ENTRIES = 100_000
"""One file has at most this many tensors and values. A list may contain another one many times."""

_MAX_DEPTH = 16
"""Lists and dictionaries of tensors may nest this deep. A list may contain itself."""


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """The contents of a file of tensors.

    Attributes:
        tensors: by name: `layer.weight` of a state dict, `0` of a list, and "" of a single tensor. They are read later,
            which may raise `BuildOutputError`.
        scalars: the plain values by name.
        mapped: whether the file is memory-mapped.
        is_open: whether the file is read through one descriptor, which stays open.
        held: how many bytes of the file are in memory.
    """

    tensors: Mapping[str, StoredTensor]
    scalars: Mapping[str, Scalar]
    mapped: bool = False
    is_open: bool = False
    held: int = 0


def load_tensors(
    folder: Folder, relative: PurePath | str, *, mapped: bool = False, suffix: str = ""
) -> FileContents:
    """Return all tensors in the file `relative` to `folder`. `suffix` counts in place of that of its name, if given.

    A file of torch is read into memory at once. With `mapped`, it is mapped if it has more than `MAX_UNMAPPED_BYTES`
    bytes. This is faster if only the names are needed.

    Raises:
        BuildOutputError: the file is missing, outside of the folder, cut short, or has objects other than tensors,
            plain values, and lists and dictionaries of them.
    """
    name = PurePath(relative)
    suffix = suffix or name.suffix
    if suffix == ".npy":
        return FileContents(tensors={"": npy_tensor(folder, relative)}, scalars={})
    if suffix == ".npz":
        return FileContents(tensors=list_npz(folder, relative), scalars={}, is_open=True)
    path, size = folder.find(relative, expected=_TORCH)
    mapped = mapped and size > MAX_UNMAPPED_BYTES
    loaded = _load_torch_file(folder, name, mapped=mapped, suffix=suffix)
    tensors: dict[str, StoredTensor] = {}
    scalars: dict[str, Scalar] = {}
    for key, value in _name_leaves(_leaves(path, loaded)).items():
        if key and (value is None or isinstance(value, int | float | bool | str)):
            scalars[key] = value
        else:
            view_name = key or name.stem
            tensors[key] = StoredTensor(
                geometry=partial(_torch_layout, path, view_name, value),
                open=partial(_real_view, path, view_name, value),
            )
    return FileContents(tensors=tensors, scalars=scalars, mapped=mapped, held=0 if mapped else size)


def _load_torch_file(folder: Folder, name: PurePath, *, mapped: bool, suffix: str) -> object:
    """Return the object that torch saved in a file. The error for another file says which names tensor files have."""
    try:
        return load_object(folder, name, mapped=mapped)
    except MalformedFileError as error:
        if suffix in SUFFIXES:
            raise
        raise MalformedFileError(
            path=error.path,
            expected=f"a file of tensors, named *{', *'.join(SUFFIXES)}",
            found=error.found,
            remedy=error.remedy,
        ) from error


def _name_leaves(leaves: Iterator[tuple[tuple[object, ...], object]]) -> dict[str, object]:
    """Return the leaves by their keys, joined by dots. Leaves with the same result get their keys in brackets."""
    groups: dict[str, list[tuple[tuple[object, ...], object]]] = {}
    for keys, value in leaves:
        groups.setdefault(".".join(map(str, keys)), []).append((keys, value))
    return {
        dotted if len(group) == 1 else "".join(f"[{key!r}]" for key in keys): value
        for dotted, group in groups.items()
        for keys, value in group
    }


def _leaves(path: Path, loaded: object) -> Iterator[tuple[tuple[object, ...], object]]:
    """Yield tensors and values with their keys, in the file's order.

    An empty list or dictionary yields a text that says so.
    """
    todo: list[tuple[tuple[object, ...], object]] = [((), loaded)]
    seen = 0
    while todo:
        seen += 1
        keys, value = todo.pop()
        if seen > MAX_ENTRIES or len(keys) > _MAX_DEPTH:
            raise MalformedFileError(
                path=path,
                expected=f"at most {MAX_ENTRIES} tensors, {_MAX_DEPTH} lists deep",
                found="more",
                remedy="save the tensors that matter alone",
            )
        if isinstance(value, Mapping):
            entries = list(cast(Mapping[object, object], value).items())
        elif isinstance(value, list | tuple):
            entries = list(enumerate(cast(Sequence[object], value)))
        else:
            yield keys, value
            continue
        if keys and not entries:
            yield keys, f"an empty {type(cast(object, value)).__name__}"
        todo += [((*keys, key), entry) for key, entry in reversed(entries)]


def _torch_layout(path: Path, name: str, value: object) -> TensorLayout:
    """Return type and shape of the view that `_real_view` returns, without a conversion of the tensor."""
    tensor = require_dense(path, value)
    spelled = str(tensor.dtype).removeprefix("torch.")
    if not (spelled.startswith("float8") or spelled == _PACKED_FLOAT4):
        return _real_view(path, name, tensor)
    shape = tuple(tensor.shape)
    if spelled == _PACKED_FLOAT4:
        shape = NarrowFloat.FP4E2M1.shape(shape)
    return TensorLayout(dtype=DType.FLOAT32, shape=shape, strides=contiguous_strides(shape))


def _real_view(path: Path, name: str, value: object) -> TensorView:
    """Return the tensor `value` as a view of real numbers.

    Complex numbers become their two parts. Floats of eight and four bits become float32, which has all their values.
    """
    import torch

    # A conjugate, or its imaginary part, may be a flag on memory with the opposite numbers.
    tensor = require_dense(path, value).resolve_conj().resolve_neg()
    spelled = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_complex():
        parts = torch.view_as_real(tensor).movedim(-1, 0)
        return replace(
            view_of(path, name, parts),
            converted=f"{spelled} as two parts: [0, ...] are real, [1, ...] imaginary",
        )
    if spelled.startswith("float8"):
        return replace(view_of(path, name, tensor.to(torch.float32)), converted=f"{spelled} as float32")
    if spelled == _PACKED_FLOAT4:
        # torch cannot convert this type.
        packed, narrow = tensor.contiguous().view(torch.uint8), NarrowFloat.FP4E2M1
        values, shape = narrow.numbers(packed.reshape(-1).numpy()), narrow.shape(tuple(packed.shape))
        view = TensorView.from_contiguous(name, DType.FLOAT32, shape, values)
        return replace(view, converted=narrow.description)
    return view_of(path, name, tensor)

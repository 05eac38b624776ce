"""Arrays from `.npy` and `.npz` files, with no pickle in them read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

import numpy as np

from ...tensor.view import DType, Storage, TensorView, contiguous_strides
from .errors import BuildOutputError, FileTooLargeError, MalformedFileError
from .folder import Folder, found_in_place_of_archive

MOST_UNPACKED = 2**32
"""Bytes of the largest array that is taken out of an archive: a compressed one may be a thousand times its file."""

_MOST_HEADER = 10_000
_WHAT = "an array saved by numpy.save"
_WIDEST = {"f": 8, "c": 16}
"""Bytes of an element that is compared, by numpy's kind of it."""
_RESAVE = "save it again with numpy.save(path, array)"


@dataclass(frozen=True, kw_only=True)
class _Header:
    """What stands before the elements: their type, and how they lie."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def load_npy(folder: Folder, relative: PurePath | str) -> TensorView:
    """The array in the file `relative` to `folder`; `BuildOutputError` where it is missing or unsound."""
    size = folder.size(relative, expected=_WHAT)
    path = folder.locate(relative)
    _require_content(path, size)
    with _as_malformed(path), path.open("rb") as file:
        header, start = _read_header(path, file), file.tell()
        if _bytes_of(header) != size - start:
            raise _unfit(path, header, size - start)
        content = folder.read_part(relative, start=start, size=size - start, expected=_WHAT)
        return _view(path, PurePath(relative).stem, header, content)


def load_npz(folder: Folder, relative: PurePath | str) -> dict[str, TensorView]:
    """The arrays of an archive by name; `BuildOutputError` where it is missing, or one of them unsound."""
    size = folder.size(relative, expected="an archive of arrays saved by numpy.savez")
    path = folder.locate(relative)
    _require_content(path, size)
    found: dict[str, TensorView] = {}
    with _as_malformed(path), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        total = sum(entry.file_size for entry in entries)
        if total > MOST_UNPACKED:
            raise FileTooLargeError(
                path=path,
                expected=f"arrays of at most {MOST_UNPACKED} bytes together",
                found=f"{total} bytes",
                remedy="save each array with numpy.save",
            )
        for entry in entries:
            with archive.open(entry) as member:
                content = io.BytesIO(member.read(entry.file_size))
            name = entry.filename.removesuffix(".npy")
            header = _read_header(path, content)
            elements = np.frombuffer(content.read(), np.uint8)
            found[name] = _view(path, name, header, elements)
    return found


def _require_content(path: Path, size: int) -> None:
    if size == 0:
        raise MalformedFileError(path=path, expected=_WHAT, found="an empty file", remedy=_RESAVE)


@contextmanager
def _as_malformed(path: Path) -> Generator[None]:
    """Whatever a parser stumbles over becomes one error that names the file."""
    try:
        yield
    except (BuildOutputError, MemoryError):
        raise
    except Exception as error:
        found = found_in_place_of_archive(path) or f"{type(error).__name__}: {error}"
        raise MalformedFileError(path=path, expected=_WHAT, found=found, remedy=_RESAVE) from error


def _read_header(path: Path, file: IO[bytes]) -> _Header:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(file, max_header_size=_MOST_HEADER)
    if dtype.hasobject:
        raise MalformedFileError(
            path=path,
            expected=f"{_WHAT}, of numbers",
            found="pickled objects, which are not read",
            remedy="save the numbers in it with numpy.save(path, array.astype(float))",
        )
    return _Header(shape=shape, fortran_order=fortran_order, dtype=dtype)


def _view(path: Path, name: str, header: _Header, content: Storage) -> TensorView:
    complex_numbers = header.dtype.kind == "c"
    spelled = f"float{4 * header.dtype.itemsize}" if complex_numbers else header.dtype.name
    try:
        dtype = DType.parse(spelled)
    except ValueError:
        dtype = None
    if dtype is None or header.dtype.byteorder == ">":
        raise MalformedFileError(
            path=path,
            expected=f"{_WHAT}, of {'numbers' if dtype is None else 'little-endian numbers'}",
            found=f"{name} of type {header.dtype.str}",
            remedy=_remedy(header.dtype),
        )
    if _bytes_of(header) != content.nbytes:
        raise _unfit(path, header, content.nbytes)
    storage = content.view(dtype.storage)
    strides = contiguous_strides(header.shape[::-1])[::-1] if header.fortran_order else None
    strides = strides or contiguous_strides(header.shape)
    if not complex_numbers:
        return TensorView(name=name, dtype=dtype, shape=header.shape, strides=strides, storage=storage)
    return TensorView(
        name=name,
        dtype=dtype,
        shape=(2, *header.shape),
        strides=(1, *(2 * stride for stride in strides)),
        storage=storage,
        converted=f"{header.dtype.name} as two parts: [0, ...] are real, [1, ...] imaginary",
    )


def _remedy(dtype: np.dtype[Any]) -> str:
    """How to save what has no type of ours, or the other order of bytes."""
    if dtype.kind in "SU":
        return "leave it out: texts are not compared"
    if dtype.names:
        return f"save each of its fields alone: numpy.save(path, array[{dtype.names[0]!r}])"
    own = {"f": "float64", "c": "complex128", "m": "int64", "M": "int64", "V": "float32"}
    spelled = dtype.newbyteorder("<").str
    if dtype.kind in "mMV" or dtype.itemsize > _WIDEST.get(dtype.kind, dtype.itemsize):
        spelled = own[dtype.kind]
    return f"numpy.save(path, array.astype({spelled!r}))"


def _bytes_of(header: _Header) -> int:
    return math.prod(header.shape) * header.dtype.itemsize


def _unfit(path: Path, header: _Header, found: int) -> MalformedFileError:
    return MalformedFileError(
        path=path,
        expected=f"{math.prod(header.shape)} elements of {header.dtype.itemsize} bytes",
        found=f"{found} bytes",
        remedy=_RESAVE,
    )

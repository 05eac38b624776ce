"""Tensors from a file of `torch.save`, mapped or read into memory, with nothing in it executed."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, cast

from ...tensor.view import DType, TensorView, ViewError
from .errors import FileTooLargeError, MalformedFileError
from .folder import Folder, found_in_place_of_archive

if TYPE_CHECKING:
    import torch

MOST_DIRECTORY_BYTES = 2**20
"""Largest listing of the archive, and largest pickle in it, that is read. A tensor's take some hundred bytes."""

MOST_EXPANDED = 2**28
"""Most elements of a tensor that has fewer in its storage: a few bytes can claim any number."""

_WHAT = "one tensor saved by torch.save"
_RESAVE = "save the tensor again with torch.save(tensor, path)"
_SAVE_TENSORS = "save tensors alone: those of a module with torch.save(module.state_dict(), path)"
_GLOBAL = re.compile(r"GLOBAL (\S+)")


def load_tensor(folder: Folder, relative: PurePath | str) -> TensorView:
    """The tensor in the file `relative` to `folder`, a view of the mapped file.

    Raises:
        BuildOutputError: the file is missing, outside of the folder, cut short, no tensor, or a pickle that asks
            for anything but tensors.
    """
    loaded = load_object(folder, relative, mapped=True)
    path = folder.locate(relative)
    return view_of(path, PurePath(relative).name.removesuffix(".pt"), dense(path, loaded))


def load_object(folder: Folder, relative: PurePath | str, *, mapped: bool) -> object:
    """What the file `relative` to `folder` holds: tensors, and plain Python values around them. The tensors are mapped,
    or read into memory: whoever cuts a mapped file short ends the process that looks at it.

    Raises:
        BuildOutputError: the file is missing, outside of the folder, cut short, or asks for anything else.
    """
    if folder.size(relative, expected=_WHAT) == 0:
        raise MalformedFileError(
            path=folder.locate(relative), expected=_WHAT, found="an empty file", remedy=_RESAVE
        )
    path = folder.locate(relative)
    _check_archive(path)
    return _load(path, mapped=mapped)


def _check_archive(path: Path) -> None:
    """Refuses what would take memory to read, before torch reads it."""
    try:
        with _ShortReads(path) as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except _TooLongError as error:
        raise FileTooLargeError(
            path=path, expected=f"{_WHAT}, with a listing below {MOST_DIRECTORY_BYTES} bytes", found="more"
        ) from error
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeError) as error:
        found = (
            found_in_place_of_archive(path) or f"no archive, as torch.save has made since torch 1.6: {error}"
        )
        raise MalformedFileError(path=path, expected=_WHAT, found=found, remedy=_RESAVE) from error
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise MalformedFileError(
                path=path, expected=f"{_WHAT}, uncompressed", found=f"compressed {entry.filename[:80]!r}"
            )
        if entry.filename.endswith(".pkl") and entry.file_size > MOST_DIRECTORY_BYTES:
            raise FileTooLargeError(
                path=path,
                expected=f"{_WHAT}, with a pickle of at most {MOST_DIRECTORY_BYTES} bytes",
                found=f"{entry.file_size} bytes",
            )


class _TooLongError(Exception):
    """More was asked for than a sound file makes one ask."""


class _ShortReads(io.FileIO):
    """A file that gives no more than a sound archive's listing at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = MOST_DIRECTORY_BYTES
        if size > MOST_DIRECTORY_BYTES:
            raise _TooLongError
        return super().read(size) or b""


def _load(path: Path, *, mapped: bool) -> object:
    import torch

    try:
        with warnings.catch_warnings():
            # What is wrong with a file is told in a line of its own.
            warnings.simplefilter("ignore", UserWarning)
            return cast(
                object,
                torch.load(  # pyright: ignore[reportUnknownMemberType]
                    path, map_location="cpu", weights_only=True, mmap=mapped
                ),
            )
    # torch reports a bad file by whatever its parser stumbles over.
    except Exception as error:
        found, remedy = _reason(error)
        raise MalformedFileError(path=path, expected=_WHAT, found=found, remedy=remedy) from error


def dense(path: Path, loaded: object) -> torch.Tensor:
    """`loaded` from the file `path`, which is to be a tensor with all its elements; `MalformedFileError` if not."""
    import torch

    if not isinstance(loaded, torch.Tensor):
        raise MalformedFileError(
            path=path, expected=f"{_WHAT}, dense", found=type(loaded).__name__, remedy=_RESAVE
        )
    if (kind := _kind_without_elements(loaded)) is not None:
        found, made_dense = kind
        remedy = f"save it dense: torch.save(tensor.{made_dense}, path)"
        raise MalformedFileError(path=path, expected=f"{_WHAT}, dense", found=found, remedy=remedy)
    if loaded.device.type != "cpu":
        raise MalformedFileError(
            path=path,
            expected=f"{_WHAT}, with its data",
            found=f"a tensor on {loaded.device}",
            remedy="save the one that was computed: this one never had values",
        )
    stored = loaded.untyped_storage().nbytes() // loaded.element_size()
    if loaded.numel() > max(stored, MOST_EXPANDED):
        raise FileTooLargeError(
            path=path,
            expected=f"{_WHAT}, expanded to at most {MOST_EXPANDED} elements",
            found=f"{loaded.numel()} elements on a storage of {stored}",
            remedy="save what it was expanded from",
        )
    return loaded.detach()


def _kind_without_elements(tensor: torch.Tensor) -> tuple[str, str] | None:
    """What a tensor is whose elements do not lie side by side as numbers, and what makes them do so; None for one whose
    elements do."""
    import torch

    if tensor.is_nested:
        return "a nested tensor", "to_padded_tensor(0)"
    if tensor.is_quantized:
        return "a quantized tensor", "dequantize()"
    return None if tensor.layout == torch.strided else (f"a tensor of layout {tensor.layout}", "to_dense()")


def view_of(path: Path, name: str, tensor: torch.Tensor) -> TensorView:
    """A dense tensor of the file `path`, as a view that shares its memory.

    Raises:
        MalformedFileError: its elements are no real numbers of a known type, or lie outside of its storage.
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
        raise MalformedFileError(path=path, expected=_WHAT, found=str(error), remedy=_RESAVE) from error


def _reason(error: Exception) -> tuple[str, str]:
    """What torch says, without its advice to load the file unsafely; and what to do about it."""
    message = str(error)
    if message.startswith("Weights only load failed"):
        asked = _GLOBAL.search(message)
        found = "a pickle of more than tensors" + (f": it asks for {asked[1][:80]}" if asked else "")
        return found, _SAVE_TENSORS
    lines = message.splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}", _RESAVE

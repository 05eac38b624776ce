"""Any file of tensors that a person may want to compare: what `torch.save` wrote, `.npy` and `.npz`.

More is read here than a build directory may hold: state dicts and lists, float8 and complex numbers. Nothing in a file
is executed, what it claims to be large is checked against its size first, and all is read into memory: a person's file
may be written again or cut short while it is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeAlias, cast

from ...tensor.narrow import NarrowFloat
from ...tensor.view import DType, TensorView
from .errors import MalformedFileError
from .folder import Folder
from .numpy_file import load_npy, load_npz
from .torch_file import dense, load_object, view_of

if TYPE_CHECKING:
    import torch

SUFFIXES = (".pt", ".pth", ".npy", ".npz")

Scalar: TypeAlias = int | float | bool | str | None

_PACKED_FLOAT4 = "float4_e2m1fn_x2"

MOST_ENTRIES = 100_000
"""Most tensors and values of one file: a list that holds itself many times has any number."""

_MOST_DEPTH = 16


@dataclass(frozen=True, kw_only=True)
class FileContents:
    """What a file holds, by name: `layer.weight` of a state dict, `0` of a list; one tensor has the file's own name."""

    tensors: Mapping[str, TensorView]
    scalars: Mapping[str, Scalar]


def load_tensors(folder: Folder, relative: PurePath | str) -> FileContents:
    """All tensors in the file `relative` to `folder`.

    Raises:
        BuildOutputError: the file is missing, outside of the folder, cut short, or holds anything but a tensor, or
            lists and dictionaries of tensors and plain values.
    """
    name = PurePath(relative)
    if name.suffix == ".npy":
        return FileContents(tensors={name.stem: load_npy(folder, relative)}, scalars={})
    if name.suffix == ".npz":
        return FileContents(tensors=load_npz(folder, relative), scalars={})
    loaded = _saved_by_torch(folder, name)
    path = folder.locate(relative)
    tensors: dict[str, TensorView] = {}
    scalars: dict[str, Scalar] = {}
    for key, value in _leaves(path, loaded):
        if key and (value is None or isinstance(value, int | float | bool | str)):
            scalars[key] = value
        else:
            tensors[key or name.stem] = _real_view(path, key or name.stem, dense(path, value))
    return FileContents(tensors=tensors, scalars=scalars)


def _saved_by_torch(folder: Folder, name: PurePath) -> object:
    """What torch saved in a file, whatever its name; one of another name that torch did not save is no tensor file."""
    try:
        return load_object(folder, name, mapped=False)
    except MalformedFileError as error:
        if name.suffix in SUFFIXES:
            raise
        raise MalformedFileError(
            path=error.path,
            expected=f"a file of tensors, named *{', *'.join(SUFFIXES)}",
            found=error.found,
        ) from error


def load_real_tensor(folder: Folder, relative: PurePath | str) -> TensorView:
    """The one tensor of a file of `torch.save`, of complex numbers and of float8 too."""
    loaded = load_object(folder, relative, mapped=False)
    path = folder.locate(relative)
    return _real_view(path, PurePath(relative).stem, dense(path, loaded))


def _leaves(path: Path, loaded: object) -> Iterator[tuple[str, object]]:
    """Tensors and values with their dotted names, in the file's order."""
    todo: list[tuple[tuple[str, ...], object]] = [((), loaded)]
    seen = 0
    while todo:
        seen += 1
        keys, value = todo.pop()
        if seen > MOST_ENTRIES or len(keys) > _MOST_DEPTH:
            raise MalformedFileError(
                path=path,
                expected=f"at most {MOST_ENTRIES} tensors, {_MOST_DEPTH} lists deep",
                found="more",
                remedy="save the tensors that matter alone",
            )
        if isinstance(value, Mapping):
            entries = list(cast(Mapping[object, object], value).items())
        elif isinstance(value, list | tuple):
            entries = list(enumerate(cast(Sequence[object], value)))
        else:
            yield ".".join(keys), value
            continue
        todo += [((*keys, str(key)), entry) for key, entry in reversed(entries)]


def _real_view(path: Path, name: str, tensor: torch.Tensor) -> TensorView:
    """A view of real numbers: complex ones as their two parts, floats of eight and four bits as float32, which holds
    each of their values."""
    import torch

    spelled = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_complex():
        parts = torch.view_as_real(tensor.resolve_conj()).movedim(-1, 0)
        return replace(
            view_of(path, name, parts),
            converted=f"{spelled} as two parts: [0, ...] are real, [1, ...] imaginary",
        )
    if spelled.startswith("float8"):
        return replace(view_of(path, name, tensor.to(torch.float32)), converted=f"{spelled} as float32")
    if spelled == _PACKED_FLOAT4:
        # torch has no conversion of it.
        packed, narrow = tensor.contiguous().view(torch.uint8), NarrowFloat.FP4E2M1
        values, shape = narrow.numbers(packed.reshape(-1).numpy()), narrow.shape(tuple(packed.shape))
        view = TensorView.of_contiguous(name, DType.FLOAT32, shape, values)
        return replace(view, converted=narrow.described)
    return view_of(path, name, tensor)

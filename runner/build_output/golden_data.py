"""Frozen data of a case: inputs in `data/in`, golden outputs in `data/out`, one tensor a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..tensor.view import TensorView
from .files.errors import MissingFileError
from .files.folder import Folder
from .files.torch_file import load_tensor

_SUFFIX = ".pt"


@dataclass(frozen=True)
class TensorFolder:
    """Tensors by name in one folder of `<name>.pt` files. Scalars are 0-dimensional tensors."""

    folder: Folder
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> TensorFolder:
        """Lists the tensors in `path`; `MissingFileError` where there is no such folder."""
        folder = Folder.open(path, expected=f"a folder of <name>{_SUFFIX} files")
        # A link that leads elsewhere is listed too: who opens it is told so.
        names = (
            name
            for name in folder.names()
            if name.endswith(_SUFFIX) and (folder.has_file(name) or folder.is_link(name))
        )
        return cls(folder, tuple(name.removesuffix(_SUFFIX) for name in names))

    def tensor(self, name: str) -> TensorView:
        """The tensor `name`, mapped; `BuildOutputError` where its file is missing or unsound."""
        return load_tensor(self.folder, name + _SUFFIX)


@dataclass(frozen=True)
class GoldenData:
    """Inputs and golden outputs. An in-out tensor is in both."""

    inputs: TensorFolder
    outputs: TensorFolder

    @classmethod
    def open(cls, path: Path) -> GoldenData:
        """Reads the folder that holds `in` and `out`, `data` of a build directory for instance.

        Raises:
            BuildOutputError: one of the two is missing or empty.
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

"""Frozen data: <dir>/in/<name>.pt for inputs and scalars, <dir>/out/<name>.pt for expected outputs."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from .spec import ScalarSpec, Spec, TensorSpec


class GoldenDataError(ValueError):
    """A file of the folder is missing, unreadable or of another shape or type."""


def input_names(specs: Sequence[Spec]) -> list[str]:
    """What belongs under in/: inputs, scalars, and outputs with an initial value."""
    return [
        spec.name
        for spec in specs
        if isinstance(spec, ScalarSpec) or not spec.is_output or spec.init_value is not None
    ]


def output_names(specs: Sequence[Spec]) -> list[str]:
    """What belongs under out/."""
    return [spec.name for spec in specs if isinstance(spec, TensorSpec) and spec.is_output]


def save(folder: Path, values: Mapping[str, torch.Tensor]) -> None:
    """Write each value to `folder`/<name>.pt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        torch.save(value, folder / f"{name}.pt")


def check_complete(data_dir: Path, specs: Sequence[Spec]) -> None:
    """Raise GoldenDataError that lists every missing file."""
    wanted = [data_dir / "in" / f"{name}.pt" for name in input_names(specs)]
    wanted += [data_dir / "out" / f"{name}.pt" for name in output_names(specs)]
    missing = [str(path) for path in wanted if not path.is_file()]
    if missing:
        raise GoldenDataError(f"golden_data is missing files: {missing}")


def load(folder: Path, specs: Sequence[Spec], names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Read and check the named values. Raises GoldenDataError."""
    return {spec.name: _load_one(folder / f"{spec.name}.pt", spec) for spec in specs if spec.name in names}


def _load_one(path: Path, spec: Spec) -> torch.Tensor:
    try:
        value = torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GoldenDataError(f"golden_data: cannot read {path}: {reason}") from error
    shape = tuple(spec.shape) if isinstance(spec, TensorSpec) else ()
    if not isinstance(value, torch.Tensor):
        raise GoldenDataError(f"golden_data: {path}: expected a tensor, found {type(value).__name__}")
    if tuple(value.shape) != shape or value.dtype is not spec.dtype:
        expected, found = f"{spec.dtype} {shape}", f"{value.dtype} {tuple(value.shape)}"
        raise GoldenDataError(f"golden_data: {path}: expected {expected}, found {found}")
    return value.contiguous()

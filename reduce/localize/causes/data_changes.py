"""Frozen data that the two builds do not share: what a build fails on may not be its own fault."""

from __future__ import annotations

from pathlib import Path

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.golden_data import GoldenData, TensorFolder
from .changes import Change, ChangedPart


def data_changes(failing: Path, reference: Path) -> tuple[Change, ...]:
    """Tensors, by their files, that differ between two folders of frozen data; none where one of them is not there.

    Raises `BuildOutputError` where a tensor of the failing build cannot be read.
    """
    try:
        theirs = GoldenData.open(reference)
    except BuildOutputError:
        return ()
    ours = GoldenData.open(failing)
    return (*_of(ours.inputs, theirs.inputs, "data/in"), *_of(ours.outputs, theirs.outputs, "data/out"))


def _of(failing: TensorFolder, reference: TensorFolder, folder: str) -> tuple[Change, ...]:
    return tuple(
        Change(part=ChangedPart.DATA, file=f"{folder}/{name}.pt")
        for name in failing.names
        if name in reference.names and _differ(failing, reference, name)
    )


def _differ(failing: TensorFolder, reference: TensorFolder, name: str) -> bool:
    ours, theirs = failing.tensor(name), reference.tensor(name)
    return (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape) or (
        ours.contiguous().tobytes() != theirs.contiguous().tobytes()
    )

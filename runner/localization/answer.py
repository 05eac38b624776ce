"""What comes back of a localization: the files that `reduce` leaves in a folder, read as a stranger's."""

import json
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from ..stack.parts import Model
from .divergence import Divergence
from .part import DocumentPart

DIVERGENCE, TASK_GRAPH, REDUCTION = "divergence.json", "task_graph.html", "reduction.json"
_T = TypeVar("_T", bound=BaseModel)
_LARGEST = 4 << 20
"""Bytes; one with a thousand divergent tensors is smaller."""


class _Size(DocumentPart):
    before: int
    after: int


class ReductionSize(DocumentPart):
    """How far a build was reduced."""

    tasks: _Size
    kernels: _Size


class Localization(Model):
    """What came of it, as it is kept with the bisection's conclusion."""

    status: Literal["found", "nothing", "left out"]
    message: str
    """One line: why there is nothing, or what was compared."""
    divergence: Divergence | None = None
    reduction: ReductionSize | None = None
    reduced: Path | None = None
    """The folder of the reduction."""


def read_divergence(folder: Path) -> Divergence | None:
    """The divergence that a folder holds; None where there is none that can be read."""
    return _read(folder / DIVERGENCE, Divergence)


def read_reduction(folder: Path) -> ReductionSize | None:
    """The size of the reduction that a folder holds; None where there is none that can be read."""
    return _read(folder / REDUCTION, ReductionSize)


def _read(file: Path, model: type[_T]) -> _T | None:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        return model.model_validate(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError, ValidationError):
        return None

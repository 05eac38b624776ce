"""What comes back of a localization: the files that `reduce` leaves in a folder, read as a stranger's."""

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ...store.documents.document import Document, read_document
from ...store.documents.versions import DocumentError
from .divergence import DIVERGENCE, Divergence
from .part import DocumentPart

REDUCTION = "reduction.json"
_LARGEST = 4 << 20
"""Bytes; one with a thousand divergent tensors is smaller."""


class _Size(DocumentPart):
    before: int
    after: int


class ReductionSize(DocumentPart):
    """How far a build was reduced."""

    tasks: _Size
    kernels: _Size


class Localization(Document):
    """What came of it, as it is kept with the bisection's conclusion."""

    schema_version: Literal[1] = 1
    status: Literal["found", "nothing", "left out"]
    message: str
    """One line: why there is nothing, or what was compared."""
    divergence: Divergence | None = None
    reduction: ReductionSize | None = None
    reduced: Path | None = None
    """The folder of the reduction."""


def read_divergence(folder: Path) -> Divergence | None:
    """The divergence that a folder holds; None where there is none that can be read."""
    value = _read(folder / DIVERGENCE)
    try:
        return None if value is None else read_document(Divergence, value)
    except DocumentError:
        return None


def read_reduction(folder: Path) -> ReductionSize | None:
    """The size of the reduction that a folder holds; None where there is none that can be read."""
    value = _read(folder / REDUCTION)
    try:
        return None if value is None else ReductionSize.model_validate(value)
    except ValidationError:
        return None


def _read(file: Path) -> object:
    """The JSON of a file; None where it cannot be read, or is too large."""
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None

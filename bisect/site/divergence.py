"""What a page shows of a `divergence.json` beside a bisection's report. The file is read as a stranger's."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_NAME = "divergence.json"
_LARGEST = 4 << 20
"""Bytes; one with a thousand divergent tensors is smaller."""


_BLOCKS = Field(max_length=64)


class _Part(BaseModel):
    # The page shows some of the document, which docs/divergence.schema.json describes in full.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Pattern(_Part):
    """A kind of wrong that fits."""

    name: str
    confidence: float
    evidence: str


class HeatMap(_Part):
    """Block rows of shares of wrong elements, and of numbers of NaN and Inf."""

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrong: Annotated[tuple[Annotated[tuple[float, ...], _BLOCKS], ...], _BLOCKS]
    wild: Annotated[tuple[Annotated[tuple[int, ...], _BLOCKS], ...], _BLOCKS]


class Statistics(_Part):
    """The difference of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    elements: int
    different: int
    max_error: float
    max_ulps: int
    nan: int
    inf: int
    rows: int
    rows_different: int
    first_rows_different: tuple[int, ...]
    heat: HeatMap | None = None


class FirstDivergent(_Part):
    """One tensor of a divergent task none of whose predecessors diverges."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    argument: int
    tensor: str | None
    reason: str
    pattern: Pattern | None
    statistics: Statistics | None


class Divergence(_Part):
    """The whole result."""

    failing_build: str
    first_divergent: tuple[FirstDivergent, ...]


def read_divergence(report: Path) -> Divergence | None:
    """That of a report folder; None where there is none that can be read."""
    file = report / _NAME
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        return Divergence.model_validate(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError, ValidationError):
        return None

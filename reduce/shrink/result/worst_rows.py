"""The rows of an output that miss their expected values by most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....runner.build_output.golden_data import TensorFolder
from ....runner.tensor.chunks import decode
from ....runner.tensor.view import TensorView

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class WorstRow:
    """A row is what runs along the last axis; `index` are the others. Values are those of the worst element."""

    output: str
    index: tuple[int, ...]
    different: int
    elements: int
    column: int
    actual: float
    expected: float


def worst_rows(actual: TensorFolder, expected: TensorFolder) -> list[WorstRow]:
    """The worst few of all outputs that both hold in one shape, worst first; NaN or infinity on one side is worst."""
    rows = [
        row
        for name in sorted({*actual.names} & {*expected.names})
        for row in _rows(name, actual.tensor(name), expected.tensor(name))
    ]
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])[:_SHOWN]]


def _rows(name: str, actual: TensorView, expected: TensorView) -> Iterator[tuple[float, WorstRow]]:
    if actual.shape != expected.shape or not actual.shape or 0 in actual.shape:
        return
    a = decode(actual.dtype, actual.contiguous()).astype(np.float64)
    e = decode(expected.dtype, expected.contiguous()).astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        error = np.where(same, 0.0, np.nan_to_num(np.abs(a - e), nan=np.inf))
    worst = error.max(axis=-1)
    for flat in np.argsort(-worst, axis=None, kind="stable")[:_SHOWN]:
        index = tuple(map(int, np.unravel_index(int(flat), worst.shape)))
        if not worst[index] > 0:
            return
        column = int(error[index].argmax())
        yield (
            float(worst[index]),
            WorstRow(
                output=name,
                index=index,
                different=int((~same[index]).sum()),
                elements=a.shape[-1],
                column=column,
                actual=float(a[index][column]),
                expected=float(e[index][column]),
            ),
        )

"""Why a case fails: which elements of its outputs are over its own tolerance, and by how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.golden_data import TensorFolder
from ....runner.compare.statistics.agreement import HARNESS_TOLERANCE
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.tensor.chunks import run_values, spans
from ....runner.tensor.view import TensorView

Mask = npt.NDArray[np.bool_]
_ROOM = 2.0
"""Where a case does not tell its tolerance: how much more than the good build a right one may be off."""


@dataclass(frozen=True, kw_only=True)
class WrongOutput:
    """An output over the tolerance.

    `wrong` has one element for each of the tensor, flat; `worst` is the largest error as a multiple of what the
    tolerance allows there, infinite for NaN, Inf, or a tensor that is missing or of another shape.
    """

    name: str
    shape: tuple[int, ...]
    wrong: Mask
    worst: float

    @property
    def elements(self) -> int:
        """How many are wrong."""
        return int(np.count_nonzero(self.wrong))

    @property
    def row_length(self) -> int:
        """Elements of a row: those along the last dimension."""
        return max(self.shape[-1] if self.shape else 1, 1)

    @property
    def rows(self) -> tuple[range, ...]:
        """Runs of rows that have a wrong element. Rows count through all dimensions but the last."""
        return stretches(np.any(self.wrong.reshape(-1, self.row_length), axis=1))


def stretches(marked: Mask) -> tuple[range, ...]:
    """The runs of places that are marked."""
    places = np.flatnonzero(marked)
    breaks = np.flatnonzero(np.diff(places) > 1) + 1
    return tuple(range(int(run[0]), int(run[-1]) + 1) for run in np.split(places, breaks) if run.size)


@dataclass(frozen=True)
class WrongOutputs:
    """The outputs over the tolerance, by name; none where the case passes."""

    outputs: Mapping[str, WrongOutput]

    def __bool__(self) -> bool:
        return bool(self.outputs)

    @property
    def elements(self) -> int:
        """How many are wrong in all."""
        return sum(output.elements for output in self.outputs.values())

    def share_in(self, other: WrongOutputs) -> float:
        """The share of its wrong elements, 0 to 1, that are wrong in another failure too."""
        shared = sum(
            int(np.count_nonzero(output.wrong & other.outputs[name].wrong))
            for name, output in self.outputs.items()
            if name in other.outputs and other.outputs[name].wrong.size == output.wrong.size
        )
        return shared / self.elements if self.elements else 0.0


@dataclass(frozen=True, kw_only=True)
class OutputJudge:
    """Tells which outputs of a run are wrong: over `tolerance` from what is `expected`.

    `told` says that the case's own tolerance is known; else it is the harness's default, widened until the good build
    passes. `by_good_build` says that the good build's outputs are what is expected: they are not within the tolerance
    of the golden ones.
    """

    expected: TensorFolder
    tolerance: Tolerance
    told: bool
    by_good_build: bool = False

    @classmethod
    def of(
        cls,
        golden: TensorFolder,
        tolerance: Tolerance | None,
        good: TensorFolder | None,
        *,
        default: Tolerance | None = None,
    ) -> OutputJudge:
        """Judges by the golden outputs. Where the good build's outputs `good` are not within the case's tolerance of
        those, they are what is expected. `default` is the harness's own, where it was told.

        Raises:
            BuildOutputError: a golden output cannot be read.
        """
        told = tolerance is not None
        judge = cls(expected=golden, tolerance=tolerance or default or HARNESS_TOLERANCE, told=told)
        if good is None or not (off := judge.failure(good)):
            return judge
        worst = max(output.worst for output in off.outputs.values())
        if told or not math.isfinite(worst):
            return cls(expected=good, tolerance=judge.tolerance, told=told, by_good_build=True)
        wider = Tolerance(
            rtol=judge.tolerance.rtol * worst * _ROOM, atol=judge.tolerance.atol * worst * _ROOM
        )
        return cls(expected=golden, tolerance=wider, told=False)

    def failure(self, outputs: TensorFolder) -> WrongOutputs:
        """What is wrong in the outputs of a run. Raises `BuildOutputError` where an expected one cannot be read."""
        judged = (self._judged(outputs, name) for name in self.expected.names)
        return WrongOutputs({output.name: output for output in judged if output is not None})

    def _judged(self, outputs: TensorFolder, name: str) -> WrongOutput | None:
        expected = self.expected.tensor(name)
        try:
            actual = outputs.tensor(name) if name in outputs.names else None
        except BuildOutputError:
            actual = None
        if actual is None or actual.shape != expected.shape:
            everything = np.ones(max(expected.numel, 1), np.bool_)
            return WrongOutput(name=name, shape=expected.shape, wrong=everything, worst=math.inf)
        wrong, worst = _over(actual, expected, self.tolerance)
        return WrongOutput(name=name, shape=expected.shape, wrong=wrong, worst=worst) if wrong.any() else None


def _over(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> tuple[Mask, float]:
    """Which elements are over |a - e| <= atol + rtol |e|, and the largest |a - e| / (atol + rtol |e|). Two NaN, and two
    equal infinities, are close."""
    wrong = np.zeros(expected.numel, np.bool_)
    worst = 0.0
    for start, stop in spans(expected.numel):
        a, e = (run_values(view, start, stop).astype(np.float64) for view in (actual, expected))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            error = np.abs(a - e)
            allowed = tolerance.atol + tolerance.rtol * np.abs(e)
            error[(a == e) | (np.isnan(a) & np.isnan(e))] = 0.0
            error[np.isnan(error)] = np.inf
            allowed[~np.isfinite(allowed)] = 0.0
            over = error > allowed
            if over.any():
                worst = max(worst, float(np.max(error[over] / allowed[over])))
        wrong[start:stop] = over
    return wrong, worst

"""The verdict on a first divergent task: its distances, measured by running it alone in both builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...runner.build_output.files.errors import BuildOutputError
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError
from ...runner.tensor.view import DType, TensorView
from ..graph.alignment import Alignment
from ..graph.overwritten import intruders
from ..graph.task_list import KernelTask
from ..replay.comparison import NotWholeError, differs, distance
from ..replay.side import Side
from ..replay.task_replay import TaskReplayer
from .classes import Distances, TaskClass, classify
from .localize import DivergentTask

_SEED = 2026
_LARGEST = {
    DType.FLOAT64: 0x7FEFFFFFFFFFFFFF,
    DType.FLOAT32: 0x7F7FFFFF,
    DType.FLOAT16: 0x7BFF,
    DType.BFLOAT16: 0x7F7F,
}
"""Bits of the largest finite number of each floating type."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The class of a task, the distances behind it (None where they could not be measured), and why in words."""

    task_class: TaskClass
    distances: Distances | None
    reason: str

    @property
    def above_floor(self) -> bool | None:
        """Whether the error is larger than what one unit in the last place of every input does."""
        return None if self.distances is None else self.distances.out > self.distances.floor


@dataclass(frozen=True, kw_only=True)
class Assessor:
    """Runs tasks alone, in folders of their own below `folder`."""

    failing: Side
    reference: Side
    alignment: Alignment
    tolerance: Tolerance
    folder: Path

    def assess(self, divergence: DivergentTask, *, fed_wrong: bool = False) -> Assessment:
        """Measure a task in up to four runs of it alone. `fed_wrong`: tasks before it diverge too."""
        try:
            return self._measured(divergence, fed_wrong=fed_wrong)
        except (UserError, BuildOutputError, NotWholeError) as error:
            return Assessment(task_class=TaskClass.UNKNOWN, distances=None, reason=str(error))

    def _measured(self, divergence: DivergentTask, *, fed_wrong: bool) -> Assessment:
        actual, expected = divergence.actual, divergence.expected
        right = expected.before
        folder = self.folder / str(divergence.failing.ordinal)
        ours = TaskReplayer(
            self.failing, divergence.failing, scalars=actual.scalars, folder=folder / "failing"
        )
        theirs = TaskReplayer(
            self.reference, divergence.reference, scalars=expected.scalars, folder=folder / "reference"
        )

        def error(found: Mapping[int, TensorView]) -> float:
            return max(distance(found[index], view) for index, view in expected.after.items())

        alone = error(theirs.run(right, expected))
        if alone > 0:
            return Assessment(
                task_class=TaskClass.UNKNOWN,
                distances=None,
                reason=f"alone, the reference's task misses its own result by {alone:.3g}",
            )
        shared = actual.before.keys() & right.keys()
        disturbed = [i for i in sorted(shared) if differs(actual.before[i], right[i], self.tolerance)]
        inputs = max((distance(actual.before[index], right[index]) for index in shared), default=0.0)
        distances = Distances(
            out=error(actual.after),
            introduced=error(ours.run(right, actual)),
            propagated=error(theirs.run({**right, **actual.before}, expected)) if inputs else 0.0,
            inputs=inputs,
            floor=error(theirs.run({index: _nudged(view) for index, view in right.items()}, expected)),
        )
        disturbed = [] if fed_wrong else disturbed
        found = classify(distances, disturbed=bool(disturbed))
        return Assessment(
            task_class=found,
            distances=distances,
            reason=_reason(found, distances, fed_wrong=fed_wrong)
            + self._disturbance(divergence.failing, disturbed),
        )

    def _disturbance(self, task: KernelTask, arguments: Sequence[int]) -> str:
        """Who may have written over the arguments."""
        for argument in arguments:
            writers = intruders(
                self.failing.tasks, self.reference.tasks, self.alignment, reader=task, argument=argument
            )
            if writers:
                named = ", ".join(f"{one.name} (task {one.ordinal})" for one in writers[:4])
                return f": argument {argument} shares its buffer with what {named} writes"
        return ""


def _nudged(view: TensorView) -> TensorView:
    """Every finite floating element moved by one unit in the last place, up or down by a fixed random choice."""
    if not view.dtype.is_floating:
        return view
    values = view.contiguous()
    bits = np.ravel(values).view(f"<i{view.dtype.itemsize}").copy()
    step = np.random.default_rng(_SEED).choice(np.array([-1, 1], bits.dtype), bits.shape)
    magnitude = bits & np.iinfo(bits.dtype).max
    # Zero has nothing below it; infinities and NaN, and the largest number, stay what they are.
    movable = (magnitude > 0) & (magnitude < _LARGEST[view.dtype])
    bits[movable] += step[movable]
    return TensorView.of_contiguous(view.name, view.dtype, view.shape, bits.view(view.dtype.storage))


def _reason(found: TaskClass, distances: Distances, *, fed_wrong: bool) -> str:
    match found:
        case TaskClass.INTRODUCED:
            small = distances.introduced <= distances.floor
            return (
                f"alone on the reference's inputs the kernel misses its result by {distances.introduced:.3g}"
                + (f", no more than one ulp of its inputs does ({distances.floor:.3g})" if small else "")
            )
        case TaskClass.INTERACTION:
            read = (
                "on the inputs of the run the reference's kernel does not make the error either"
                if fed_wrong
                else (
                    "its inputs are not what the tasks before it left"
                    if distances.inputs
                    else "on the same inputs, in the run, it is not"
                )
            )
            return f"alone on the reference's inputs the kernel is right; {read}"
        case TaskClass.AMPLIFIED:
            return (
                f"its inputs are off by {distances.inputs:.3g}, its result by {distances.out:.3g}: "
                f"{distances.factor:.3g} times as much"
            )
        case _:
            return f"the reference's kernel makes {distances.propagated:.3g} of its inputs too"

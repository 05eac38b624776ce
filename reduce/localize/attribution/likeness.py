"""Which divergent tasks of one kernel are so much alike that the verdict on one holds for the others."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.compare.patterns.finding import Pattern
from ....runner.compare.patterns.recognize import recognize
from ....runner.compare.statistics.statistics import IncomparableError, Tolerance
from ....runner.tensor.view import TensorView
from ...graph.task_list import KernelTask
from ...replay.comparison import alike, differs
from .attribution import DivergentTask


@dataclass(frozen=True)
class Likeness:
    """Equal for tasks that are alike: kernels of both builds, shapes and strides of the tensors, the arguments that
    are wrong before the task, and the patterns of those that are wrong after it."""

    kernels: tuple[str, str]
    geometry: tuple[tuple[tuple[int, ...], tuple[int, ...]] | None, ...]
    wrong_inputs: tuple[int, ...]
    errors: tuple[tuple[int, tuple[Pattern, ...]], ...]


def likeness(divergent: DivergentTask, counterpart: KernelTask, tolerance: Tolerance) -> Likeness | None:
    """None where an error shows no pattern: then nothing says that another is of its kind."""
    actual, expected = divergent.actual, divergent.expected
    wrong = [
        index
        for index, view in actual.after.items()
        if index in expected.after and differs(view, expected.after[index], tolerance)
    ]
    errors = tuple((index, _patterns(actual.after[index], expected.after[index])) for index in sorted(wrong))
    if not all(patterns for _, patterns in errors):
        return None
    return Likeness(
        kernels=(divergent.task.name, counterpart.name),
        geometry=tuple(
            None if argument.region is None else (argument.region.shape, argument.region.strides)
            for argument in divergent.task.task.arguments
        ),
        wrong_inputs=tuple(
            index
            for index, view in sorted(actual.before.items())
            if index in expected.before and differs(view, expected.before[index], tolerance)
        ),
        errors=errors,
    )


def _patterns(actual: TensorView, expected: TensorView) -> tuple[Pattern, ...]:
    try:
        found = recognize(*alike(actual, expected), Tolerance())
    except IncomparableError:
        return ()
    return tuple(sorted({match.pattern for match in found}, key=lambda pattern: pattern.value))

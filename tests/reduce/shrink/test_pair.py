"""Which values the tasks of a reduced failing program read and leave."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from precision_bisect.reduce.replay.replay import TaskValues
from precision_bisect.reduce.shrink.edits import _FailingValues
from precision_bisect.runner.tensor import DType, TensorView
from tests.reduce.shrink.test_both import both_of, program

_READING_X, _READING_Y = ((("scale", read, "a"),) for read in "xy")


def values(read: float, left: float, size: int = 2) -> TaskValues:
    return TaskValues(before={0: filled(read, size)}, after={1: filled(left, size)}, scalars={})


def filled(fill: float, size: int) -> TensorView:
    return TensorView.from_contiguous("t", DType.FLOAT32, (size,), np.full(size, fill, np.float32))


def told(*, moves: bool = False, has_counterpart: bool = True, size: int = 2) -> list[float | None]:
    """The first element of what the only task reads and leaves, by the values that are taken as right; None where they
    do not tell. The failing build reads 1 and leaves 2, the reference 5 and 6, of so many elements."""
    both = both_of(
        program(*(_READING_Y if moves else _READING_X)),
        program(*(_READING_X if has_counterpart else ())),
        {0: 0} if has_counterpart else {},
    )
    pair: Any = SimpleNamespace(
        programs=both,
        tasks={task.ordinal: task for task in both.failing.tasks},
        failing=SimpleNamespace(values=lambda _ordinal: values(1.0, 2.0)),
        reference_values=lambda _ordinal: values(5.0, 6.0, size),
    )
    found = _FailingValues(pair=pair).task_values(0)
    views = found.before.get(0), found.after.get(1)
    return [None if view is None else float(view.contiguous()[0]) for view in views]


def test_they_are_the_references() -> None:
    assert told() == [5.0, 6.0]


def test_what_it_reads_elsewhere_is_what_lies_there() -> None:
    assert told(moves=True) == [None, 6.0]


def test_a_result_of_another_shape_is_its_own() -> None:
    assert told(size=4) == [5.0, 2.0]


def test_a_task_without_counterpart_has_its_own() -> None:
    assert told(has_counterpart=False) == [1.0, 2.0]

"""Which values the tasks of a reduced failing program read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from precision_bisect.reduce.replay.comparison import TaskValues
from precision_bisect.reduce.shrink.program.pair import _FailingValues
from precision_bisect.runner.tensor.view import DType, TensorView


def values(first: int, second: int, fill: float) -> TaskValues:
    """Of a task that reads two tensors of so many elements, and leaves one of four."""
    sizes = {0: first, 1: second}
    return TaskValues(
        before={index: filled(size, fill) for index, size in sizes.items()},
        after={2: filled(4, fill)},
        scalars={},
    )


def filled(size: int, fill: float) -> TensorView:
    return TensorView.of_contiguous("t", DType.FLOAT32, (size,), np.full(size, fill, np.float32))


def read(
    own: TaskValues, reference: TaskValues, *, has_counterpart: bool = True, is_missing: bool = False
) -> dict[int, float]:
    """The first element of all that the task is given."""
    pair: Any = SimpleNamespace(
        both=SimpleNamespace(in_reference={7: 7} if has_counterpart else {}),
        missing=frozenset({7} if is_missing else {}),
        failing=SimpleNamespace(values=lambda ordinal: own),
        reference_values=lambda ordinal: reference,
    )
    found = _FailingValues(pair=pair).of(7)
    return {index: float(view.contiguous()[0]) for index, view in {**found.before, **found.after}.items()}


def test_they_are_the_references() -> None:
    assert read(values(8, 2, 1.0), values(8, 2, 5.0)) == {0: 5.0, 1: 5.0, 2: 5.0}


def test_arguments_that_changed_places_keep_the_values_of_their_own_shape() -> None:
    assert read(values(8, 2, 1.0), values(2, 8, 5.0)) == {0: 1.0, 1: 1.0, 2: 5.0}


def test_a_task_without_counterpart_has_its_own() -> None:
    assert read(values(8, 2, 1.0), values(8, 2, 5.0), has_counterpart=False) == {0: 1.0, 1: 1.0, 2: 1.0}


def test_a_missing_task_has_the_references() -> None:
    assert read(values(8, 2, 1.0), values(2, 8, 5.0), is_missing=True) == {0: 5.0, 1: 5.0, 2: 5.0}

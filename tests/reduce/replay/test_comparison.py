"""How far two tensors are apart, where one number has to tell it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from precision_bisect.reduce.replay.replay import SIGN_ONLY_DISTANCE, distance
from precision_bisect.runner.tensor import DType, TensorView

INF, NAN = math.inf, math.nan


def view(values: list[float]) -> TensorView:
    """The values as a tensor of float32."""
    return TensorView.from_contiguous("x", DType.FLOAT32, (len(values),), np.array(values, np.float32))


@pytest.mark.parametrize(
    ("actual", "expected", "apart"),
    [
        ([1.0, NAN, INF], [1.0, NAN, INF], 0.0),
        ([3.0, 4.0], [3.0, 5.0], 1 / math.sqrt(34)),
        ([3.0, 4.0, INF], [3.0, 5.0, INF], 1 / math.sqrt(34)),
        ([1.0, INF], [1.0, -INF], INF),
        ([INF, 1.0], [1.0, INF], INF),
        ([NAN, 1.0], [1.0, NAN], INF),
        ([NAN, INF], [INF, NAN], INF),
        ([1.0, NAN], [1.0, 2.0], INF),
        ([1.0], [0.0], INF),
    ],
)
def test_wild_values_are_infinitely_far_from_all_others(
    actual: list[float], expected: list[float], apart: float
) -> None:
    assert distance(view(actual), view(expected)) == pytest.approx(apart)


def test_the_sign_of_zeros_is_the_least_distance() -> None:
    negative, positive, other = view([-0.0, 1.0]), view([0.0, 1.0]), view([0.0, 1.0 + 2**-23])
    assert distance(negative, positive) == 0
    assert distance(negative, positive, signed_zeros=True) == SIGN_ONLY_DISTANCE
    assert distance(other, positive, signed_zeros=True) > SIGN_ONLY_DISTANCE

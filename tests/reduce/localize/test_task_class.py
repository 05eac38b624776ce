"""The verdict on a task from its distances."""

from __future__ import annotations

import math

import pytest

from precision_bisect.reduce.localize.attribute import Distances, TaskClass, classify


@pytest.mark.parametrize(
    ("out", "introduced", "propagated", "inputs", "floor", "unexpected_inputs", "expected"),
    [
        # Right inputs: the kernel alone is wrong, be it by less than the floor, or it is right.
        (1e-3, 1e-3, 0.0, 0.0, 1e-6, False, TaskClass.INTRODUCED),
        (1e-3, 1e-3, 0.0, 0.0, 1e-2, False, TaskClass.INTRODUCED),
        (1e-3, 0.0, 0.0, 0.0, 1e-6, False, TaskClass.INTERACTION),
        # Wrong inputs that the reference's kernel turns into the same error.
        (1e-3, 0.0, 1e-3, 1e-3, 1e-7, False, TaskClass.INHERITED),
        (1e-3, 1e-8, 1e-3, 1e-3, 1e-7, False, TaskClass.INHERITED),
        (1.0, 0.0, 1.0, 1e-3, 1e-7, False, TaskClass.AMPLIFIED),
        (1e-2, 1e-2, 1e-3, 1e-3, 1e-7, False, TaskClass.INTRODUCED),
        # Neither the kernel alone nor the inputs explain it.
        (1.0, 0.0, 1e-3, 1e-3, 1e-7, False, TaskClass.INTERACTION),
        # Wrong inputs after right predecessors.
        (1.0, 0.0, 1.0, 1.0, 1e-7, True, TaskClass.INTERACTION),
        (math.inf, math.inf, 0.0, 0.0, 1e-7, False, TaskClass.INTRODUCED),
    ],
)
def test_class(
    out: float,
    introduced: float,
    propagated: float,
    inputs: float,
    floor: float,
    unexpected_inputs: bool,
    expected: TaskClass,
) -> None:
    distances = Distances(out=out, introduced=introduced, propagated=propagated, inputs=inputs, floor=floor)
    assert classify(distances, unexpected_inputs=unexpected_inputs) is expected

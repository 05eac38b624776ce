"""What a task has to do with the error in its results: the verdict, from four measured distances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from ...replay.comparison import SIGN_OF_ZERO


class TaskClass(Enum):
    """Where the error in a task's results comes from."""

    INTRODUCED = "introduced"
    """Its kernel makes it, on right inputs."""
    INHERITED = "inherited"
    """It came with the inputs."""
    AMPLIFIED = "amplified"
    """It came with the inputs, and any kernel for this task makes it much larger."""
    INTERACTION = "interaction"
    """Neither: alone the kernel is right. Race, aliasing, or a missing dependency."""
    UNKNOWN = "unknown"
    """It could not be measured."""


INHERITING = (TaskClass.INHERITED, TaskClass.AMPLIFIED)
"""Classes of an error that came with the inputs."""
AMPLIFICATION = 10.0
"""From this growth of the relative error on, an inherited error is called amplified."""


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Relative L2 distances to the reference's result of a task with kernel K, and kernel K* in the reference build.

    `out` is d(K(x), r_out) for the inputs x of the failing run, as observed in it; `introduced` is d(K(r_in), r_out)
    and `propagated` d(K*(x), r_out), both by running the task alone; `inputs` is d(x, r_in), and `floor` what changing
    every input by one unit in the last place does: d(K*(r_in +- ulp), r_out). `inputs` is `SIGN_OF_ZERO` where they
    differ in the sign of zeros alone, and K*(x) is off by it.
    """

    out: float
    introduced: float
    propagated: float
    inputs: float
    floor: float

    @property
    def factor(self) -> float | None:
        """How much larger the relative error of the result is than that of the inputs; None where those are right."""
        return self.out / self.inputs if 0 < self.inputs < math.inf else None


def classify(distances: Distances, *, disturbed: bool) -> TaskClass:
    """The verdict. `disturbed`: inputs are wrong though every task before it left what it should.

    With right inputs every deviation of K(r_in) counts, since the two runs then compute the same; where the inputs
    deviate too, one within the floor is rounding.
    """
    threshold = distances.floor if distances.inputs > SIGN_OF_ZERO else 0.0
    if distances.introduced > threshold:
        return TaskClass.INTRODUCED
    explained = distances.propagated + distances.floor
    if disturbed or distances.inputs == 0 or distances.out > 2 * explained:
        return TaskClass.INTERACTION
    if distances.out > AMPLIFICATION * distances.inputs:
        return TaskClass.AMPLIFIED
    return TaskClass.INHERITED


def told(error: float) -> str:
    """A distance in words, as what something is off by."""
    return "the sign of zeros alone" if error == SIGN_OF_ZERO else f"{error:.3g}"

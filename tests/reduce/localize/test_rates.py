"""How often a failure that two builds share is told as that of one of them, over all that their runs can show."""

from __future__ import annotations

from functools import cache

import pytest

from precision_bisect.reduce.localize.orders import is_failing_next, is_separated

MOST = 30


@cache
def taken_for_right(rate: float, failed: int, runs: int, passes: int) -> float:
    """The chance that a good build is told apart from now on, though both fail with this rate."""
    if is_separated(failed=failed, runs=runs, passes=passes):
        return 1.0
    if passes == MOST:
        return 0.0
    if is_failing_next(failed=failed, runs=runs, passes=passes):
        failing = taken_for_right(rate, failed + 1, runs + 1, passes)
        return rate * failing + (1 - rate) * taken_for_right(rate, failed, runs + 1, passes)
    return (1 - rate) * taken_for_right(rate, failed, runs, passes + 1)


@pytest.mark.parametrize("rate", [step / 20 for step in range(21)])
def test_a_failure_of_both_is_told_as_introduced_in_one_call_of_a_hundred(rate: float) -> None:
    recorded = rate * (1 - rate) * taken_for_right(rate, 1, 1, 1)
    assert recorded < 0.01
    chosen_because_it_failed = rate * taken_for_right(rate, 0, 0, 0)
    assert chosen_because_it_failed < 0.005


def test_a_build_that_always_fails_is_told_from_one_that_never_does_in_few_runs() -> None:
    failed, passes = 1, 1
    while not is_separated(failed=failed, runs=failed, passes=passes):
        if is_failing_next(failed=failed, runs=failed, passes=passes):
            failed += 1
        else:
            passes += 1
    assert (failed, passes) == (3, 5)

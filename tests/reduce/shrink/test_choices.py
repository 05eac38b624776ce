"""Alternatives at one place after the other, and how many tests they take."""

from __future__ import annotations

import pytest

from precision_bisect.reduce.shrink.edits import FewerBlocks, KeepSuspects, PlainData, SmallerShapes
from precision_bisect.reduce.shrink.minimize import Answer, Minimizer, MinimizerState
from precision_bisect.reduce.shrink.program import Candidate
from tests.reduce.shrink.small_programs import Rule

BEST = Candidate((0, 1))


def searched(state: MinimizerState[Candidate], rule: Rule) -> tuple[Candidate, int]:
    """The best, and how many runs that took."""
    minimizer, runs = Minimizer(state), 0
    while trials := minimizer.ask(1):
        runs += 1
        minimizer.tell(trials[0], rule(trials[0].candidate))
    return minimizer.best, runs


@pytest.mark.parametrize(("least", "runs"), [(1, 2), (2, 3), (4, 4), (8, 4)])
def test_the_fewest_blocks_that_will_do_are_found_from_below(least: int, runs: int) -> None:
    """Task 0 needs some of its 8 blocks, task 1 is done with one; task 2 is not there."""
    kind = FewerBlocks({0: 8, 1: 4, 2: 2})
    rule = lambda one: Answer.INTERESTING if dict(one.blocks).get(0, 8) >= least else Answer.PASSED  # noqa: E731
    best, made = searched(kind.search(BEST, rate=1.0, again=False), rule)
    assert (dict(best.blocks).get(0, 8), dict(best.blocks)[1], made) == (least, 1, runs)


def test_sizes_become_smaller_one_after_the_other_on_what_was_taken_before() -> None:
    kind = SmallerShapes(lambda _: (72, 8))
    sums: list[int] = []

    def rule(candidate: Candidate) -> Answer:
        sizes = {72: 72, 8: 8, **dict(candidate.extents)}
        sums.append(sum(sizes.values()))
        return Answer.INTERESTING if sizes[72] >= 24 else Answer.INVALID

    best, _ = searched(kind.search(BEST, rate=1.0, again=False), rule)
    assert dict(best.extents) == {72: 24, 8: 1}
    assert sums == [1 + 8, 8 + 8, 24 + 8, 24 + 1]


def test_the_plainest_values_come_first() -> None:
    kind = PlainData(lambda _: ("x", "y"))
    rule = lambda one: Answer.PASSED if dict(one.plain).get("x") == "zeros" else Answer.INTERESTING  # noqa: E731
    best, runs = searched(kind.search(BEST, rate=1.0, again=False), rule)
    assert (dict(best.plain), runs) == ({"x": "ones", "y": "zeros"}, 3)


def test_of_the_suspects_only_parts_of_what_is_left_are_tried() -> None:
    kind = KeepSuspects(((1,), (0, 2), (0,), (0, 1)))
    tried: list[tuple[int, ...]] = []

    def rule(candidate: Candidate) -> Answer:
        tried.append(candidate.tasks)
        return Answer.SLIPPED

    assert searched(kind.search(BEST, rate=1.0, again=False), rule) == (BEST, 2)
    assert tried == [(1,), (0,)]


def test_where_failures_are_rare_an_option_is_asked_for_again() -> None:
    kind = KeepSuspects(((1,),))
    runs = iter([Answer.PASSED, Answer.PASSED, Answer.INTERESTING])
    assert searched(kind.search(BEST, rate=0.5, again=False), lambda _: next(runs)) == (Candidate((1,)), 3)
    assert searched(kind.search(BEST, rate=0.5, again=False), lambda _: Answer.PASSED) == (BEST, 7)
    assert searched(kind.search(BEST, rate=0.5, again=False), lambda _: Answer.INVALID) == (BEST, 1)

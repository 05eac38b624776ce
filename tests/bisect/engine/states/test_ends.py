"""Both ends are run first: they differ, or they are swapped, do not differ, or cannot be judged."""

import random
from collections.abc import Callable

import pytest

from precision_bisect.runner.errors import EndsError, UserError
from precision_bisect.store.vocabulary import Judgement, Phase, Seeks
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, question

GOOD, BAD, SKIP = Judgement.GOOD, Judgement.BAD, Judgement.SKIP


def stack(outcome: Callable[[int], Judgement], size: int = 9) -> PlantedStack:
    return PlantedStack(outcome=lambda line, lib: outcome(line), pins=["lib-0"] * size)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_ends_that_differ_are_run_five_times_each_the_good_one_first(jobs: int) -> None:
    task = bisect(broken_line(9, 5), jobs=jobs)
    first = task.simulated.bisection.known.log.ended[:10]
    assert {probe.phase for probe in first} == {Phase.ENDPOINT}
    assert task.simulated.started[:2] == ["0 lib-0", "8 lib-0"]
    assert sorted(probe.content for probe in first) == ["0 lib-0"] * 5 + ["8 lib-0"] * 5
    assert task.conclusion is not None
    assert [(rate.end, rate.runs, rate.failures) for rate in task.conclusion.rates] == [
        ("good", 5, 0),
        ("bad", 5, 5),
    ]


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(
    ("seeks", "asked"),
    [
        (Seeks.REGRESSION, "did you mean --find-fix"),
        (Seeks.FIX, "did you mean --good 0 --bad 8, without --find-fix"),
    ],
)
def test_swapped_ends_are_told_with_the_call_that_is_meant(seeks: Seeks, asked: str, jobs: int) -> None:
    planted = stack(
        lambda line: (BAD if line < 5 else GOOD) if seeks is Seeks.REGRESSION else (BAD if line > 5 else GOOD)
    )
    task = bisect(planted, question(planted, range=planted.range(seeks=seeks)), jobs=jobs)
    assert isinstance(task.error, EndsError)
    assert asked in str(task.error)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(("judgement", "runs"), [(GOOD, 1 + 8), (BAD, 3 + 1)])
def test_ends_that_do_the_same_are_refused(judgement: Judgement, runs: int, jobs: int) -> None:
    task = bisect(stack(lambda line: judgement), jobs=jobs)
    assert isinstance(task.error, EndsError)
    assert "the ends do not differ" in str(task.error)
    assert len(task.simulated.started) == runs


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("end", [0, 8])
def test_an_end_that_cannot_be_judged_is_refused(end: int, jobs: int) -> None:
    task = bisect(stack(lambda line: SKIP if line == end else BAD if line >= 5 else GOOD), jobs=jobs)
    assert isinstance(task.error, UserError)
    assert not isinstance(task.error, EndsError)
    assert str(task.error).startswith("good 0" if end == 0 else "8")


@pytest.mark.parametrize("jobs", [1, 4])
def test_ends_that_fail_equally_often_are_refused_though_each_showed_once_what_it_stands_for(
    jobs: int,
) -> None:
    turns = {0: iter([GOOD, BAD] * 200), 8: iter([BAD, GOOD] * 200)}
    task = bisect(stack(lambda line: next(turns[line])), jobs=jobs)
    assert isinstance(task.error, EndsError)
    assert "expected good 0 and bad 8 to differ" in str(task.error)


def test_an_end_that_seldom_fails_is_run_until_it_does() -> None:
    chance = random.Random(2)
    task = bisect(stack(lambda line: BAD if line >= 5 and chance.random() < 0.4 else GOOD), jobs=2)
    assert task.culprit == "5"
    assert task.conclusion is not None
    assert all(rate.runs >= 20 for rate in task.conclusion.rates)

"""Both ends are run first: they differ, or they are swapped, do not differ, or cannot be judged."""

import random
from collections.abc import Callable

import pytest

from precision_bisect.bisect.engine.evidence import failing_end, passing_end
from precision_bisect.bisect.engine.known import Known
from precision_bisect.bisect.engine.needs import Needs
from precision_bisect.bisect.engine.states.ends import MeasuringEnds
from precision_bisect.bisect.engine.states.state import Advance, Enter, Wait
from precision_bisect.runner.errors import EndsError, UserError
from precision_bisect.store.vocabulary import Judgement, Phase, Seeks
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, question
from tests.bisect.engine.stepping import about_stack, answers_of, running, search_of, shown, started, step

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


def measuring(planted: PlantedStack, seeks: Seeks = Seeks.REGRESSION) -> MeasuringEnds:
    return MeasuringEnds(range_search=search_of(planted.load(planted.range(seeks=seeks))), before=0)


def after(
    planted: PlantedStack, known: Known, *, workers: int = 1, seeks: Seeks = Seeks.REGRESSION
) -> Advance:
    return step(measuring(planted, seeks), known, answers_of(planted), workers=workers)[1]


@pytest.mark.parametrize(("seeks", "good", "bad"), [(Seeks.REGRESSION, "0", "8"), (Seeks.FIX, "8", "0")])
def test_the_end_that_should_pass_is_run_first_then_the_other(seeks: Seeks, good: str, bad: str) -> None:
    planted = broken_line(9, 5)
    known = about_stack(planted, range=planted.range(seeks=seeks))
    (first,) = started(after(planted, known, seeks=seeks, workers=4))
    assert (first.target.commit, first.phase) == (good, Phase.ENDPOINT)
    assert after(planted, running(known, first), seeks=seeks) == Wait(Needs())
    (second,) = started(after(planted, shown(known, f"{good} lib-0", GOOD), seeks=seeks, workers=4))
    assert second.target.commit == bad


@pytest.mark.parametrize(("workers", "commits"), [(1, ["0"]), (2, ["0", "8"]), (3, ["0", "8", "0"])])
def test_once_both_have_shown_it_the_ends_take_turns_on_all_workers(workers: int, commits: list[str]) -> None:
    planted = broken_line(9, 5)
    known = shown(shown(about_stack(planted), "0 lib-0", GOOD), "8 lib-0", BAD)
    assert [probe.target.commit for probe in started(after(planted, known, workers=workers))] == commits


def test_the_search_begins_with_how_often_each_end_failed() -> None:
    planted = broken_line(9, 5)
    known = shown(shown(about_stack(planted), "0 lib-0", *[GOOD] * 5), "8 lib-0", *[BAD] * 5)
    advance = after(planted, known)
    assert isinstance(advance, Enter)
    loaded = advance.search.loaded
    assert (advance.enclosing.good, advance.enclosing.bad) == (passing_end(loaded), failing_end(loaded))
    assert [(rate.commit, rate.failures, rate.runs) for rate in advance.enclosing.rates] == [
        ("0", 0, 5),
        ("8", 5, 5),
    ]


def test_an_end_that_was_a_skip_is_refused_unless_that_was_before_a_resume() -> None:
    planted = broken_line(9, 5)
    known = shown(shown(about_stack(planted), "0 lib-0", GOOD), "8 lib-0", BAD, SKIP)
    with pytest.raises(UserError, match="expected a run that passes or fails as asked"):
        after(planted, known)
    resumed = MeasuringEnds(range_search=measuring(planted).range_search, before=3)
    assert started(step(resumed, known, answers_of(planted))[1])

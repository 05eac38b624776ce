"""Both ends are run first: they differ, or they are swapped, do not differ, or cannot be judged."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from precision_bisect.bisect.engine.answer import Advance, Enter, Wait
from precision_bisect.bisect.engine.bisection import EndMeasurement
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import BisectionKnowledge, Needs, failing_end, passing_end
from precision_bisect.runner.errors import EndsError, UserError
from precision_bisect.store.vocabulary import Judgement, Phase, Seeks, Verdict
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, question
from tests.bisect.engine.stepping import (
    about_stack,
    answers_of,
    lost,
    running,
    search_of,
    shown,
    shown_at,
    started,
    step,
)
from tests.support.quick import quick_first

GOOD, BAD, SKIP = Judgement.GOOD, Judgement.BAD, Judgement.SKIP


def stack(outcome: Callable[[int], Judgement], size: int = 9) -> PlantedStack:
    return PlantedStack(outcome=lambda line, lib: outcome(line), pins=["lib-0"] * size)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_ends_that_differ_are_seen_once_each_the_good_one_first(jobs: int) -> None:
    task = bisect(broken_line(9, 5), jobs=jobs)
    log = task.simulated.bisection.known.log
    seen = [probe.content for probe in log.ended if probe.phase is Phase.ENDPOINT]
    assert task.simulated.started[:2] == ["0 lib-0", "8 lib-0"]
    assert sorted(seen) == ["0 lib-0", "8 lib-0"]
    assert task.conclusion is not None
    assert [(rate.end, rate.failures == rate.runs) for rate in task.conclusion.rates] == [
        ("good", False),
        ("bad", True),
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
    assert len(task.simulated.started) <= 3 + jobs


def test_ends_that_show_the_opposite_in_one_place_are_run_in_another() -> None:
    planted = stack(lambda line: BAD if line < 5 else GOOD)
    known = about_stack(planted)
    state = EndMeasurement(range_search=search_of(planted.load(known.question.range)), before=0)
    known = shown_at(known, "0 lib-0", BAD, BAD, place="slot 0")
    known = shown_at(known, "8 lib-0", GOOD, GOOD, place="slot 0")
    advance = state.advance(known, Context(workers=4))
    assert {(each.target.commit, each.avoid) for each in started(advance)} == {
        ("0", frozenset({"slot 0"})),
        ("8", frozenset({"slot 0"})),
    }
    with pytest.raises(EndsError, match="did you mean --find-fix"):
        state.advance(known, Context(workers=1))


def test_ends_that_show_the_opposite_once_each_are_no_swapped_ones() -> None:
    """Runs that come and go do so too."""
    planted = stack(lambda line: BAD if line < 5 else GOOD)
    known = about_stack(planted)
    state = EndMeasurement(range_search=search_of(planted.load(known.question.range)), before=0)
    known = shown_at(shown_at(known, "0 lib-0", BAD, place="slot 0"), "8 lib-0", GOOD, place="slot 0")
    advance = state.advance(known, Context(workers=1))
    assert [each.target.commit for each in started(advance)] == ["0"]
    known = shown_at(known, "0 lib-0", GOOD, place="slot 0")
    advance = state.advance(known, Context(workers=1))
    assert [each.target.commit for each in started(advance)] == ["8"]


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_good_end_that_always_fails_is_refused(jobs: int) -> None:
    task = bisect(stack(lambda line: BAD), jobs=jobs)
    assert isinstance(task.error, EndsError)
    assert "found 3 failures in a row; name another commit, or if it passes in fewer than 78 % of its" in str(
        task.error
    )
    assert "let one command behind -- repeat the case" in str(task.error)
    assert len(task.simulated.started) <= 4 + jobs


def test_an_end_that_fails_in_one_place_alone_is_run_in_another() -> None:
    planted = stack(lambda line: BAD)
    known = about_stack(planted)
    state = EndMeasurement(range_search=search_of(planted.load(known.question.range)), before=0)
    known = shown_at(known, "0 lib-0", BAD, BAD, BAD, place="slot 0")
    known = shown_at(known, "8 lib-0", BAD, place="slot 1")
    advance = state.advance(known, Context(workers=4))
    assert [(each.target.commit, each.avoid) for each in started(advance)] == [("0", frozenset({"slot 0"}))]
    with pytest.raises(EndsError, match="found 3 failures in a row"):
        state.advance(known, Context(workers=1))
    elsewhere = shown_at(known, "0 lib-0", BAD, place="slot 2")
    with pytest.raises(EndsError, match="found 4 failures in a row"):
        state.advance(elsewhere, Context(workers=4))


def test_an_end_is_given_up_where_there_is_no_other_place() -> None:
    planted = stack(lambda line: BAD)
    known = about_stack(planted)
    state = EndMeasurement(range_search=search_of(planted.load(known.question.range)), before=0)
    known = shown_at(known, "0 lib-0", *[BAD] * 9, place="slot 0")
    known = shown_at(known, "8 lib-0", BAD, place="slot 0")
    with pytest.raises(EndsError, match="found 9 failures in a row"):
        state.advance(known, Context(workers=4))


@pytest.mark.parametrize(("seeks", "most"), [(Seeks.REGRESSION, 4), (Seeks.FIX, 9)])
def test_an_end_that_fails_is_refused_sooner_than_one_that_passes(seeks: Seeks, most: int) -> None:
    def runs(judgement: Judgement) -> int:
        planted = stack(lambda line: judgement)
        task = bisect(planted, question(planted, range=planted.range(seeks=seeks)))
        assert isinstance(task.error, EndsError)
        return len(task.simulated.started)

    assert runs(BAD) <= most < runs(GOOD)


@pytest.mark.parametrize(("good", "bad"), [(0.1, 0.9), (0.05, 1.0), (0.2, 0.95)])
def test_a_good_end_that_fails_now_and_then_is_run_again(good: float, bad: float) -> None:
    refused, failed_first = 0, 0
    for seed in range(100):
        chance = random.Random(seed)
        outcomes: list[tuple[int, Judgement]] = []

        def outcome(
            line: int, chance: random.Random = chance, outcomes: list[tuple[int, Judgement]] = outcomes
        ) -> Judgement:
            outcomes.append((line, BAD if chance.random() < (bad if line else good) else GOOD))
            return outcomes[-1][1]

        task = bisect(stack(outcome, size=2))
        refused += isinstance(task.error, EndsError)
        failed_first += outcomes[0][1] is BAD and outcomes[1][1] is BAD
    assert failed_first > 0
    assert refused <= 3


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_bad_end_that_never_fails_is_given_up_with_the_rate_that_is_left(jobs: int) -> None:
    task = bisect(stack(lambda line: GOOD), jobs=jobs)
    assert isinstance(task.error, EndsError)
    assert "bad 8: expected a commit where the case fails" in str(task.error)
    assert re.search(
        r"if it fails in fewer than 1\d % of its runs, let one command behind -- repeat", str(task.error)
    )
    assert 20 <= len(task.simulated.started) <= 36


@pytest.mark.parametrize("rate", quick_first([0.2, 0.1]))
def test_a_bad_end_that_seldom_fails_is_waited_for(rate: float) -> None:
    refused = 0
    for seed in range(20):
        chance = random.Random(seed)
        runs = [chance.random() < rate for _ in range(200)]
        turns = iter(runs)
        task = bisect(stack(lambda line, turns=turns: BAD if line and next(turns) else GOOD, size=2))
        refused += task.culprit is None
    assert refused <= 3


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("end", [0, 8])
def test_an_end_that_cannot_be_judged_is_refused(end: int, jobs: int) -> None:
    task = bisect(stack(lambda line: SKIP if line == end else BAD if line >= 5 else GOOD), jobs=jobs)
    assert isinstance(task.error, UserError)
    assert not isinstance(task.error, EndsError)
    assert str(task.error).startswith("good 0" if end == 0 else "bad 8")


@pytest.mark.parametrize("jobs", [1, 4])
def test_where_all_commits_fail_equally_often_none_is_named_though_each_end_showed_once_what_it_stands_for(
    jobs: int,
) -> None:
    turns = {line: iter([BAD if line else GOOD, GOOD if line else BAD] * 800) for line in range(9)}
    task = bisect(stack(lambda line: next(turns[line])), jobs=jobs)
    assert task.conclusion is not None
    assert not task.conclusion.culprits


def test_an_end_that_seldom_fails_is_run_until_it_does() -> None:
    chance = random.Random(2)
    task = bisect(stack(lambda line: BAD if line >= 5 and chance.random() < 0.4 else GOOD), jobs=2)
    assert task.culprit == "5"
    assert task.conclusion is not None
    assert task.conclusion.rates[1].failures >= 1


def measuring(planted: PlantedStack, seeks: Seeks = Seeks.REGRESSION) -> EndMeasurement:
    return EndMeasurement(range_search=search_of(planted.load(planted.range(seeks=seeks))), before=0)


def after(
    planted: PlantedStack, known: BisectionKnowledge, *, workers: int = 1, seeks: Seeks = Seeks.REGRESSION
) -> Advance:
    return step(measuring(planted, seeks), known, answers_of(planted), workers=workers)[1]


@pytest.mark.parametrize(("seeks", "good", "bad"), [(Seeks.REGRESSION, "0", "8"), (Seeks.FIX, "8", "0")])
def test_the_end_that_should_pass_is_run_first_then_the_other(seeks: Seeks, good: str, bad: str) -> None:
    planted = broken_line(9, 5)
    known = about_stack(planted, range=planted.range(seeks=seeks))
    (first,) = started(after(planted, known, seeks=seeks))
    assert (first.target.commit, first.phase) == (good, Phase.ENDPOINT)
    assert after(planted, running(known, first), seeks=seeks) == Wait(Needs())
    (second,) = started(after(planted, shown(known, f"{good} lib-0", GOOD), seeks=seeks))
    assert second.target.commit == bad
    both = started(after(planted, known, seeks=seeks, workers=4))
    assert [probe.target.commit for probe in both] == [good, bad]


def test_the_search_begins_once_each_end_has_shown_what_it_stands_for() -> None:
    planted = broken_line(9, 5)
    known = shown(shown(about_stack(planted), "0 lib-0", BAD, GOOD), "8 lib-0", BAD)
    advance = after(planted, known)
    assert isinstance(advance, Enter)
    loaded = advance.search.loaded
    assert (advance.enclosing.good, advance.enclosing.bad) == (passing_end(loaded), failing_end(loaded))


def test_an_end_that_was_a_skip_is_refused_unless_that_was_before_a_resume() -> None:
    planted = broken_line(9, 5)
    known = shown(shown(about_stack(planted), "0 lib-0", GOOD), "8 lib-0", GOOD, SKIP)
    with pytest.raises(UserError, match="expected a run that passes or fails as asked"):
        after(planted, known)
    resumed = EndMeasurement(range_search=measuring(planted).range_search, before=3)
    assert started(step(resumed, known, answers_of(planted))[1])


GOOD_LINE, BAD_LINE = "0 lib-0", "8 lib-0"
CRASH, DEVICE = Verdict.CRASH, Verdict.DEVICE_ERROR


@pytest.mark.parametrize("content", [GOOD_LINE, BAD_LINE])
@pytest.mark.parametrize("verdicts", [[CRASH], [CRASH, DEVICE]])
def test_an_end_whose_runs_come_and_go_is_run_again(content: str, verdicts: list[Verdict]) -> None:
    planted = broken_line(9, 5)
    other, does = (BAD_LINE, BAD) if content == GOOD_LINE else (GOOD_LINE, GOOD)
    known = lost(shown(about_stack(planted), other, does), content, *verdicts)
    assert [probe.target.content for probe in started(after(planted, known))] == [content]


@pytest.mark.parametrize(
    ("verdicts", "found"),
    [
        ([CRASH] * 3, "crash, 3 runs could not be judged"),
        ([Verdict.BUILD_ERROR], "build_error"),
        ([CRASH, Verdict.TIMEOUT], "timeout"),
    ],
)
def test_an_end_that_is_lost_for_good_is_refused(verdicts: list[Verdict], found: str) -> None:
    planted = broken_line(9, 5)
    known = lost(shown(about_stack(planted), GOOD_LINE, GOOD), BAD_LINE, *verdicts)
    with pytest.raises(UserError, match=f"expected a run that passes or fails as asked, found {found}"):
        after(planted, known)


@pytest.mark.parametrize("content", [GOOD_LINE, BAD_LINE])
def test_an_end_that_the_machine_lost_is_refused_with_what_to_do_about_the_machine(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(Verdict.ENVIRONMENT_ERROR.traits, remedy="let the board cool down")
    monkeypatch.setattr(Verdict, "traits", traits)
    planted = broken_line(9, 5)
    other, does = (BAD_LINE, BAD) if content == GOOD_LINE else (GOOD_LINE, GOOD)
    known = lost(shown(about_stack(planted), other, does), content, Verdict.ENVIRONMENT_ERROR)
    with pytest.raises(UserError, match="; let the board cool down, then resume: what could not be judged"):
        after(planted, known)


def test_lost_runs_of_both_ends_do_not_show_that_they_are_swapped() -> None:
    planted = broken_line(9, 5)
    known = lost(lost(about_stack(planted), GOOD_LINE, DEVICE, DEVICE), BAD_LINE, DEVICE, DEVICE)
    assert [probe.target.content for probe in started(after(planted, known))] == [GOOD_LINE]


def test_an_end_that_is_lost_as_often_as_it_is_judged_may_be_lost_more_often() -> None:
    planted = broken_line(9, 5)
    known = shown(shown(about_stack(planted), GOOD_LINE, GOOD), BAD_LINE, GOOD, GOOD)
    known = lost(known, BAD_LINE, *[DEVICE] * 4)
    assert [probe.target.content for probe in started(after(planted, known))] == [BAD_LINE]
    with pytest.raises(UserError, match="5 runs could not be judged"):
        after(planted, lost(known, BAD_LINE, DEVICE))

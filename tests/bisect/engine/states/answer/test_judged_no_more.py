"""Once nothing can be judged any more the search ends, and says since when; a wall of untestable commits is none."""

import itertools
from collections.abc import Sequence

import pytest

from precision_bisect.bisect.engine.probes import FinishedProbe
from precision_bisect.bisect.engine.states.answer.judged_no_more import judged_no_more
from precision_bisect.runner.errors import UserError
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line
from tests.bisect.engine.stepping import B, G, S, about_stack, shown


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("since", [3, 6, 9])
def test_a_search_ends_once_what_passed_cannot_be_judged_either(since: int, jobs: int) -> None:
    runs = itertools.count(1)

    def outcome(line: int, lib: str) -> Judgement:
        return S if next(runs) > since else B if line >= 41 else G

    task = bisect(PlantedStack(outcome=outcome, pins=["lib-0"] * 60), jobs=jobs)
    assert isinstance(task.error, UserError)
    if jobs == 1:
        assert str(task.error).startswith(f"runs {since + 1} to ")
    assert "though commits among them were before: something besides the commits changed; mend it" in str(
        task.error
    )
    assert len(task.simulated.started) <= since + 10 * jobs


def test_a_wall_of_untestable_commits_is_searched_as_it_was() -> None:
    task = bisect(broken_line(60, 50, skips=range(8, 48)))
    assert task.culprit == "50"
    assert task.simulated.started.count("0 lib-0") <= 4


def test_suspects_that_cannot_be_tested_are_told_as_before() -> None:
    task = bisect(broken_line(9, 4, skips=range(2, 8)))
    assert task.error is None
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.ONLY_SKIPPED
    assert task.simulated.started.count("0 lib-0") <= 3


def ended(*runs: tuple[str, Judgement]) -> Sequence[FinishedProbe]:
    known = about_stack(broken_line(12, 6))
    for commit, judgement in runs:
        known = shown(known, commit, judgement)
    return known.log.ended


NEW = [(str(number), S) for number in range(3, 8)]


@pytest.mark.parametrize(
    ("runs", "lost"),
    [
        ([("0", G), ("11", B), *NEW, ("0", S), ("11", S)], 7),
        ([("0", G), ("11", B), *NEW, ("0", S)], 0),
        ([("0", G), ("11", B), *NEW, ("8", S), ("9", S)], 0),
        ([("0", G), ("11", B), *NEW, ("0", S), ("0", G), ("0", S), ("11", S)], 0),
        ([("0", G), ("11", B), ("0", S), ("11", S)], 0),
    ],
    ids=["two of before", "one of before", "new ones", "judged between", "few"],
)
def test_two_runs_of_what_was_judged_before_tell_it(runs: list[tuple[str, Judgement]], lost: int) -> None:
    assert len(judged_no_more(ended(*runs))) == lost

"""Once nothing can be judged any more the search ends, and says since when; a wall of untestable commits is none."""

import itertools
from collections.abc import Sequence
from random import Random

import pytest

from precision_bisect.bisect.engine.runs import FinishedProbe
from precision_bisect.bisect.engine.trouble import unjudgeable_runs
from precision_bisect.runner.errors import UserError
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase
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
    assert "though commits among them were before: something besides the commits changed; fix it" in str(
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


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_that_comes_and_goes_is_no_trouble_of_the_machine(seed: int) -> None:
    """A fault crashes most runs until an assertion is taken out, then it is a mismatch."""
    chance = Random(seed)

    def outcome(line: int, lib: str) -> Judgement:
        if line < 7 or chance.random() < 0.3:
            return G
        return B if line >= 81 else S

    task = bisect(PlantedStack(outcome=outcome, pins=["lib-0"] * 136))
    assert task.error is None, task.error


def ended(*runs: tuple[str, Judgement]) -> Sequence[FinishedProbe]:
    known = about_stack(broken_line(12, 6))
    for commit, judgement in runs:
        phase = Phase.ENDPOINT if commit in ("0", "11") else Phase.SEARCH
        known = shown(known, commit, judgement, phase=phase)
    return known.log.ended


ENDS = [("0", G), ("11", B)]
JUDGED = [(str(number), G) for number in range(1, 9)]
NEW = [(str(number), S) for number in range(3, 8)]


@pytest.mark.parametrize(
    ("runs", "lost"),
    [
        ([*ENDS, *JUDGED, ("0", S), ("11", S), ("3", S), ("4", S)], 4),
        ([*ENDS, *JUDGED, *NEW, ("0", S)], 0),
        ([*ENDS, *JUDGED, *NEW, ("3", S), ("3", S), ("4", S), ("4", S)], 0),
        ([*ENDS, *JUDGED, *NEW, ("0", S), ("0", G), ("0", S), ("11", S)], 0),
        ([*ENDS, *JUDGED, ("0", S), ("11", S)], 0),
        ([*ENDS, *NEW, ("0", S), ("11", S), ("0", S)], 0),
        ([*ENDS, *NEW, ("0", S), ("11", S), ("0", S), ("0", S)], 9),
        ([*ENDS, ("0", S), ("0", G), ("11", S), ("11", B), *NEW, *[("0", S)] * 4], 0),
    ],
    ids=[
        "ends", "one of an end", "other commits", "judged between", "few", "early", "early and long",
        "an end that comes and goes",
    ],
)  # fmt: skip
def test_runs_of_the_ends_tell_it(runs: list[tuple[str, Judgement]], lost: int) -> None:
    assert len(unjudgeable_runs(ended(*runs))) == lost

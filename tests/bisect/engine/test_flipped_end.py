"""An end showed at first what it stands for, and the other ever since: something besides the commits changed."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from precision_bisect.bisect.engine.runs import ProbeLog
from precision_bisect.bisect.engine.trouble import changed_end_notice, environment_changed
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Seeks
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, question
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.engine.stepping import B, G, S, about_stack, shown

LOADED = loaded_range(["1", "2"], CommitGraph([[], [0]]), "0")


def log(*at_good: Judgement, then: Sequence[Judgement] = (), places: Sequence[str] = ("slot",)) -> ProbeLog:
    """Runs of the good end, then of a commit."""
    stack = broken_line(3, 1)
    known = shown(shown(about_stack(stack), "0", *at_good), "1", *then)
    places_in_turn = itertools.cycle(places)
    return ProbeLog(tuple(replace(probe, place=next(places_in_turn)) for probe in known.log.ended))


def test_a_search_ends_once_it_is_clear_and_begins_its_answer_with_it() -> None:
    first = itertools.chain([G], itertools.repeat(B))
    task = bisect(PlantedStack(outcome=lambda line, lib: next(first), pins=["lib-0"] * 40))
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.NO_CULPRIT
    assert not task.conclusion.suspects
    assert re.match(
        r"the good end 0 passed in run 1 and failed in all 12 runs since: something besides the commits changed; "
        "the environment moved while it was searched",
        task.conclusion.message,
    )
    assert len(task.simulated.started) <= 45


@pytest.mark.parametrize("seeks", [Seeks.REGRESSION, Seeks.FIX])
@pytest.mark.parametrize("since", [3, 6, 9])
def test_a_search_ends_whose_commits_all_fail_from_a_run_on(seeks: Seeks, since: int) -> None:
    """Others passed after the passing end did."""
    runs = itertools.count(1)
    stack = PlantedStack(
        outcome=lambda line, lib: (
            B if next(runs) > since or (line >= 28) is (seeks is Seeks.REGRESSION) else G
        ),
        pins=["lib-0"] * 40,
    )
    task = bisect(stack, question(stack, range=stack.range(seeks=seeks)))
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.NO_CULPRIT
    assert "the environment moved while it was searched" in task.conclusion.message
    assert len(task.simulated.started) <= 60


def of_bad_end(*judgements: Judgement) -> ProbeLog:
    """Runs of the bad end, behind one of the good end."""
    return shown(shown(about_stack(broken_line(3, 1)), "0", G), "2", *judgements).log


def test_a_failing_end_that_passes_for_good_has_turned_too() -> None:
    healed = of_bad_end(B, B, B, *[G] * 20)
    assert changed_end_notice(LOADED, healed) == (
        "the bad end 2 failed in run 2, 3, 4 and passed in all 20 runs since: something besides the commits changed; "
    )
    assert environment_changed(LOADED, healed, workers=1)
    assert not environment_changed(LOADED, healed, workers=2)


@pytest.mark.parametrize("judgements", [[B, *[G] * 60], [B, B, *[G] * 20, B, *[G] * 20], [B] * 30, [G] * 30])
def test_a_failure_that_is_rare_has_not_turned(judgements: list[Judgement]) -> None:
    assert not environment_changed(LOADED, of_bad_end(*judgements), workers=1)
    assert changed_end_notice(LOADED, of_bad_end(*judgements)) == ""


@pytest.mark.parametrize(
    "judgements",
    [[G, *[B] * 11], [B, G, *[B] * 12], [G, *[B] * 6, G, *[B] * 12], [B] * 13],
    ids=["too few", "failed before", "passed between", "never passed"],
)
def test_a_failure_that_comes_and_goes_is_no_move(judgements: list[Judgement]) -> None:
    assert changed_end_notice(LOADED, log(*judgements)) == ""
    assert not environment_changed(LOADED, log(*judgements), workers=1)


def test_what_could_not_be_judged_is_passed_over() -> None:
    turned = log(G, G, S, *[B] * 12)
    assert changed_end_notice(LOADED, turned).startswith(
        "the good end 0 passed in run 1, 2 and failed in all 12 runs"
    )
    assert environment_changed(LOADED, turned, workers=1)


def test_where_anything_passed_since_the_search_goes_on() -> None:
    turned = log(G, *[B] * 12, then=[B, G])
    assert changed_end_notice(LOADED, turned)
    assert not environment_changed(LOADED, turned, workers=1)


@pytest.mark.parametrize(("places", "ends"), [(["a"], False), (["a", "b"], True)])
def test_one_of_several_places_may_be_broken(places: list[str], ends: bool) -> None:
    assert environment_changed(LOADED, log(G, *[B] * 12, places=places), workers=2) is ends

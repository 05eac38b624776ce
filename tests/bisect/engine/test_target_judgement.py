"""A single target is judged by as many runs as its failure asks for."""

from dataclasses import replace

import pytest

from precision_bisect.bisect.engine.answer import await_probe
from precision_bisect.bisect.engine.failures import (
    describe_probe,
    judge_target,
    passes_needed,
)
from precision_bisect.bisect.engine.runs import BisectionKnowledge, ProbeLog, WantedProbe
from precision_bisect.bisect.history.range import Target
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict, VerdictSource
from tests.bisect.engine.planted import PlantedStack
from tests.bisect.engine.simulated import equal_times, simulated_probe
from tests.bisect.engine.stepping import B, G, S, about_stack, running, shown, started

TARGET = Target(repository="line", commit="3", held={}, content="3")
WANTED = WantedProbe(target=TARGET, phase=Phase.COUNTERFACTUAL, range=1)


def nothing_known() -> BisectionKnowledge:
    return about_stack(PlantedStack(outcome=lambda line, lib: G, pins=["lib-0"] * 9))


@pytest.mark.parametrize(
    ("shows", "judgement"),
    [((), None), ((G,), G), ((B,), B), ((G, B), B), ((S,), S), ((S, G), G), ((S, B), B)],
)
def test_one_failure_makes_a_target_bad_and_where_all_bad_ones_fail_one_pass_makes_it_good(
    shows: tuple[Judgement, ...], judgement: Judgement | None
) -> None:
    assert judge_target(shown(nothing_known(), "3", *shows).log, TARGET) is judgement


@pytest.mark.parametrize("failures", [1, 5, 9])
def test_the_rarer_the_failure_the_more_passes_are_needed(failures: int) -> None:
    log = shown(nothing_known(), "bad", *[B] * failures, *[G] * (10 - failures)).log
    needed = passes_needed(log)
    missed = 1 - (failures + 0.5) / 11
    assert missed**needed <= 0.002 < missed ** (needed - 1)
    known = shown(nothing_known(), "bad", *[B] * failures, *[G] * (10 - failures))
    assert judge_target(shown(known, "3", *[G] * (needed - 1)).log, TARGET) is None
    assert judge_target(shown(known, "3", *[G] * needed).log, TARGET) is G


def test_at_least_as_many_passes_are_needed_as_were_asked() -> None:
    assert passes_needed(ProbeLog(), least=4) == 4
    assert judge_target(shown(nothing_known(), "3", G, G, G).log, TARGET, passes=4) is None


def test_a_target_is_not_started_again_while_it_runs() -> None:
    known = nothing_known()
    assert started(await_probe(known, WANTED)) == (WANTED,)
    assert started(await_probe(running(known, WANTED), WANTED)) == ()


def test_what_a_verdict_says_already_is_not_said_again() -> None:
    gone = "exit code 127: the command was not found at this commit"
    probe = simulated_probe(1, "good", Phase.ENDPOINT, S, times=equal_times("good"))
    skipped = replace(probe, verdict=Verdict.UNKNOWN, signature=gone, verdict_source=VerdictSource.EXIT_CODE)
    assert describe_probe(replace(skipped, evidence=("exit code 127",))) == gone
    assert describe_probe(replace(skipped, evidence=("sh: x: not found",))) == f"{gone}: sh: x: not found"

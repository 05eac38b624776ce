"""A culprit moves a pin: the 2 x 2 of the pin and the commit that holds it tells which of them is to blame."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from precision_bisect.bisect.engine import culprit
from precision_bisect.bisect.engine.answer import Conclusion, FinalState, Move, Wait
from precision_bisect.bisect.engine.culprit import PinDescent
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import Needs
from precision_bisect.bisect.history.questions import AskPatches
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, drive, planted_task, question
from tests.bisect.engine.stepping import (
    B,
    G,
    about_stack,
    answers_of,
    confirmed,
    running,
    shown,
    started,
    step,
)

SIZE, CULPRIT = 9, 5
PINS = ["lib-0"] * CULPRIT + ["lib-1"] * (SIZE - CULPRIT)


def stack(fails: Callable[[bool, bool], bool]) -> PlantedStack:
    """A case that fails by what is new: the commit of the line, the pin."""
    return PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if fails(line >= CULPRIT, lib == "lib-1") else Judgement.GOOD,
        pins=PINS,
        parents={"lib-1": "lib-0"},
    )


def concluded(
    planted: PlantedStack, *, jobs: int = 1, repositories: frozenset[str] | None = None
) -> Conclusion:
    asked = question(planted)
    if repositories is not None:
        asked = replace(asked, repositories=repositories)
    task = bisect(planted, asked, jobs=jobs)
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.CULPRIT
    return task.conclusion


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(
    ("fails", "blame", "cells", "told"),
    [
        (lambda line, lib: line, "superproject", ("bad", "good"), "by its own change, not by moving lib"),
        (lambda line, lib: line and lib, "interaction", ("good", "good"), "neither of which does it alone"),
        (lambda line, lib: line or lib, "either", ("bad", "bad"), "each does it alone"),
    ],
)
def test_blame_of_the_commit_itself(
    fails: Callable[[bool, bool], bool], blame: str, cells: tuple[str, str], told: str, jobs: int
) -> None:
    conclusion = concluded(stack(fails), jobs=jobs)
    assert conclusion.culprits[0].commit == str(CULPRIT)
    (tested,) = conclusion.counterfactuals
    assert tested.blame == blame
    assert (tested.new_holder_old_target.value, tested.old_holder_new_target.value) == cells
    assert told in conclusion.message


@pytest.mark.parametrize("jobs", [1, 3])
def test_blame_of_the_pin_leads_into_the_pinned_repository(jobs: int) -> None:
    conclusion = concluded(stack(lambda line, lib: lib), jobs=jobs)
    assert conclusion.counterfactuals[0].blame == "submodule"
    assert conclusion.culprits[0].commit == "lib-1"
    assert conclusion.through is not None
    assert conclusion.through.commit == str(CULPRIT)


def test_a_pin_without_a_history_is_a_version() -> None:
    conclusion = concluded(stack(lambda line, lib: lib), repositories=frozenset({"line"}))
    assert conclusion.counterfactuals[0].blame == "version"
    assert conclusion.culprits[0].commit == str(CULPRIT)
    assert conclusion.message.endswith("by moving lib from lib-0 to lib-1")


@pytest.mark.parametrize("untestable", [(CULPRIT, "lib-0"), (CULPRIT - 1, "lib-1")])
def test_a_cell_that_cannot_be_tested_leaves_the_blame_open(untestable: tuple[int, str]) -> None:
    plain = stack(lambda line, lib: lib)

    def outcome(line: int, lib: str) -> Judgement:
        return Judgement.SKIP if (line, lib) == untestable else plain.outcome(line, lib)

    conclusion = concluded(replace(plain, outcome=outcome))
    assert conclusion.counterfactuals[0].blame == "unknown"
    assert "could not be told apart" in conclusion.message


def test_a_culprit_that_moves_no_pin_is_the_answer() -> None:
    conclusion = concluded(broken_line(SIZE, CULPRIT))
    assert conclusion.counterfactuals == ()
    assert conclusion.message == "line 5 introduced it"


def test_each_cell_is_run_once_where_failures_are_certain() -> None:
    task = bisect(stack(lambda line, lib: line and lib))
    counterfactual = [
        probe.content
        for probe in task.simulated.bisection.known.log.ended
        if probe.phase is Phase.COUNTERFACTUAL
    ]
    assert counterfactual == ["5 lib-0", "4 lib-1"]


def test_a_culprit_that_alone_has_a_patch_is_not_told_from_the_patch() -> None:
    planted = broken_line(SIZE, CULPRIT)
    task = planted_task(planted, question(planted, has_patches=True))
    patch = str(SIZE - 1)
    task.simulated.answers = {
        **planted.answers,
        AskPatches: lambda asked: (patch,) if asked.commit == str(CULPRIT) else (),
    }
    drive(task)
    conclusion = task.conclusion
    assert conclusion is not None
    assert conclusion.outcome is BisectionOutcome.SUSPECT
    assert [each.commit for each in conclusion.suspects] == [str(CULPRIT), patch]
    assert conclusion.message.endswith(
        f"pick it on the good end and all behind it: --cherry-pick {patch}@0~1..{patch}~1"
    )


def test_the_culprit_is_run_with_the_old_pin_then_its_parent_with_the_new_one() -> None:
    planted = stack(lambda line, lib: lib)
    state = culprit.PinTests(confirmed(planted.load(planted.range()), CULPRIT - 1))
    known, advance = step(state, about_stack(planted), answers_of(planted))
    (with_old,) = started(advance)
    assert (with_old.target.content, with_old.phase) == (f"{CULPRIT} lib-0", Phase.COUNTERFACTUAL)
    assert state.advance(running(known, with_old), Context()) == Wait(Needs())
    known, advance = step(state, shown(known, f"{CULPRIT} lib-0", G), answers_of(planted))
    assert [probe.target.content for probe in started(advance)] == [f"{CULPRIT - 1} lib-1"]
    _, advance = step(state, shown(known, f"{CULPRIT - 1} lib-1", B), answers_of(planted))
    assert isinstance(advance, Move)
    assert isinstance(advance.state, PinDescent)
    assert (advance.state.pin.old, advance.state.pin.new) == ("lib-0", "lib-1")
    assert [tested.blame for tested in advance.state.culprit.pin_tests] == ["submodule"]


def test_once_a_failure_comes_and_goes_one_pass_with_the_old_pin_proves_nothing() -> None:
    planted = stack(lambda line, lib: lib)
    state = culprit.PinTests(confirmed(planted.load(planted.range()), CULPRIT - 1))
    known = shown(about_stack(planted), "8 lib-1", B, G, B, G)
    known = shown(known, f"{CULPRIT} lib-0", *[G] * 8)
    _, advance = step(state, known, answers_of(planted))
    # It fails in 2 of 4 runs: only (1/2) ** 9 lies below the 0.002 that may be missed.
    assert [probe.target.content for probe in started(advance)] == [f"{CULPRIT} lib-0"]
    _, advance = step(state, shown(known, f"{CULPRIT} lib-0", G), answers_of(planted))
    assert [probe.target.content for probe in started(advance)] == [f"{CULPRIT - 1} lib-1"]


def test_a_culprit_that_moves_no_pin_is_the_answer_without_a_further_run() -> None:
    planted = broken_line(SIZE, CULPRIT)
    state = culprit.PinTests(confirmed(planted.load(planted.range()), CULPRIT - 1))
    _, advance = step(state, about_stack(planted), answers_of(planted))
    assert isinstance(advance, Move)
    assert isinstance(advance.state, FinalState)
    assert [named.commit for named in advance.state.inner.culprits] == [str(CULPRIT)]
    assert advance.state.inner.message == f"line {CULPRIT} introduced it"

"""Golden data: given by the user, captured at the good end, or refused where that makes none."""

import pytest

from precision_bisect.bisect.engine.answer import Wait
from precision_bisect.bisect.engine.bisection import await_frozen_data
from precision_bisect.bisect.engine.runs import GivenData, Needs, SavedData, WantedProbe, passing_end
from precision_bisect.runner.errors import UserError
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, drive, planted_task, question
from tests.bisect.engine.simulated import SimulatedBisection, SimulatedTask
from tests.bisect.engine.stepping import G, about_stack, lost, search_of, shown


def saving(task: SimulatedTask) -> list[str]:
    """The contents of the probes that are to save what they make."""
    saved: list[str] = []

    def on_start(simulated: SimulatedBisection, wanted: WantedProbe) -> None:
        if wanted.save_golden:
            saved.append(wanted.target.content)

    task.simulated.on_start = on_start
    drive(task)
    return saved


@pytest.mark.parametrize("jobs", [1, 3])
def test_given_data_are_frozen_before_anything_runs(jobs: int) -> None:
    stack = broken_line(9, 5)
    task = planted_task(stack, question(stack, golden="given"), jobs=jobs)
    before: list[int] = []
    task.simulated.on_start = lambda simulated, wanted: before.append(len(simulated.freezes))
    drive(task)
    assert task.simulated.freezes == [GivenData()]
    assert {*before} == {1}
    assert task.culprit == "5"


@pytest.mark.parametrize("jobs", [1, 3])
def test_data_are_captured_by_one_run_of_the_good_end_which_counts(jobs: int) -> None:
    stack = broken_line(9, 5)
    task = planted_task(stack, question(stack, golden="captured"), jobs=jobs)
    assert saving(task) == ["0 lib-0"]
    assert task.simulated.freezes == [SavedData(probe=1, commit="0")]
    ends = [probe.content for probe in task.simulated.bisection.known.log.ended[:2]]
    assert ends == ["0 lib-0", "8 lib-0"]
    assert task.culprit == "5"


def test_none_are_frozen_where_none_are_asked_for() -> None:
    assert bisect(broken_line(9, 5)).simulated.freezes == []


def test_a_good_end_that_cannot_be_judged_makes_no_data() -> None:
    stack = PlantedStack(
        outcome=lambda line, lib: Judgement.SKIP if line == 0 else Judgement.BAD, pins=["lib-0"] * 9
    )
    task = bisect(stack, question(stack, golden="captured"))
    assert isinstance(task.error, UserError)
    assert "expected a validated pass" in str(task.error)
    assert task.simulated.freezes == []
    assert len(task.simulated.started) == 1


def test_a_good_end_whose_first_run_is_lost_makes_the_data_in_its_next_one() -> None:
    stack = broken_line(9, 5)
    known = lost(about_stack(stack, golden="captured"), "0 lib-0", Verdict.CRASH)
    good = passing_end(search_of(stack.load(stack.range())).loaded)
    again = await_frozen_data(known, good, ordinal=1)
    assert again is not None
    (wanted,) = again.needs.start
    assert wanted.save_golden
    freeze = await_frozen_data(shown(known, "0 lib-0", G, phase=Phase.ENDPOINT), good, ordinal=1)
    assert freeze == Wait(Needs(freeze=SavedData(probe=2, commit="0")))


def test_data_that_are_frozen_are_not_frozen_again() -> None:
    stack = broken_line(9, 5)
    task = drive(planted_task(stack, question(stack, golden="captured"), frozen=True))
    assert task.simulated.freezes == []
    assert task.culprit == "5"

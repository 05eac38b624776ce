"""A bisection that is stopped anywhere says what is known, and goes on from its finished probes; probes may end in any
order. A place that shows the same whatever commit runs there is told once, and no more is run there."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from typing_extensions import override

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.engine.runs import (
    BisectionQuestion,
    FinishedProbe,
    Needs,
    Notice,
    ProbeLog,
    WantedProbe,
)
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.planted import PlantedStack, bisect, broken_line, drive, planted_task, question
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask
from tests.support.quick import examples, quick_first

Case = tuple[PlantedStack, BisectionQuestion, str | None]
"""A stack, what is asked about it, and what is to be named; None where only untestable commits are left."""


def plain() -> Case:
    stack = broken_line(12, 7)
    return stack, question(stack), "7"


def with_skips() -> Case:
    stack = broken_line(12, 7, skips={3, 5, 9})
    return stack, question(stack), "7"


def only_skips_left() -> Case:
    stack = broken_line(12, 7, skips={6, 7, 8})
    return stack, question(stack), None


def captured() -> Case:
    stack = broken_line(12, 7)
    return stack, question(stack, golden="captured"), "7"


def without_good_end() -> Case:
    stack = broken_line(20, 13)
    return stack, question(stack, gallop=True, golden="captured"), "13"


def by_a_pin() -> Case:
    stack = PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if int(lib) >= 6 else Judgement.GOOD,
        pins=["1"] * 4 + ["9"] * 4,
        parents={str(place): str(place - 1) for place in range(1, 10)},
    )
    return stack, question(stack), "6"


def by_a_pin_that_moved_back() -> Case:
    stack = PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if int(lib) < 6 else Judgement.GOOD,
        pins=["9"] * 4 + ["1"] * 4,
        parents={str(place): str(place - 1) for place in range(1, 10)},
    )
    return stack, question(stack), "4"


CASES = [plain, with_skips, only_skips_left, captured, without_good_end, by_a_pin, by_a_pin_that_moved_back]


def stopped(case: Case, most: int, *, jobs: int = 1, seed: int = 0) -> tuple[SimulatedTask, Conclusion]:
    """A bisection whose budget is spent after some probes."""
    stack, asked, _ = case
    task = drive(planted_task(stack, asked, jobs=jobs, seed=seed, most=most))
    assert task.conclusion is not None, task.error
    return task, task.conclusion


def resumed(case: Case, earlier: SimulatedTask, *, jobs: int = 1, seed: int = 0) -> SimulatedTask:
    """The bisection that goes on where another one stopped, and knows its finished probes alone."""
    stack, asked, _ = case
    known = earlier.simulated.bisection.known
    return drive(
        planted_task(stack, asked, jobs=jobs, seed=seed, log=ProbeLog(known.log.ended), frozen=known.frozen)
    )


@pytest.mark.parametrize("make", quick_first(CASES, 3))
def test_stopped_after_every_probe_it_goes_on_as_if_it_had_never_stopped(make: Callable[[], Case]) -> None:
    case = make()
    whole = bisect(case[0], case[1])
    assert whole.conclusion is not None
    for most in range(1, len(whole.simulated.started)):
        earlier, conclusion = stopped(case, most)
        assert conclusion.outcome is BisectionOutcome.BUDGET
        later = resumed(case, earlier)
        assert later.conclusion == whole.conclusion
        assert [*earlier.simulated.started, *later.simulated.started] == whole.simulated.started


@pytest.mark.parametrize("jobs", quick_first([2, 4]))
@pytest.mark.parametrize("make", quick_first(CASES, 3))
def test_stopped_at_any_time_with_several_workers_it_ends_with_the_same_answer(
    make: Callable[[], Case], jobs: int
) -> None:
    case = make()
    whole = bisect(case[0], case[1], jobs=jobs)
    for most in range(1, len(whole.simulated.started), 2):
        earlier, conclusion = stopped(case, most, jobs=jobs, seed=most)
        if conclusion.outcome is not BisectionOutcome.BUDGET:
            continue  # this order of the probes took fewer
        later = resumed(case, earlier, jobs=jobs, seed=most + 1)
        assert later.culprit == case[2]
        counted = later.simulated.bisection.known.log
        assert counted.ended[: len(earlier.simulated.bisection.known.log.ended)] == (
            earlier.simulated.bisection.known.log.ended
        )
        assert not counted.running


@pytest.mark.parametrize("make", CASES)
def test_a_spent_budget_leaves_the_truth_among_the_suspects(make: Callable[[], Case]) -> None:
    case = make()
    whole = bisect(case[0], case[1])
    assert whole.conclusion is not None
    answer = {commit.commit for commit in (*whole.conclusion.culprits, *whole.conclusion.suspects)}
    answer |= {commit.commit for commit in (whole.conclusion.through, whole.conclusion.lost) if commit}
    for most in range(len(whole.simulated.started)):
        task, conclusion = stopped(case, most)
        assert conclusion.outcome is BisectionOutcome.BUDGET
        assert conclusion.message.endswith("enough")
        searched = task.simulated.bisection.state.search
        assert bool(conclusion.suspects) == (searched is not None)
        if conclusion.suspects:
            assert {suspect.commit for suspect in conclusion.suspects} & answer, most


@pytest.mark.parametrize("jobs", quick_first([3, 2, 5]))
@pytest.mark.parametrize("make", quick_first(CASES, 3))
def test_probes_may_end_in_any_order(make: Callable[[], Case], jobs: int) -> None:
    case = make()
    for seed in range(15):
        task = bisect(case[0], case[1], jobs=jobs, seed=seed)
        assert task.conclusion is not None
        assert task.culprit == case[2], (seed, task.conclusion.message)


def test_a_result_is_taken_once() -> None:
    log = bisect(*plain()[:2]).simulated.bisection.known.log
    with pytest.raises(ValueError, match="expected one result, found a second one"):
        log.with_finished(log.ended[0])


PLACES = ("slot 0", "slot 1", "slot 2", "slot 3")


@dataclass(eq=False, kw_only=True)
class InPlaces(SimulatedBisection):
    """Runs go to any of the places but those that they avoid; in `broken` so many fail whatever runs there."""

    chance: random.Random
    broken: str
    places: tuple[str, ...] = PLACES
    rate: float = 1.0
    avoided: list[frozenset[str]] = field(default_factory=list[frozenset[str]])

    @override
    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        place = self.chance.choice([place for place in self.places if place not in wanted.avoid])
        self.avoided.append(wanted.avoid)
        probe = replace(super().finished(number, wanted), place=place)
        fails = place == self.broken and self.chance.random() < self.rate
        return replace(probe, judgement=Judgement.BAD) if fails else probe


def test_it_is_told_once_and_avoided_from_then_on() -> None:
    told, left_out, avoided = zip(*(told_of(seed) for seed in range(8)), strict=True)
    # Where it ran little but what fails anyway, nothing shows.
    assert told.count(["slot 2"]) >= 4
    assert [each for each in told if each not in ([], ["slot 2"])] == []
    # Where it is told at last, no run comes after it.
    assert sum(avoided) >= 3
    # What was run afterwards may have acquitted it.
    assert {("slot 2",)} <= {*left_out} <= {(), ("slot 2",)}


def told_of(seed: int) -> tuple[list[str], tuple[str, ...], bool]:
    """The places that are told to be broken, those that count for nothing at the end, and whether runs avoided any."""
    stack = broken_line(30, 17)
    machine = Machine(jobs=4, chance=random.Random(seed))
    notices: list[str] = []

    def told(needs: Needs) -> None:
        notices.extend(note.text for note in needs.notes if isinstance(note, Notice))

    loaded = stack.load(stack.range())
    assert loaded is not None
    simulated = InPlaces(
        loaded=loaded,
        outcome=stack.judge,
        machine=machine,
        question=question(stack),
        answers=stack.answers,
        on_needs=told,
        chance=random.Random(seed),
        broken="slot 2",
    )
    task = SimulatedTask(simulated=simulated)
    Loop(machine).run([task])
    assert task.culprit == "17"
    found = [text.split(" is ")[0] for text in notices if "is likely broken" in text]
    assert frozenset() in simulated.avoided
    assert {*simulated.avoided} <= {frozenset[str](), frozenset(found)}
    assert task.conclusion is not None
    return found, task.conclusion.broken_places, any(simulated.avoided)


HOSTS = ("slot 0 of a", "slot 0 of b", "slot 0 of c")


@pytest.mark.parametrize("rate", quick_first([0.5, 1.0]))
def test_a_host_of_three_that_fails_by_itself_is_not_mistaken_for_a_commit(rate: float) -> None:
    wrong: list[int] = []
    for seed in range(examples(20)):
        stack = broken_line(30, 17)
        machine = Machine(jobs=3, chance=random.Random(seed))
        loaded = stack.load(stack.range())
        assert loaded is not None
        simulated = InPlaces(
            loaded=loaded,
            outcome=stack.judge,
            machine=machine,
            question=question(stack),
            answers=stack.answers,
            chance=random.Random(seed),
            broken=HOSTS[1],
            places=HOSTS,
            rate=rate,
        )
        task = SimulatedTask(simulated=simulated)
        Loop(machine).run([task])
        if task.culprit != "17":
            wrong.append(seed)
            continue
        culprit, parent = [
            simulated.bisection.known.log.probes_for(loaded.contents[name] or "") for name in ("17", "16")
        ]
        fails = {probe.place for probe in culprit if probe.judgement is Judgement.BAD}
        passes = {probe.place for probe in parent if probe.judgement is Judgement.GOOD}
        assert fails & passes or min(len(fails), len(passes)) > 1, f"{seed}: not compared in one place"
    # A confidence of 99 % is no certainty: of twenty one may be wrong, of the few of a quick run none.
    assert len(wrong) <= examples(20) // 20, wrong

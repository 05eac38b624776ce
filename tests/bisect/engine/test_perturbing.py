"""Perturbations are tried where a failure comes and goes; what one shows is named where the failure is that, too."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

import pytest

from precision_bisect.bisect.engine.answer import BisectionState
from precision_bisect.bisect.engine.runs import Notice, ProbeLog
from precision_bisect.bisect.engine.search import CulpritSearch, PerturbationTrials
from precision_bisect.bisect.history.questions import OfferedPerturbation
from precision_bisect.runner.case.case import PERTURBATION_KEY
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks, Verdict
from tests.bisect.engine.planted import MAX_PROBES, PlantedStack, drive, planted_task, question
from tests.bisect.engine.simulated import SimulatedTask
from tests.support.quick import quick_first

SIZE, CULPRIT = 33, 20

Rates = Callable[[int], float]
"""How often a commit fails."""


def since(commit: int, rate: float = 1.0) -> Rates:
    """Commits fail from one on, at a rate."""
    return lambda line: rate * (line >= commit)


def offered(name: str) -> OfferedPerturbation:
    return OfferedPerturbation(name=name, key=name, description=f"{name.upper()}=1")


def perturbed_task(
    natural: Rates,
    *,
    seeks: Seeks = Seeks.REGRESSION,
    jobs: int = 1,
    seed: int = 0,
    log: ProbeLog | None = None,
    most: int = MAX_PROBES,
    **under: Rates,
) -> SimulatedTask:
    """A bisection of a line that fails at rates of its own under each perturbation."""
    chance = Random(seed)
    rates = {None: natural, **under}
    flipped = seeks is Seeks.FIX
    shows: dict[str, Rates] = {}
    stack = PlantedStack(outcome=lambda line, lib: Judgement.SKIP, pins=["lib-0"] * SIZE)
    for line in range(SIZE):
        for name, of in rates.items():
            content = f"{line} lib-0"
            shows[content if name is None else offered(name).content(content)] = lambda _, line=line, of=of: (
                of(SIZE - 1 - line if flipped else line)
            )
    asked = question(
        stack, range=stack.range(seeks=seeks), perturbations=tuple(offered(name) for name in under)
    )
    task = planted_task(stack, asked, jobs=jobs, seed=seed, log=log, most=most)
    task.simulated.outcome = lambda content: (
        Judgement.BAD if chance.random() < shows[content](0) else Judgement.GOOD
    )
    return task


def log_of(task: SimulatedTask) -> ProbeLog:
    return task.simulated.bisection.known.log


def notices_of(task: SimulatedTask) -> list[str]:
    """Drive it to its end, and collect what it tells."""
    told: list[str] = []
    task.simulated.on_needs = lambda needs: told.extend(
        note.text for note in needs.notes if isinstance(note, Notice)
    )
    drive(task)
    return told


@pytest.mark.parametrize("jobs", quick_first([1, 3]))
@pytest.mark.parametrize("seeks", quick_first([Seeks.REGRESSION, Seeks.FIX]))
def test_the_one_that_makes_the_failure_certain_saves_runs_and_its_commit_is_confirmed_without_it(
    jobs: int, seeks: Seeks
) -> None:
    without, beside = 0, 0
    for seed in range(2):
        plain = drive(perturbed_task(since(CULPRIT, 0.3), seeks=seeks, jobs=jobs, seed=seed))
        task = perturbed_task(
            since(CULPRIT, 0.3),
            seeks=seeks,
            jobs=jobs,
            seed=seed,
            useless=since(CULPRIT, 0.3),
            certain=since(CULPRIT),
        )
        told = notices_of(task)
        culprit = CULPRIT if seeks is Seeks.REGRESSION else SIZE - CULPRIT
        assert task.conclusion is not None
        (named,) = task.conclusion.culprits
        assert (named.commit, named.under) == (str(culprit), "certain")
        assert (named.confidence or 0) >= 0.99
        failing = culprit if seeks is Seeks.REGRESSION else culprit - 1
        assert log_of(task).tally(f"{failing} lib-0")[Judgement.BAD]
        assert any("under certain (CERTAIN=1)" in each for each in told)
        without += len(plain.simulated.started)
        beside += len(task.simulated.started)
    assert beside < 0.7 * without


def test_a_plain_failure_is_searched_as_it_is() -> None:
    task = drive(perturbed_task(since(CULPRIT), certain=since(CULPRIT)))
    assert task.culprit == str(CULPRIT)
    assert {probe.phase for probe in log_of(task).ended} == {Phase.ENDPOINT, Phase.SEARCH, Phase.CONFIRM}


def test_none_is_tried_where_the_search_is_nearly_done() -> None:
    task = perturbed_task(since(CULPRIT, 0.97), certain=since(CULPRIT))
    # The bad end passed once, of twenty runs.
    passes = drive(perturbed_task(since(CULPRIT))).simulated.bisection.known.log.ended
    bad = next(probe for probe in passes if probe.content == f"{SIZE - 1} lib-0")
    many = [replace(bad, number=100 + place) for place in range(20)]
    once = replace(bad, number=200, judgement=Judgement.GOOD, verdict=Verdict.PASS)
    task = perturbed_task(since(CULPRIT), log=ProbeLog((*passes, *many, once)), certain=since(CULPRIT))
    drive(task)
    assert task.culprit == str(CULPRIT)
    assert Phase.PERTURBED not in {probe.phase for probe in log_of(task).ended}


@pytest.mark.parametrize("shown", [8, 27])
def test_another_fault_that_one_shows_is_not_named(shown: int) -> None:
    for seed in range(3):
        task = perturbed_task(since(CULPRIT, 0.4), seed=seed, misleading=since(shown))
        told = notices_of(task)
        assert task.conclusion is not None
        assert Phase.PERTURBED in {probe.phase for probe in log_of(task).ended}
        if task.conclusion.outcome is BisectionOutcome.CULPRIT:
            (named,) = task.conclusion.culprits
            assert (named.commit, named.under) == (str(CULPRIT), None)
            assert f"misleading shows another fault, since {shown}: " in " ".join(told)
        else:
            assert str(CULPRIT) in {suspect.commit for suspect in task.conclusion.suspects}


@pytest.mark.parametrize(
    "under", [since(CULPRIT, 0.3), since(0), since(SIZE)], ids=["no effect", "good end fails", "never fails"]
)
def test_one_that_makes_nothing_certain_is_not_taken(under: Rates) -> None:
    for seed in range(3):
        task = perturbed_task(since(CULPRIT, 0.3), seed=seed, only=under)
        told = notices_of(task)
        runs = Counter(probe.phase for probe in log_of(task).ended)
        assert task.culprit == str(CULPRIT)
        assert runs[Phase.PERTURBED] <= 12
        assert any("under each perturbation that was tried, too: only" in each for each in told)


def test_one_under_which_the_bad_end_fails_otherwise_is_not_taken() -> None:
    task = perturbed_task(since(CULPRIT, 0.3), otherwise=since(CULPRIT))
    plain = task.simulated.finished
    name = offered("otherwise").name

    def crashing(number: int, wanted):  # type: ignore[no-untyped-def]
        probe = plain(number, wanted)
        other = wanted.target.held.get(PERTURBATION_KEY) == name and probe.judgement is Judgement.BAD
        return replace(probe, verdict=Verdict.CRASH) if other else probe

    task.simulated.finished = crashing
    drive(task)
    assert task.culprit == str(CULPRIT)
    assert sum(probe.phase is Phase.PERTURBED for probe in log_of(task).ended) == 1


@pytest.mark.parametrize("cut", [8, 20, 30])
def test_a_bisection_goes_on_under_the_perturbation_where_it_was(cut: int) -> None:
    first = drive(perturbed_task(since(CULPRIT, 0.3), certain=since(CULPRIT)))
    ended = log_of(first).ended
    again = drive(perturbed_task(since(CULPRIT, 0.3), log=ProbeLog(ended[:cut]), certain=since(CULPRIT)))
    assert again.culprit == first.culprit == str(CULPRIT)
    kept = [probe.number for probe in log_of(again).ended[: min(cut, len(ended))]]
    assert kept == [probe.number for probe in ended[:cut]]
    if cut >= len(ended) - 5:
        assert len(log_of(again).ended) <= len(ended) + 10


@pytest.mark.parametrize(("spent", "state"), [(min, PerturbationTrials), (max, CulpritSearch)])
def test_what_is_known_when_the_budget_ends_under_a_perturbation_is_told_of_the_range_as_it_is(
    spent: Callable[[Iterable[int]], int], state: type[BisectionState]
) -> None:
    whole = drive(perturbed_task(since(CULPRIT, 0.3), certain=since(CULPRIT)))
    phases = [probe.phase for probe in log_of(whole).ended]
    runs = 1 + spent(place for place, phase in enumerate(phases) if phase is Phase.PERTURBED)
    task = perturbed_task(since(CULPRIT, 0.3), most=runs, certain=since(CULPRIT))
    drive(task)
    assert task.conclusion is not None
    assert task.conclusion.outcome is BisectionOutcome.BUDGET
    assert isinstance(task.simulated.bisection.state, state)
    suspects = {suspect.commit: suspect.confidence or 0 for suspect in task.conclusion.suspects}
    assert str(CULPRIT) in suspects
    assert all(chance < 0.99 for chance in suspects.values())

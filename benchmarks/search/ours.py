"""This project's search, on simulated workers."""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.search.world import World
from precision_bisect.bisect.search.choose.planner import Found
from precision_bisect.bisect.search.choose.rounds import Answer as Decided
from precision_bisect.bisect.search.choose.rounds import Round, next_round
from precision_bisect.bisect.search.evidence.calibration import ends_differ, next_end
from precision_bisect.bisect.search.evidence.knowledge import Observation
from precision_bisect.bisect.search.evidence.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.evidence.rates import Rates

CONFIDENCE = 0.99


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a method ended with: the culprit (None: it names none), how sure it is, and what it took.

    probes: until a commit was first named, at 0.99; or was the only suspect left, where it then got there by reruns.
    confirming: all after that, reruns of it and its parents in turns, and what followed if it did not stand. Both leave
    out end_runs, those of the two ends. seconds are from the first probe to the last, on all workers.
    named, named_claim: what was first named, and how sure the search was; None if nothing was.
    """

    culprit: int | None
    claimed: float
    probes: int
    end_runs: int
    builds: int
    seconds: float
    confirming: int = 0
    named: int | None = None
    named_claim: float | None = None


@dataclass(frozen=True)
class _Flight:
    """A run in flight: when it will be finished, the how manieth it is, of which commit, to confirm a culprit?"""

    due: float
    ordinal: int
    commit: int
    confirms: bool


@dataclass(frozen=True)
class _Naming:
    """What was named, after how many probes, and how surely once that was 0.99; None before."""

    culprit: int
    probes: int
    claim: float | None = None


def search(world: World) -> Answer:
    """Calibrates, searches, and confirms until culprit and parents stand."""
    cell = world.cell
    rates = Rates.known(good=cell.good, bad=cell.bad) if cell.known else Rates.unknown()
    posterior = Posterior.start(world.graph, rates)
    while (end := next_end(posterior, confidence=CONFIDENCE)) is not None:
        posterior = posterior.observe(Observation(end, world.run(end)))
    culprit, naming, seconds = None, None, 0.0
    if ends_differ(posterior, confidence=CONFIDENCE):
        posterior, culprit, naming, seconds = _search(world, posterior)
    probes = naming.probes if naming is not None else world.probes
    return Answer(
        culprit=culprit,
        claimed=float(posterior.belief.commits[culprit]) if culprit is not None else 0.0,
        probes=probes,
        confirming=world.probes - probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
        named=naming.culprit if naming is not None else None,
        named_claim=naming.claim if naming is not None else None,
    )


def _search(world: World, posterior: Posterior) -> tuple[Posterior, int | None, _Naming | None, float]:
    """Keeps all workers busy until there is an answer; runs that lost their value are cancelled."""
    clock, started = 0.0, 0
    in_flight: list[_Flight] = []
    confirming: list[Observation] = []
    naming: _Naming | None = None
    while isinstance(step := _next(world, posterior, confirming, in_flight), Round):
        naming = _first_naming(naming, step, posterior, world.probes)
        in_flight = [flight for place, flight in enumerate(in_flight) if place not in step.cancel]
        for commit in step.start:
            started += 1
            in_flight.append(
                _Flight(clock + world.seconds(commit), started, commit, step.confirming is not None)
            )
        flight = min(in_flight, key=lambda flight: (flight.due, flight.ordinal))
        in_flight.remove(flight)
        clock = flight.due
        observation = Observation(flight.commit, world.run(flight.commit))
        posterior = posterior.observe(observation)
        confirming += [observation] if flight.confirms else []
        assert world.probes < 20_000, f"no end in sight: {world}"
    sure = naming is not None and naming.claim is not None
    return posterior, step.culprit if isinstance(step, Found) else None, naming if sure else None, clock


def _first_naming(naming: _Naming | None, step: Round, posterior: Posterior, probes: int) -> _Naming | None:
    """What is named now; once that had the confidence, it stays the first."""
    if naming is not None and naming.claim is not None:
        return naming
    if step.confirming is None:
        return None
    if naming is None or naming.culprit != step.confirming:
        naming = _Naming(step.confirming, probes)
    claim = float(posterior.belief.commits[step.confirming])
    return replace(naming, claim=claim) if claim >= CONFIDENCE else naming


def _next(
    world: World, posterior: Posterior, confirming: list[Observation], in_flight: list[_Flight]
) -> Round | Decided:
    costs = None
    if world.cell.workers > 1:
        costs = np.array([world.seconds(commit) for commit in (*range(world.cell.n), GOOD_END)])
    return next_round(
        posterior,
        confirming=confirming,
        in_flight=[flight.commit for flight in in_flight],
        workers=world.cell.workers,
        confidence=CONFIDENCE,
        costs=costs,
    )

"""This project's search, on simulated workers."""

from dataclasses import dataclass

import numpy as np

from precision_bisect.bisect.search.calibration import ends_differ, next_end
from precision_bisect.bisect.search.knowledge import Observation
from precision_bisect.bisect.search.planner import Found
from precision_bisect.bisect.search.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.bisect.search.rounds import Answer as Decided
from precision_bisect.bisect.search.rounds import Round, next_round

from .world import World

CONFIDENCE = 0.99


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a method ended with: the culprit (None: it names none), how sure it is, and what it took.

    probes: until the culprit was named: the only suspect left, or the confidence reached. confirming: after that,
    reruns of it and its parents in turns. Both leave out end_runs, those of the two ends. seconds are from the
    first probe to the last, on all workers.
    named, named_claim: what was named before it was confirmed, and how sure the search was; None if below 0.99.
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
    """What was named, how surely, after how many probes."""

    culprit: int
    claim: float
    probes: int


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
    sure = naming is not None and naming.claim >= CONFIDENCE
    return Answer(
        culprit=culprit,
        claimed=float(posterior.belief.commits[culprit]) if culprit is not None else 0.0,
        probes=probes,
        confirming=world.probes - probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
        named=naming.culprit if naming is not None and sure else None,
        named_claim=naming.claim if naming is not None and sure else None,
    )


def _search(world: World, posterior: Posterior) -> tuple[Posterior, int | None, _Naming | None, float]:
    """Keeps all workers busy until there is an answer; runs that lost their value are cancelled."""
    clock, started = 0.0, 0
    in_flight: list[_Flight] = []
    confirming: list[Observation] = []
    naming: _Naming | None = None
    while isinstance(step := _next(world, posterior, confirming, in_flight), Round):
        if step.confirming is None:
            naming = None
        elif naming is None or naming.culprit != step.confirming:
            naming = _Naming(step.confirming, float(posterior.belief.commits[step.confirming]), world.probes)
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
    return posterior, step.culprit if isinstance(step, Found) else None, naming, clock


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

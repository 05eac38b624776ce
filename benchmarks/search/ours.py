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

    probes leave out the runs of the two ends. seconds are from the first probe to the last, on all workers.
    """

    culprit: int | None
    claimed: float
    probes: int
    end_runs: int
    builds: int
    seconds: float


@dataclass(frozen=True)
class _Flight:
    """A run in flight: when it will be finished, the how manieth it is, of which commit, to confirm a culprit?"""

    due: float
    ordinal: int
    commit: int
    confirms: bool


def search(world: World, *, confirm: bool) -> Answer:
    """Calibrates, searches, and, if asked, confirms until culprit and parent stand."""
    cell = world.cell
    rates = Rates.known(good=cell.good, bad=cell.bad) if cell.known else Rates.unknown()
    posterior = Posterior.start(world.graph, rates)
    while (end := next_end(posterior, confidence=CONFIDENCE)) is not None:
        posterior = posterior.observe(Observation(end, world.run(end)))
    culprit, seconds = None, 0.0
    if ends_differ(posterior, confidence=CONFIDENCE):
        posterior, culprit, seconds = _search(world, posterior, confirm=confirm)
    return Answer(
        culprit=culprit,
        claimed=float(posterior.belief.commits[culprit]) if culprit is not None else 0.0,
        probes=world.probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
    )


def _search(world: World, posterior: Posterior, *, confirm: bool) -> tuple[Posterior, int | None, float]:
    """Keeps all workers busy until there is an answer; runs that lost their value are cancelled."""
    clock, started = 0.0, 0
    in_flight: list[_Flight] = []
    confirming: list[Observation] = []
    while isinstance(step := _next(world, posterior, confirming, in_flight), Round):
        if step.confirming is not None and not confirm and _named(posterior, step.confirming):
            return posterior, step.confirming, clock
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
    return posterior, step.culprit if isinstance(step, Found) else None, clock


def _named(posterior: Posterior, culprit: int) -> bool:
    return float(posterior.belief.commits[culprit]) >= CONFIDENCE


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

"""This project's search, on simulated workers."""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from precision_bisect.bisect.search.batch import lost_their_value, next_runs
from precision_bisect.bisect.search.calibration import ends_differ, next_end
from precision_bisect.bisect.search.confirmation import next_confirming_run
from precision_bisect.bisect.search.decision import next_run
from precision_bisect.bisect.search.knowledge import Observation
from precision_bisect.bisect.search.planner import Found, Probe
from precision_bisect.bisect.search.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.rates import Rates

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


def search(world: World, *, confirm: bool) -> Answer:
    """Calibrates, searches, and, if asked, confirms until culprit and parent stand."""
    cell = world.cell
    rates = Rates.known(good=cell.good, bad=cell.bad) if cell.known else Rates.unknown()
    posterior = Posterior.start(world.graph, rates)
    while (end := next_end(posterior, confidence=CONFIDENCE)) is not None:
        posterior = posterior.observe(Observation(end, world.run(end)))
    culprit, seconds = None, 0.0
    going_on = ends_differ(posterior, confidence=CONFIDENCE)
    while going_on:
        posterior, culprit, searched = _search_in_parallel(world, posterior)
        seconds += searched
        if culprit is None or not confirm:
            break
        posterior, confirmed = _confirm(world, posterior, culprit)
        seconds += confirmed
        going_on = posterior.belief.commits[culprit] < CONFIDENCE
    return Answer(
        culprit=culprit,
        claimed=float(posterior.belief.commits[culprit]) if culprit is not None else 0.0,
        probes=world.probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
    )


def _search_in_parallel(world: World, posterior: Posterior) -> tuple[Posterior, int | None, float]:
    """Keeps all workers busy until there is an answer; runs that lost their value are cancelled."""
    clock, in_flight = 0.0, list[tuple[float, int]]()
    while isinstance(step := next_run(posterior, confidence=CONFIDENCE), Probe):
        worthless = lost_their_value(posterior, [commit for _, commit in in_flight])
        in_flight = [(due, commit) for due, commit in in_flight if commit not in worthless]
        for commit in _next(world, posterior, step, [commit for _, commit in in_flight]):
            heappush(in_flight, (clock + world.seconds(commit), commit))
        clock, commit = heappop(in_flight)
        posterior = posterior.observe(Observation(commit, world.run(commit)))
        assert world.probes < 20_000, f"no end in sight: {world}"
    return posterior, step.culprit if isinstance(step, Found) else None, clock


def _confirm(world: World, posterior: Posterior, culprit: int) -> tuple[Posterior, float]:
    """Reruns culprit and parent in turns; the seconds that it took."""
    since, seconds = len(posterior.observations), 0.0
    while (commit := next_confirming_run(posterior, culprit, since=since, confidence=CONFIDENCE)) is not None:
        seconds += world.seconds(commit)
        posterior = posterior.observe(Observation(commit, world.run(commit)))
    return posterior, seconds


def _next(world: World, posterior: Posterior, step: Probe, in_flight: list[int]) -> list[int]:
    if world.cell.workers == 1:
        return [step.commit]
    free = world.cell.workers - len(in_flight)
    costs = np.array([world.seconds(commit) for commit in (*range(world.cell.n), GOOD_END)])
    return next_runs(posterior, count=free, in_flight=in_flight, costs=costs) or (
        [] if in_flight else [step.commit]
    )

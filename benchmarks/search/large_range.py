"""How long it takes to choose the next runs in a range of 100,000 commits with 10 % merges, and how much memory."""

import random
import resource
from dataclasses import dataclass
from time import process_time

from precision_bisect.bisect.search.choose.rounds import Round, next_round
from precision_bisect.bisect.search.evidence.knowledge import Observation, Outcome
from precision_bisect.bisect.search.evidence.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.evidence.rates import Rates
from precision_bisect.bisect.search.graph.graph import CommitGraph
from tests.bisect.search.search_histories import branching

_COMMITS = 100_000
_RUNS = 24


@dataclass(frozen=True, kw_only=True)
class LargeRange:
    """The slowest choice of a search, in seconds of processor time, and the most memory of the process so far.

    A choice is all that is computed between the end of a run and the start of the next ones: what the run tells, and
    what to run. The first one prepares the graph.
    """

    workers: int
    flaky: bool
    prepared: float
    seconds: float
    gigabytes: float


def measure() -> list[LargeRange]:
    """Searches, deterministic and flaky, with one worker and with eight, of which some runs are skips."""
    return [_search(workers=workers, flaky=flaky) for workers in (1, 8) for flaky in (False, True)]


def _search(*, workers: int, flaky: bool) -> LargeRange:
    rng = random.Random(1)
    parents = branching(_COMMITS, 0.1, rng)
    culprit = rng.randrange(_COMMITS)
    started = process_time()
    graph = CommitGraph(parents)
    posterior = Posterior.start(
        graph,
        Rates.unknown(),
        observations=[Observation(GOOD_END, Outcome.GOOD), Observation(graph.bad, Outcome.BAD)] * 20
        + [Observation(graph.bad, Outcome.GOOD)] * flaky,
    )
    step = next_round(posterior, workers=workers)
    prepared, slowest = process_time() - started, 0.0
    flying: list[int] = []
    for run in range(_RUNS):
        if not isinstance(step, Round):
            break
        flying = [commit for place, commit in enumerate(flying) if place not in step.cancel] + [*step.start]
        commit = flying.pop(0)
        bad = commit != GOOD_END and bool(graph.ancestors(commit)[culprit])
        failed = bad and (not flaky or rng.random() < 0.8)
        outcome = Outcome.SKIP if run in (2, 5) else Outcome.BAD if failed else Outcome.GOOD
        started = process_time()
        posterior = posterior.observe(Observation(commit, outcome))
        step = next_round(posterior, workers=workers, in_flight=flying)
        slowest = max(slowest, process_time() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return LargeRange(workers=workers, flaky=flaky, prepared=prepared, seconds=slowest, gigabytes=memory)

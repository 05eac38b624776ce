"""Flake Aware Culprit Finding (Henderson et al., ICST 2023), Algorithms 2 and 3, for one worker."""

import numpy as np

from benchmarks.search.ours import CONFIDENCE, Answer
from benchmarks.search.world import World
from precision_bisect.bisect.search.evidence.knowledge import Outcome

_MOST_PROBES = 1_000


def search(world: World) -> Answer:
    """Bayes over the commits and "it was a flake", where a good version fails at the flake rate, a bad one always.

    It is told the flake rate, as the paper takes it from a test's past. The next version is the first at which the
    distribution sums to one half; but the one before it, if that may be the culprit and never ran: a pass there
    tells more than a fail. History is taken as a line. A pass of a version clears all commits up to it; if all are
    cleared, the breakage was a flake. Of versions that cannot be tested the paper says nothing: such a
    one is not asked again, the nearest other one is.
    """
    n = world.cell.n
    # The last is "no culprit". A rate of 0 would make one contradiction impossible to explain.
    flake = max(world.cell.good, 1e-3)
    belief = np.full(n + 1, 0.5 / n)
    belief[n] = 0.5
    order = np.arange(n + 1)
    testable, ran = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    # The breakage that starts the search: the last version has failed.
    belief[n] *= flake
    belief /= belief.sum()
    seconds = 0.0
    while belief.max() < CONFIDENCE and world.probes + world.end_runs < _MOST_PROBES and testable.any():
        version = min(int(np.searchsorted(np.cumsum(belief), 0.5)), n - 1)
        if ran.any() and version and belief[version - 1] > 0 and not ran[version - 1]:
            version -= 1
        places = np.flatnonzero(testable)
        version = int(places[np.argmin(np.abs(places - version))])
        seconds += world.seconds(version)
        outcome = world.run(version)
        ran[version] = True
        if outcome is Outcome.SKIP:
            testable[version] = False
            continue
        bad = order <= version
        belief = belief * (
            np.where(bad, 1.0, flake) if outcome is Outcome.BAD else np.where(bad, 0.0, 1 - flake)
        )
        belief /= belief.sum()
    best = int(np.argmax(belief))
    named = best < n and belief[best] >= CONFIDENCE
    return Answer(
        culprit=best if named else None,
        claimed=float(belief[best]),
        probes=world.probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
    )

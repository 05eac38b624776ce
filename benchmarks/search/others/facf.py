"""Flake Aware Culprit Finding (Henderson et al., ICST 2023), Algorithms 2 and 3, for one worker."""

import numpy as np

from benchmarks.outsider.world import Bench, Shown
from benchmarks.search.answer import CONFIDENCE, Answer, answer

_MAX_RUNS = 1_000
_MIN_FLAKE = 1e-3
"""A rate of 0 would make one contradiction impossible to explain."""


def search(bench: Bench, *, flake: float) -> Answer:
    """Bayes over the commits and "it was a flake", where a good version fails at the flake rate, a bad one always.

    It is told the flake rate, as the paper takes it from a test's past. The next version is the first at which the
    distribution sums to one half; but the one before it, if that may be the culprit and never ran: a pass there tells
    more than a fail. History is taken as a line. A pass of a version clears all commits up to it; if all are cleared,
    the breakage was a flake.
    """
    n, flake = len(bench.world.history), max(flake, _MIN_FLAKE)
    # The last is "no culprit".
    belief = np.append(np.full(n, 0.5 / n), 0.5)
    order = np.arange(n + 1)
    ran = np.zeros(n, dtype=np.bool_)
    # The breakage that starts the search: the last version has failed.
    belief[n] *= flake
    belief /= belief.sum()
    while belief.max() < CONFIDENCE and len(bench.runs) < _MAX_RUNS:
        version = min(int(np.searchsorted(np.cumsum(belief), 0.5)), n - 1)
        if ran.any() and version and belief[version - 1] > 0 and not ran[version - 1]:
            version -= 1
        ran[version] = True
        bad = order <= version
        failed = bench.run(version) is Shown.FAIL
        belief = belief * (np.where(bad, 1.0, flake) if failed else np.where(bad, 0.0, 1 - flake))
        belief /= belief.sum()
    best = int(np.argmax(belief))
    sure = bool(belief[best] >= CONFIDENCE)
    return answer(bench, best if sure and best < n else None, ended=sure)

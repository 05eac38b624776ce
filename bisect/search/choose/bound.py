"""How long it is worth to go on: every search ends."""

from math import log2

import numpy as np

from ..evidence.knowledge import Outcome
from ..evidence.posterior import Posterior
from ..model.groups import GOOD_END

_FACTOR = 4.0
_BESIDE = 20.0
_MOST = 1000
_LEAST_CAPACITY = 0.01
_LONGEST_WAIT_FOR_FAILURE = 100.0
"""Runs expected until an end fails that should. A failure as rare takes several times as many to be searched."""
_LONGEST_WAIT_FOR_PASS = 20.0
"""Runs expected until an end passes that should: it was said to pass, and not to pass now and then."""


def most_runs(posterior: Posterior, *, confidence: float = 0.99) -> int:
    """Four times what an ideal search would take at the rates as they are known so far, and 20.

    With C the capacity of one run, no search takes fewer than (log2 n + log2 1 / (1 - confidence)) / C runs by much
    (Burnashev, Data Transmission over a Discrete Channel with Feedback, 1976). Where the world is not as modelled the
    posterior need never settle: this ends it. It is at most 1,000, whatever the rates.
    """
    belief = posterior.belief
    weight = belief.commits / max(float(belief.commits.sum()), 1e-12)
    good, bad = float(weight @ belief.fail_if_good), float(weight @ belief.fail_if_bad)
    bits = log2(len(posterior.graph) + 1) - log2(1 - confidence)
    return int(min(_MOST, _BESIDE + _FACTOR * bits / max(_LEAST_CAPACITY, capacity(good, bad))))


def runs_left(posterior: Posterior, *, confidence: float = 0.99) -> int:
    """How many more runs the search may take. A commit that cannot be tested takes none; a rerun that could not be
    judged, of one that can, does."""
    judged = sum(1 / seen.alike for seen in posterior.observations if seen.outcome is not Outcome.SKIP)
    return most_runs(posterior, confidence=confidence) - round(judged) - posterior.lost_reruns.total()


def worth_waiting(posterior: Posterior, *, bad: bool, for_failure: bool) -> bool:
    """Whether to wait for the bad end to show what it stands for, else for the good one. Each must have run.
    for_failure: whether a failure is waited for; a pass, else.

    Where the bad end fails in the next run with chance p, 1 / p runs are expected until it does. With every pass it
    becomes less likely that the failure is one that comes and goes, and that there is one at all. As long as it is
    likelier than not that there is, a failure is waited for to the bound of the search.
    """
    if runs_left(posterior) < 1:
        return False
    belief = posterior.belief
    if for_failure and belief.commits.sum() > belief.no_culprit + belief.environment:
        return True
    chance = posterior.chance_to_fail(posterior.graph.bad) if bad else 1 - posterior.chance_to_fail(GOOD_END)
    return chance * (_LONGEST_WAIT_FOR_FAILURE if for_failure else _LONGEST_WAIT_FOR_PASS) > 1


def capacity(good: float, bad: float) -> float:
    """Bits that one run can tell of which side its commit is on, at the best share of bad ones: the capacity of the
    binary channel with these fail rates.

    With s = (H(bad) - H(good)) / (bad - good) the best chance to fail is 1 / (1 + 2^s), and C = log2(1 + 2^s) - s (1 -
    good) - H(good) (Cover and Thomas, Elements of Information Theory, section 7.1; the Z-channel is good = 0).

    >>> round(capacity(0.0, 1.0), 6), round(capacity(0.0, 0.5), 4), capacity(0.5, 0.5)
    (1.0, 0.3219, 0.0)
    """
    if abs(bad - good) < 1e-9:
        return 0.0
    entropies = [_entropy(good), _entropy(bad)]
    slope = (entropies[1] - entropies[0]) / (bad - good)
    return max(0.0, float(np.logaddexp2(0.0, slope)) - slope * (1 - good) - entropies[0] + 0.0)


def _entropy(p: float) -> float:
    return -sum(q * log2(q) for q in (p, 1 - p) if q > 0)

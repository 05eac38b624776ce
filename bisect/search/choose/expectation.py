"""What a further run is expected to tell, whether the runs so far agree with each other or not."""

from math import log2

import numpy as np

from ..evidence.belief import Belief
from ..evidence.posterior import Posterior
from ..graph.graph import Floats
from .bound import capacity
from .decision import entropy_left, worth
from .information import information_gain
from .planner import suspicion

_LEAST_BITS = 0.01


def expected_bits(posterior: Posterior) -> Floats:
    """Of one run of each commit and, last, of `GOOD_END`: its information, by the chance that it can be had. Shape
    [n + 1]."""
    return information_gain(posterior.graph, planning_belief(posterior)) * worth(posterior)


def planning_belief(posterior: Posterior) -> Belief:
    """The belief; or, while the runs agree with rates of 0 and 1, what it would be at these rates."""
    certain = posterior.certain
    if certain is None or certain.suspects.sum() == 1:
        return posterior.guess
    weights = suspicion(certain, posterior.weights)
    return Belief(
        commits=weights / weights.sum(),
        fail_if_bad=np.ones(len(weights)),
        fail_if_good=np.zeros(len(weights)),
        no_culprit=0.0,
        fail_if_no_culprit=0.0,
        environment=0.0,
        fail_if_environment=0.0,
    )


def runs_expected(posterior: Posterior, *, confidence: float) -> tuple[float, float]:
    """How many more runs a search takes at the rates as they are known so far, and how many would halve what is left
    where each run told the truth.

    (H + log2 1 / (1 - confidence)) / C, with H the entropy that is left and C the capacity of one run, as of
    `bound.most_runs`; and H.
    """
    belief, left = posterior.belief, entropy_left(posterior)
    weight = belief.commits / max(float(belief.commits.sum()), 1e-12)
    bits = capacity(float(weight @ belief.fail_if_good), float(weight @ belief.fail_if_bad))
    return (left - log2(1 - confidence)) / max(bits, _LEAST_BITS), left

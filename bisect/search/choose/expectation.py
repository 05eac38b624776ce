"""What a further run is expected to tell, whether the runs so far agree with each other or not."""

import numpy as np

from ..evidence.belief import Belief
from ..evidence.posterior import Posterior
from ..graph.graph import Floats
from .decision import worth
from .information import information_gain
from .planner import suspicion


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

"""What several workers run at once."""

from collections.abc import Sequence

import numpy as np

from ..evidence.belief import Belief
from ..evidence.posterior import Posterior
from ..graph.graph import Floats
from ..model.groups import GOOD_END
from .decision import best_by_cost, worth
from .expectation import expected_bits, planning_belief
from .information import information_gain
from .joint_information import JointInformation

_WORTHLESS = 0.05
"""What tells less than such a part of the best run is not started, or cancelled."""
_EXCHANGES = 2
_CONSIDERED = 128


def next_runs(
    posterior: Posterior, *, count: int, in_flight: Sequence[int] = (), costs: Floats | None = None
) -> list[int]:
    """Up to `count` commits (or `GOOD_END`) to run beside those in flight.

    Greedy at first: each adds the most information to those before it and those in flight, by its cost. Then
    each is exchanged for the best beside all others, twice, which turns a half and a quarter into thirds.
    Fewer come back if no run adds any. To be called while `decision.next_run` gives a probe.

    Of a large range 128 commits are considered: of each 128th of the belief below them, the best one alone.
    """
    belief = planning_belief(posterior)
    worths = worth(posterior)
    weight = worths if costs is None else worths / costs
    considered = [*dict.fromkeys([*_considered(posterior, belief, weight), *in_flight])]
    if not considered:
        return []
    joint = JointInformation.of(posterior.graph, belief, considered)
    worths = worths[considered]
    prices = None if costs is None else costs[considered]
    least = _WORTHLESS * float(np.max(joint.beside([]) * worths))

    def best_beside(others: Sequence[int]) -> int | None:
        information = joint.beside([*in_flight, *others]) * worths
        best = best_by_cost(information, prices)
        return considered[best] if information[best] > least else None

    chosen: list[int] = []
    while len(chosen) < count and (best := best_beside(chosen)) is not None:
        chosen.append(best)
    for place in [*range(len(chosen))] * (_EXCHANGES if len(chosen) > 1 else 0):
        best = best_beside(chosen[:place] + chosen[place + 1 :])
        if best is not None:
            chosen[place] = best
    return chosen


def _considered(posterior: Posterior, belief: Belief, weight: Floats) -> list[int]:
    """The commits (or `GOOD_END`) among which a batch is chosen: those alone tell most, at any share of belief."""
    value = information_gain(posterior.graph, belief) * weight
    useful = np.flatnonzero(value > 0)
    if len(useful) > _CONSIDERED:
        share = np.append(posterior.graph.ancestor_sums(belief.commits), 0.0)[useful]
        part = np.clip((share * _CONSIDERED).astype(np.int64), 0, _CONSIDERED)
        best_last = np.argsort(value[useful], kind="stable")
        best = np.full(_CONSIDERED + 1, -1, dtype=np.int64)
        best[part[best_last]] = useful[best_last]
        useful = best[best >= 0]
    return [GOOD_END if commit == len(posterior.graph) else commit for commit in useful.tolist()]


def best_rate(posterior: Posterior, *, costs: Floats, in_flight: Sequence[int] = ()) -> float:
    """The most information that one more run adds to those in flight, by its cost. `costs` as of `next_runs`."""
    value = expected_bits(posterior) / costs
    if in_flight:
        weight = worth(posterior) / costs
        belief = planning_belief(posterior)
        considered = [*dict.fromkeys([*_considered(posterior, belief, weight), *in_flight])]
        joint = JointInformation.of(posterior.graph, belief, considered)
        value = joint.beside(in_flight) * weight[considered]
    return float(value.max())


def lost_their_value(posterior: Posterior, in_flight: Sequence[int]) -> list[int]:
    """The places in `in_flight` of runs that now tell less than a twentieth of what the best run would: to be
    cancelled."""
    information = information_gain(posterior.graph, planning_belief(posterior))
    # GOOD_END is -1, the last place.
    return [
        place
        for place, commit in enumerate(in_flight)
        if information[commit] < _WORTHLESS * information.max()
    ]

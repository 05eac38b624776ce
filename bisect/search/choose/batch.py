"""What several workers run at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..evidence.belief import Belief
from ..evidence.posterior import Posterior
from ..graph.graph import Floats
from ..model.groups import GOOD_END
from .decision import best_by_cost, comparable, worth
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
    choice = _Choice.of(posterior, planning_belief(posterior), worth(posterior), costs, in_flight)
    chosen = choice.up_to(count, in_flight)
    for place in [*range(len(chosen))] * (_EXCHANGES if len(chosen) > 1 else 0):
        best = choice.best_beside([*in_flight, *chosen[:place], *chosen[place + 1 :]])
        if best is not None:
            chosen[place] = best
    return chosen


def runs_ahead(
    posterior: Posterior,
    *,
    count: int,
    in_flight: Sequence[int],
    under_way: Iterable[int],
    costs: Floats | None = None,
) -> list[int]:
    """Up to `count` commits that never ran, for workers who have nothing left to search: what will confirm the culprit
    that is about to be found, whichever it is. Those `under_way` already go first.

    As long as runs agree with rates of 0 and 1 the search takes these for given, so that a few suspects are work for a
    few workers. The confidence does not, and would wait for builds in the end.
    """
    fresh = worth(posterior)
    fresh[[seen.commit for seen in posterior.counted]] = 0.0
    if posterior.certain is not None:
        for suspect in np.flatnonzero(posterior.certain.suspects).tolist():
            fresh[~comparable(posterior.graph, suspect)] = 0.0
    choice = _Choice.of(posterior, posterior.guess, fresh, costs, [*in_flight, *under_way])
    chosen: list[int] = []
    for commit in under_way:
        if len(chosen) < count and choice.adds(commit, [*in_flight, *chosen]):
            chosen.append(commit)
    return [*chosen, *choice.up_to(count - len(chosen), [*in_flight, *chosen])]


@dataclass(frozen=True, eq=False)
class _Choice:
    """Commits (or `GOOD_END`) among which is chosen, what runs of them tell beside each other, what that is worth, and
    what each costs. A run that adds less than `least` is not started."""

    commits: list[int]
    joint: JointInformation
    worths: Floats
    costs: Floats | None
    least: float

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        belief: Belief,
        worths: Floats,
        costs: Floats | None,
        in_flight: Iterable[int],
    ) -> "_Choice":
        """By a belief, among all commits; `worths` and `costs` of shape [n + 1]."""
        weight = worths if costs is None else worths / costs
        commits = [*dict.fromkeys([*_considered(posterior, belief, weight), *in_flight])]
        joint = JointInformation.of(posterior.graph, belief, commits)
        of_these = worths[commits]
        least = _WORTHLESS * float(np.max(joint.beside([]) * of_these)) if commits else 0.0
        return cls(commits, joint, of_these, None if costs is None else costs[commits], least)

    def up_to(self, count: int, others: Sequence[int]) -> list[int]:
        """Up to so many, each the best beside runs of others and those before it; fewer where none adds anything."""
        chosen: list[int] = []
        while len(chosen) < count and (best := self.best_beside([*others, *chosen])) is not None:
            chosen.append(best)
        return chosen

    def best_beside(self, others: Sequence[int]) -> int | None:
        """The best by its cost beside runs of others; None where none adds anything."""
        if not self.commits:
            return None
        information = self.joint.beside(others) * self.worths
        best = best_by_cost(information, self.costs)
        return self.commits[best] if information[best] > self.least else None

    def adds(self, commit: int, others: Sequence[int]) -> bool:
        """Whether a run of one of the commits adds anything to runs of others."""
        place = self.commits.index(commit)
        return bool((self.joint.beside(others) * self.worths)[place] > self.least)


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

"""What is believed of the hypotheses, and what runs would show under each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..graph.graph import Floats, Integers


@dataclass(frozen=True)
class Reruns:
    """How one more run of a commit that ran before would end: its earlier outcomes may be its own.

    of_commit: the group of each commit; shape [n]. fails: for each commit that ran (or `GOOD_END`) the chance that one
    more run fails if the culprit is of each group; shape [g].
    """

    of_commit: Integers
    fails: Mapping[int, Floats]


@dataclass(frozen=True)
class Belief:
    """Probabilities of the hypotheses, and the chance that a further run fails under each.

    commits[c] is the probability that c is to blame; then a run of a commit that never ran fails with chance
    fail_if_bad[c] if it is c or a descendant, with fail_if_good[c] elsewhere; for a commit that ran, see `reruns`.
    Arrays have shape [n]; all probabilities sum to 1.
    """

    commits: Floats
    fail_if_bad: Floats
    fail_if_good: Floats
    no_culprit: float
    fail_if_no_culprit: float
    environment: float
    fail_if_environment: float
    reruns: Reruns | None = None

    def beginning_with(self, prior: "Prior") -> "Belief":
        """What it would be, had the hypotheses been as probable beforehand as `prior` says."""
        commits = self.commits * prior.commits * len(self.commits)
        others = np.array([self.no_culprit, self.environment]) * prior.others
        total = float(commits.sum() + others.sum())
        return replace(
            self,
            commits=commits / total,
            no_culprit=float(others[0]) / total,
            environment=float(others[1]) / total,
        )


@dataclass(frozen=True, eq=False)
class Prior:
    """What runs of another kind tell of the hypotheses beforehand. commits: how probable it is that each is to blame,
    if any is; shape [n], of sum 1. others: the factor by which it is less probable that none is."""

    commits: Floats
    others: float


def credible_set(belief: Belief, confidence: float) -> tuple[int, ...]:
    """The fewest commits, most probable first, whose probabilities sum to `confidence`; all if none do."""
    order = np.argsort(-belief.commits, kind="stable")
    enough = int(np.searchsorted(np.cumsum(belief.commits[order]), confidence)) + 1
    return tuple(order[:enough].tolist())

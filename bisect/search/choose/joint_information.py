"""Information of several runs together, in bits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..evidence.belief import Belief
from ..graph.graph import CommitGraph, Floats
from ..model.groups import GOOD_END
from .information import entropy

_LEAST_MASS = 1e-3


@dataclass(frozen=True, eq=False)
class JointInformation:
    """What runs of some commits tell beside each other.

    probability: of the hypotheses, those that no run of `commits` tells apart as one; shape [h].
    fails: the chance that a run of each of `commits` fails under each of them; shape [k, h].
    """

    commits: tuple[int, ...]
    probability: Floats
    fails: Floats

    @classmethod
    def of(cls, graph: CommitGraph, belief: Belief, commits: Sequence[int]) -> "JointInformation":
        """About runs of `commits`, of which one may be `GOOD_END`; none twice."""
        below = _descendants(graph, commits)
        again: Mapping[int, Floats] = {} if belief.reruns is None else belief.reruns.fails
        of_group = [0] * len(graph) if belief.reruns is None else belief.reruns.of_commit.tolist()
        groups: dict[tuple[int, int, float, float], int] = {}
        possible = np.flatnonzero(belief.commits > 0).tolist()
        bad, good = belief.fail_if_bad.tolist(), belief.fail_if_good.tolist()
        of_commit = [
            groups.setdefault((below[commit], of_group[commit], bad[commit], good[commit]), len(groups))
            for commit in possible
        ]
        mass = np.bincount(of_commit, weights=belief.commits[possible], minlength=len(groups))
        fails = np.array(
            [
                [
                    again[commit][group]
                    if commit in again
                    else rates[0]
                    if reached >> place & 1
                    else rates[1]
                    for reached, group, *rates in groups
                ]
                + [belief.fail_if_no_culprit, belief.fail_if_environment]
                for place, commit in enumerate(commits)
            ]
        )
        return cls(tuple(commits), np.append(mass, [belief.no_culprit, belief.environment]), fails)

    def beside(self, others: Iterable[int]) -> Floats:
        """What one more run of each of `commits` adds to runs of `others`, all of them among `commits`. Shape [k].

        With the outcomes of the others known, the entropy of the run, averaged over these outcomes, less what
        is left of it when the hypothesis is known. (Combinations of outcomes that hardly occur are left out.)
        """
        cases = self.probability[None, :]
        for other in others:
            fails = self.fails[self.commits.index(other)]
            cases = np.concatenate([cases * fails, cases * (1 - fails)])
            cases = cases[cases.sum(axis=1) > _LEAST_MASS]
        mass = cases.sum(axis=1)
        uncertain = mass @ entropy((cases @ self.fails.T) / mass[:, None])
        return np.maximum(uncertain - entropy(self.fails) @ self.probability, 0)


def _descendants(graph: CommitGraph, commits: Sequence[int]) -> list[int]:
    """For each commit of the graph a bit for each of `commits` that it leads to, itself included."""
    reached = [0] * len(graph)
    for place, commit in enumerate(commits):
        if commit != GOOD_END:
            reached[commit] |= 1 << place
    for commit in range(len(graph) - 1, -1, -1):
        if bits := reached[commit]:
            for parent in graph.parents[commit]:
                reached[parent] |= bits
    return reached

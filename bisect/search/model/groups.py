"""Commits in groups that the runs so far cannot tell apart."""

from typing import NamedTuple

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask

GOOD_END = -1
"""The commit number of the good end, in observations."""


class Groups(NamedTuple):
    """Each commit that was run has all of a group among its ancestors, or none.

    It, and each of its children, is a group of its own, since to be to blame it must show its own side
    (`outcome_models.py`).

    below: for each commit that was run, which commits are its ancestors; shape [n].
    of_commit: the group of each commit; shape [n].
    representatives, share: for each group one of its commits, and the share of all commits in it; shape [g].
    """

    below: dict[int, Mask]
    of_commit: Integers
    representatives: Integers
    share: Floats

    @classmethod
    def start(cls, graph: CommitGraph) -> "Groups":
        """One group."""
        none = np.zeros(len(graph), dtype=np.int64)
        return cls({}, none, np.zeros(1, dtype=np.int64), np.ones(1))

    def split(self, graph: CommitGraph, commit: int) -> "Groups":
        """With another commit that was run."""
        if commit in self.below:
            return self
        below = np.zeros(len(graph), dtype=np.bool_)
        alone: tuple[int, ...] = ()
        if commit != GOOD_END:
            below = graph.ancestors(commit)
            alone = (commit, *graph.children[commit])
        part = np.zeros(len(graph), dtype=np.int64)
        part[list(alone)] = 2 * np.arange(1, len(alone) + 1)
        key = self.of_commit * (2 * len(alone) + 2) + part + below
        _, representatives, of_commit = np.unique(key, return_index=True, return_inverse=True)
        return Groups(
            below=self.below | {commit: below},
            of_commit=of_commit,
            representatives=representatives,
            share=np.bincount(of_commit) / len(graph),
        )

    def sides(self, graph: CommitGraph) -> tuple[list[int], Mask, Mask]:
        """The t commits that were run; for each, and each group, whether it is bad if the group holds the culprit; and
        whether it is the culprit or a parent of it then. Shapes [t, g]."""
        run = list(self.below)
        shape = len(run), len(self.representatives)
        bad, told = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for place, commit in enumerate(run):
            bad[place] = self.below[commit][self.representatives]
            if commit != GOOD_END:
                told[place, self.of_commit[[commit, *graph.children[commit]]]] = True
        return run, bad, told

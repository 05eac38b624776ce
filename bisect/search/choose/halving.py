"""The commit that halves the suspects, chosen as git chooses it.

A bisection is a decision tree, and no tree beats another for every culprit. Choosing git's own commit,
ties included, is the one way never to take more tests than git does on any history. The rules are those of
`do_find_bisection` in git's bisect.c: the first commit close enough to halfway, merges before others, else
the first of the best.
"""

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask


def halving_commit(graph: CommitGraph, suspects: Mask, reach: Floats) -> int:
    """The suspect to test next; `reach[v]` counts the suspects among the ancestors of v, itself included.

    Git takes, in ranges above 3,000 commits, what is within 0.1 % of halfway. That can cost a line
    one test more than ceil(log2 n), so it is followed only where the larger part still fits that bound.
    """
    oldest_first = graph.newest_first(suspects)[::-1]
    total = len(oldest_first)
    part_limit = 1 << (total - 1).bit_length() - 1
    examined = _order_of_counting(graph, suspects, np.array(oldest_first, dtype=np.int64))
    imbalance = np.abs(2 * reach[examined] - total)
    close = (imbalance <= 1) | ((imbalance < total // 1024) & (total + imbalance <= 2 * part_limit))
    if close.any():
        return int(examined[np.argmax(close)])
    listed = reach[oldest_first]
    return oldest_first[int(np.argmax(np.minimum(listed, total - listed)))]


def _order_of_counting(graph: CommitGraph, suspects: Mask, oldest_first: Integers) -> Integers:
    """The suspects that git examines while it counts, in its order: merges first, roots never.

    A commit with one parent gets its count from the parent, in repeated passes through the list. One pass
    does, unless a clock was wrong and a parent is listed behind its child.
    """
    position = np.zeros(len(graph), dtype=np.int64)
    position[oldest_first] = np.arange(len(oldest_first))
    child, parent = graph.edges
    inside = suspects[child] & suspects[parent]
    child, parent = child[inside], parent[inside]
    parents = np.bincount(child, minlength=len(graph))
    counted_in_pass = (parents == 1).astype(np.int64)
    behind = (position[parent] > position[child]) & (parents[child] == 1)
    if behind.any():
        # Parents come first in `child`, so that theirs is known.
        for commit, of_commit, late in zip(child.tolist(), parent.tolist(), behind.tolist(), strict=True):
            if parents[commit] == 1 and counted_in_pass[of_commit]:
                counted_in_pass[commit] = counted_in_pass[of_commit] + late
    examined = oldest_first[parents[oldest_first] > 0]
    return examined[np.argsort(counted_in_pass[examined], kind="stable")]

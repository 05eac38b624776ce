"""The commit that halves the suspects, chosen as git chooses it.

A bisection is a decision tree, and no tree beats another for every culprit. Choosing git's own commit,
ties included, is the one way never to take more tests than git does on any history. The rules are those of
`do_find_bisection` in git's bisect.c: the first commit close enough to halfway, merges before others, else
the first of the best.
"""

import numpy as np

from .graph import CommitGraph, Floats, Mask


def halving_commit(graph: CommitGraph, suspects: Mask, reach: Floats) -> int:
    """The suspect to test next; `reach[v]` counts the suspects among the ancestors of v, itself included.

    Git takes, in ranges above 3,000 commits, what is within 0.1 % of halfway. That can cost a line
    one test more than ceil(log2 n), so it is followed only where the larger part still fits that bound.
    """
    oldest_first = graph.newest_first(suspects)[::-1]
    total = len(oldest_first)
    part_limit = 1 << (total - 1).bit_length() - 1
    for commit in _order_of_counting(graph, suspects, oldest_first):
        imbalance = abs(2 * int(reach[commit]) - total)
        if imbalance <= 1 or (imbalance < total // 1024 and total + imbalance <= 2 * part_limit):
            return commit
    listed = reach[oldest_first]
    return oldest_first[int(np.argmax(np.minimum(listed, total - listed)))]


def _order_of_counting(graph: CommitGraph, suspects: Mask, oldest_first: list[int]) -> list[int]:
    """The suspects that git examines while it counts, in its order: merges first, roots never.

    A commit with one parent gets its count from the parent, in repeated passes through the list. One pass
    does, unless a clock was wrong and a parent is listed behind its child.
    """
    position = {commit: place for place, commit in enumerate(oldest_first)}
    counted_in_pass: dict[int, int] = {}
    examined: list[int] = []
    for commit in sorted(oldest_first):
        parents = [parent for parent in graph.parents[commit] if suspects[parent]]
        if len(parents) == 1:
            known_since = counted_in_pass[parents[0]]
            behind = position[parents[0]] > position[commit]
            counted_in_pass[commit] = max(1, known_since + behind if known_since else 1)
        else:
            counted_in_pass[commit] = 0
        if parents:
            examined.append(commit)
    return sorted(examined, key=lambda commit: (counted_in_pass[commit], position[commit]))

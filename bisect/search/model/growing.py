"""A fault whose rate of failing grows with the commits that come after it.

Sums that drift a little more with each change, or a race that gets tighter, fail seldom where they begin and always at
the bad end. Taken for a fault of one rate, such a one seems to begin where its rate is half way up: there commits
before fail less often than commits after, whatever the number of runs. Under "c began it" commit v of the range, which
builds on c, fails with rate

    a + (r - a) (s + (1 - s) x^p),  x = (v - c) / (end - c)

with commits counted in the order of the range, a the rate of good commits, r that of the bad end, and s the share of it
that c brings. How a fault grows is not known: evenly from almost nothing, steeply at first, or evenly from a part that
c brings at once. It is thought of from the first run on, though to exclude it costs a plain search of 10 commits a part
of a run, and of 1,000 next to none: where runs contradict each other at last, many such faults have been named wrong.
"""

from typing import NamedTuple

import numpy as np

from ..graph.graph import CommitGraph, Floats, Mask
from .groups import Groups
from .rates import Rates

_SHAPES = ((0.05, 1.0), (0.05, 0.5), (0.3, 1.0))
"""s and p, all as likely."""
_HALF_WAY = 2
"""With so many commits to the bad end a fault is half as likely to grow as with many."""
_COARSE = 16
"""So many nodes of the grid of rates are one here."""
_NEVER, _NEARLY = 1e-300, 1e-15


class Growing(NamedTuple):
    """For each of g groups of commits, if a fault that grows began in it.

    log_evidence: of all runs, and of its growing. fail_if_good, fail_if_bad: the chance that a run of a commit of that
    side fails which never ran. All of shape [g]. reruns: the chance that one more run of each of t commits fails; shape
    [t, g].
    """

    log_evidence: Floats
    fail_if_good: Floats
    fail_if_bad: Floats
    reruns: Floats


def growing(
    graph: CommitGraph, groups: Groups, bad: Mask, fails: Floats, passes: Floats, rates: Rates
) -> Growing | None:
    """How faults that grow explain the runs; None where none is expected. bad: as of `Groups.sides`; fails, passes: of
    the commits that were run; shape [t]."""
    prior = rates.grows * float(rates.weight[:, rates.bad < 1].sum())
    if prior <= 0:
        return None
    pairs, weight = _coarse(rates)
    kinds = [(pair, way) for way in _ways(graph, groups, bad) for pair in pairs]
    # Kind by kind: all of them together, of shape [k, t, g], would be large.
    logs = np.array([_log_likelihood(_failing(pair, way), fails, passes) for pair, way in kinds])
    logs += np.log(np.tile(weight, len(_SHAPES)) / len(_SHAPES))[:, None]
    top = logs.max(axis=0)
    parts = np.exp(logs - top)
    total = parts.sum(axis=0)
    share = parts / total
    good, last = np.tile(pairs, (len(_SHAPES), 1)).T
    reruns = np.zeros(bad.shape)
    for (pair, way), of_kind in zip(kinds, share, strict=True):
        reruns += of_kind * _failing(pair, way)
    return Growing(
        log_evidence=np.log(prior) + top + np.log(total) + np.log(_room(graph, groups)),
        fail_if_good=good @ share,
        fail_if_bad=(good + last) / 2 @ share,
        reruns=reruns,
    )


def _room(graph: CommitGraph, groups: Groups) -> Floats:
    """How likely a fault of each group grows, next to one that has a long way to go: d / (d + 2) with d commits to the
    bad end, one after another, and what the bad end began does not grow. Its parents have the weight of one together:
    nothing lies between by which a fault of one of many could be told from that of the merge. Shape [g]."""
    left = np.maximum(graph.generations_left, _NEARLY)  # Its logarithm is taken.
    room = left / (left + _HALF_WAY)
    room[left == 1] /= max(1, (left == 1).sum())
    return np.bincount(groups.of_commit, weights=room) / np.bincount(groups.of_commit)


def _coarse(rates: Rates) -> tuple[Floats, Floats]:
    """Pairs of rates, shape [p, 2], and the weight of each, shape [p]. A rate of 0, or 1, is one of its own."""
    of_good = np.array([0, *range(1, len(rates.good), _COARSE)])
    of_bad = np.array([*range(0, len(rates.bad) - 1, _COARSE), len(rates.bad) - 1])
    weight = np.add.reduceat(np.add.reduceat(rates.weight, of_good, axis=0), of_bad, axis=1)
    good, bad = (
        np.add.reduceat(nodes, starts) / np.diff([*starts, len(nodes)])
        for nodes, starts in ((rates.good, of_good), (rates.bad, of_bad))
    )
    possible = np.nonzero(weight > 0)
    return np.stack([good[possible[0]], bad[possible[1]]], axis=1), weight[possible]


def _ways(graph: CommitGraph, groups: Groups, bad: Mask) -> list[Floats]:
    """How much of the growth the commits that ran have, for each shape; 0 where they do not build on the culprit. Each
    of shape [t, g]."""
    count = np.bincount(groups.of_commit)
    begun = np.bincount(groups.of_commit, weights=np.arange(len(graph))) / count
    run = np.array([*groups.below])[:, None]
    # What the bad end began has all of its rate there.
    behind = np.where(begun < graph.bad, (run - begun) / np.maximum(graph.bad - begun, 1.0), 1.0)
    behind = np.clip(behind, 0.0, 1.0)
    return [np.where(bad, first + (1 - first) * behind**power, 0.0) for first, power in _SHAPES]


def _failing(pair: Floats, way: Floats) -> Floats:
    """The chance that a run fails, so far on the way."""
    good, last = pair
    return np.clip(good + (last - good) * way, _NEVER, 1 - _NEARLY)


def _log_likelihood(chance: Floats, fails: Floats, passes: Floats) -> Floats:
    return fails @ np.log(chance) + passes @ np.log1p(-chance)

"""A fault whose rate of failing grows with the commits that come after it.

Sums that drift a little more with each change, or a race that gets tighter, fail seldom where they begin and always at
the bad end. Taken for a fault of one rate, such a one seems to begin where its rate is half way up: there commits
before fail less often than commits after, whatever the number of runs. Under "c began it" commit v of the range, which
builds on c, fails with rate

    a + (r - a) (v - c + 1) / (end - c + 1)

with commits counted in the order of the range, a the rate of good commits, and r that of the bad end. It is thought of
once no single step explains all runs: to exclude it before would cost every plain search runs.
"""

from typing import NamedTuple

import numpy as np

from ..graph.graph import CommitGraph, Floats, Mask
from .groups import Groups
from .rates import Rates

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
    """How faults that grow explain the runs; None where one step explains them all, or none is
    expected. bad: as of `Groups.sides`; fails, passes: of the commits that were run; shape [t]."""
    prior = rates.grows * float(rates.weight[:, rates.bad < 1].sum())
    if prior <= 0 or _one_step(bad, fails, passes):
        return None
    pairs, weight = _coarse(rates)
    way = _way(graph, groups, bad)
    # Pair by pair of rates: all of them together, of shape [p, t, g], would be large.
    logs = np.array([_log_likelihood(_failing(pair, way), fails, passes) for pair in pairs])
    logs += np.log(weight)[:, None]
    top = logs.max(axis=0)
    parts = np.exp(logs - top)
    total = parts.sum(axis=0)
    share = parts / total
    good, last = pairs.T
    reruns = np.zeros(way.shape)
    for pair, of_pair in zip(pairs, share, strict=True):
        reruns += of_pair * _failing(pair, way)
    return Growing(
        log_evidence=np.log(prior) + top + np.log(total),
        fail_if_good=good @ share,
        fail_if_bad=(good + last) / 2 @ share,
        reruns=reruns,
    )


def _one_step(bad: Mask, fails: Floats, passes: Floats) -> bool:
    """Whether some commit could have begun all failures, so that no commit before fails and none after passes."""
    if ((fails > 0) & (passes > 0)).any():
        return False
    return bool((bad == (fails > 0)[:, None]).all(axis=0).any())


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


def _way(graph: CommitGraph, groups: Groups, bad: Mask) -> Floats:
    """How far the commits that ran are on the way from the culprit to the bad end; 0 where they do not build on it.
    Shape [t, g]."""
    count = np.bincount(groups.of_commit)
    begun = np.bincount(groups.of_commit, weights=np.arange(len(graph))) / count
    run = np.array([*groups.below])[:, None]
    return np.where(bad, np.clip((run - begun + 1) / (graph.bad - begun + 1), 0.0, 1.0), 0.0)


def _failing(pair: Floats, way: Floats) -> Floats:
    """The chance that a run fails, so far on the way."""
    good, last = pair
    return np.clip(good + (last - good) * way, _NEVER, 1 - _NEARLY)


def _log_likelihood(chance: Floats, fails: Floats, passes: Floats) -> Floats:
    return fails @ np.log(chance) + passes @ np.log1p(-chance)

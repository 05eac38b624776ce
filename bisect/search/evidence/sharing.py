"""Several searches beside each other: a build serves all of them, and one culprit may explain several failures."""

from collections.abc import Sequence

import numpy as np

from ..graph.graph import Floats

_ONE_CULPRIT = 0.5
"""How much of what is expected of a search is that a commit which other searches suspect is to blame here too."""


def shared_rates(builds: Floats, bits: Floats, runs: Floats) -> Floats:
    """The most information by cost that a build promises, with runs of it for whichever searches are worth it.

    builds: the cost of each build; shape [n]. bits: what a run of each build tells each search; runs: what it costs
    that search; shapes [m, n]. The build is paid once. Of searches by falling information for the cost of their run,
    the first few are the best set: one more is worth it as long as it tells more for its run than the set does for
    all it costs. Shape [n]; 0 where nothing is told.
    """
    order = np.argsort(-bits / runs, axis=0, kind="stable")
    told = np.cumsum(np.take_along_axis(bits, order, axis=0), axis=0)
    paid = builds + np.cumsum(np.take_along_axis(runs, order, axis=0), axis=0)
    return np.max(told / paid, axis=0)


def shared_costs(rates: Floats, bits: Floats, runs: Floats, builds: Floats) -> Floats:
    """What a run costs one search, all of shape [n]: its own cost, and such a part of the build that all who share the
    build get the information of `rates` (of `shared_rates`) for what they pay. Together they pay the build once.

    Where a run tells a search too little to be worth sharing the build, it pays the run alone: its information for
    that is less than the rate. Where it tells nothing it would pay both.
    """
    told = (bits > 0) & (rates > 0)
    return np.where(told, np.maximum(runs, bits / np.where(told, rates, 1.0)), runs + builds)


def suspected_too(weights: Floats | None, suspicions: Sequence[Floats], *, commits: int) -> Floats | None:
    """Prior weights of a search's commits, given how probable other searches take them to be to blame.

    weights: the search's own, in any unit; None if equal. suspicions: a row for each other search; shapes [commits].
    """
    if not suspicions:
        return weights
    own = np.ones(commits) if weights is None else weights
    return (1 - _ONE_CULPRIT) * own / own.sum() + _ONE_CULPRIT * np.mean(suspicions, axis=0)

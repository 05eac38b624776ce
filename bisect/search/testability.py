"""How likely each commit cannot be tested, judged from the commits that could not."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from .graph import CommitGraph, Floats

# The shares of untestable commits, and the chance that they do not cluster at all. The correlation
# lengths, in commits, start where stepping out of a cluster pays and end at a quarter of the range.
_SHARES = (0.05, 0.15, 0.35)
_INDEPENDENT = 0.5
_SHORTEST, _LENGTH_RATIO = 8, 4


@dataclass(frozen=True)
class _Neighbours:
    """For each commit the nearest tried ones before and after it: distance in commits, and 1.0 if skipped."""

    distance_before: Floats
    skipped_before: Floats
    distance_after: Floats
    skipped_after: Floats


def skip_probability(graph: CommitGraph, skipped: Mapping[int, bool]) -> Floats:
    """For each commit, the chance that it cannot be tested.

    `skipped` says of each commit that was tried, the bad end among them, whether it had to be skipped.

    Being untestable is taken as a two-state Markov chain along history: a share q of all commits is
    untestable, and the states of two commits d apart have correlation exp(-d / l). Between commits that
    were tried the chain is tied on both sides. History is taken once as descent (the nearest tried
    ancestor and descendant), and once as the order of dates, since a broken dependency does not care for
    branches. Which of the two holds, q and l are unknown and averaged over, weighted by how well
    each explains the commits tried so far.
    """
    tried = np.array(sorted(skipped), dtype=np.int64)
    states = np.array([skipped[int(commit)] for commit in tried], dtype=np.float64)
    lengths = [_SHORTEST]
    while lengths[-1] * _LENGTH_RATIO <= len(graph) / 4:
        lengths.append(lengths[-1] * _LENGTH_RATIO)
    memories = [(0.0, _INDEPENDENT)]
    memories += [(float(np.exp(-1 / length)), (1 - _INDEPENDENT) / len(lengths)) for length in lengths]

    evidence: list[float] = []
    chances: list[Floats] = []
    for near, (memory, prior) in product((_by_descent(graph, skipped), _by_date(graph, skipped)), memories):
        kept_before, kept_after = memory**near.distance_before, memory**near.distance_after
        for share in _SHARES:
            before = share + kept_before * (near.skipped_before - share)
            after = share + kept_after * (near.skipped_after - share)
            likelihoods = np.where(states == 1, before[tried], 1 - before[tried])
            evidence.append(float(np.log(prior) + np.log(likelihoods).sum()))
            # The chain is reversible: P(state | both sides) is proportional to before * after / stationary.
            yes, no = before * after / share, (1 - before) * (1 - after) / (1 - share)
            chances.append(yes / (yes + no))
    weights = np.exp(np.array(evidence) - max(evidence))
    chance = sum((w * c for w, c in zip(weights / weights.sum(), chances, strict=True)), np.zeros(len(graph)))
    chance[tried] = states
    return chance


def _by_date(graph: CommitGraph, skipped: Mapping[int, bool]) -> _Neighbours:
    """Neighbours in the order of dates; the good end comes before all."""
    order = np.argsort(graph.times, kind="stable")
    place = np.empty(len(graph), dtype=np.int64)
    place[order] = np.arange(len(graph))
    by_place = sorted((int(place[commit]), was_skipped) for commit, was_skipped in skipped.items())
    places = np.array([-1, *(at for at, _ in by_place), len(graph)], dtype=np.int64)
    states = np.array([False, *(was_skipped for _, was_skipped in by_place), False], dtype=np.float64)
    before = np.searchsorted(places, place) - 1
    after = np.searchsorted(places, place, side="right")
    return _Neighbours(
        distance_before=(place - places[before]).astype(np.float64),
        skipped_before=states[before],
        distance_after=(places[after] - place).astype(np.float64),
        skipped_after=states[after],
    )


def _by_descent(graph: CommitGraph, skipped: Mapping[int, bool]) -> _Neighbours:
    """Neighbours among ancestors and descendants; the good end is the parent of all roots."""
    commits = range(len(graph))
    before = _nearest(commits, graph.parents, skipped)
    after = _nearest(commits[::-1], graph.children, skipped)
    return _Neighbours(
        distance_before=before[:, 0],
        skipped_before=before[:, 1],
        distance_after=after[:, 0],
        skipped_after=after[:, 1],
    )


def _nearest(order: range, relatives: tuple[tuple[int, ...], ...], skipped: Mapping[int, bool]) -> Floats:
    """Per commit: how far the nearest tried relative is, and whether it was skipped (ties: it was).

    A commit without relatives stands beside an end, which was tested.
    """
    # Twice the distance, and 1 if it was tested: the smaller of two is the nearer, of equals the skipped one.
    nearest = [0] * len(relatives)
    seen_from = [0] * len(relatives)
    for commit in order:
        those = relatives[commit]
        if len(those) == 1:
            nearest[commit] = here = seen_from[those[0]] + 2
        else:
            nearest[commit] = here = min((seen_from[relative] for relative in those), default=1) + 2
        seen_from[commit] = not skipped[commit] if commit in skipped else here
    found = np.array(nearest, dtype=np.int64)
    return np.stack([found // 2, 1 - found % 2], axis=1).astype(np.float64)

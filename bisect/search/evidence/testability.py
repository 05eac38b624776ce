"""How likely each commit cannot be tested, judged from the commits that could not."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, log2

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask

# The shares of untestable commits. The lengths of stretches, in commits, go from where stepping out of one pays to a
# quarter of the range; where few are enough, they double. That there are none is as likely as three lengths.
_SHARES = (0.05, 0.15, 0.35)
_SHORTEST, _MOST_LENGTHS = 8, 6
_INDEPENDENT = 3.0


@dataclass(frozen=True)
class _Neighbours:
    """For each commit the nearest tried ones before and after it: distance in commits, and whether it was skipped."""

    distance_before: Integers
    skipped_before: Mask
    distance_after: Integers
    skipped_after: Mask


def skip_probability(graph: CommitGraph, skipped: Mapping[int, bool]) -> Floats:
    """For each commit, the chance that it cannot be tested; not to be written to.

    `skipped` says of each commit that was tried, the bad end among them, whether it had to be skipped.

    Something breaks at random moments of history and is mended l commits later, so that a share q of all commits is
    untestable: the Boolean model of segments on a line (Chiu, Stoyan, Kendall, Mecke, Stochastic Geometry and its
    Applications, chapter 3). Each commit is judged by the nearest ones before and after it that were tried. History is
    taken once as descent (the nearest tried ancestor and descendant), and once as the order of dates, since
    a broken dependency does not care for branches. Which of the two holds, q and l are unknown and averaged over,
    weighted by how well each explains the commits tried so far.
    """
    return _skip_probability(graph, frozenset(skipped.items()))


@lru_cache(maxsize=1)  # One choice asks up to three times.
def _skip_probability(graph: CommitGraph, known: frozenset[tuple[int, bool]]) -> Floats:
    skipped = dict(known)
    tried = np.array(sorted(skipped), dtype=np.int64)
    states = np.array([skipped[int(commit)] for commit in tried], dtype=np.bool_)
    evidence: list[float] = []
    chances: list[Floats] = []
    neighbours = (_by_descent(graph, skipped), _by_date(graph, skipped))
    for near, (length, prior), share in product(neighbours, _lengths(len(graph)), _SHARES):
        stretches = _Stretches(length, share)
        tested = stretches.tested_beside(near.distance_before[tried], near.skipped_before[tried])
        evidence.append(float(np.log(prior) + np.log(np.where(states, 1 - tested, tested)).sum()))
        chances.append(1 - stretches.tested_between(near))
    weights = np.exp(np.array(evidence) - max(evidence))
    chance = sum((w * c for w, c in zip(weights / weights.sum(), chances, strict=True)), np.zeros(len(graph)))
    chance[tried] = states
    chance = np.clip(chance, 0.0, 1.0)
    chance.setflags(write=False)
    return chance


def _lengths(commits: int) -> list[tuple[float, float]]:
    """How long stretches may be in a range of so many commits, and how likely each length is, in any unit. Untestable
    commits in stretches of one are independent of each other."""
    longest = max(_SHORTEST, commits / 4)
    count = min(_MOST_LENGTHS, 1 + int(log2(longest / _SHORTEST)))
    lengths = np.geomspace(_SHORTEST, longest, count).tolist()
    return [(1.0, _INDEPENDENT), *((length, 1.0) for length in lengths)]


@dataclass(frozen=True)
class _Stretches:
    """Stretches of untestable commits, all of `length`, that start at random and cover a `share` of history."""

    length: float
    share: float

    def tested_beside(self, distance: Integers, skipped: Mask) -> Floats:
        """The chance that a commit can be tested, given whether one so far away could."""
        tested, kept = 1 - self.share, self._stays_tested(distance)
        return np.where(skipped, tested * (1 - kept) / self.share, kept)

    def tested_between(self, near: _Neighbours) -> Floats:
        """The same, given one on either side."""
        tested, share = 1 - self.share, self.share
        before, after = self._stays_tested(near.distance_before), self._stays_tested(near.distance_after)
        across = self._stays_tested(near.distance_before + near.distance_after)
        # P(testable, and each side as it is) by P(each side as it is), both by inclusion and exclusion.
        joint = tested * np.where(near.skipped_before, 1 - before, before)
        joint *= np.where(near.skipped_after, 1 - after, after)
        both, one = near.skipped_before & near.skipped_after, near.skipped_before ^ near.skipped_after
        sides = np.where(both, share - tested * (1 - across), tested * np.where(one, 1 - across, across))
        return joint / sides

    def _stays_tested(self, distance: Integers) -> Floats:
        """The chance that a commit can be tested if one so far before or behind it can.

        No stretch starts in between that reaches it: over a whole `length` the chance of that is 1 - `share`.
        """
        furthest = ceil(self.length)
        by_distance = (1 - self.share) ** np.minimum(np.arange(furthest + 1) / self.length, 1.0)
        return by_distance[np.minimum(distance, furthest)]


def _by_date(graph: CommitGraph, skipped: Mapping[int, bool]) -> _Neighbours:
    """Neighbours in the order of dates; the good end comes before all."""
    order = np.argsort(graph.times, kind="stable")
    place = np.empty(len(graph), dtype=np.int64)
    place[order] = np.arange(len(graph))
    by_place = sorted((int(place[commit]), was_skipped) for commit, was_skipped in skipped.items())
    places = np.array([-1, *(at for at, _ in by_place), len(graph)], dtype=np.int64)
    states = np.array([False, *(was_skipped for _, was_skipped in by_place), False], dtype=np.bool_)
    before = np.searchsorted(places, place) - 1
    after = np.searchsorted(places, place, side="right")
    return _Neighbours(
        distance_before=place - places[before],
        skipped_before=states[before],
        distance_after=places[after] - place,
        skipped_after=states[after],
    )


def _by_descent(graph: CommitGraph, skipped: Mapping[int, bool]) -> _Neighbours:
    """Neighbours among ancestors and descendants; the good end is the parent of all roots."""
    commits = range(len(graph))
    return _Neighbours(
        *_nearest(commits, graph.parents, skipped), *_nearest(commits[::-1], graph.children, skipped)
    )


def _nearest(
    order: range, relatives: tuple[tuple[int, ...], ...], skipped: Mapping[int, bool]
) -> tuple[Integers, Mask]:
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
    return found // 2, found % 2 == 0

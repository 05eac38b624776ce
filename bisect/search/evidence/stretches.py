"""Stretches of untestable commits, and the nearest tried commits by which each commit is judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask


@dataclass(frozen=True)
class Neighbours:
    """For each commit the nearest tried ones before and after it: how far away, and whether it was skipped."""

    distance_before: Integers
    skipped_before: Mask
    distance_after: Integers
    skipped_after: Mask


@dataclass(frozen=True)
class Stretches:
    """Stretches of untestable commits, all of `length`, that start at random and cover a `share` of history.

    This is the Boolean model of segments on a line (Chiu, Stoyan, Kendall, Mecke, Stochastic Geometry and its
    Applications, chapter 3).
    """

    length: float
    share: float

    def tested_beside(self, distance: Integers, skipped: Mask) -> Floats:
        """The chance that a commit can be tested, given whether one so far away could."""
        tested, kept = 1 - self.share, self._stays_tested(distance)
        return np.where(skipped, tested * (1 - kept) / self.share, kept)

    def tested_between(self, near: Neighbours) -> Floats:
        """The same, given one on either side."""
        tested, share = 1 - self.share, self.share
        before, after = self._stays_tested(near.distance_before), self._stays_tested(near.distance_after)
        across = self._stays_tested(near.distance_before + near.distance_after)
        # P(testable, and each side as it is) by P(each side as it is), both by inclusion and exclusion.
        joint = tested * np.where(near.skipped_before, 1 - before, before)
        joint *= np.where(near.skipped_after, 1 - after, after)
        both, one = near.skipped_before & near.skipped_after, near.skipped_before ^ near.skipped_after
        sides = np.where(both, share - tested * (1 - across), tested * np.where(one, 1 - across, across))
        # Where both are 0 the commit itself was tried.
        return np.divide(joint, sides, out=np.zeros_like(joint), where=sides > 0)

    def log_evidence(self, distance: Integers, skipped: Mask, states: Mask) -> float:
        """How well the model explains the `states` of tried commits, each by the tried one before it."""
        tested = self.tested_beside(distance, skipped)
        return float(np.log(np.where(states, 1 - tested, tested)).sum())

    def _stays_tested(self, distance: Integers) -> Floats:
        """The chance that a commit can be tested if one so far before or behind it can.

        No stretch starts in between that reaches it: over a whole `length` the chance of that is 1 - `share`.
        """
        furthest = ceil(self.length)
        by_distance = (1 - self.share) ** np.minimum(np.arange(furthest + 1) / self.length, 1.0)
        return by_distance[np.minimum(distance, furthest)]


def by_place(places: Integers, tried: Mapping[int, bool], *, ends: tuple[int, int]) -> Neighbours:
    """Neighbours on a line. places: where each commit stands. tried: by place, whether it was skipped. ends: the places
    of two more that were not, before and after all."""
    in_order = sorted(tried.items())
    known = np.array([ends[0], *(place for place, _ in in_order), ends[1]], dtype=np.int64)
    states = np.array([False, *(was_skipped for _, was_skipped in in_order), False], dtype=np.bool_)
    before = np.searchsorted(known, places) - 1
    after = np.searchsorted(known, places, side="right")
    return Neighbours(
        distance_before=places - known[before],
        skipped_before=states[before],
        distance_after=known[after] - places,
        skipped_after=states[after],
    )


def by_date(graph: CommitGraph, tried: Mapping[int, bool]) -> Neighbours:
    """Neighbours in the order of dates; the good end comes before all."""
    order = np.argsort(graph.times, kind="stable")
    place = np.empty(len(graph), dtype=np.int64)
    place[order] = np.arange(len(graph))
    by_place_tried = {int(place[commit]): was_skipped for commit, was_skipped in tried.items()}
    return by_place(place, by_place_tried, ends=(-1, len(graph)))


def by_descent(graph: CommitGraph, tried: Mapping[int, bool]) -> Neighbours:
    """Neighbours among ancestors and descendants; the good end is the parent of all roots."""
    commits = range(len(graph))
    return Neighbours(
        *_nearest(commits, graph.parents, tried), *_nearest(commits[::-1], graph.children, tried)
    )


def _nearest(
    order: range, relatives: tuple[tuple[int, ...], ...], tried: Mapping[int, bool]
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
        seen_from[commit] = not tried[commit] if commit in tried else here
    found = np.array(nearest, dtype=np.int64)
    return found // 2, found % 2 == 0

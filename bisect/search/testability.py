"""How likely it is that each commit cannot be tested, judged from the commits that could not.

`skip_probability` is the entry. An untestable commit's error blames a file, or no more than itself (`Cause`).
`cause_skip_probability` says which commits fail alike for it. `Stretches` models stretches of untestable commits.
`Neighbours` holds the nearest tried commits by which each commit is judged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import ceil, log, log2
from typing import TypeAlias

import numpy as np

from .graph import CommitGraph, Floats, Integers, Mask


@dataclass(frozen=True)
class Neighbours:
    """How far the nearest tried commits before and after each commit are, and whether each was skipped."""

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

    def testable_given_one(self, distance: Integers, skipped: Mask) -> Floats:
        """Return the chance that a commit can be tested, given whether one so far away could."""
        tested, kept = 1 - self.share, self._stays_tested(distance)
        return np.where(skipped, tested * (1 - kept) / self.share, kept)

    def testable_given_both(self, near: Neighbours) -> Floats:
        """Return the chance that a commit can be tested, given whether the nearest tried one on either side could."""
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
        """Return how well the model explains the `states` of tried commits, each by the tried one before it."""
        tested = self.testable_given_one(distance, skipped)
        return float(np.log(np.where(states, 1 - tested, tested)).sum())

    def _stays_tested(self, distance: Integers) -> Floats:
        """Return the chance that a commit can be tested if one so far before or behind it can.

        No stretch starts in between that reaches it: over a whole `length` the chance of that is 1 - `share`.
        """
        furthest = ceil(self.length)
        by_distance = (1 - self.share) ** np.minimum(np.arange(furthest + 1) / self.length, 1.0)
        return by_distance[np.minimum(distance, furthest)]


def line_neighbours(places: Integers, tried: Mapping[int, bool], *, ends: tuple[int, int]) -> Neighbours:
    """Return the neighbours on a line.

    places: where each commit stands. tried: by place, whether it was skipped. ends: the places of two more that were
    not, before and after all.
    """
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


def date_neighbours(graph: CommitGraph, tried: Mapping[int, bool]) -> Neighbours:
    """Return the neighbours in the order of dates. The good end comes before all."""
    order = np.argsort(graph.times, kind="stable")
    place = np.empty(len(graph), dtype=np.int64)
    place[order] = np.arange(len(graph))
    by_place_tried = {int(place[commit]): was_skipped for commit, was_skipped in tried.items()}
    return line_neighbours(place, by_place_tried, ends=(-1, len(graph)))


def descent_neighbours(graph: CommitGraph, tried: Mapping[int, bool]) -> Neighbours:
    """Return the neighbours among ancestors and descendants. The good end is the parent of all roots."""
    commits = range(len(graph))
    return Neighbours(
        *_nearest(commits, graph.parents, tried), *_nearest(commits[::-1], graph.children, tried)
    )


def _nearest(
    order: range, relatives: tuple[tuple[int, ...], ...], tried: Mapping[int, bool]
) -> tuple[Integers, Mask]:
    """Return for each commit how far the nearest tried relative is, and whether it was skipped (ties: it was).

    A commit without relatives stands beside an end, which was tested.
    """
    # The number is twice the distance, plus 1 if it was tested. The smaller of two is the nearer, of equals the skipped
    # one.
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


_LINE, _VERSION, _NEARNESS = 0.55, 0.35, 0.1
"""Three explanations have these prior chances. The line that the error points at tells which commits fail alike, or the
version of the file does. Otherwise the file is only where the error shows, and only nearness tells."""
_EXCEPTION = 0.03
"""A commit is an exception to what the line, or the version, tells of it with this chance."""

_FILE_SHARES = (0.15, 0.35, 0.6)
"""One of these shares of a file's versions may be untestable. Each is one model, and the runs decide between them."""
_LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""This many neighbouring versions of a file may be untestable together. Each length is one model."""


_STAYS_BROKEN = 0.97
"""A commit fails with this chance with an error that the nearest tried ones before and after it fail with. An error
that is fixed seldom comes back as it was."""


@dataclass(frozen=True)
class RepeatedError:
    """An error that names no file of the repository, by its message."""

    message: str

    def same_cause(self, other: "Cause") -> bool:
        """Return whether both are one error."""
        return self == other


@dataclass(frozen=True, eq=False)
class BlamedFile:
    """A file that an error names, over the commits of a graph and, last, the good end. Arrays have shape [n + 1].

    versions: which version of the file each holds, as any numbers. fails: whether that version has the line that the
    error points at. Where the error is that the file is missing, fails says whether the version lacks it. None where
    the error points at no line.
    """

    path: str
    versions: Integers
    fails: Mask | None = None

    def same_cause(self, other: "Cause") -> bool:
        """Return whether both tell the same of every commit."""
        if (
            isinstance(other, RepeatedError)
            or self.path != other.path
            or (self.fails is None) != (other.fails is None)
        ):
            return False
        return self.fails is None or other.fails is None or np.array_equal(self.fails, other.fails)

    @cached_property
    def places(self) -> Integers:
        """Return for each commit and, last, the good end the place of its version in the order in which versions came
        up.

        The version of the good end comes first. Shape [n + 1].
        """
        _, first, place = np.unique(np.roll(self.versions, 1), return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.roll(rank[place], -1)


Cause: TypeAlias = BlamedFile | RepeatedError


def cause_skip_probability(graph: CommitGraph, file: Cause, tried: Mapping[int, bool]) -> Floats:
    """Return for each commit the chance that what the error says of `file` makes it untestable. Shape [n].

    `tried` says of commits whether this was so. It holds those that were skipped with such an error, and those that
    could be tested, the bad end among them. Three explanations are averaged over, weighted by how well each explains
    them: the line, the version of the file, and nearness alone. Neighbouring versions are alike, as commits are.
    """
    explanations = [*_nearness_explanations(graph, tried)]
    if isinstance(file, BlamedFile):
        explanations += _version_explanations(file, tried)
        if file.fails is not None:
            explanations.append(_line_explanation(file, file.fails, tried))
    evidence = np.array([log_evidence for log_evidence, _ in explanations])
    weights = np.exp(evidence - evidence.max())
    chance = np.average([chance for _, chance in explanations], axis=0, weights=weights)
    if isinstance(file, RepeatedError):
        near = descent_neighbours(graph, tried)
        chance[near.skipped_before & near.skipped_after & (chance < _STAYS_BROKEN)] = _STAYS_BROKEN
    return chance


def _line_explanation(file: BlamedFile, fails: Mask, tried: Mapping[int, bool]) -> tuple[float, Floats]:
    """Return log evidence and chances, where those commits fail that have the line."""
    exceptions = int(fails[-1]) + sum(bool(fails[commit]) != skipped for commit, skipped in tried.items())
    evidence = exceptions * log(_EXCEPTION) + (len(tried) + 1 - exceptions) * log(1 - _EXCEPTION)
    return log(_LINE) + evidence, np.where(fails[:-1], 1 - _EXCEPTION, _EXCEPTION)


def _version_explanations(file: BlamedFile, tried: Mapping[int, bool]) -> Iterable[tuple[float, Floats]]:
    """Yield log evidence and chances, where versions of a file fail in stretches of neighbouring ones."""
    seen: dict[int, list[bool]] = {int(file.places[-1]): [False]}
    for commit, skipped in tried.items():
        seen.setdefault(int(file.places[commit]), []).append(skipped)
    states = {place: all(found) for place, found in seen.items() if len({*found}) == 1}
    exceptions = sum(min(found.count(True), found.count(False)) for found in seen.values()) * log(_EXCEPTION)
    count = int(file.places.max()) + 1
    far = 2 * int(max(_LENGTHS))
    near = line_neighbours(np.arange(count), states, ends=(-far, count + far))
    known = np.array(sorted(states), dtype=np.int64)
    skipped = np.array([states[int(place)] for place in known], dtype=np.bool_)
    models = [
        Stretches(length, share) for length in _LENGTHS if length <= max(1, count) for share in _FILE_SHARES
    ]
    for model in models:
        evidence = model.log_evidence(near.distance_before[known], near.skipped_before[known], skipped)
        chance = 1 - model.testable_given_both(near)
        chance[known] = np.where(skipped, 1 - _EXCEPTION, _EXCEPTION)
        yield log(_VERSION / len(models)) + exceptions + evidence, chance[file.places[:-1]]


def _nearness_explanations(graph: CommitGraph, tried: Mapping[int, bool]) -> Iterable[tuple[float, Floats]]:
    """Yield log evidence and chances, where commits fail in stretches, whatever they hold."""
    commits = np.array(sorted(tried), dtype=np.int64)
    skipped = np.array([tried[int(commit)] for commit in commits], dtype=np.bool_)
    lines = descent_neighbours(graph, tried), date_neighbours(graph, tried)
    length = max(8.0, len(graph) / 8)
    for near in lines:
        model = Stretches(length, _FILE_SHARES[0])
        evidence = model.log_evidence(near.distance_before[commits], near.skipped_before[commits], skipped)
        yield log(_NEARNESS / len(lines)) + evidence, 1 - model.testable_given_both(near)


_SHARES = (0.05, 0.15, 0.35)
"""One of these shares of commits may be untestable. Each is one model, and the runs decide between them."""
_SHORTEST, _MOST_LENGTHS = 8, 6
"""The shortest stretch has the first number of commits, and the second bounds the number of lengths. Lengths
go from where stepping out of a stretch pays to a quarter of the range. Where few are enough, they double."""
_INDEPENDENT = 3.0
"""Untestable commits that do not come in stretches have this prior weight. It is that of three lengths."""
_MOST_CAUSES = 12
"""At most this many causes of skips are followed, those met most often. Each costs time in every step."""
_SKIP_CHANCE, _LEAST_TRIED = 0.95, 3
"""A commit is given up untried once its chance of being untestable reaches the first number. As many tried commits as
the second number must be like it."""


def skip_probability(
    graph: CommitGraph,
    skipped: Mapping[int, bool],
    blamed: Mapping[int, tuple[Cause, ...]] | None = None,
) -> Floats:
    """Return for each commit the chance that it cannot be tested. The array is not to be written to.

    `skipped` says whether each commit that was tried, the bad end among them, had to be skipped. `blamed` says which
    files the errors of the skipped ones name.

    A commit can be tested unless a known cause makes it fail (`cause_skip_probability`), or an unknown one. Where
    errors name no files all causes are unknown, and nearness tells. Where they do, a further cause near them is the
    likelier the more there were: breaks are stacked where nobody looks for long.
    """
    named = {commit: files for commit, files in (blamed or {}).items() if files and skipped.get(commit)}
    return _skip_probability(graph, frozenset(skipped.items()), frozenset(named.items()))


def out_of_reach(
    graph: CommitGraph,
    skipped: Mapping[int, bool],
    blamed: Mapping[int, tuple[Cause, ...]],
    *,
    among: Mask,
) -> Mask:
    """Return the commits that are not worth a try. Shape [n].

    They all but surely fail for what errors name. Several commits of `among`, which are left to be searched, were seen
    to fail for that.
    """
    seen = sum(
        bool(files) and skipped.get(commit, False) and among[commit] for commit, files in blamed.items()
    )
    if seen < _LEAST_TRIED:
        return np.zeros(len(graph), dtype=np.bool_)
    return skip_probability(graph, skipped, blamed) >= _SKIP_CHANCE


@lru_cache(maxsize=1)  # One choice asks up to three times.
def _skip_probability(
    graph: CommitGraph,
    known: frozenset[tuple[int, bool]],
    named: frozenset[tuple[int, tuple[Cause, ...]]],
) -> Floats:
    skipped, blamed = dict(known), dict(named)
    testable = np.ones(len(graph))
    unnamed = {commit: was_skipped for commit, was_skipped in known if commit not in blamed}
    if any(unnamed.values()) or not blamed:
        testable *= 1 - _nearness_probability(graph, unnamed)
    if blamed:
        causes = _causes(blamed)
        testable *= 1 - _further_cause(len({*map(frozenset, causes.values())})) * _nearness_probability(
            graph, skipped
        )
        tested = {commit: False for commit, was_skipped in known if not was_skipped}
        for cause, commits in causes.items():
            testable *= 1 - cause_skip_probability(graph, cause, tested | dict.fromkeys(commits, True))
    chance = np.clip(1 - testable, 0.0, 1.0)
    chance[[*skipped]] = [*skipped.values()]
    chance.setflags(write=False)
    return chance


def _causes(blamed: Mapping[int, tuple[Cause, ...]]) -> dict[Cause, list[int]]:
    """Return the commits that each cause has made untestable, for the causes that were met most often."""
    causes: dict[Cause, list[int]] = {}
    for commit, files in sorted(blamed.items()):
        for file in files:
            cause = next((known for known in causes if known.same_cause(file)), file)
            causes.setdefault(cause, []).append(commit)
    return dict(sorted(causes.items(), key=lambda met: -len(met[1]))[:_MOST_CAUSES])


def _further_cause(known: int) -> float:
    """Return how likely one more cause is where some are `known` to be near."""
    return (known - 0.5) / (known + 1)


def _nearness_probability(graph: CommitGraph, skipped: Mapping[int, bool]) -> Floats:
    """Return the chance of each commit, judged by the nearest tried ones before and after it.

    Something breaks at random moments of history and is fixed some commits later (`Stretches`). History is taken once
    as descent, by the nearest tried ancestor and descendant. It is taken once as the order of dates, since a broken
    dependency does not care for branches. Three things are unknown: which of the two holds, how long stretches are, and
    how many commits they cover. They are averaged over, weighted by how well each explains the commits tried so far.
    """
    tried = np.array(sorted(skipped), dtype=np.int64)
    states = np.array([skipped[int(commit)] for commit in tried], dtype=np.bool_)
    evidence: list[float] = []
    chances: list[Floats] = []
    neighbours = (descent_neighbours(graph, skipped), date_neighbours(graph, skipped))
    for near, (length, prior), share in product(neighbours, _lengths(len(graph)), _SHARES):
        stretches = Stretches(length, share)
        seen = stretches.log_evidence(near.distance_before[tried], near.skipped_before[tried], states)
        evidence.append(log(prior) + seen)
        chances.append(1 - stretches.testable_given_both(near))
    weights = np.exp(np.array(evidence) - max(evidence))
    return np.average(chances, axis=0, weights=weights)


def _lengths(commits: int) -> list[tuple[float, float]]:
    """Return how long stretches may be in a range of so many commits, and how likely each length is, in any unit.

    Untestable commits in stretches of one are independent of each other.
    """
    longest = max(_SHORTEST, commits / 4)
    count = min(_MOST_LENGTHS, 1 + int(log2(longest / _SHORTEST)))
    lengths = np.geomspace(_SHORTEST, longest, count).tolist()
    return [(1.0, _INDEPENDENT), *((length, 1.0) for length in lengths)]

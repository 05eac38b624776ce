"""How likely it is that each commit cannot be tested, estimated from the commits that could not.

`skip_probability` is the entry. An error of an untestable commit may name a file (`BlamedFile`) or only itself
(`RepeatedError`). `cause_skip_probability` estimates which commits fail for such a cause. `Stretches` models
neighbouring commits that are untestable together, and `Neighbours` holds the nearest tried commits of each commit.
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
    """The distances from each commit to the nearest tried commits before and after it, and their states."""

    distance_before: Integers
    skipped_before: Mask
    distance_after: Integers
    skipped_after: Mask


@dataclass(frozen=True)
class Stretches:
    """A model of untestable stretches of `length` commits, which start at random and cover a `share` of history.

    This is the Boolean model of segments on a line (Chiu, Stoyan, Kendall, Mecke, Stochastic Geometry and its
    Applications, chapter 3).
    """

    length: float
    share: float

    def testable_given_one(self, distance: Integers, skipped: Mask) -> Floats:
        """Return the chance that a commit can be tested, given the state of one tried commit at this distance."""
        tested, kept = 1 - self.share, self._stays_tested(distance)
        return np.where(skipped, tested * (1 - kept) / self.share, kept)

    def testable_given_both(self, near: Neighbours) -> Floats:
        """Return the chance that a commit can be tested, given the state of the nearest tried commit on either side."""
        tested, share = 1 - self.share, self.share
        before, after = self._stays_tested(near.distance_before), self._stays_tested(near.distance_after)
        across = self._stays_tested(near.distance_before + near.distance_after)
        # P(testable and both states) / P(both states), each by inclusion and exclusion.
        joint = tested * np.where(near.skipped_before, 1 - before, before)
        joint *= np.where(near.skipped_after, 1 - after, after)
        both, one = near.skipped_before & near.skipped_after, near.skipped_before ^ near.skipped_after
        sides = np.where(both, share - tested * (1 - across), tested * np.where(one, 1 - across, across))
        # Both are 0 where the commit itself was tried.
        return np.divide(joint, sides, out=np.zeros_like(joint), where=sides > 0)

    def log_evidence(self, distance: Integers, skipped: Mask, states: Mask) -> float:
        """Return how well the model explains the `states` of tried commits, each given the tried commit before it."""
        tested = self.testable_given_one(distance, skipped)
        return float(np.log(np.where(states, 1 - tested, tested)).sum())

    def _stays_tested(self, distance: Integers) -> Floats:
        """Return the chance that a commit can be tested if one at this distance can.

        That requires that no stretch starts between the two and reaches the commit. Over a whole `length` the chance of
        that is 1 - `share`.
        """
        furthest = ceil(self.length)
        by_distance = (1 - self.share) ** np.minimum(np.arange(furthest + 1) / self.length, 1.0)
        return by_distance[np.minimum(distance, furthest)]


def line_neighbours(places: Integers, tried: Mapping[int, bool], *, ends: tuple[int, int]) -> Neighbours:
    """Return the neighbours of commits that stand on a line.

    places: where each commit stands.
    tried: for each tried place, whether its commit was skipped.
    ends: two further places, before and after all others, that were tested.
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
    """Return the neighbours in the order of dates. The good end comes first."""
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
    """Return for each commit the distance to the nearest tried relative, and whether that was skipped.

    Of two at one distance, the skipped one counts. A commit without relatives is next to an end, which was tested.
    """
    # Each number is twice the distance, plus 1 if the relative was tested. So the minimum is the nearest relative, and
    # of two at one distance the skipped one.
    nearest = [0] * len(relatives)
    seen_from = [0] * len(relatives)
    for commit in order:
        if len(relatives[commit]) == 1:  # This is much faster, and the case of most commits.
            here = seen_from[relatives[commit][0]] + 2
        else:
            here = min((seen_from[relative] for relative in relatives[commit]), default=1) + 2
        nearest[commit] = here
        seen_from[commit] = not tried[commit] if commit in tried else here
    found = np.array(nearest, dtype=np.int64)
    return found // 2, found % 2 == 0


_LINE, _VERSION, _NEARNESS = 0.55, 0.35, 0.1
"""Prior chances of three explanations. The line at which the error points decides which commits fail, or the version of
its file does. In the third, the error only shows in the file, and nearness decides."""
_EXCEPTION = 0.03
"""A commit differs with this chance from what the line, or the version, predicts."""

_FILE_SHARES = (0.15, 0.35, 0.6)
"""The share of a file's versions that are untestable is one of these. Each is one model, and the runs decide between
them."""
_LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""The number of neighbouring versions of a file that are untestable together is one of these. Each is one model."""


_STAYS_BROKEN = 0.9
"""A commit fails with this chance with an error that the nearest tried commits on either side fail with. An error that
is fixed seldom returns unchanged."""


@dataclass(frozen=True)
class RepeatedError:
    """An error that names no file of the repository, identified by its message."""

    message: str

    def same_cause(self, other: "Cause") -> bool:
        """Return whether both are one error."""
        return self == other


@dataclass(frozen=True, eq=False)
class BlamedFile:
    """A file that an error names, over the commits of a graph and, last, the good end. Arrays have shape [n + 1].

    versions: the version of the file that each commit holds, as any numbers.
    fails: whether that version has the line at which the error points. Where the error is a missing file, whether the
    version lacks it. None where the error points at no line.
    """

    path: str
    versions: Integers
    fails: Mask | None = None

    def same_cause(self, other: "Cause") -> bool:
        """Return whether both make the same prediction for every commit."""
        if (
            isinstance(other, RepeatedError)
            or self.path != other.path
            or (self.fails is None) != (other.fails is None)
        ):
            return False
        return self.fails is None or other.fails is None or np.array_equal(self.fails, other.fails)

    @cached_property
    def places(self) -> Integers:
        """Return the rank of each commit's version in the order in which versions first occur. Shape [n + 1].

        The good end is last in the array, and its version has rank 0.
        """
        _, first, place = np.unique(np.roll(self.versions, 1), return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.roll(rank[place], -1)


Cause: TypeAlias = BlamedFile | RepeatedError


def cause_skip_probability(graph: CommitGraph, cause: Cause, tried: Mapping[int, bool]) -> Floats:
    """Return for each commit the chance that `cause` makes it untestable. Shape [n].

    tried: whether each tried commit was untestable for this cause. It holds the commits that were skipped with such an
    error, and those that could be tested, the bad end among them.

    Three explanations are averaged, weighted by how well each explains the tried commits: the line, the version of the
    file, and nearness alone.
    """
    explanations = [*_nearness_explanations(graph, tried)]
    if isinstance(cause, BlamedFile):
        explanations += _version_explanations(cause, tried)
        if cause.fails is not None:
            explanations.append(_line_explanation(cause.fails, tried))
    evidence = np.array([log_evidence for log_evidence, _ in explanations])
    weights = np.exp(evidence - evidence.max())
    chance = np.average([chance for _, chance in explanations], axis=0, weights=weights)
    if isinstance(cause, RepeatedError):
        near = descent_neighbours(graph, tried)
        between = near.skipped_before & near.skipped_after
        # Where the error may have been fixed in between, nearness decides.
        chance[between] = _STAYS_BROKEN + (1 - _STAYS_BROKEN) * chance[between]
    return chance


def _line_explanation(fails: Mask, tried: Mapping[int, bool]) -> tuple[float, Floats]:
    """Return the log evidence and the chances if the commits with the line fail."""
    exceptions = int(fails[-1]) + sum(bool(fails[commit]) != skipped for commit, skipped in tried.items())
    evidence = exceptions * log(_EXCEPTION) + (len(tried) + 1 - exceptions) * log(1 - _EXCEPTION)
    return log(_LINE) + evidence, np.where(fails[:-1], 1 - _EXCEPTION, _EXCEPTION)


def _version_explanations(file: BlamedFile, tried: Mapping[int, bool]) -> Iterable[tuple[float, Floats]]:
    """Yield log evidence and chances if stretches of neighbouring versions of a file fail."""
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
    """Yield log evidence and chances if stretches of neighbouring commits fail, whatever they contain."""
    commits = np.array(sorted(tried), dtype=np.int64)
    skipped = np.array([tried[int(commit)] for commit in commits], dtype=np.bool_)
    lines = descent_neighbours(graph, tried), date_neighbours(graph, tried)
    length = max(8.0, len(graph) / 8)
    for near in lines:
        model = Stretches(length, _FILE_SHARES[0])
        evidence = model.log_evidence(near.distance_before[commits], near.skipped_before[commits], skipped)
        yield log(_NEARNESS / len(lines)) + evidence, 1 - model.testable_given_both(near)


_SHARES = (0.05, 0.15, 0.35)
"""The share of commits that are untestable is one of these. Each is one model, and the runs decide between them."""
_SHORTEST, _MAX_LENGTHS = 8, 6
"""The length of the shortest stretch, and the greatest number of lengths. Shorter stretches are not worth leaving. The
lengths grow to a quarter of the range: they double, or grow faster in a long range."""
_INDEPENDENT = 3.0
"""The prior weight of untestable commits that do not come in stretches. It equals that of three lengths."""
_MAX_CAUSES = 12
"""At most this many causes of skips are followed, those met most often. Each costs time in every step."""
_SKIP_CHANCE, _MIN_TRIED, _MIN_REPEATED = 0.95, 3, 8
"""A commit is given up untried once its chance of being untestable reaches the first number. Before that, as many tried
commits as the second number must have failed for errors that name files, or as the third for any causes. An error
that names no file may come and go: after 8 failures, one more commit fails with a chance of 9 in 10 (Laplace's rule of
succession)."""


def skip_probability(
    graph: CommitGraph,
    skipped: Mapping[int, bool],
    blamed: Mapping[int, tuple[Cause, ...]] | None = None,
) -> Floats:
    """Return for each commit the chance that it cannot be tested. The array must not be written to.

    skipped: for each tried commit, the bad end among them, whether it had to be skipped.
    blamed: the causes that the errors of skipped commits name.

    A commit can be tested unless a known cause makes it fail (`cause_skip_probability`), or an unknown one does. Where
    errors name no causes, all are unknown, and nearness decides. Otherwise a further cause nearby is the likelier, the
    more causes were found, because breaks accumulate where nobody tests for long.
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
    """Return the commits that are not worth a try, because they almost surely fail for a named cause. Shape [n].

    Empty until several commits of `among`, which are still to be searched, were seen to fail for named causes.
    """
    seen = [
        causes for commit, causes in blamed.items() if causes and skipped.get(commit, False) and among[commit]
    ]
    in_files = sum(any(isinstance(cause, BlamedFile) for cause in causes) for causes in seen)
    if in_files < _MIN_TRIED and len(seen) < _MIN_REPEATED:
        return np.zeros(len(graph), dtype=np.bool_)
    return skip_probability(graph, skipped, blamed) >= _SKIP_CHANCE


@lru_cache(maxsize=1)  # One choice of a commit asks up to three times.
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
        testable *= 1 - _further_cause_chance(
            len({*map(frozenset, causes.values())})
        ) * _nearness_probability(graph, skipped)
        tested = {commit: False for commit, was_skipped in known if not was_skipped}
        for cause, commits in causes.items():
            testable *= 1 - cause_skip_probability(graph, cause, tested | dict.fromkeys(commits, True))
    chance = np.clip(1 - testable, 0.0, 1.0)
    chance[[*skipped]] = [*skipped.values()]
    chance.setflags(write=False)
    return chance


def _causes(blamed: Mapping[int, tuple[Cause, ...]]) -> dict[Cause, list[int]]:
    """Return the commits that each cause made untestable, for the causes that were met most often."""
    causes: dict[Cause, list[int]] = {}
    for commit, files in sorted(blamed.items()):
        for file in files:
            cause = next((known for known in causes if known.same_cause(file)), file)
            causes.setdefault(cause, []).append(commit)
    return dict(sorted(causes.items(), key=lambda met: -len(met[1]))[:_MAX_CAUSES])


def _further_cause_chance(known: int) -> float:
    """Return the chance that there is one more cause nearby, where `known` causes were found."""
    return (known - 0.5) / (known + 1)


def _nearness_probability(graph: CommitGraph, skipped: Mapping[int, bool]) -> Floats:
    """Return the chance that each commit is untestable, given the nearest tried commits before and after it.

    Something breaks at random moments of history and is fixed some commits later (`Stretches`). Two orders of history
    are tried. One is descent, with the nearest tried ancestor and descendant. The other is the order of dates, because
    a broken dependency does not depend on branches. The order, the length of stretches and their share are unknown.
    They are averaged over, weighted by how well they explain the commits tried so far.
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
    """Return the possible lengths of stretches in a range of this many commits, each with its weight in any unit.

    Stretches of length 1 model untestable commits that are independent of each other.
    """
    longest = max(_SHORTEST, commits / 4)
    count = min(_MAX_LENGTHS, 1 + int(log2(longest / _SHORTEST)))
    lengths = np.geomspace(_SHORTEST, longest, count).tolist()
    return [(1.0, _INDEPENDENT), *((length, 1.0) for length in lengths)]

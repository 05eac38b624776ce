"""How likely each commit cannot be tested, judged from the commits that could not."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from math import log, log2

import numpy as np

from ..graph.graph import CommitGraph, Floats, Mask
from .blamed_file import BlamedFile, skipped_because
from .stretches import Stretches, by_date, by_descent

# The shares of untestable commits. The lengths of stretches, in commits, go from where stepping out of one pays to a
# quarter of the range; where few are enough, they double. That there are none is as likely as three lengths.
_SHARES = (0.05, 0.15, 0.35)
_SHORTEST, _MOST_LENGTHS = 8, 6
_INDEPENDENT = 3.0
_MOST_CAUSES = 12
# So surely a commit cannot be tested, and so many of its like were tried, before it is given up untried.
_GIVEN_UP, _TRIED = 0.95, 3


def skip_probability(
    graph: CommitGraph,
    skipped: Mapping[int, bool],
    blamed: Mapping[int, tuple[BlamedFile, ...]] | None = None,
) -> Floats:
    """For each commit, the chance that it cannot be tested; not to be written to.

    `skipped` says of each commit that was tried, the bad end among them, whether it had to be skipped; `blamed` which
    files the errors of those name that were.

    A commit can be tested unless one of the causes that are known makes it fail (`blamed_file.skipped_because`), or one
    that is not. Where errors name no files all causes are unknown, and nearness tells. Where they do, a further cause
    near them is the likelier the more there were: breaks are stacked where nobody looks for long.
    """
    named = {commit: files for commit, files in (blamed or {}).items() if files and skipped.get(commit)}
    return _skip_probability(graph, frozenset(skipped.items()), frozenset(named.items()))


def out_of_reach(
    graph: CommitGraph,
    skipped: Mapping[int, bool],
    blamed: Mapping[int, tuple[BlamedFile, ...]],
    *,
    among: Mask,
) -> Mask:
    """The commits that are not worth a try: they all but surely fail for what errors name, as several of `among`, which
    are left to be searched, were seen to do. Shape [n]."""
    seen = sum(
        bool(files) and skipped.get(commit, False) and among[commit] for commit, files in blamed.items()
    )
    if seen < _TRIED:
        return np.zeros(len(graph), dtype=np.bool_)
    return skip_probability(graph, skipped, blamed) >= _GIVEN_UP


@lru_cache(maxsize=1)  # One choice asks up to three times.
def _skip_probability(
    graph: CommitGraph,
    known: frozenset[tuple[int, bool]],
    named: frozenset[tuple[int, tuple[BlamedFile, ...]]],
) -> Floats:
    skipped, blamed = dict(known), dict(named)
    testable = np.ones(len(graph))
    unnamed = {commit: was_skipped for commit, was_skipped in known if commit not in blamed}
    if any(unnamed.values()) or not blamed:
        testable *= 1 - _by_nearness(graph, unnamed)
    if blamed:
        causes = _causes(blamed)
        testable *= 1 - _further_cause(len({*map(frozenset, causes.values())})) * _by_nearness(graph, skipped)
        tested = {commit: False for commit, was_skipped in known if not was_skipped}
        for cause, commits in causes.items():
            testable *= 1 - skipped_because(graph, cause, tested | dict.fromkeys(commits, True))
    chance = np.clip(1 - testable, 0.0, 1.0)
    chance[[*skipped]] = [*skipped.values()]
    chance.setflags(write=False)
    return chance


def _causes(blamed: Mapping[int, tuple[BlamedFile, ...]]) -> dict[BlamedFile, list[int]]:
    """The commits that each cause has made untestable, of the causes that were met most often."""
    causes: dict[BlamedFile, list[int]] = {}
    for commit, files in sorted(blamed.items()):
        for file in files:
            cause = next((known for known in causes if known.same_cause(file)), file)
            causes.setdefault(cause, []).append(commit)
    return dict(sorted(causes.items(), key=lambda met: -len(met[1]))[:_MOST_CAUSES])


def _further_cause(known: int) -> float:
    """How likely one more cause is where some are `known` to be near."""
    return (known - 0.5) / (known + 1)


def _by_nearness(graph: CommitGraph, skipped: Mapping[int, bool]) -> Floats:
    """The chance of each commit, judged by the nearest tried ones before and after it.

    Something breaks at random moments of history and is mended some commits later (`Stretches`). History is taken once
    as descent (the nearest tried ancestor and descendant), and once as the order of dates, since a broken dependency
    does not care for branches. Which of the two holds, how long stretches are and how many commits they cover is
    unknown and averaged over, weighted by how well each explains the commits tried so far.
    """
    tried = np.array(sorted(skipped), dtype=np.int64)
    states = np.array([skipped[int(commit)] for commit in tried], dtype=np.bool_)
    evidence: list[float] = []
    chances: list[Floats] = []
    neighbours = (by_descent(graph, skipped), by_date(graph, skipped))
    for near, (length, prior), share in product(neighbours, _lengths(len(graph)), _SHARES):
        stretches = Stretches(length, share)
        seen = stretches.log_evidence(near.distance_before[tried], near.skipped_before[tried], states)
        evidence.append(log(prior) + seen)
        chances.append(1 - stretches.tested_between(near))
    weights = np.exp(np.array(evidence) - max(evidence))
    return np.average(chances, axis=0, weights=weights)


def _lengths(commits: int) -> list[tuple[float, float]]:
    """How long stretches may be in a range of so many commits, and how likely each length is, in any unit. Untestable
    commits in stretches of one are independent of each other."""
    longest = max(_SHORTEST, commits / 4)
    count = min(_MOST_LENGTHS, 1 + int(log2(longest / _SHORTEST)))
    lengths = np.geomspace(_SHORTEST, longest, count).tolist()
    return [(1.0, _INDEPENDENT), *((length, 1.0) for length in lengths)]

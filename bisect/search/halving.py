"""Which commit to test next, or the answer, when outcomes are certain.

`next_step` halves the suspects by the choice of git. No decision tree beats another for every culprit. So choosing
git's own commit, ties included, is the one way never to take more tests than git on any history. The rules are those of
`do_find_bisection` in git's bisect.c: the first commit close enough to halfway, merges before others, or else the first
of the best. `gallop` looks for a passing commit behind a failing one. `sidestep` avoids commits between a change and
its undoing, which may fail for another reason.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .belief import Knowledge, Outcome, entropy
from .graph import CommitGraph, Floats, Integers, Mask, Windows
from .hypotheses import GOOD_END
from .testability import out_of_reach, skip_probability


@dataclass(frozen=True)
class GallopTo:
    """The commit to test next."""

    commit: int


@dataclass(frozen=True)
class Passes:
    """The first commit that was found to pass."""

    commit: int


@dataclass(frozen=True)
class NothingPasses:
    """The result that none of the tested commits passes, back to the last one."""


Gallop: TypeAlias = GallopTo | Passes | NothingPasses


def gallop(length: int, outcomes: Mapping[int, Outcome]) -> Gallop:
    """Return the commit to test next behind a bad one, which is commit 0, or the answer.

    length: the number of commits, the bad one included.
    outcomes: those of the commits that were tested.

    Commits 1, 2, 4, ... are tested, and the last one in any case. Behind a commit that cannot be tested, the next 1, 2,
    4, ... commits are tried. Where none behind it can be tested, as before a feature existed, halving finds the last
    testable commits. One of them may pass.

    >>> gallop(100, {1: Outcome.BAD, 2: Outcome.BAD})
    GallopTo(commit=4)
    >>> gallop(100, {1: Outcome.BAD, 2: Outcome.GOOD})
    Passes(commit=2)
    """
    last = length - 1
    bad, edge, skipped, reach = 0, None, 0, 1
    at = 0
    while at < last:
        at = min(at + (1 << (skipped - 1)) if skipped else max(at + 1, reach), last)
        outcome = outcomes.get(at)
        if outcome is None:
            return GallopTo(at)
        if outcome is Outcome.GOOD:
            return Passes(at)
        if outcome is Outcome.BAD:
            bad, edge, skipped = at, None, 0
            while reach <= at:
                reach *= 2
        else:
            edge = at if edge is None else edge
            skipped += 1
    return NothingPasses() if edge is None else _halve_to_edge(bad, edge, outcomes)


def _halve_to_edge(bad: int, edge: int, outcomes: Mapping[int, Outcome]) -> Gallop:
    """Halve between a bad commit and the first of the untestable commits behind it."""
    while edge - bad > 1:
        middle = (bad + edge) // 2
        outcome = outcomes.get(middle)
        if outcome is None:
            return GallopTo(middle)
        if outcome is Outcome.GOOD:
            return Passes(middle)
        bad, edge = (middle, edge) if outcome is Outcome.BAD else (bad, middle)
    return NothingPasses()


def halving_commit(graph: CommitGraph, suspects: Mask, reach: Floats) -> int:
    """Return the suspect to test next. `reach[v]` counts the suspects among the ancestors of v, itself included.

    In ranges above 3,000 commits, git takes a commit within 0.1 % of halfway. That can cost a line one test more than
    ceil(log2 n). So git is followed only where the larger part still fits that bound.
    """
    oldest_first = graph.newest_first(suspects)[::-1]
    total = len(oldest_first)
    part_limit = 1 << (total - 1).bit_length() - 1
    examined = _order_of_counting(graph, suspects, np.array(oldest_first, dtype=np.int64))
    imbalance = np.abs(2 * reach[examined] - total)
    close = (imbalance <= 1) | ((imbalance < total // 1024) & (total + imbalance <= 2 * part_limit))
    if close.any():
        return int(examined[np.argmax(close)])
    listed = reach[oldest_first]
    return oldest_first[int(np.argmax(np.minimum(listed, total - listed)))]


def _order_of_counting(graph: CommitGraph, suspects: Mask, oldest_first: Integers) -> Integers:
    """Return the suspects that git examines while it counts, in its order: merges first, roots never.

    Git counts a commit with one parent from the count of the parent, in repeated passes through the list. One pass is
    enough, unless a clock was wrong and a parent is listed after its child.
    """
    position = np.zeros(len(graph), dtype=np.int64)
    position[oldest_first] = np.arange(len(oldest_first))
    child, parent = graph.edges
    inside = suspects[child] & suspects[parent]
    child, parent = child[inside], parent[inside]
    parents = np.bincount(child, minlength=len(graph))
    counted_in_pass = (parents == 1).astype(np.int64)
    behind = (position[parent] > position[child]) & (parents[child] == 1)
    if behind.any():
        # Parents come first in `child`, so the pass of each parent is known.
        for commit, of_commit, late in zip(child.tolist(), parent.tolist(), behind.tolist(), strict=True):
            if parents[commit] == 1 and counted_in_pass[of_commit]:
                counted_in_pass[commit] = counted_in_pass[of_commit] + late
    examined = oldest_first[parents[oldest_first] > 0]
    return examined[np.argsort(counted_in_pass[examined], kind="stable")]


def total_steps(suspects: int) -> int:
    """Return the fewest tests that find the culprit among `suspects`, summed over its possible positions.

    This is the external path length of the complete binary tree with n leaves, n k + 2 (n - 2^k). Here 2^k is the
    largest power of two not above n. (Knuth, The Art of Computer Programming, volume 3, section 6.2.1.)

    Raises `ValueError` for less than one suspect.

    >>> [total_steps(suspects) for suspects in (1, 2, 3, 4, 5, 8)]
    [0, 2, 5, 8, 12, 24]
    """
    if suspects < 1:
        raise ValueError(f"expected at least one suspect, found {suspects}")
    k = suspects.bit_length() - 1
    return suspects * k + 2 * (suspects - (1 << k))


def expected_steps(suspects: int) -> float:
    """Return the mean of `total_steps` over the positions; log2(n) for a power of two."""
    return total_steps(suspects) / suspects


@dataclass(frozen=True)
class Probe:
    """The commit to test next.

    expected_steps: about how many tests are left, this one included, if none has to be skipped. None where runs may
    contradict each other.
    min_runs: the number of runs to come if each gave as much information as this one. None where runs agree.
    """

    commit: int
    expected_steps: float | None
    min_runs: float | None = None


@dataclass(frozen=True)
class FoundCulprit:
    """The culprit: no other candidate can have introduced the failure."""

    culprit: int


@dataclass(frozen=True)
class OnlySkipped:
    """The culprit is one of `candidates`, ascending. No testable commit distinguishes them."""

    candidates: tuple[int, ...]


_UNNAMEABLE_WEIGHT = 0.25
"""A suspect that can only be named together with others weighs this much, relative to one that can be named alone."""

Step: TypeAlias = Probe | FoundCulprit | OnlySkipped


def next_step(knowledge: Knowledge, *, weights: Floats | None = None, costs: Floats | None = None) -> Step:
    """Return the best commit to test next, or the answer.

    weights: how likely each commit is the culprit, in any unit; equal by default.
    costs: of a test of each commit, in any unit; equal by default.

    With equal weights and costs, and without skips, this is git's choice. Then no history takes more tests than with
    git, and no line more than ceil(log2 n). Otherwise the suspect with most expected information per cost is chosen.
    That is entropy(share of the weight among its ancestors), times the chance that it can be tested, divided by its
    cost.

    Weights alone, however wrong, cost a line at most one test above ceil(log2 n). A test that could leave too many
    suspects for that is not chosen.
    """
    suspects = knowledge.suspects
    total = int(suspects.sum())
    untried = suspects.copy()
    untried[list(knowledge.skipped_commits)] = False
    if total == 1 and untried.any():
        return FoundCulprit(int(np.argmax(suspects)))
    reach = _reaches(knowledge)
    informative = untried & (reach < total) & ~_out_of_reach(knowledge)
    if not informative.any():
        return OnlySkipped(tuple(np.flatnonzero(suspects).tolist()))
    # Together, the commits that are out of reach count as one suspect.
    steps = expected_steps(int(informative.sum()) + 1)
    if costs is not None and np.ptp(costs[informative]) == 0:
        costs = None
    if weights is not None and np.ptp(weights[suspects]) == 0:
        weights = None
    if weights is not None and costs is None and not knowledge.skipped_commits:
        within = informative & (np.maximum(reach, total - reach) <= _max_suspects_left(knowledge))
        informative = within if within.any() else informative
    if weights is None and costs is None and not knowledge.skipped_commits:
        commit = halving_commit(knowledge.graph, suspects, reach)
    else:
        weighed = suspicion(knowledge, weights)
        share = knowledge.graph.ancestor_sums(weighed) / weighed.sum()
        commit = _most_informative(knowledge, informative, share, 1.0 if costs is None else costs)
    return Probe(commit, steps)


def suspicion(knowledge: Knowledge, weights: Floats | None) -> Floats:
    """Return the weight of each commit in a test that divides the suspects. `weights` are as in `next_step`. Shape [n].

    A suspect counts less if it cannot be tested itself, or has an untestable parent. It can only be named together with
    others, and only after a try of each of them.
    """
    weighed = knowledge.suspects.astype(np.float64) * (1.0 if weights is None else weights)
    weighed[[*knowledge.graph.with_children(knowledge.skipped_commits)]] *= _UNNAMEABLE_WEIGHT
    return weighed


def _out_of_reach(knowledge: Knowledge) -> Mask:
    """Return the commits of untestable stretches that need no further try."""
    return out_of_reach(
        knowledge.graph, _tried_commits(knowledge), knowledge.blamed, among=knowledge.suspects
    )


def _tried_commits(knowledge: Knowledge) -> dict[int, bool]:
    """Return for each tried commit whether it had to be skipped."""
    return {commit: outcome is Outcome.SKIP for commit, outcome in knowledge.outcomes.items()}


def _max_suspects_left(knowledge: Knowledge) -> int:
    """Return how many suspects the next test may leave so that ceil(log2 n) + 1 tests suffice on a line."""
    tests = (len(knowledge.graph) - 1).bit_length() + 1
    made = sum(
        outcome is not Outcome.SKIP and commit != knowledge.graph.bad
        for commit, outcome in knowledge.outcomes.items()
    )
    return 1 << max(0, tests - made - 1)


def _most_informative(knowledge: Knowledge, informative: Mask, share: Floats, costs: Floats | float) -> int:
    """Return the commit with most information per cost.

    Of equally good ones it is the nearest to halfway, then the oldest.
    """
    value = entropy(share) / costs
    if knowledge.skipped_commits:
        value *= 1 - skip_probability(knowledge.graph, _tried_commits(knowledge), knowledge.blamed)
    value[~informative] = -1.0
    best = np.flatnonzero(value >= value.max() * (1 - 1e-9))
    return int(best[np.argmin(np.abs(share[best] - 0.5))])


_REVERT_SIDE_SHARE = 0.7
"""A step around a revert may leave up to this share of the suspects. Commits before the revert may fail for a reason of
their own."""


def sidestep(knowledge: Knowledge, commit: int, windows: Windows) -> int:
    """Return the commit to test instead of one inside a window: the window's end, or a commit before its start.

    The commit moves only where the search stays as short. With n suspects left, the larger side may hold up to the
    largest power of two below n. Then ceil(log2 n) tests still suffice on a line. To get around a revert, up to 7/10 of
    the suspects may be left.
    """
    if not len(windows):
        return commit
    total = int(knowledge.suspects.sum())
    power = 1 << (total - 1).bit_length() - 1
    best, best_side = commit, total
    reaches = _reaches(knowledge)
    for edge, reverted in _window_edges(knowledge.graph, windows, commit):
        limit = max(power, int(_REVERT_SIDE_SHARE * total)) if reverted else power
        reach = int(reaches[edge])
        side = max(reach, total - reach)
        untried = knowledge.suspects[edge] and edge not in knowledge.outcomes
        if untried and 0 < reach < total and side <= limit and side < best_side:
            best, best_side = edge, side
    return best


def _window_edges(graph: CommitGraph, windows: Windows, commit: int) -> Iterator[tuple[int, bool]]:
    """Yield the commits at the edges of each window around a commit, and whether the window ends with a revert."""
    if commit == GOOD_END:
        return
    behind = graph.ancestors(commit)
    around = np.flatnonzero(behind[windows.start] & ~behind[windows.end])
    for start, end, is_declared_revert in windows.rows(around):
        for edge in (end, *graph.parents[start]):
            yield edge, is_declared_revert


def _reaches(knowledge: Knowledge) -> Floats:
    """Return how many suspects are ancestors of each commit, itself included. Shape [n]."""
    return knowledge.graph.ancestor_sums(knowledge.suspects.astype(np.float64))


def sidestep_batch(
    knowledge: Knowledge, chosen: Sequence[int], windows: Windows, *, in_flight: Sequence[int] = ()
) -> list[int]:
    """Return the commits to test at once instead of `chosen`: those inside a window are moved to its nearer edge.

    A commit moves by at most a fourth of the suspects that each test of the batch separates.
    """
    allowed = int(knowledge.suspects.sum()) / (4 * (len(chosen) + len(in_flight) + 1))
    taken = {*in_flight, *chosen, *knowledge.outcomes}
    moved: list[int] = []
    reaches = _reaches(knowledge)
    for commit in chosen:
        best, least = commit, allowed
        for edge, _ in _window_edges(knowledge.graph, windows, commit):
            distance = abs(int(reaches[edge]) - int(reaches[commit]))
            if knowledge.suspects[edge] and edge not in taken and distance <= least:
                best, least = edge, distance
        taken.add(best)
        moved.append(best)
    return moved


def last_revert(windows: Windows, tried: Container[int], culprit: int) -> int | None:
    """Return the last commit that undoes the culprit's change, if it was not tested yet.

    If it passes, the culprit cannot explain the present failure.
    """
    last = int(windows.end[windows.start == culprit].max(initial=-1))
    return None if last < 0 or last in tried else last

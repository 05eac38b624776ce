"""What to test next, or the answer, when outcomes are certain.

`next_step` chooses the commit that halves the suspects, as git chooses it. A bisection is a decision tree, and no tree
beats another for every culprit. Choosing git's own commit, ties included, is the one way never to take more tests than
git does on any history. The rules are those of `do_find_bisection` in git's bisect.c: the first commit close enough to
halfway, merges before others, else the first of the best.

`gallop` says how far back from a failing commit to look for one that passes, when nobody named one. `expected_steps` is
how many tests an ideal bisection takes, to compare others with. `sidestep` avoids commits between a change and its
undoing: what fails there may have nothing to do with what fails now.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .belief import Knowledge, Outcome, entropy
from .graph import CommitGraph, Floats, Integers, Mask, Window
from .testability import out_of_reach, skip_probability


@dataclass(frozen=True)
class GallopTo:
    """Test this commit next."""

    commit: int


@dataclass(frozen=True)
class Passes:
    """The first commit that was found to be good."""

    commit: int


@dataclass(frozen=True)
class NothingPasses:
    """None of the tested commits is good, back to the last one."""


Gallop: TypeAlias = GallopTo | Passes | NothingPasses


def gallop(length: int, outcomes: Mapping[int, Outcome]) -> Gallop:
    """Return the commit to test next behind a bad one, which is commit 0, or the answer.

    length: the number of commits, the bad one included. outcomes: those of the commits that were tested.

    Commits 1, 2, 4, ... are tested, the last one in any case. Behind one that cannot be tested come the
    next 1, 2, 4, ... commits. Where all the rest cannot be tested, as before a feature existed, halving approaches the
    edge of what can. What passes may lie there.

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
    return NothingPasses() if edge is None else _approach(bad, edge, outcomes)


def _approach(bad: int, edge: int, outcomes: Mapping[int, Outcome]) -> Gallop:
    """Halve between a bad commit and the first of those that cannot be tested."""
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

    In ranges above 3,000 commits git takes what is within 0.1 % of halfway. That can cost a line one test more than
    ceil(log2 n), so git is followed only where the larger part still fits that bound.
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

    A commit with one parent gets its count from the parent, in repeated passes through the list. One pass is enough,
    unless a clock was wrong and a parent is listed behind its child.
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
        # Parents come first in `child`, so that theirs is known.
        for commit, of_commit, late in zip(child.tolist(), parent.tolist(), behind.tolist(), strict=True):
            if parents[commit] == 1 and counted_in_pass[of_commit]:
                counted_in_pass[commit] = counted_in_pass[of_commit] + late
    examined = oldest_first[parents[oldest_first] > 0]
    return examined[np.argsort(counted_in_pass[examined], kind="stable")]


def total_steps(suspects: int) -> int:
    """Return the fewest tests, summed over each position of the culprit, that find it among so many suspects.

    This is the external path length of the complete binary tree with n leaves, n k + 2 (n - 2^k). Here 2^k is the
    largest power of two not above n. (Knuth, The Art of Computer Programming, volume 3, section 6.2.1.) Raises
    ValueError for less than one suspect.

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
    """Test this commit.

    expected_steps: about how many tests are left, it included, if none has to be skipped. None where runs decide that
    contradict each other, or may. least_runs: the runs to come if each told as much as this one, where runs contradict
    each other.
    """

    commit: int
    expected_steps: float | None
    least_runs: float | None = None


@dataclass(frozen=True)
class FoundCulprit:
    """The culprit: no other candidate can have introduced the failure."""

    culprit: int


@dataclass(frozen=True)
class OnlySkipped:
    """The culprit is one of `candidates`, ascending. What could tell them apart cannot be tested."""

    candidates: tuple[int, ...]


_UNNAMEABLE_WEIGHT = 0.25
"""A suspect that cannot be named alone weighs this much, next to one that can."""

Step: TypeAlias = Probe | FoundCulprit | OnlySkipped


def next_step(knowledge: Knowledge, *, weights: Floats | None = None, costs: Floats | None = None) -> Step:
    """Return the best commit to test next, or the answer.

    `weights` say how likely each commit is the culprit, `costs` what a test of it takes; equal by default.

    If these are equal over all that could be tested, and nothing had to be skipped, it is git's choice. Then no history
    takes more tests than with git, and no line more than ceil(log2 n). Else it is the suspect with the most information
    that can probably be had for its cost. That is entropy(share of the weight among its ancestors) times the chance
    that it can be tested, by its cost.

    Weights alone, however wrong, cost a line no more than one test above ceil(log2 n). A test that could leave too many
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
    # The commits that are out of reach are told from the others as a whole.
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
    """Return how much each commit counts where a test is to divide the suspects. `weights` as of `next_step`. Shape
    [n].

    A suspect that cannot be tested itself, or has a parent that cannot, can at most be named together with others. That
    takes a try of each of them, in whatever order. It counts for less than those that can be named.
    """
    weighed = knowledge.suspects.astype(np.float64) * (1.0 if weights is None else weights)
    weighed[[*knowledge.graph.with_children(knowledge.skipped_commits)]] *= _UNNAMEABLE_WEIGHT
    return weighed


def _out_of_reach(knowledge: Knowledge) -> Mask:
    """Return the commits of a stretch of untestable ones that is known well enough."""
    return out_of_reach(
        knowledge.graph, _tried_commits(knowledge), knowledge.blamed, among=knowledge.suspects
    )


def _tried_commits(knowledge: Knowledge) -> dict[int, bool]:
    """Return the commits that were tried, and whether they had to be skipped."""
    return {commit: outcome is Outcome.SKIP for commit, outcome in knowledge.outcomes.items()}


def _max_suspects_left(knowledge: Knowledge) -> int:
    """Return how many suspects the next test may leave, so that in all ceil(log2 n) + 1 tests suffice on a line."""
    tests = (len(knowledge.graph) - 1).bit_length() + 1
    made = sum(
        outcome is not Outcome.SKIP and commit != knowledge.graph.bad
        for commit, outcome in knowledge.outcomes.items()
    )
    return 1 << max(0, tests - made - 1)


def _most_informative(knowledge: Knowledge, informative: Mask, share: Floats, costs: Floats | float) -> int:
    """Return the best commit. Of equally good ones it is the one nearest to halfway, then the oldest."""
    value = entropy(share) / costs
    if knowledge.skipped_commits:
        value *= 1 - skip_probability(knowledge.graph, _tried_commits(knowledge), knowledge.blamed)
    value[~informative] = -1.0
    best = np.flatnonzero(value >= value.max() * (1 - 1e-9))
    return int(best[np.argmin(np.abs(share[best] - 0.5))])


_REVERT_SIDE_SHARE = 0.7
"""A step around a revert may leave up to this share of the suspects. Its inside may fail for a reason of its own."""


def sidestep(knowledge: Knowledge, commit: int, windows: Sequence[Window]) -> int:
    """Return the commit to test in place of one that lies inside a window: the window's end, or a commit before its
    start.

    The commit moves only where this keeps the search as short. With n suspects left, the larger side may hold up to the
    largest power of two below n. Then ceil(log2 n) tests still suffice on a line. To get around a revert, whose inside
    may well fail for a reason of its own, up to 7/10 of the suspects may be left.
    """
    if not windows:
        return commit
    graph, suspects = knowledge.graph, knowledge.suspects
    total = int(suspects.sum())
    power = 1 << (total - 1).bit_length() - 1
    best, best_side = commit, total
    behind, reaches = graph.ancestors(commit), _reaches(knowledge)
    for window in windows:
        limit = max(power, int(_REVERT_SIDE_SHARE * total)) if window.reverted else power
        if not behind[window.start] or behind[window.end]:
            continue
        for other in (window.end, *graph.parents[window.start]):
            reach = int(reaches[other])
            side = max(reach, total - reach)
            if (
                suspects[other]
                and other not in knowledge.outcomes
                and 0 < reach < total
                and side <= limit
                and side < best_side
            ):
                best, best_side = other, side
    return best


def _reaches(knowledge: Knowledge) -> Floats:
    """Return how many suspects are ancestors of each commit, itself included. Shape [n]."""
    return knowledge.graph.ancestor_sums(knowledge.suspects.astype(np.float64))


def sidestep_batch(
    knowledge: Knowledge, chosen: Sequence[int], windows: Sequence[Window], *, in_flight: Sequence[int] = ()
) -> list[int]:
    """Return the commits to test at once in place of `chosen`, those inside a window moved to the nearer edge of it.

    A commit moves only if its place changes by no more than a fourth of the part that each divides off.
    """
    graph, suspects = knowledge.graph, knowledge.suspects
    allowed = int(suspects.sum()) / (4 * (len(chosen) + len(in_flight) + 1))
    taken = {*in_flight, *chosen, *knowledge.outcomes}
    stepped: list[int] = []
    reaches = _reaches(knowledge)
    for commit in chosen:
        best, least = commit, allowed
        behind = graph.ancestors(commit) if commit >= 0 else np.zeros(len(graph), dtype=np.bool_)
        reach = int(reaches[commit]) if commit >= 0 else 0
        for window in windows:
            if not behind[window.start] or behind[window.end]:
                continue
            for other in (window.end, *graph.parents[window.start]):
                moved = abs(int(reaches[other]) - reach)
                if suspects[other] and other not in taken and moved <= least:
                    best, least = other, moved
        taken.add(best)
        stepped.append(best)
    return stepped


def last_revert(windows: Sequence[Window], tried: Container[int], culprit: int) -> int | None:
    """Return the last commit that undoes what the culprit has changed, where it was not tried yet.

    If it passes, the culprit explains nothing that fails now.
    """
    ends = [window.end for window in windows if window.start == culprit]
    return None if not ends or max(ends) in tried else max(ends)

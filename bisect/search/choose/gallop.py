"""How far back from a failing commit to look for one that passes, when nobody named one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..evidence.knowledge import Outcome


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
    """None of the commits that were tested is good, back to the last one."""


Gallop: TypeAlias = GallopTo | Passes | NothingPasses


def gallop(distances: Sequence[float], outcomes: Mapping[int, Outcome]) -> Gallop:
    """The commit to test next behind a bad one, which is commit 0, or the answer.

    distances: how far each commit lies behind the bad one, in commits or days, not decreasing; [0] is 0. outcomes: what
    commits are that were tested.

    Commits at distances 1, 2, 4, ... are tested, the last one in any case. Behind one that cannot be tested come the
    next 1, 2, 4, ... commits. Where all the rest cannot be tested, as before a feature existed, the edge of what can
    is approached by halving: what passes may lie there.

    >>> gallop(range(100), {1: Outcome.BAD, 2: Outcome.BAD})
    GallopTo(commit=4)
    >>> gallop(range(100), {1: Outcome.BAD, 2: Outcome.GOOD})
    Passes(commit=2)
    """
    last = len(distances) - 1
    bad, edge, skipped, reach = 0, None, 0, 1.0
    at = 0
    while at < last:
        if skipped:
            at = min(at + (1 << (skipped - 1)), last)
        else:
            at = next((i for i in range(at + 1, last) if distances[i] >= reach), last)
        outcome = outcomes.get(at)
        if outcome is None:
            return GallopTo(at)
        if outcome is Outcome.GOOD:
            return Passes(at)
        if outcome is Outcome.BAD:
            bad, edge, skipped = at, None, 0
            while reach <= distances[at]:
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

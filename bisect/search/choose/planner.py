"""What to test next, or the answer, when outcomes are certain."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..evidence.knowledge import Knowledge, Outcome
from ..evidence.testability import out_of_reach, skip_probability
from ..graph.graph import Floats, Mask
from .halving import halving_commit
from .information import entropy
from .steps import expected_steps


@dataclass(frozen=True)
class Probe:
    """Test this commit. About `expected_steps` tests are left, it included, if none has to be skipped; None where runs
    decide that contradict each other, or may. Where they do, `least_runs` is what the runs to come would be if each
    told as much as this one."""

    commit: int
    expected_steps: float | None
    least_runs: float | None = None


@dataclass(frozen=True)
class Found:
    """The culprit: no other candidate can have introduced the failure."""

    culprit: int


@dataclass(frozen=True)
class OnlySkipped:
    """The culprit is one of `candidates`, ascending; what could tell them apart cannot be tested."""

    candidates: tuple[int, ...]


_NOT_TO_BE_NAMED = 0.25
"""What a suspect that cannot be named alone weighs beside one that can."""

Step: TypeAlias = Probe | Found | OnlySkipped


def next_step(knowledge: Knowledge, *, weights: Floats | None = None, costs: Floats | None = None) -> Step:
    """The best commit to test next, or the answer.

    `weights` say how likely each commit is the culprit, `costs` what a test of it takes; equal by default.
    If they are equal over all that could be tested, and nothing had to be skipped, it is git's choice, so that no
    history takes more tests than with git, and no line more than ceil(log2 n). Else it is the suspect with the
    most information that can probably be had for its cost: entropy(share of the weight among its ancestors) times
    the chance that it can be tested, by its cost. Weights alone, however wrong, cost a line no more than one
    test above ceil(log2 n): a test that could leave too many suspects for that is not chosen.
    """
    suspects = knowledge.suspects
    total = int(suspects.sum())
    untried = suspects.copy()
    untried[list(knowledge.skipped)] = False
    if total == 1 and untried.any():
        return Found(int(np.argmax(suspects)))
    reach = knowledge.graph.ancestor_sums(suspects.astype(np.float64))
    informative = untried & (reach < total) & ~_out_of_reach(knowledge)
    if not informative.any():
        return OnlySkipped(tuple(np.flatnonzero(suspects).tolist()))
    # What is out of reach is told from the others as a whole.
    steps = expected_steps(int(informative.sum()) + 1)
    if costs is not None and np.ptp(costs[informative]) == 0:
        costs = None
    if weights is not None and np.ptp(weights[suspects]) == 0:
        weights = None
    if weights is not None and costs is None and not knowledge.skipped:
        within = informative & (np.maximum(reach, total - reach) <= _most_left(knowledge))
        informative = within if within.any() else informative
    if weights is None and costs is None and not knowledge.skipped:
        commit = halving_commit(knowledge.graph, suspects, reach)
    else:
        weighed = suspicion(knowledge, weights)
        share = knowledge.graph.ancestor_sums(weighed) / weighed.sum()
        commit = _most_informative(knowledge, informative, share, 1.0 if costs is None else costs)
    return Probe(commit, steps)


def suspicion(knowledge: Knowledge, weights: Floats | None) -> Floats:
    """How much each commit counts where a test is to divide the suspects; `weights` as of `next_step`. Shape [n].

    A suspect that cannot be tested itself, or has a parent that cannot, can at most be named together with others, and
    only once each of them was tried, in whatever order. It counts for less than those that can be named.
    """
    weighed = knowledge.suspects.astype(np.float64) * (1.0 if weights is None else weights)
    weighed[[*knowledge.graph.with_children(knowledge.skipped)]] *= _NOT_TO_BE_NAMED
    return weighed


def _out_of_reach(knowledge: Knowledge) -> Mask:
    """The commits of a wall of untestable ones that is known well enough."""
    return out_of_reach(knowledge.graph, _tried(knowledge), knowledge.blamed, among=knowledge.suspects)


def _tried(knowledge: Knowledge) -> dict[int, bool]:
    """The commits that were tried, and whether they had to be skipped."""
    return {commit: outcome is Outcome.SKIP for commit, outcome in knowledge.outcomes.items()}


def _most_left(knowledge: Knowledge) -> int:
    """How many suspects the next test may leave, so that in all ceil(log2 n) + 1 tests suffice on a line."""
    tests = (len(knowledge.graph) - 1).bit_length() + 1
    made = sum(
        outcome is not Outcome.SKIP and commit != knowledge.graph.bad
        for commit, outcome in knowledge.outcomes.items()
    )
    return 1 << max(0, tests - made - 1)


def _most_informative(knowledge: Knowledge, informative: Mask, share: Floats, costs: Floats | float) -> int:
    """Of equally good commits the one nearest to halfway, then the oldest."""
    value = entropy(share) / costs
    if knowledge.skipped:
        value *= 1 - skip_probability(knowledge.graph, _tried(knowledge), knowledge.blamed)
    value[~informative] = -1.0
    best = np.flatnonzero(value >= value.max() * (1 - 1e-9))
    return int(best[np.argmin(np.abs(share[best] - 0.5))])

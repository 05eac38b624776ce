"""What to test next, or the answer, when outcomes are certain."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .graph import Floats, Mask
from .halving import halving_commit
from .information import entropy
from .knowledge import Knowledge, Outcome
from .steps import expected_steps
from .testability import skip_probability


@dataclass(frozen=True)
class Probe:
    """Test this commit. About `expected_steps` tests are left, it included, if none has to be skipped."""

    commit: int
    expected_steps: float


@dataclass(frozen=True)
class Found:
    """The culprit: no other candidate can have introduced the failure."""

    culprit: int


@dataclass(frozen=True)
class OnlySkipped:
    """The culprit is one of `candidates`, ascending; what could tell them apart cannot be tested."""

    candidates: tuple[int, ...]


Step: TypeAlias = Probe | Found | OnlySkipped


def next_step(knowledge: Knowledge) -> Step:
    """The best commit to test next, or the answer.

    While nothing had to be skipped it is git's choice, so that no history takes more tests than with
    git, and no line more than ceil(log2 n). After that it is the suspect with the most information that can
    probably be had: entropy(share of suspects among its ancestors) times the chance that it can be tested.
    """
    suspects = knowledge.suspects
    total = int(suspects.sum())
    untried = suspects.copy()
    untried[list(knowledge.skipped)] = False
    if total == 1 and untried.any():
        return Found(int(np.argmax(suspects)))
    reach = knowledge.graph.ancestor_sums(suspects.astype(np.float64))
    informative = untried & (reach < total)
    if not informative.any():
        return OnlySkipped(tuple(np.flatnonzero(suspects).tolist()))
    if knowledge.skipped:
        commit = _most_informative(knowledge, informative, reach / total)
    else:
        commit = halving_commit(knowledge.graph, suspects, reach)
    return Probe(commit, expected_steps(int(untried.sum())))


def _most_informative(knowledge: Knowledge, informative: Mask, share: Floats) -> int:
    """Of equally good commits the one nearest to halfway, then the oldest."""
    skipped = {commit: outcome is Outcome.SKIP for commit, outcome in knowledge.outcomes.items()}
    value = entropy(share) * (1 - skip_probability(knowledge.graph, skipped))
    value[~informative] = -1.0
    best = np.flatnonzero(value >= value.max() - 1e-9)
    return int(best[np.argmin(np.abs(share[best] - 0.5))])

"""What observations say about which commit introduced a failure, taken as certain."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..graph.graph import CommitGraph, Mask
from .blamed_file import BlamedFile


class Outcome(Enum):
    """What one test of a commit told."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Observation:
    """The outcome of one test of one commit of a graph.

    place: what a rerun may share with others of its commit, such as board and slot; None if nothing. blamed: the files
    that the errors of a skip name. alike: for how many commits, all of one content, the one run speaks; each has its
    part of it.
    """

    commit: int
    outcome: Outcome
    place: str | None = None
    blamed: tuple[BlamedFile, ...] = ()
    alike: int = 1


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The suspects that are left, given observations without noise. Made by `start` and `observe`.

    The ends count as tested: the bad end failed, the good end, outside the graph, passed. A pass clears a
    commit and its ancestors. A fail leaves only its ancestors, as with git; unless none of them is left,
    because a descendant passed: then the failure was fixed there and came back. Such fails are not
    explained by the change that is being searched, the latest one, and are kept aside.

    suspects: mask of the commits that may have introduced the failure; never empty.
    outcomes: the last outcome of each tested commit; a skip does not displace a pass or a fail.
    unexplained_fails: commits whose fail no suspect explains, ascending.
    blamed: the files that the errors of skipped commits name.
    """

    graph: CommitGraph
    suspects: Mask
    outcomes: dict[int, Outcome]
    unexplained_fails: tuple[int, ...]
    blamed: dict[int, tuple[BlamedFile, ...]]

    @classmethod
    def start(cls, graph: CommitGraph, observations: Iterable[Observation] = ()) -> "Knowledge":
        """What is known when only the ends, and `observations`, have been tested.

        Raises ValueError if two observations of one commit disagree, or the bad end passed.
        """
        outcomes = {graph.bad: Outcome.BAD}
        blamed: dict[int, tuple[BlamedFile, ...]] = {}
        for observation in observations:
            _record(outcomes, observation)
            blamed |= {observation.commit: observation.blamed} if observation.blamed else {}
        return cls._of(graph, outcomes, blamed)

    def observe(self, observation: Observation) -> "Knowledge":
        """What is known after one more observation. Their order does not matter.

        Raises ValueError if it disagrees with an earlier one of the same commit, the bad end included.
        """
        outcomes = dict(self.outcomes)
        _record(outcomes, observation)
        blamed = {observation.commit: observation.blamed} if observation.blamed else {}
        return self._of(self.graph, outcomes, self.blamed | blamed)

    @classmethod
    def _of(
        cls, graph: CommitGraph, outcomes: dict[int, Outcome], blamed: dict[int, tuple[BlamedFile, ...]]
    ) -> "Knowledge":
        suspects = np.ones(len(graph), dtype=np.bool_)
        for commit in _with(Outcome.GOOD, outcomes):
            if suspects[commit]:
                suspects &= ~graph.ancestors(commit)
        unexplained: list[int] = []
        for commit in _with(Outcome.BAD, outcomes):
            remaining = suspects & graph.ancestors(commit)
            if remaining.any():
                suspects = remaining
            else:
                unexplained.append(commit)
        return cls(graph, suspects, outcomes, tuple(reversed(unexplained)), blamed)

    @property
    def skipped(self) -> frozenset[int]:
        """The commits that could not be tested, suspects or not."""
        return frozenset(_with(Outcome.SKIP, self.outcomes))


def _with(outcome: Outcome, outcomes: dict[int, Outcome]) -> list[int]:
    """The commits of that outcome, latest first."""
    return sorted((commit for commit, found in outcomes.items() if found is outcome), reverse=True)


def _record(outcomes: dict[int, Outcome], observation: Observation) -> None:
    commit, outcome = observation.commit, observation.outcome
    earlier = outcomes.get(commit, Outcome.SKIP)
    if earlier is Outcome.SKIP:
        outcomes[commit] = outcome
    elif outcome not in (earlier, Outcome.SKIP):
        raise ValueError(
            f"commit {commit}: expected {earlier.value} as observed before, found {outcome.value}: "
            "the failure is not deterministic, or the environment changed"
        )

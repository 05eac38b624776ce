"""Failures that the change that is searched for does not explain."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..search.evidence.knowledge import Knowledge, Observation, Outcome
from ..search.evidence.posterior import GOOD_END
from ..search.graph.graph import CommitGraph
from .evidence import RangeEvidence
from .log import ProbeLog

_VERIFYING_RUNS = 3
"""Of two commits whose verdicts contradict each other, before the range counts as broken twice."""


@dataclass(frozen=True)
class Contradiction:
    """Candidates whose failures the change that is searched for does not explain.

    broken_before: they fail although a later one passes, every time: broken, mended, and broken again.
    on_other_lines: no later one passes, but no candidate that is left lies behind them: another change, on a line
    beside it, does the same; a cherry-pick of the fault, say. verifying: on both sides of a contradiction, they must be
    probed again, as often as they are named, before it is believed.
    """

    broken_before: tuple[int, ...] = ()
    on_other_lines: tuple[int, ...] = ()
    verifying: tuple[int, ...] = ()

    @classmethod
    def of(cls, evidence: RangeEvidence, log: ProbeLog) -> "Contradiction":
        """The one that the probes so far show; an empty one where they show none, or some commit did both."""
        graph = evidence.graph
        seen = [each for each in evidence.observations(log) if each.commit != GOOD_END]
        try:
            fails = Knowledge.start(graph, seen).unexplained_fails
        except ValueError:
            return cls()
        verifying: list[int] = []
        for node in _both_sides(graph, fails, seen):
            probes = log.of(evidence.contents[node] or "")[:_VERIFYING_RUNS]
            if len({probe.judgement for probe in probes}) > 1:
                return cls()
            verifying += [node] * (_VERIFYING_RUNS - len(probes))
        passing = {each.commit for each in seen if each.outcome is Outcome.GOOD}
        before = tuple(fail for fail in fails if any(graph.ancestors(commit)[fail] for commit in passing))
        beside = tuple(fail for fail in fails if fail not in before)
        return cls(before, beside, tuple(verifying))


def _both_sides(graph: CommitGraph, fails: tuple[int, ...], seen: Iterable[Observation]) -> list[int]:
    """The first candidate that passes after a fail, and the last fail before it: if both stand, the rest follows."""
    for commit in sorted({each.commit for each in seen if each.outcome is Outcome.GOOD}):
        before = [fail for fail in fails if graph.ancestors(commit)[fail]]
        if before:
            return [commit, max(before)]
    return []

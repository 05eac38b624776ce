"""Commits that failed before the culprit, and were mended: broken, mended, and broken again."""

from ..search.evidence.knowledge import Outcome
from ..search.model.groups import GOOD_END
from .evidence import RangeEvidence
from .log import ProbeLog


def earlier_failures(evidence: RangeEvidence, log: ProbeLog, *, culprit: int | None) -> tuple[int, ...]:
    """The candidates, ascending, that failed more often than they passed, do not have the culprit among their
    ancestors, and have a descendant that passed more often than it failed."""
    graph = evidence.graph
    balance: dict[int, int] = {}
    for seen in evidence.observations(log):
        if seen.commit != GOOD_END and seen.outcome is not Outcome.SKIP:
            balance[seen.commit] = balance.get(seen.commit, 0) + (1 if seen.outcome is Outcome.BAD else -1)
    passing = [commit for commit, fails in balance.items() if fails < 0]
    return tuple(
        commit
        for commit, fails in sorted(balance.items())
        if fails > 0
        and (culprit is None or not graph.ancestors(commit)[culprit])
        and any(graph.ancestors(later)[commit] for later in passing)
    )

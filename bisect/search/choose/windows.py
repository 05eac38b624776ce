"""Commits between a change and its undoing: what fails there may have nothing to do with what fails now."""

from collections.abc import Container, Sequence

import numpy as np

from ..evidence.knowledge import Knowledge
from ..graph.window import Window

_AROUND_A_REVERT = 0.7


def sidestep(knowledge: Knowledge, commit: int, windows: Sequence[Window]) -> int:
    """The commit to test in place of one that lies inside a window: its end, or a commit before its start.

    Only where this keeps the search as short: with n suspects left, the larger side may hold up to the largest
    power of two below n, so that ceil(log2 n) tests still suffice on a line. To get around a revert, whose inside
    may well fail for a reason of its own, up to 7/10 of the suspects may be left.
    """
    graph, suspects = knowledge.graph, knowledge.suspects
    total = int(suspects.sum())
    power = 1 << (total - 1).bit_length() - 1
    best, best_side = commit, total
    for window in windows:
        limit = max(power, int(_AROUND_A_REVERT * total)) if window.reverted else power
        behind = graph.ancestors(commit)
        if not behind[window.start] or behind[window.end]:
            continue
        for other in (window.end, *graph.parents[window.start]):
            reach = int(np.count_nonzero(suspects & graph.ancestors(other)))
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


def sidestep_beside(
    knowledge: Knowledge, chosen: Sequence[int], windows: Sequence[Window], *, in_flight: Sequence[int] = ()
) -> list[int]:
    """The commits to test at once in place of `chosen`, those inside a window moved to the nearer edge of it.

    Only where a commit's place moves by no more than a fourth of the part that each divides off.
    """
    graph, suspects = knowledge.graph, knowledge.suspects
    allowed = int(suspects.sum()) / (4 * (len(chosen) + len(in_flight) + 1))
    taken = {*in_flight, *chosen, *knowledge.outcomes}
    stepped: list[int] = []
    for commit in chosen:
        best, least = commit, allowed
        behind = graph.ancestors(commit) if commit >= 0 else np.zeros(len(graph), dtype=np.bool_)
        reach = int(np.count_nonzero(suspects & behind))
        for window in windows:
            if not behind[window.start] or behind[window.end]:
                continue
            for other in (window.end, *graph.parents[window.start]):
                moved = abs(int(np.count_nonzero(suspects & graph.ancestors(other))) - reach)
                if suspects[other] and other not in taken and moved <= least:
                    best, least = other, moved
        taken.add(best)
        stepped.append(best)
    return stepped


def undoing(windows: Sequence[Window], tried: Container[int], culprit: int) -> int | None:
    """The last commit that undoes what the culprit has changed, where it was not tried yet: if it passes, the culprit
    explains nothing that fails now."""
    ends = [window.end for window in windows if window.start == culprit]
    return None if not ends or max(ends) in tried else max(ends)

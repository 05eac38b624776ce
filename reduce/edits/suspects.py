"""Small programs around a first divergent task, likely to fail alone. A guess that is tested like any other."""

from __future__ import annotations

from collections.abc import Iterator

from ..program.candidate import Pair
from ..races import missing_edges


def suspects(pair: Pair) -> Iterator[tuple[int, ...]]:
    """Ordinals of tasks, the smallest set first: the first divergent task, alone; with the task that a missing edge
    leaves it unordered to; with those whose results it reads."""
    tasks = pair.failing.tasks
    wrong = set(pair.diverged)
    first = next((one for one in sorted(wrong) if not tasks.predecessors[one] & wrong), None)
    if first is None:
        return
    yield (first,)
    for edge in missing_edges(tasks):
        if first in (edge.before.ordinal, edge.after.ordinal):
            yield (edge.before.ordinal, edge.after.ordinal)
    yield tuple(sorted({first, *tasks.predecessors[first]}))

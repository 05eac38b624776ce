"""Small programs around the first task that went wrong, likely to fail alone. A guess that is tested like any other."""

from __future__ import annotations

from collections.abc import Iterator

from ..program.candidate import Pair
from ..races import missing_edges


def suspects(pair: Pair, first: int) -> Iterator[tuple[int, ...]]:
    """Ordinals of tasks, the smallest set first: the task that went wrong first, alone; with the task that a missing
    edge leaves it unordered to; with those whose results it reads."""
    tasks = pair.failing.tasks
    yield (first,)
    for edge in missing_edges(tasks):
        if first in (edge.before.ordinal, edge.after.ordinal):
            yield (edge.before.ordinal, edge.after.ordinal)
    yield tuple(sorted({first, *tasks.predecessors[first]}))

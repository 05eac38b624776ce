"""Keep only a few tasks that are likely to fail alone: a guess that is tested like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...graph.races import missing_edges
from ..program.candidate import Candidate
from ..program.pair import BuildPair
from .choices import Choices


@dataclass(frozen=True)
class KeepSuspects:
    """`suspects` are sets of tasks by ordinal, the first that fails alone is taken."""

    suspects: tuple[tuple[int, ...], ...]
    name: str = "suspects"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """Those that are parts of what is left."""
        return Choices.search(best, [self._alternatives], rate=rate)

    def _alternatives(self, best: Candidate) -> Sequence[Candidate]:
        left = set(best.tasks)
        return [replace(best, tasks=tasks) for tasks in self.suspects if left > set(tasks)]


def suspects(pair: BuildPair, first: int | None, differing: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Ordinals of tasks, the smallest set first: the task that went wrong first, alone, and the first one that did of
    each kernel that differs between the builds; then the first with the task that a missing edge leaves it unordered
    to, and with those whose results it reads. A task that is missing is with one that reads its results, or else with
    another one. Where `first` is not known, the first task of each such kernel."""
    submitted = [task for task in pair.tasks.values() if task.ordinal not in pair.missing]
    wrong = submitted if first is None else [task for task in submitted if task.ordinal in pair.diverged]
    if first in pair.missing:
        readers = [task for task in submitted if first in pair.above(task.ordinal)]
        yield from [(task.ordinal, first) for task in (readers or submitted)[:1]]
    elif first is not None:
        yield (first,)
    for kernel in differing:
        yield from [(task.ordinal,) for task in wrong if kernel in task.kernels][:1]
    if first is None:
        return
    for edge in missing_edges(pair.failing.tasks):
        if first in (edge.before.ordinal, edge.after.ordinal):
            yield (edge.before.ordinal, edge.after.ordinal)
    yield tuple(sorted({first, *pair.above(first)}))

"""Drop statements from the kernels that are left, the same in both builds: what is expected is computed anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..minimize.answer import Subset
from ..minimize.graph import DependencyGraph
from ..program.candidate import Candidate
from ..program.render.statements import KernelText, statements_of
from .subsets import Subsets

DroppedStatement = tuple[str, str, int]
"""The kernel, the statement's text, and which of that text."""


@dataclass(frozen=True)
class DropStatements:
    """Elements are the statements that both sources of a kernel have; none goes without those that need it.

    `texts` gives the sources of a candidate's kernels, with all their statements.
    """

    texts: Callable[[Candidate], Sequence[KernelText]]
    name: str = "statements"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Searches below the statements that are left; a kernel that another program has rewritten is left alone."""
        rewritten = dict(best.rewritten)
        texts = [text for text in self.texts(best) if text.kernel not in rewritten]
        statements, graph = droppable_statements(texts)
        others = tuple(one for one in best.statements if one not in statements)

        def keep(kept: Subset) -> Candidate:
            dropped = (one for place, one in enumerate(statements) if place not in kept)
            return replace(best, statements=(*others, *dropped))

        left = frozenset(place for place, one in enumerate(statements) if one not in best.statements)
        return Subsets.search(graph, left, keep, rate=rate, again=again)


def droppable_statements(
    texts: Sequence[KernelText],
) -> tuple[tuple[DroppedStatement, ...], DependencyGraph]:
    """The statements that may be dropped from these kernels, and what they need of each other."""
    statements: list[DroppedStatement] = []
    above: list[tuple[int, ...]] = []
    for text in texts:
        shared = {one.name for one in statements_of(text.reference)}
        found = statements_of(text.failing)
        stay: set[int] = set()
        for position in reversed(range(len(found))):
            one = found[position]
            if one.stays or one.name not in shared or position in stay:
                stay |= {position, *one.needs}
        places: dict[int, int] = {}
        for position, one in enumerate(found):
            if position not in stay:
                places[position] = len(statements)
                statements.append((text.kernel, one.name.text, one.name.occurrence))
                above.append(tuple(sorted(places[place] for place in one.needs if place in places)))
    return tuple(statements), DependencyGraph(tuple(above))

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
        others = tuple(statement for statement in best.statements if statement not in statements)

        def keep(kept: Subset) -> Candidate:
            dropped = (statement for place, statement in enumerate(statements) if place not in kept)
            return replace(best, statements=(*others, *dropped))

        left = frozenset(
            place for place, statement in enumerate(statements) if statement not in best.statements
        )
        return Subsets.search(graph, left, keep, rate=rate, again=again)


def droppable_statements(
    texts: Sequence[KernelText],
) -> tuple[tuple[DroppedStatement, ...], DependencyGraph]:
    """The statements that may be dropped from these kernels, and what they need of each other."""
    statements: list[DroppedStatement] = []
    above: list[tuple[int, ...]] = []
    for text in texts:
        shared = {statement.name for statement in statements_of(text.reference)}
        in_kernel = statements_of(text.failing)
        stay: set[int] = set()
        for position in reversed(range(len(in_kernel))):
            statement = in_kernel[position]
            if statement.stays or statement.name not in shared or position in stay:
                stay |= {position, *statement.needs}
        places: dict[int, int] = {}
        for position, statement in enumerate(in_kernel):
            if position not in stay:
                places[position] = len(statements)
                statements.append((text.kernel, statement.name.text, statement.name.occurrence))
                above.append(tuple(sorted(places[place] for place in statement.needs if place in places)))
    return tuple(statements), DependencyGraph(tuple(above))

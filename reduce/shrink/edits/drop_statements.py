"""Drop statements from the kernels that are left, in both builds alike: what is expected is computed anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..minimize.answer import Subset
from ..minimize.graph import DependencyGraph
from ..minimize.phases import minimize
from ..minimize.state import MinimizerState
from ..program.candidate import Candidate
from ..program.render.statements import KernelText, StatementName, statements_of


@dataclass(frozen=True)
class DropStatements:
    """Elements are the statements that both sources of a kernel have; none goes without those that need it."""

    texts: Sequence[KernelText]
    name: str = "statements"

    @cached_property
    def _elements(self) -> tuple[tuple[tuple[str, StatementName], ...], DependencyGraph]:
        names: list[tuple[str, StatementName]] = []
        above: list[tuple[int, ...]] = []
        for text in self.texts:
            shared = {one.name for one in statements_of(text.reference)}
            statements = statements_of(text.failing)
            stay: set[int] = set()
            for position in reversed(range(len(statements))):
                one = statements[position]
                if one.stays or one.name not in shared or position in stay:
                    stay |= {position, *one.needs}
            places: dict[int, int] = {}
            for position, one in enumerate(statements):
                if position not in stay:
                    places[position] = len(names)
                    names.append((text.kernel, one.name))
                    above.append(tuple(sorted(places[place] for place in one.needs if place in places)))
        return tuple(names), DependencyGraph(tuple(above))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._elements[0])

    def start(self, reduction: Candidate, rate: float) -> MinimizerState[Subset]:
        """From all of them."""
        return minimize(self._elements[1], rate=rate)

    def apply(self, reduction: Candidate, kept: Subset) -> Candidate:
        """Without those that are not `kept`."""
        names = self._elements[0]
        dropped = tuple(
            (kernel, one.text, one.occurrence) for i, (kernel, one) in enumerate(names) if i not in kept
        )
        return replace(reduction, statements=dropped)

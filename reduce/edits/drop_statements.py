"""Drop statements from the kernels that are left, in both builds alike: what is expected is computed anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..minimize.graph import Graph
from ..minimize.outcome import Candidate
from ..minimize.schedule import minimize
from ..minimize.state import State
from ..program.model import Reduction
from ..program.statements import KernelText, StatementName, statements_of


@dataclass(frozen=True)
class DropStatements:
    """Elements are the statements that both sources of a kernel have, with the text that they have in the failing one;
    an inner one needs the one around it."""

    texts: Sequence[KernelText]
    name: str = "statements"

    @cached_property
    def _elements(self) -> tuple[tuple[tuple[str, StatementName], ...], Graph]:
        names: list[tuple[str, StatementName]] = []
        above: list[tuple[int, ...]] = []
        for text in self.texts:
            shared = {one.name for one in statements_of(text.reference)}
            places: dict[int, int] = {}
            for position, one in enumerate(statements_of(text.failing)):
                if one.name in shared:
                    places[position] = len(names)
                    names.append((text.kernel, one.name))
                    above.append((places[one.parent],) if one.parent in places else ())
        return tuple(names), Graph(tuple(above))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._elements[0])

    def start(self, reduction: Reduction, rate: float) -> State:
        """From all of them."""
        return minimize(self._elements[1], rate=rate)

    def apply(self, reduction: Reduction, kept: Candidate) -> Reduction:
        """Without those that are not `kept`."""
        names = self._elements[0]
        dropped = tuple(
            (kernel, one.text, one.occurrence) for i, (kernel, one) in enumerate(names) if i not in kept
        )
        return replace(reduction, statements=dropped)

"""Layers that move at once, and what their old and new versions do in company.

A layer is a pin that a commit moves, or what the commit changes itself. A cell says for each layer whether it is old or
new. With all of them old the case is good, with all of them new it is bad. What is to be told is the least sets of
layers that make it bad when they are new.

Taken for granted is that a layer that is new mends nothing: where the case is bad, it stays bad when more layers are
new. So one outcome tells of other cells too, which are not run any more. A cell that does not build, or whose run tells
neither, is unknown, and never evidence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from ..evidence.knowledge import Outcome

Cell: TypeAlias = frozenset[str]
"""The layers that are new; the others are old."""


@dataclass(frozen=True)
class LayerMatrix:
    """What is known of the cells of some layers. Made by `of` and `after`."""

    layers: tuple[str, ...]
    told: Mapping[Cell, Outcome]
    """The outcomes of the cells that were run, both ends among them."""

    @classmethod
    def of(cls, layers: tuple[str, ...]) -> "LayerMatrix":
        """When only the ends have been run."""
        return cls(layers, {frozenset(): Outcome.GOOD, frozenset(layers): Outcome.BAD})

    def after(self, cell: Cell, outcome: Outcome) -> "LayerMatrix":
        """With one more outcome."""
        return LayerMatrix(self.layers, {**self.told, cell: outcome})

    def cells(self) -> list[Cell]:
        """All cells, those with few new layers first."""
        counts = range(len(self.layers) + 1)
        return [frozenset(chosen) for count in counts for chosen in combinations(self.layers, count)]

    def outcome(self, cell: Cell) -> Outcome | None:
        """What is known of a cell, by its own run or by those of others; None where nothing is."""
        if cell in self.told:
            return self.told[cell]
        if any(cell < other for other in self._told_to_be(Outcome.GOOD)):
            return Outcome.GOOD
        if any(cell > other for other in self._told_to_be(Outcome.BAD)):
            return Outcome.BAD
        return None

    def open_cells(self) -> list[Cell]:
        """The cells of which nothing is known. Where there are none, `least` is proven."""
        return [cell for cell in self.cells() if self.outcome(cell) is None]

    def least(self) -> list[Cell]:
        """The sets of layers that were seen to make the case bad, without those that hold a smaller one.

        Several of them are alternatives: each does it without the others.
        """
        bad = self._told_to_be(Outcome.BAD)
        return [cell for cell in bad if not any(other < cell for other in bad)]

    def inseparable(self, cell: Cell) -> bool:
        """Whether a part of this set could not be tested, so that fewer layers than these may do it too."""
        parts = (frozenset(part) for part in combinations(sorted(cell), len(cell) - 1))
        return any(self.outcome(part) is not Outcome.GOOD for part in parts)

    def _told_to_be(self, outcome: Outcome) -> list[Cell]:
        return sorted((cell for cell, told in self.told.items() if told is outcome), key=self._order)

    def _order(self, cell: Cell) -> tuple[int, list[int]]:
        return len(cell), sorted(map(self.layers.index, cell))

"""A culprit moves several pins at once: which of these layers, its own change among them, make the difference?"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from typing_extensions import override

from ...commits.moved_pin import MovedPin
from ...commits.range import outcome_of
from ...result import LayerCell, MovedLayers
from ...search.evidence.knowledge import Outcome
from ...search.layers.choice import next_cell
from ...search.layers.matrix import Cell, LayerMatrix
from ..history import AskTarget
from ..known import Known
from ..needs import Notice
from ..priority.circumstances import Circumstances
from .answer.blaming import blame
from .answer.naming import ConfirmedCulprit
from .descending import Descending
from .judging import counterfactuals
from .state import Advance, Move, OfCulprit, Wait


@dataclass(frozen=True, kw_only=True)
class TestingLayers(OfCulprit):
    """Cells of the matrix are run, each chosen over all layers. A layer is named by the repository of the culprit,
    for its own change, or by what a pin holds."""

    moved: tuple[MovedPin, ...]

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        matrix = LayerMatrix.of((self.culprit.named.repository, *(pin.held_name for pin in self.moved)))
        cells: list[LayerCell] = []
        while (cell := next_cell(matrix)) is not None:
            judgements = counterfactuals(known, [self._asked(cell)], self.search)
            if isinstance(judgements, Wait):
                return judgements
            (judgement,) = judgements
            cells.append(LayerCell(new=_in_order(matrix, cell), judgement=judgement))
            matrix = matrix.after(cell, outcome_of(judgement, self.search.loaded.range.seeks))
        tested = MovedLayers(
            layers=matrix.layers,
            cells=tuple(cells),
            least=tuple(_in_order(matrix, each) for each in matrix.least()),
            proven=not matrix.open_cells(),
        )
        return self._told(known, matrix, replace(self.culprit, layers=(tested,)))

    def _asked(self, cell: Cell) -> AskTarget:
        """The culprit or its parent, with each pin held at its old or new value."""
        named = self.culprit.named
        commit = named.commit if named.repository in cell else named.parent or named.commit
        pins = {pin.held_name: pin.new if pin.held_name in cell else pin.old for pin in self.moved}
        held = {**self.search.loaded.range.held, **pins}
        return AskTarget(repository=named.repository, commit=commit, held=held)

    def _told(self, known: Known, matrix: LayerMatrix, culprit: ConfirmedCulprit) -> Advance:
        """Descend into the one pin that makes it, where the culprit passes without its move; else name the culprit."""
        how = f", {self._how(matrix)}"
        pin = self._only_pin(matrix)
        if pin is None or pin.held_name not in known.question.repositories:
            return blame(known, culprit, how=how)
        if matrix.outcome(frozenset(matrix.layers) - {pin.held_name}) is not Outcome.GOOD:
            text = (
                f"{pin.held_name} moves {pin.move}, but {culprit.named.commit[:12]} "
                "could not be tested with the old one: not searched"
            )
            return blame(known, culprit, how=how, notes=(Notice(text),))
        return Move(Descending(culprit=culprit, pin=pin, otherwise=BlamedAsItIs(culprit, how=how)))

    def _only_pin(self, matrix: LayerMatrix) -> MovedPin | None:
        least = matrix.least()
        if len(least) != 1 or len(least[0]) != 1:
            return None
        return next((pin for pin in self.moved if pin.held_name in least[0]), None)

    def _how(self, matrix: LayerMatrix) -> str:
        """What the layers have to do with it, behind the sentence that names the culprit."""
        least = matrix.least()
        told = ", and by ".join(self._words(matrix, each) for each in least)
        if len(least) > 1:
            told += ": each does it alone"
        elif matrix.inseparable(least[0]):
            told += " together, parts of which could not be tested"
        elif len(least[0]) > 1:
            told += " together, no part of which does it alone"
        left = len(matrix.open_cells())
        if left:
            told += (
                f"; others may do it too: {left} of {len(matrix.cells())} combinations were not run, "
                "as they most likely cannot be built"
            )
        return f"by {told}"

    def _words(self, matrix: LayerMatrix, cell: Iterable[str]) -> str:
        moves = {pin.held_name: f"moving {pin.held_name} {pin.move}" for pin in self.moved}
        return " and ".join(moves.get(layer, "its own change") for layer in _in_order(matrix, cell))


@dataclass(frozen=True)
class BlamedAsItIs(OfCulprit):
    """The pin that is to blame has no range to search: the culprit is the answer."""

    how: str

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        return blame(known, self.culprit, how=self.how)


def _in_order(matrix: LayerMatrix, cell: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(cell, key=matrix.layers.index))

"""Layers whose truth is known: which sets of them make the case bad, and which cells cannot be tested."""

from collections.abc import Iterator, Set
from itertools import combinations

from precision_bisect.bisect.search.belief import Cell, LayerMatrix, Outcome, next_cell

Truth = tuple[Cell, ...]
"""Each of these sets is enough."""


def all_cells(layers: str) -> list[Cell]:
    counts = range(len(layers) + 1)
    return [frozenset(chosen) for count in counts for chosen in combinations(layers, count)]


def truths(layers: str, most: int) -> Iterator[Truth]:
    """Every one with at most so many sets, none of which holds another."""
    sets = all_cells(layers)[1:]
    for count in range(1, most + 1):
        for causes in combinations(sets, count):
            if not any(one < other for one in causes for other in causes):
                yield causes


def real(truth: Truth, cell: Cell, untestable: Set[Cell] = frozenset()) -> Outcome:
    """What a run of the cell tells."""
    if cell in untestable:
        return Outcome.SKIP
    return Outcome.BAD if any(cause <= cell for cause in truth) else Outcome.GOOD


def real_least(layers: str, truth: Truth, untestable: Set[Cell] = frozenset()) -> set[Cell]:
    """The least cells that can be seen to be bad."""
    bad = [cell for cell in all_cells(layers) if real(truth, cell, untestable) is Outcome.BAD]
    return {cell for cell in bad if not any(other < cell for other in bad)}


def searched(layers: str, truth: Truth, untestable: Set[Cell] = frozenset()) -> LayerMatrix:
    """The matrix after all runs that the choice asks for."""
    matrix = LayerMatrix.from_layers(tuple(layers))
    while (cell := next_cell(matrix)) is not None:
        assert matrix.known_outcome(cell) is None
        matrix = matrix.add_outcome(cell, real(truth, cell, untestable))
    return matrix


def runs(matrix: LayerMatrix) -> int:
    """How many there were, beside the ends."""
    return len(matrix.outcomes) - 2

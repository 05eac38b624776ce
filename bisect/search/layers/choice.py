"""The cell of a matrix of layers that tells most for one run, over all layers at once.

Explanations are weighed: one layer does it, or several do together, or either of two sets does. The information of a
run is the entropy of its outcome under those that fit what is known, times the chance that the cell can be tested at
all.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations

from ..evidence.knowledge import Outcome
from .matrix import Cell, LayerMatrix

_ONE_MORE_LAYER = 0.1
"""How much less likely it is that one more layer has to be new."""
_EITHER = 0.05
"""How much less likely two causes are than one."""
_MOST_LAYERS_OF_EITHER = 2
_COUPLED = 0.1
"""The chance that one layer's new version does not work with another one's old version."""
_MOST_COUPLED = 2
_LUCK = 0.1
"""The chance that cells cannot be tested for reasons of their own, which couplings do not explain."""
_TESTABLE = 0.7
"""The chance that a cell can be tested then."""
_LEAST_CHANCE = 0.05
"""A cell that is less likely to be testable is not run."""

_Causes = tuple[Cell, ...]
_Pair = tuple[str, str]
"""A new layer and an old one."""


def next_cell(matrix: LayerMatrix) -> Cell | None:
    """What to run next; None where no cell is open, or none that has a chance to be testable."""
    couplings = _possible_couplings(matrix)
    chances = {cell: _chance(cell, matrix, couplings) for cell in matrix.open_cells()}
    fitting = [(causes, weight) for causes, weight in _explanations(matrix.layers) if _fits(causes, matrix)]
    total = sum(weight for _, weight in fitting)

    def value(cell: Cell) -> tuple[float, int]:
        """Of cells that tell as much, the one nearest to an end differs least from what has been built."""
        bad = sum(weight for causes, weight in fitting if _predicts_bad(causes, cell))
        information = _entropy(bad / total) * chances[cell] if total else 0.0
        return round(information, 9), abs(2 * len(cell) - len(matrix.layers))

    worth_it = [cell for cell, chance in chances.items() if chance >= _LEAST_CHANCE]
    return max(worth_it, key=value, default=None)


def _explanations(layers: tuple[str, ...]) -> Iterator[tuple[_Causes, float]]:
    """The sets of layers that may be to blame, each enough by itself, with the weight of all of them together."""
    counts = range(1, len(layers) + 1)
    sets = [frozenset(chosen) for count in counts for chosen in combinations(layers, count)]
    for cause in sets:
        yield (cause,), _weight(cause)
    small = [cause for cause in sets if len(cause) <= _MOST_LAYERS_OF_EITHER]
    for one, other in combinations(small, 2):
        if not one <= other and not other <= one:
            yield (one, other), _EITHER * _weight(one) * _weight(other)


def _weight(cause: Cell) -> float:
    return _ONE_MORE_LAYER ** (len(cause) - 1)


def _predicts_bad(causes: Iterable[Cell], cell: Cell) -> bool:
    return any(cause <= cell for cause in causes)


def _fits(causes: _Causes, matrix: LayerMatrix) -> bool:
    return all(
        _predicts_bad(causes, cell) is (outcome is Outcome.BAD)
        for cell, outcome in matrix.told.items()
        if outcome is not Outcome.SKIP
    )


def _possible_couplings(matrix: LayerMatrix) -> list[tuple[frozenset[_Pair], float]]:
    """What may keep cells from being tested: at most two pairs of a new and an old layer that do not work together.
    Weighed as explanations are."""
    tested = [_pairs(matrix, cell) for cell, outcome in matrix.told.items() if outcome is not Outcome.SKIP]
    untested = [_pairs(matrix, cell) for cell, outcome in matrix.told.items() if outcome is Outcome.SKIP]
    pairs = [pair for pair in permutations(matrix.layers, 2) if not any(pair in works for works in tested)]
    return [
        (frozenset(coupled), _COUPLED**count)
        for count in range(_MOST_COUPLED + 1)
        for coupled in combinations(pairs, count)
        if all(not seen.isdisjoint(coupled) for seen in untested)
    ]


def _chance(cell: Cell, matrix: LayerMatrix, couplings: Sequence[tuple[frozenset[_Pair], float]]) -> float:
    """That a cell can be tested: by couplings, or, where those that could not have nothing in common, by luck."""
    outcomes = [outcome for end, outcome in matrix.told.items() if 0 < len(end) < len(matrix.layers)]
    untested = outcomes.count(Outcome.SKIP)
    by_luck = _LUCK * (1 - _TESTABLE) ** untested * _TESTABLE ** (len(outcomes) - untested)
    pairs = _pairs(matrix, cell)
    works = sum(weight for coupled, weight in couplings if coupled.isdisjoint(pairs))
    return (works + by_luck * _TESTABLE) / (sum(weight for _, weight in couplings) + by_luck)


def _pairs(matrix: LayerMatrix, cell: Cell) -> set[_Pair]:
    return {(new, old) for new in cell for old in matrix.layers if old not in cell}


def _entropy(chance: float) -> float:
    """Of a yes-or-no outcome, in bits."""
    return -sum(part * math.log2(part) for part in (chance, 1 - chance) if part > 0)

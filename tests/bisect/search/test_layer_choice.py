"""The cells that are run, over every truth and with cells that cannot be tested."""

import random
from collections.abc import Iterator
from itertools import permutations

import pytest

from precision_bisect.bisect.search.belief import Cell, LayerMatrix, Outcome, next_cell
from tests.bisect.search.every_truth import Truth, all_cells, real, real_least, runs, searched, truths
from tests.support.quick import quick_first

MAX_SETS = {"ab": 2, "abc": 3, "abcd": 6, "abcde": 2}


def drawn_cells(layers: str, seed: int) -> Iterator[tuple[Truth, frozenset[Cell]]]:
    """Every truth with cells between the ends that cannot be tested, each with a chance of 0.3."""
    drawn = random.Random(seed)
    for truth in truths(layers, MAX_SETS[layers]):
        yield truth, frozenset(each for each in all_cells(layers)[1:-1] if drawn.random() < 0.3)


def coupled_cells(layers: str, seed: int) -> Iterator[tuple[Truth, frozenset[Cell]]]:
    """Every truth with two pairs of which a new layer does not work with an old one."""
    drawn = random.Random(seed)
    for truth in truths(layers, MAX_SETS[layers]):
        pairs = drawn.sample(list(permutations(layers, 2)), 2)
        untestable = [
            each for each in all_cells(layers) if any(a in each and b not in each for a, b in pairs)
        ]
        yield truth, frozenset(untestable)


@pytest.mark.parametrize("layers", quick_first(MAX_SETS, 3))
def test_every_truth_is_proven_where_all_cells_can_be_tested(layers: str) -> None:
    for truth in truths(layers, MAX_SETS[layers]):
        matrix = searched(layers, truth)
        assert matrix.open_cells() == []
        assert set(matrix.minimal_bad_cells()) == real_least(layers, truth)
        assert not any(matrix.has_untested_part(cell) for cell in matrix.minimal_bad_cells())


@pytest.mark.parametrize("layers", quick_first(MAX_SETS, 2))
def test_what_is_proven_is_so_and_what_is_not_is_left_open(layers: str) -> None:
    proven = asked = 0
    for truth, untestable in drawn_cells(layers, seed=len(layers)):
        matrix = searched(layers, truth, untestable)
        asked += 1
        assert all(real(truth, cell) is Outcome.BAD for cell in matrix.minimal_bad_cells())
        if not matrix.open_cells():
            proven += 1
            assert set(matrix.minimal_bad_cells()) == real_least(layers, truth, untestable)
    assert proven > asked / 3


@pytest.mark.parametrize("layers", quick_first(MAX_SETS, 2))
def test_versions_that_need_each_other_are_told_together(layers: str) -> None:
    for truth, untestable in coupled_cells(layers, seed=len(layers)):
        assert set(searched(layers, truth, untestable).minimal_bad_cells()) == real_least(
            layers, truth, untestable
        )


@pytest.mark.parametrize(
    ("layers", "most"), [("ab", 2), ("abc", 4), ("abcd", 4), ("abcde", 5), ("abcdef", 5)]
)
def test_one_layer_costs_little_more_than_a_halving(layers: str, most: int) -> None:
    for layer in layers:
        assert runs(searched(layers, (frozenset(layer),))) <= most


LAYERS = ("pypto", "simpler", "pto-isa", "ptoas")
TABLE = """
pypto simpler pto-isa ptoas: told
old   old     old     old  : good
new   old     old     old  : does not assemble
old   new     old     old  : good
old   old     new     old  : bad
old   old     old     new  : good
new   new     old     old  : does not assemble
new   old     new     old  : does not assemble
new   old     old     new  : good
old   new     new     old  : bad
old   new     old     new  : good
old   old     new     new  : bad
new   new     new     old  : does not assemble
new   new     old     new  : good
new   old     new     new  : bad
old   new     new     new  : bad
new   new     new     new  : bad
"""
"""Four layers moved at once, and a new compiler does not assemble with the old assembler; the headers are to blame."""


def test_a_table_of_four_layers_is_read_by_a_third_of_its_cells() -> None:
    told: dict[Cell, Outcome] = {}
    for line in TABLE.strip().splitlines()[1:]:
        versions, _, outcome = line.partition(":")
        new = zip(LAYERS, versions.split(), strict=True)
        outcomes = {"good": Outcome.GOOD, "bad": Outcome.BAD}
        told[frozenset(layer for layer, version in new if version == "new")] = outcomes.get(
            outcome.strip(), Outcome.SKIP
        )
    assert len(told) == 16
    matrix = LayerMatrix.from_layers(LAYERS)
    while (cell := next_cell(matrix)) is not None:
        matrix = matrix.add_outcome(cell, told[cell])
    assert matrix.minimal_bad_cells() == [frozenset({"pto-isa"})]
    assert matrix.open_cells() == []
    assert runs(matrix) <= len(told) / 3

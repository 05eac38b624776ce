"""What the outcomes of some cells tell of the others."""

import random

from precision_bisect.bisect.search.belief import LayerMatrix, Outcome
from tests.bisect.search.every_truth import all_cells, real, real_least, truths

GOOD, BAD, SKIP = Outcome.GOOD, Outcome.BAD, Outcome.SKIP


def cell(layers: str) -> frozenset[str]:
    return frozenset(layers)


def test_what_is_told_of_a_cell_is_so_under_every_truth() -> None:
    drawn = random.Random(7)
    for layers in ("ab", "abc", "abcd"):
        for truth in truths(layers, most=3):
            matrix = LayerMatrix.from_layers(tuple(layers))
            for one in drawn.sample(all_cells(layers)[1:-1], 2):
                matrix = matrix.add_outcome(one, real(truth, one))
            for other in all_cells(layers):
                assert matrix.known_outcome(other) in (None, real(truth, other))
            if not matrix.open_cells():
                assert set(matrix.minimal_bad_cells()) == real_least(layers, truth)


def test_what_could_not_be_tested_is_no_evidence() -> None:
    known = LayerMatrix.from_layers(tuple("abc")).add_outcome(cell("a"), GOOD)
    skipped = known.add_outcome(cell("ab"), SKIP)
    assert skipped.known_outcome(cell("ab")) is SKIP
    assert set(known.open_cells()) - set(skipped.open_cells()) == {cell("ab")}
    assert skipped.minimal_bad_cells() == known.minimal_bad_cells() == [cell("abc")]


def test_layers_that_cannot_be_told_apart_are_inseparable() -> None:
    matrix = LayerMatrix.from_layers(tuple("abc")).add_outcome(cell("ab"), BAD).add_outcome(cell("a"), GOOD)
    assert matrix.minimal_bad_cells() == [cell("ab")]
    assert matrix.has_untested_part(cell("ab"))
    assert matrix.add_outcome(cell("b"), SKIP).has_untested_part(cell("ab"))
    assert not matrix.add_outcome(cell("b"), GOOD).has_untested_part(cell("ab"))
    assert not LayerMatrix.from_layers(tuple("ab")).add_outcome(cell("a"), BAD).has_untested_part(cell("a"))


def test_two_sets_that_do_it_without_each_other_are_both_told() -> None:
    matrix = LayerMatrix.from_layers(tuple("abc")).add_outcome(cell("c"), BAD).add_outcome(cell("ab"), BAD)
    assert matrix.minimal_bad_cells() == [cell("c"), cell("ab")]
    assert matrix.open_cells() == [cell("a"), cell("b")]

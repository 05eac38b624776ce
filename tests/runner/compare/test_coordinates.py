"""Rows and columns in evidence are those of the tensor, however large it is."""

import pytest
import torch

from precision_bisect.runner.compare.finding import MAX_ELEMENTS, Pattern
from precision_bisect.runner.compare.judges import recognize_patterns
from precision_bisect.runner.compare.statistics import Tolerance
from tests.runner.compare.tensor_makers import view_of
from tests.support.quick import quick_first

ROWS, COLUMNS = 9_000, 512
LAST = MAX_ELEMENTS // COLUMNS + 1000
"""A row behind the first window, but within one that begins at row 1000."""


@pytest.fixture(name="expected", scope="module")
def make_expected() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(3))


def evidence(actual: torch.Tensor, expected: torch.Tensor, pattern: Pattern) -> str:
    found = recognize_patterns(view_of(actual), view_of(expected), Tolerance())
    (match,) = [each for each in found if each.pattern is pattern]
    assert match.confidence > 0.9
    return match.evidence


@pytest.mark.parametrize(("top", "bottom"), quick_first([(7000, 7032), (1000, 8000), (129, 8999)]))
def test_a_box(expected: torch.Tensor, top: int, bottom: int) -> None:
    actual = expected.clone()
    actual[top:bottom, 64:96] += 1 + torch.rand(bottom - top, 32)
    told = evidence(actual, expected, Pattern.TILE)
    assert f"rows {top}:{bottom}, columns 64:96" in told
    assert f"{(bottom - top) * 32} of {(bottom - top) * 32} wrong" in told


@pytest.mark.long
def test_a_tail_of_rows(expected: torch.Tensor) -> None:
    actual = expected.clone()
    actual[-5000:] += 1 + torch.rand(5000, COLUMNS)
    assert f"the last 5000 of {ROWS} rows" in evidence(actual, expected, Pattern.TAIL)


@pytest.mark.long
def test_a_part_of_one_long_row() -> None:
    expected = torch.randn(5_000_000, generator=torch.Generator().manual_seed(4))
    actual = expected.clone()
    actual[4_500_003:4_600_000] += 1 + torch.rand(99_997)
    assert "rows 0:1, columns 4500003:4600000" in evidence(actual, expected, Pattern.TILE)


@pytest.mark.long
def test_rows_with_a_period(expected: torch.Tensor) -> None:
    actual = expected.clone()
    actual[3005::10] += 1 + torch.rand(600, COLUMNS)
    told = evidence(actual, expected, Pattern.PERIODIC)
    assert "one of every 10 rows, from 5 on" in told
    assert f"looked at and counted were rows 2944:{2944 + MAX_ELEMENTS // COLUMNS} of {ROWS}" in told


@pytest.mark.long
def test_nan_in_a_row_and_in_a_box(expected: torch.Tensor) -> None:
    actual = expected.clone()
    actual[6001] = torch.nan
    told = evidence(actual, expected, Pattern.NON_FINITE_SPREAD)
    assert "fill row 6001; the first is at row 6001, column 0" in told
    actual = expected.clone()
    actual[6001:6011, 7:19] = torch.nan
    told = evidence(actual, expected, Pattern.NON_FINITE_SPREAD)
    assert "fill rows 6001:6011, columns 7:19; the first is at row 6001, column 7" in told


@pytest.mark.long
def test_blocks_that_changed_places(expected: torch.Tensor) -> None:
    actual = expected.clone()
    actual[8192:8256, :64], actual[8320:8384, 128:192] = (
        expected[8320:8384, 128:192],
        expected[8192:8256, :64],
    )
    told = evidence(actual, expected, Pattern.PERMUTED_BLOCKS)
    assert "rows from 8" in told

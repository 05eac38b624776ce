"""Breakdowns and heat maps against numpy on the whole array."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.compare import statistics
from precision_bisect.runner.compare.statistics import Tolerance, breakdown, heat_map
from precision_bisect.runner.tensor import CHUNK
from tests.runner.compare.tensor_makers import view_of
from tests.support.quick import examples

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-3)


def noisy(shape: tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    expected = torch.randn(shape, generator=generator)
    actual = expected + 1e-3 * torch.randn(shape, generator=generator)
    if actual.numel() > 5:
        actual.view(-1)[5] = math.nan
    return actual, expected


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 1000))
def test_rows_of_any_shape(shape: list[int], seed: int) -> None:
    actual, expected = noisy(tuple(shape), seed)
    found = breakdown(view_of(actual), view_of(expected), TOLERANCE)
    over = ~torch.isclose(actual, expected, rtol=1e-3, atol=1e-3)
    over_rows, a, e = (t.reshape(-1, shape[-1]).double().numpy() for t in (over, actual, expected))
    fine = np.isfinite(a)
    error = np.where(fine, np.abs(a - e), 0.0)
    assert found.over.tolist() == over_rows.sum(axis=1).tolist()
    assert found.wild.tolist() == (~fine).sum(axis=1).tolist()
    assert found.max_error.tolist() == error.max(axis=1).tolist()
    assert found.slices_over() == np.flatnonzero(over_rows.any(axis=1)).tolist()
    norm = np.sqrt((np.where(fine, e, 0.0) ** 2).sum(axis=1))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.relative_l2, np.sqrt((error**2).sum(axis=1)) / norm, rtol=1e-12)


def test_runs_that_end_inside_a_row() -> None:
    actual, expected = noisy((3, 701, CHUNK // 701), 5)
    found = breakdown(view_of(actual), view_of(expected), TOLERANCE)
    over = ~torch.isclose(actual, expected, rtol=1e-3, atol=1e-3)
    assert found.over.tolist() == over.sum(-1).flatten().tolist()


def test_neighbours_are_taken_together_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_SLICES", 10)
    actual, expected = noisy((37, 8), 1)
    found = breakdown(view_of(actual), view_of(expected), TOLERANCE)
    over = (~torch.isclose(actual, expected, rtol=1e-3, atol=1e-3)).sum(1).tolist()
    assert found.step == 4
    assert found.over.tolist() == [sum(over[i : i + 4]) for i in range(0, 37, 4)]
    last = found.slice(9)
    assert (last.start, last.stop, last.numel) == (36, 37, 8)


@pytest.mark.parametrize("shape", [(64, 96), (100, 33), (7,), (), (2, 50, 1000)])
def test_heat_map_blocks(shape: tuple[int, ...]) -> None:
    actual, expected = noisy(shape, 3)
    found = heat_map(view_of(actual), view_of(expected), TOLERANCE, height=8, width=16)
    over = ~torch.isclose(actual, expected, rtol=1e-3, atol=1e-3)
    matrix = over.reshape(found.rows, found.columns).double().numpy()
    assert found.share_over.shape[0] <= 8
    assert found.share_over.shape[1] <= 16
    for (i, j), share in np.ndenumerate(found.share_over):
        block = matrix[
            i * found.row_step : (i + 1) * found.row_step, j * found.column_step : (j + 1) * found.column_step
        ]
        assert share == pytest.approx(block.mean())


def test_nothing() -> None:
    empty = view_of(torch.zeros(0, 4))
    assert breakdown(empty, empty, TOLERANCE).slices_over() == []
    assert heat_map(empty, empty, TOLERANCE, height=4, width=4).share_over.size == 0

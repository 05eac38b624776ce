"""The golden harness's comparators, against its formulas written with torch."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.compare.judges import (
    AllClose,
    ComparatorVerdict,
    RatioAllClose,
    RatioRelDiff,
    TopKPairs,
    ValidRows,
)
from precision_bisect.runner.compare.statistics import IncomparableError, Tolerance
from precision_bisect.runner.tensor import CHUNK, DType
from tests.runner.compare.tensor_makers import each, neighbours, random_bits, view_of
from tests.support.quick import examples


def noisy(
    seed: int, shape: tuple[int, ...] = (40, 60), size: float = 1e-2
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    expected = torch.randn(shape, generator=generator)
    return expected + size * torch.randn(shape, generator=generator), expected


@pytest.mark.parametrize("dtype", each(DType))
def test_allclose_is_torchs(dtype: DType) -> None:
    expected = random_bits(dtype, (30, 30), seed=1)
    for actual in (expected, neighbours(expected, 2, seed=2), random_bits(dtype, (30, 30), seed=3)):
        for rtol, atol in ((1e-5, 1e-8), (1e-2, 1e-2), (0.0, 0.0)):
            judged = AllClose(Tolerance(rtol=rtol, atol=atol, equal_nan=False)).judge(
                view_of(actual), view_of(expected)
            )
            assert judged.passed == torch.allclose(actual, expected, rtol=rtol, atol=atol)


def bad_by_ratio(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    a, e = actual.float(), expected.float()
    return (a - e).abs() > atol + rtol * e.abs()


@pytest.mark.parametrize("dtype", each(d for d in DType if d is not DType.BOOL))
@pytest.mark.parametrize("seed", range(4))
def test_ratio_allclose(dtype: DType, seed: int) -> None:
    expected = random_bits(dtype, (40, 50), seed)
    actual = neighbours(expected, 3 ** (seed + 1), seed)
    if dtype.is_floating:
        expected, actual = (torch.nan_to_num(t.clamp(-1e4, 1e4)) for t in (expected, actual))
    rtol, atol = 1e-3, 1e-3
    bad = bad_by_ratio(actual, expected, rtol, atol)
    for ratio in (0.0, 0.005, float(bad.float().mean()), 1.0):
        judged = RatioAllClose(rtol=rtol, atol=atol, max_error_ratio=ratio).judge(
            view_of(actual), view_of(expected)
        )
        assert judged.rejected == int(bad.sum())
        assert judged.allowed == round(ratio * bad.numel())
        assert judged.passed == (judged.rejected <= judged.allowed)
        assert [list(m.index) for m in judged.first] == bad.nonzero()[:10].tolist()


@pytest.mark.parametrize("threshold", [1e-3, 1e-2, 0.3])
@pytest.mark.parametrize("most", [math.inf, 0.02])
def test_ratio_reldiff(threshold: float, most: float) -> None:
    for seed in range(6):
        actual, expected = noisy(seed, size=10.0 ** -(seed % 3 + 1))
        difference = (actual - expected).abs()
        size = torch.maximum(actual.abs(), expected.abs()).clamp_min(1 / (1 << 14) / threshold) + 1e-9
        relative = torch.where(difference < threshold, difference, difference / size)
        bad = relative > threshold
        worst = float(relative[bad].max()) if bad.any() else 0.0
        judged = RatioRelDiff(threshold=threshold, max_single=most).judge(view_of(actual), view_of(expected))
        assert judged.rejected == int(bad.sum())
        assert judged.passed == (judged.rejected <= round(0.05 * bad.numel()) and worst < most)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "comparator", [RatioAllClose(rtol=1, atol=1, max_error_ratio=1.0), RatioRelDiff(max_error_ratio=1)]
)
def test_ratios_never_pass_what_is_not_finite(value: float, comparator: RatioAllClose | RatioRelDiff) -> None:
    expected = torch.randn(10, 10)
    for spoiled in (0, 1):
        pair = [expected.clone(), expected.clone()]
        pair[spoiled][3, 3] = value
        judged = comparator.judge(view_of(pair[0]), view_of(pair[1]))
        assert not judged.passed
        assert "NaN or Inf" in judged.reason


def test_valid_rows() -> None:
    expected = torch.randn(12, 16, 20)
    actual = expected.clone()
    actual[9] += 1.0

    def judged(rows: int, *, zero_tail: bool = False) -> ComparatorVerdict:
        valid = ValidRows(rows=rows, zero_tail=zero_tail)
        comparator = RatioAllClose(rtol=1e-5, atol=1e-5, max_error_ratio=0.0, valid=valid)
        return comparator.judge(view_of(actual), view_of(expected))

    assert judged(9).passed
    assert judged(9).numel == expected[:9].numel()
    assert not judged(10).passed
    assert judged(0).passed
    assert "valid rows, found 99" in judged(99).reason
    assert not judged(9, zero_tail=True).passed
    actual[9:] = 0
    assert judged(9, zero_tail=True).passed


def test_top_k_allows_exchanged_ties_and_no_more() -> None:
    scores = torch.tensor([[9.0, 7.0, 7.0, 5.0], [4.0, 4.0, 4.0, 1.0]])
    expected = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4]])
    tied = torch.tensor([[1, 3, 2, 4], [3, 1, 2, 4]])
    assert TopKPairs().judge(view_of(tied), view_of(expected), view_of(scores)).passed
    disordered = scores.clone()
    disordered[0, 2] = 8.0
    judged = TopKPairs().judge(view_of(tied), view_of(expected), view_of(disordered))
    assert not judged.passed
    assert [m.index for m in judged.first] == [(0, 1), (0, 2)]
    assert TopKPairs(descending=False).judge(view_of(tied), view_of(expected), view_of(-scores)).passed


def reference_top_k(a: torch.Tensor, e: torch.Tensor, scores: torch.Tensor) -> int:
    """Element by element, without vectors."""
    bad = 0
    for row in range(a.shape[0]):
        for i in range(a.shape[1]):
            around = scores[row, max(i - 1, 0) : i + 2].tolist()
            ordered = all(x >= y for x, y in itertools.pairwise(around))
            bad += a[row, i].item() != e[row, i].item() and not ordered
    return bad


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000), st.sampled_from([0, 1]))
def test_top_k_against_single_elements(rows: int, k: int, seed: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    actual, expected = (torch.from_numpy(rng.integers(0, 3, (rows, k))) for _ in range(2))
    scores = torch.from_numpy(-np.sort(-rng.integers(0, 4, (rows, k)), axis=1)).float()
    scores[rng.integers(rows), rng.integers(k)] += float(rng.integers(0, 3))
    bad = reference_top_k(actual, expected, scores)
    turned = [t if axis else t.T.contiguous() for t in (actual, expected, scores)]
    judged = TopKPairs(axis=axis).judge(*(view_of(t) for t in turned))
    assert judged.rejected == bad
    assert judged.passed == (bad == 0)


def test_mismatches_beyond_the_first_run_are_found() -> None:
    expected = torch.zeros(2 * CHUNK + 10)
    actual = expected.clone()
    actual[CHUNK + 3] = 1.0
    judged = RatioAllClose(rtol=0, atol=0, max_error_ratio=0.0).judge(view_of(actual), view_of(expected))
    assert [m.index for m in judged.first] == [(CHUNK + 3,)]


def test_what_cannot_be_compared_is_refused() -> None:
    flat, deep = view_of(torch.zeros(4)), view_of(torch.zeros(2, 2))
    with pytest.raises(IncomparableError, match="shape"):
        RatioAllClose(rtol=0, atol=0).judge(flat, deep)
    with pytest.raises(IncomparableError, match="axis 3"):
        TopKPairs(axis=3).judge(deep, deep, deep)
    scalar = view_of(torch.zeros(()))
    with pytest.raises(IncomparableError, match="is a scalar"):
        RatioAllClose(rtol=0, atol=0, valid=ValidRows(rows=1)).judge(scalar, scalar)
    with pytest.raises(ValueError, match="between 0 and 1"):
        RatioAllClose(rtol=0, atol=0, max_error_ratio=2).judge(flat, flat)

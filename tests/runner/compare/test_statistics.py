"""Statistics against torch, numpy and exact fractions, over random tensors of every type."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.compare import statistics
from precision_bisect.runner.compare.elements import THRESHOLDS
from precision_bisect.runner.compare.statistics import SUM_ERROR, IncomparableError, Tolerance, measure
from precision_bisect.runner.tensor import CHUNK, DType, TensorView
from tests.runner.compare.tensor_makers import FLOATS, NUMBERS, each, neighbours, random_bits, view_of
from tests.support.quick import examples

TOLERANCES = [
    (0.0, 0.0),
    (1e-5, 1e-8),
    (1e-3, 1e-3),
    (0.0, 0.5),
    (0.3, 0.0),
    (1e-5, 1e5),
    (1e300, 0.0),
    (0.0, 3.0),
]


def pairs(dtype: DType, shape: tuple[int, ...] = (64, 256)):
    expected = random_bits(dtype, shape, seed=1)
    yield random_bits(dtype, shape, seed=2), expected
    for reach in (1, 8, 100):
        yield neighbours(expected, reach, seed=reach), expected
    if dtype.is_floating:
        near_one = torch.linspace(-2, 2, expected.numel()).reshape(shape).to(expected.dtype)
        yield near_one + torch.randn(shape).to(expected.dtype) * 1e-3, near_one


@pytest.mark.parametrize("dtype", each(DType))
@pytest.mark.parametrize("equal_nan", [False, True])
def test_over_equals_torch_isclose(dtype: DType, equal_nan: bool) -> None:
    for actual, expected in pairs(dtype):
        for rtol, atol in TOLERANCES:
            close = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
            found = measure(
                view_of(actual), view_of(expected), Tolerance(rtol=rtol, atol=atol, equal_nan=equal_nan)
            )
            assert found.over == int((~close).sum()), (rtol, atol)


@pytest.mark.parametrize("dtype", each(DType))
def test_the_sign_of_a_zero_counts_where_it_is_asked_for(dtype: DType) -> None:
    kind = getattr(torch, dtype.torch_name)
    actual, expected = (
        torch.tensor(values).to(kind) for values in ([-0.0, 0.0, -0.0, 1.0], [0.0, 0.0, -0.0, 1.0])
    )
    for tolerance in (Tolerance(), Tolerance(rtol=1, atol=1)):
        assert measure(view_of(actual), view_of(expected), tolerance).over == 0
        counting = replace(tolerance, signed_zeros=True)
        found = measure(view_of(actual), view_of(expected), counting)
        assert (found.over, found.unequal) == (int(dtype.is_floating), 0)


def wide(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype in (torch.int64, torch.uint64):
        return tensor.numpy()
    return tensor.to(torch.float64).numpy()


def exact_error(actual: torch.Tensor, expected: torch.Tensor) -> np.ndarray:
    """float64 |a - e|; 64-bit integers by Python's, everything else by numpy's float64."""
    if actual.dtype in (torch.int64, torch.uint64):
        pairs = zip(actual.flatten().tolist(), expected.flatten().tolist(), strict=True)
        return np.array([float(abs(a - e)) for a, e in pairs]).reshape(actual.shape)
    with np.errstate(all="ignore"):
        return np.abs(wide(actual) - wide(expected))


@pytest.mark.parametrize("dtype", each(DType))
def test_extremes_equal_numpy(dtype: DType) -> None:
    for actual, expected in pairs(dtype):
        found = measure(view_of(actual), view_of(expected), Tolerance())
        fine = np.isfinite(wide(actual).astype(float)) & np.isfinite(wide(expected).astype(float))
        error = np.where(fine, exact_error(actual, expected), 0.0)
        assert found.finite == fine.sum()
        finite_error = np.where(np.isfinite(error), error, 0.0)
        assert found.max_error.value == finite_error.max()
        assert found.max_error.index == np.unravel_index(finite_error.argmax(), error.shape)
        size = np.abs(wide(expected).astype(float))
        with np.errstate(all="ignore"):
            relative = np.where(fine & (error > 0), error / size, 0.0)
        relative = np.where(np.isfinite(relative), relative, 0.0)
        assert found.max_relative_error.value == relative.max()
        assert found.max_relative_error.index == np.unravel_index(relative.argmax(), error.shape)


def test_max_error_is_torchs_in_float32() -> None:
    actual, expected = torch.randn(100_000), torch.randn(100_000)
    found = measure(view_of(actual), view_of(expected), Tolerance())
    assert np.float32(found.max_error.value) == (actual - expected).abs().max().item()


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_distance_counts_steps_of_nextafter(dtype: DType) -> None:
    start = torch.tensor([1.0, -1.0, 0.0, -0.0, 2.0]).to(getattr(torch, dtype.torch_name))
    raised = start
    for _ in range(5):
        raised = torch.nextafter(raised, torch.full_like(raised, math.inf))
    assert measure(view_of(raised), view_of(start), Tolerance()).max_distance == 5
    crossing = measure(view_of(raised[2:3]), view_of(-raised[2:3]), Tolerance())
    assert crossing.max_distance == 10


def test_distance_of_the_farthest_doubles_and_integers() -> None:
    most = torch.tensor([np.finfo(np.float64).max])
    assert measure(view_of(most), view_of(-most), Tolerance()).max_distance == 2 * (0x7FF << 52) - 2
    low, high = torch.tensor([-(2**63)]), torch.tensor([2**63 - 1])
    assert measure(view_of(low), view_of(high), Tolerance()).max_distance == 2**64 - 1


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_sums_are_exact_to_the_stated_error(dtype: DType) -> None:
    expected = random_bits(dtype, (5000,), seed=4)
    if dtype is DType.FLOAT64:
        expected = torch.randn(5000, dtype=torch.float64)
    actual = neighbours(expected, 3, seed=5)
    found = measure(view_of(actual), view_of(expected), Tolerance())
    values = [
        (Fraction(a), Fraction(e))
        for a, e in zip(actual.tolist(), expected.tolist(), strict=True)
        if math.isfinite(a) and math.isfinite(e)
    ]

    def close(measured: float, terms: list[Fraction]) -> bool:
        exact, size = sum(terms), sum(abs(term) for term in terms)
        return abs(Fraction(measured) - exact) <= Fraction(SUM_ERROR) * size

    assert close(found.sum_actual, [a for a, _ in values])
    assert close(found.sum_expected, [e for _, e in values])
    assert close(found.mean_error * len(values), [abs(a - e) for a, e in values])
    squares = sum((a - e) ** 2 for a, e in values)
    assert found.rmse == pytest.approx(math.sqrt(squares / len(values)), rel=1e-12)
    norm_e, norm_a = (math.sqrt(sum(v[k] ** 2 for v in values)) for k in (1, 0))
    assert found.relative_l2 == pytest.approx(math.sqrt(squares) / norm_e, rel=1e-12)
    assert found.cosine == pytest.approx(float(sum(a * e for a, e in values)) / (norm_a * norm_e), rel=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1e-308, 1e200, 1e307])
def test_squares_outside_the_range_of_doubles(size: float) -> None:
    expected = torch.randn(1000, dtype=torch.float64) * size
    actual = expected * 1.5
    found = measure(view_of(actual), view_of(expected), Tolerance())
    assert found.relative_l2 == pytest.approx(0.5, rel=1e-9)
    assert found.cosine == pytest.approx(1.0, rel=1e-9)
    assert found.rmse == pytest.approx(0.5 * size * float((expected / size).square().mean().sqrt()), rel=1e-9)


def test_tiny_errors_beside_large_values_are_not_lost() -> None:
    expected = torch.tensor([1e100, 1e-170], dtype=torch.float64)
    actual = torch.tensor([1e100, 3e-170], dtype=torch.float64)
    assert measure(view_of(actual), view_of(expected), Tolerance()).rmse == pytest.approx(
        2e-170 / math.sqrt(2)
    )


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_quantiles_are_within_the_stated_error_of_numpys(dtype: DType) -> None:
    torch.manual_seed(3)
    expected = torch.randn(20_000).to(getattr(torch, dtype.torch_name))
    actual = (expected.float() + torch.randn(20_000) * 0.1).to(expected.dtype)
    found = measure(view_of(actual), view_of(expected), Tolerance())
    error = exact_error(actual, expected)
    size = np.abs(wide(expected))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error > 0, error / size, 0.0)
    for name, values in (("error", error), ("relative", relative), ("expected", size)):
        for level, value in getattr(found, f"{name}_quantiles").items():
            exact = np.quantile(values, level, method="inverted_cdf")
            assert value == pytest.approx(exact, rel=statistics.RELATIVE_ERROR), (name, level)
        assert getattr(found, f"{name}_quantiles")[1.0] == values.max()


@pytest.mark.parametrize("dtype", each(DType))
def test_shares_beyond_thresholds_are_those_of_the_harness(dtype: DType) -> None:
    for actual, expected in pairs(dtype):
        found = measure(view_of(actual), view_of(expected), Tolerance())
        a, e = actual.to(torch.float32), expected.to(torch.float32)
        fine = torch.isfinite(a) & torch.isfinite(e)
        a, e = torch.where(fine, a, 0.0), torch.where(fine, e, 0.0)
        difference = (a - e).abs()
        for threshold in THRESHOLDS:
            floor = (1.0 / (1 << 14)) / threshold
            size = torch.maximum(a.abs(), e.abs()).clamp_min(floor) + 1e-9
            bad = torch.where(difference < threshold, difference, difference / size) > threshold
            if dtype is DType.FLOAT64:
                # Finite float64 beyond float32 are not covered by the harness's rule: they convert to Inf.
                continue
            assert found.beyond[threshold] == int(bad.sum()) / a.numel()


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_nan_and_inf_are_counted_and_found(dtype: DType) -> None:
    expected = torch.randn(7, 5, 11).to(getattr(torch, dtype.torch_name))
    actual = expected.clone()
    actual[2, 3, 4] = math.nan
    actual[6, 0, 0] = math.nan
    actual[1, 1, 1] = -math.inf
    expected[5, 4, 10] = math.inf
    found = measure(view_of(actual), view_of(expected), Tolerance())
    assert (found.actual_nan.count, found.actual_nan.first) == (2, (2, 3, 4))
    assert (found.actual_inf.count, found.actual_inf.first) == (1, (1, 1, 1))
    assert (found.expected_inf.count, found.expected_inf.first) == (1, (5, 4, 10))
    assert found.expected_nan.count == 0
    assert found.expected_nan.first is None
    assert found.unequal == found.over == 4
    assert found.finite == expected.numel() - 4


def test_result_does_not_depend_on_how_the_tensor_is_laid_out() -> None:
    base = torch.randn(3 * CHUNK // 700, 1400)
    other = base + torch.randn_like(base) * 1e-3
    tolerance = Tolerance(rtol=1e-3)
    whole = measure(view_of(other[:, ::2]), view_of(base[:, ::2]), tolerance)

    def strided(tensor: torch.Tensor) -> TensorView:
        return TensorView(
            name="strided",
            dtype=DType.FLOAT32,
            shape=(tensor.shape[0], tensor.shape[1] // 2),
            strides=(tensor.shape[1], 2),
            storage=tensor.reshape(-1).numpy(),
        )

    assert measure(strided(other), strided(base), tolerance) == whole


def test_ties_take_the_first_index_across_runs() -> None:
    expected = torch.zeros(3 * CHUNK)
    actual = expected.clone()
    actual[[CHUNK + 5, CHUNK // 2, 2 * CHUNK + 1]] = 1.0
    found = measure(view_of(actual), view_of(expected), Tolerance())
    assert found.max_error.index == (CHUNK // 2,)
    assert found.max_distance_index == (CHUNK // 2,)
    assert found.without_reference == 3


def test_nothing_to_compare() -> None:
    found = measure(view_of(torch.zeros(0, 3)), view_of(torch.zeros(0, 3)), Tolerance())
    assert found.numel == found.over == 0
    assert found.max_error.index is None
    assert math.isnan(found.rmse)
    scalar = measure(view_of(torch.tensor(2.0)), view_of(torch.tensor(3.0)), Tolerance())
    assert (scalar.max_error.value, scalar.max_error.index) == (1.0, ())


def test_different_types_and_shapes_are_refused() -> None:
    with pytest.raises(IncomparableError, match="dtype float32 against expected float16"):
        measure(view_of(torch.zeros(2)), view_of(torch.zeros(2).half()), Tolerance())
    with pytest.raises(IncomparableError, match=r"shape \(2,\) against expected \(3,\)"):
        measure(view_of(torch.zeros(2)), view_of(torch.zeros(3)), Tolerance())
    with pytest.raises(ValueError, match="at least 0"):
        Tolerance(rtol=math.nan)


def test_a_faulty_bool_is_true() -> None:
    stored = np.array([0, 1, 2, 255], np.uint8)
    faulty = TensorView.from_contiguous("b", DType.BOOL, (4,), stored)
    truth = TensorView.from_contiguous("b", DType.BOOL, (4,), np.array([0, 1, 1, 1], np.uint8))
    assert measure(faulty, truth, Tolerance()).unequal == 0


@pytest.mark.long
def test_without_a_folder_for_machine_code_it_says_so_and_computes(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    code = (
        "import numpy as np\n"
        "from precision_bisect.runner.compare.statistics import Tolerance, measure\n"
        "from precision_bisect.runner.tensor import DType, TensorView\n"
        "view = TensorView.from_contiguous('t', DType.FLOAT32, (3,), np.ones(3, np.float32))\n"
        "print(measure(view, view, Tolerance()).over)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(blocked)}
    environment.pop("NUMBA_CACHE_DIR", None)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert result.stdout == "0\n"
    assert "set PRECISION_BISECT_HOME" in result.stderr


elements = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-45])


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(elements, elements), min_size=1, max_size=40),
    st.floats(0, 10),
    st.floats(0, 10),
    st.booleans(),
)
def test_any_float32_pair_is_judged_as_torch_does(
    values: list[tuple[float, float]], rtol: float, atol: float, equal_nan: bool
) -> None:
    actual, expected = torch.tensor(values, dtype=torch.float32).T.contiguous()
    close = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    tolerance = Tolerance(rtol=rtol, atol=atol, equal_nan=equal_nan)
    assert measure(view_of(actual), view_of(expected), tolerance).over == int((~close).sum())

"""Patterns that need more than a value: lines, bytes, pairs, operands; planted in several types, whole and in part."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from precision_bisect.runner.compare.finding import Pattern, PatternMatch, build_scene
from precision_bisect.runner.compare.judges import recognize_patterns
from precision_bisect.runner.compare.numeric_patterns import detect_sign_pairs
from precision_bisect.runner.compare.reduction_patterns import (
    detect_lost_tail,
    detect_lower_precision,
    detect_non_finite_at_values,
    detect_other_order,
)
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import DType
from tests.runner.compare.tensor_makers import FLOATS, INTEGERS, NUMBERS, each, view_of

ROWS, COLUMNS = 96, 128
WHOLE, PART = (slice(None), slice(None)), (slice(32, 64), slice(64, 128))


def normal(dtype: DType, seed: int = 0, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    if dtype.is_floating:
        return torch.from_numpy(rng.standard_normal(shape) * 3).to(getattr(torch, dtype.torch_name))
    info = np.iinfo(dtype.storage)
    return torch.from_numpy(rng.integers(info.min, info.max, shape, dtype=dtype.storage, endpoint=True))


def planted(expected: torch.Tensor, wrong: torch.Tensor, part: tuple[slice, slice]) -> torch.Tensor:
    actual = expected.clone()
    actual[part] = wrong[part]
    return actual


def first(
    pattern: Pattern, actual: torch.Tensor, expected: torch.Tensor, others: list[torch.Tensor] | None = None
) -> PatternMatch:
    """The finding of a pattern, which is the surest of its question and sure."""
    views = [view_of(other, f"input {k}") for k, other in enumerate(others or [])]
    found = recognize_patterns(view_of(actual), view_of(expected), Tolerance(), views)
    fitting = [each for each in found if each.pattern is pattern]
    assert fitting, found
    assert fitting[0].confidence > 0.8, found
    return fitting[0]


@pytest.mark.parametrize("dtype", each(FLOATS))
@pytest.mark.parametrize("part", [WHOLE, PART])
@pytest.mark.parametrize("narrow", ["float8_e4m3fn", "float8_e5m2"])
def test_float8(dtype: DType, part: tuple[slice, slice], narrow: str) -> None:
    expected = normal(dtype)
    wrong = expected.float().to(getattr(torch, narrow)).to(expected.dtype)
    assert (
        narrow.removesuffix("fn")
        in first(Pattern.NARROWER_TYPE, planted(expected, wrong, part), expected).evidence
    )


@pytest.mark.parametrize("part", [WHOLE, PART])
def test_tf32_where_float16_has_no_range(part: tuple[slice, slice]) -> None:
    expected = normal(DType.FLOAT32) * 1e6
    patterns = expected.view(torch.int32).to(torch.int64)
    wrong = ((patterns + 0xFFF + ((patterns >> 13) & 1)) & ~0x1FFF).to(torch.int32).view(torch.float32)
    told = first(Pattern.NARROWER_TYPE, planted(expected, wrong, part), expected).evidence
    assert told.endswith("through tf32")
    within = expected / 1e6
    half = within.half().float()
    assert "float16 (or tf32" in first(Pattern.NARROWER_TYPE, planted(within, half, part), within).evidence


@pytest.mark.parametrize("dtype", each(FLOATS))
@pytest.mark.parametrize("noun", ["row", "column", "group"])
def test_scale_by_line(dtype: DType, noun: str) -> None:
    expected = normal(dtype)
    rng = np.random.default_rng(4)
    shapes = {"row": (ROWS, 1), "column": (1, COLUMNS), "group": (ROWS, COLUMNS // 32)}
    factors = torch.from_numpy(rng.uniform(0.3, 3.0, shapes[noun]))
    if noun == "group":
        factors = factors.repeat_interleave(32, dim=1)
    actual = (expected.double() * factors).to(expected.dtype)
    told = first(Pattern.SCALED_LINES, actual, expected).evidence
    assert f"a factor of their {noun}" in told
    part = planted(expected, actual, (slice(32, 64), slice(0, 128)))
    first(Pattern.SCALED_LINES, part, expected)


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("part", [WHOLE, PART])
def test_swapped_nibbles_and_bytes(dtype: DType, part: tuple[slice, slice]) -> None:
    expected = normal(dtype)
    raw = view_of(expected).storage.view(f"<u{dtype.itemsize}").reshape(ROWS, COLUMNS)
    low = raw.dtype.type(int("0f" * dtype.itemsize, 16))
    four = raw.dtype.type(4)
    nibbles = ((raw & low) << four) | ((raw >> four) & low)
    for swapped, words in ((nibbles, "nibbles"), (raw.byteswap(), "reverse order")):
        if dtype.itemsize == 1 and words != "nibbles":
            continue
        stored = torch.from_numpy(np.ascontiguousarray(swapped).view(dtype.storage.newbyteorder("=")))
        wrong = stored.view(expected.dtype)
        assert words in first(Pattern.SWAPPED_BYTES, planted(expected, wrong, part), expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_reversed_axis(dtype: DType, axis: int | tuple[int, int]) -> None:
    expected = normal(dtype)
    wrong = torch.from_numpy(np.flip(view_of(expected).storage.reshape(ROWS, COLUMNS), axis).copy()).view(
        expected.dtype
    )
    words = "all axes" if isinstance(axis, tuple) else f"axis {axis}"
    assert words in first(Pattern.REVERSED, wrong, expected).evidence
    assert words in first(Pattern.REVERSED, planted(expected, wrong, PART), expected).evidence


def patterns_of(actual: torch.Tensor, expected: torch.Tensor) -> list[Pattern]:
    return [found.pattern for found in recognize_patterns(view_of(actual), view_of(expected), Tolerance())]


@pytest.mark.parametrize("heads", [[0, 2, 1, 3], [3, 1, 2, 0]])
def test_two_slices_that_changed_places_are_no_reversal(heads: list[int]) -> None:
    expected = normal(DType.FLOAT32, shape=(2, 4, 16, 64))
    assert patterns_of(expected[:, heads], expected)[0] is Pattern.PERMUTED_BLOCKS
    assert patterns_of(expected[:, [3, 2, 1, 0]], expected)[0] is Pattern.REVERSED


def test_halves_of_a_head_that_changed_places_are_not_turned() -> None:
    expected = normal(DType.FLOAT32, shape=(2, 4, 16, 128))
    actual = expected.clone()
    actual[:, 2] = torch.cat([expected[:, 2, :, 64:], expected[:, 2, :, :64]], -1)
    assert "halves of rows that changed places" in first(Pattern.SHIFTED, actual, expected).evidence
    assert Pattern.SIGN_PAIRS not in patterns_of(actual, expected)


def test_infinities_beside_precise_values_did_not_go_through_a_narrower_type() -> None:
    """An fp16 that becomes Inf where it should stop at its largest; one that went through float8 is rounded too."""
    expected = (normal(DType.FLOAT32) * 30_000).clamp(-65504, 65504).half()
    actual = torch.where(expected.abs() == 65504, expected * 2, expected)
    assert Pattern.NARROWER_TYPE not in patterns_of(actual, expected)
    small = normal(DType.FLOAT32) * 30_000
    found = recognize_patterns(view_of(small.half().float()), view_of(small), Tolerance(rtol=1e-2, atol=1e-2))
    assert found[0].pattern is Pattern.NARROWER_TYPE


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_swapped_rows_and_columns(dtype: DType) -> None:
    expected = normal(dtype)
    rows, columns = expected.clone(), expected.clone()
    rows[5], rows[71] = expected[71], expected[5]
    columns[:, 3], columns[:, 50] = expected[:, 50], expected[:, 3]
    assert "row 5 holds row 71" in first(Pattern.SWAPPED_LINES, rows, expected).evidence
    assert "column 3 holds column 50" in first(Pattern.SWAPPED_LINES, columns, expected).evidence


@pytest.mark.parametrize("dtype", each(FLOATS))
@pytest.mark.parametrize("part", [WHOLE, PART])
def test_flushed_denormals(dtype: DType, part: tuple[slice, slice]) -> None:
    normal_number = {DType.FLOAT64: 2.0**-1022, DType.FLOAT16: 2.0**-14}.get(dtype, 2.0**-126)
    expected = normal(dtype)
    small = torch.from_numpy(np.random.default_rng(2).random((ROWS, COLUMNS)) < 0.05)
    expected = torch.where(small, (expected.double() * normal_number / 16).to(expected.dtype), expected)
    inside = torch.zeros(ROWS, COLUMNS, dtype=torch.bool)
    inside[part] = True
    expected = torch.where(small & ~inside, torch.ones((), dtype=expected.dtype), expected)
    actual = torch.where(
        expected.double().abs() < normal_number, torch.zeros((), dtype=expected.dtype), expected
    )
    first(Pattern.FLUSHED_DENORMALS, actual, expected)


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_nan_at_rare_values_of_the_result_and_of_an_input(dtype: DType) -> None:
    expected, given = normal(dtype), normal(dtype, 1)
    limit = float(expected.double().flatten().sort().values[-40])
    actual = torch.where(expected.double() >= limit, math.nan, expected.double()).to(expected.dtype)
    assert "expected is" in first(Pattern.NON_FINITE_AT_VALUES, actual, expected).evidence
    actual = torch.where(given.double() < -7, math.inf, expected.double()).to(expected.dtype)
    told = first(Pattern.NON_FINITE_AT_VALUES, actual, expected, [normal(dtype, 2), given]).evidence
    assert "input 1 is -7" in told
    assert "or less" in told


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_extremes_that_are_all_elements_explain_no_nan(dtype: DType) -> None:
    """NaN nearly everywhere: at the smallest and at the largest value, and not at a few between them."""
    expected = normal(dtype)
    kept = expected.double().abs().flatten().argsort()[100:110]
    actual = torch.full_like(expected, math.nan).flatten()
    actual[kept] = expected.flatten()[kept]
    scene = build_scene(view_of(actual.reshape(expected.shape)), view_of(expected), Tolerance())
    assert scene is not None
    assert [found.confidence > 0.5 for found in detect_non_finite_at_values(scene)] in ([], [False])


def test_nan_are_not_explained_by_lower_precision() -> None:
    """Sums of 200 terms in bfloat16 explain two thirds of the wrong elements. The other third is NaN."""
    terms = normal(DType.FLOAT32, shape=(200, ROWS, COLUMNS))
    total = torch.zeros(ROWS, COLUMNS, dtype=torch.bfloat16)
    for term in terms:
        total += term.to(torch.bfloat16)
    actual = torch.cat([total.float(), torch.full((ROWS // 2, COLUMNS), math.nan)])
    exact = terms.sum(dim=0)
    expected = torch.cat([exact, exact[: ROWS // 2]])
    scene = build_scene(view_of(actual), view_of(expected), Tolerance())
    assert scene is not None
    (found,) = detect_lower_precision(scene)
    assert 0.6 < found.confidence < 0.7, found


def test_only_errors_of_a_few_ulps_are_counted_as_up_or_down() -> None:
    """A step up or down at each place of the first half, and large errors, all of them up, in a quarter."""
    expected = torch.full((ROWS, COLUMNS), 1.0)
    actual = expected.clone()
    actual[: ROWS // 2] += torch.where(torch.arange(COLUMNS) % 2 == 0, 1, -1) * 2.0**-20
    actual[-ROWS // 4 :] = 2.0
    scene = build_scene(view_of(actual), view_of(expected), Tolerance())
    assert scene is not None
    (found,) = detect_other_order(scene)
    assert found.evidence.endswith(" 50% of them upwards")


@pytest.mark.parametrize("dtype", each([*FLOATS, DType.INT32, DType.INT64]))
@pytest.mark.parametrize("part", [WHOLE, PART])
@pytest.mark.parametrize("transposed", [False, True])
def test_lost_tail_of_a_product(dtype: DType, part: tuple[slice, slice], transposed: bool) -> None:
    rng = np.random.default_rng(7)
    draw = (
        rng.standard_normal if dtype.is_floating else lambda shape: rng.integers(-9, 9, shape).astype(float)
    )
    kind = getattr(torch, dtype.torch_name)
    left, right = (torch.from_numpy(draw(shape)).to(kind) for shape in ((ROWS, 256), (256, COLUMNS)))
    expected = (left.double() @ right.double()).to(kind)
    wrong = (left.double()[:, :224] @ right.double()[:224]).to(kind)
    operands = [right.T.contiguous() if transposed else right, left]
    told = first(Pattern.LOST_REDUCTION_TAIL, planted(expected, wrong, part), expected, operands).evidence
    assert "without the last 32 of 256 terms" in told


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_lost_tail_of_a_row_sum(dtype: DType) -> None:
    rows = normal(dtype, 3, (512, 64))
    expected = rows.double().sum(dim=1, keepdim=True).to(rows.dtype)
    actual = rows.double()[:, :48].sum(dim=1, keepdim=True).to(rows.dtype)
    assert "the last 16 of 64" in first(Pattern.LOST_REDUCTION_TAIL, actual, expected, [rows]).evidence


@pytest.mark.parametrize("dtype", each(FLOATS))
@pytest.mark.parametrize("part", [WHOLE, PART])
@pytest.mark.parametrize("head", [2, 64])
def test_signs_of_pairs(dtype: DType, part: tuple[slice, slice], head: int) -> None:
    """Of pairs half a head apart, the second is negated, or the rotation goes the other way."""
    expected = normal(dtype)
    second = torch.arange(COLUMNS) % head >= head // 2
    words = "neighbouring" if head == 2 else "heads of 64"
    negated = torch.where(second, -expected, expected)
    assert words in first(Pattern.SIGN_PAIRS, planted(expected, negated, part), expected).evidence
    x = normal(DType.FLOAT64, 5)
    angle = torch.arange(ROWS).double()[:, None] * 0.37
    other = torch.empty_like(x)
    other[:, second], other[:, ~second] = x[:, ~second], -x[:, second]
    right, wrong = ((x * angle.cos() + sign * other * angle.sin()).to(expected.dtype) for sign in (1.0, -1.0))
    assert words in first(Pattern.SIGN_PAIRS, planted(right, wrong, part), right).evidence


@pytest.mark.parametrize("dtype", each(FLOATS))
@pytest.mark.parametrize("noun", ["row", "column"])
def test_one_outlier_channel(dtype: DType, noun: str) -> None:
    expected = normal(dtype)
    noise = torch.from_numpy(np.random.default_rng(9).standard_normal((ROWS, COLUMNS))) * 0.05
    if noun == "row":
        noise[17] *= 100
    else:
        noise[:, 17] *= 100
    actual = (expected.double() + noise).to(expected.dtype)
    assert f"{noun} 17" in first(Pattern.OUTLIER_CHANNEL, actual, expected).evidence


@pytest.mark.parametrize("dtype", each(INTEGERS))
def test_integers_are_no_pairs_and_without_operands_no_sum_ends_early(dtype: DType) -> None:
    scene = build_scene(view_of(normal(dtype, 1)), view_of(normal(dtype)), Tolerance())
    assert scene is not None
    assert list(detect_sign_pairs(scene)) == []
    assert list(detect_lost_tail(scene)) == []

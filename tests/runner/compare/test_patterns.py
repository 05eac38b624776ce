"""Each pattern planted in random tensors of every type, and noise in which none is to be seen."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from precision_bisect.runner.compare.finding import Pattern, PatternMatch, confidence
from precision_bisect.runner.compare.judges import recognize_patterns
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import DType
from tests.runner.compare.tensor_makers import FLOATS, NUMBERS, each, view_of
from tests.support.quick import quick_first

ROWS, COLUMNS = 128, 192
SURE = 0.8


def of(dtype: DType) -> torch.dtype:
    return getattr(torch, dtype.torch_name)


def random_tensor(dtype: DType, seed: int = 0, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> torch.Tensor:
    """Normal floats; integers over the whole range of their type."""
    rng = np.random.default_rng(seed)
    if dtype.is_floating:
        return torch.from_numpy(rng.standard_normal(shape) * 3).to(of(dtype))
    info = np.iinfo(dtype.storage)
    return torch.from_numpy(rng.integers(info.min, info.max, shape, dtype=dtype.storage, endpoint=True))


def small_integers(dtype: DType, most: int, seed: int = 0) -> torch.Tensor:
    """From -most (unsigned: 0) to most, as far as the type reaches."""
    most = min(most, int(np.iinfo(dtype.storage).max) - 1)
    low = 0 if dtype.value.startswith("u") else -most
    drawn = np.random.default_rng(seed).integers(low, most + 1, (ROWS, COLUMNS), dtype=dtype.storage)
    return torch.from_numpy(drawn)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.to(torch.float64).numpy() if tensor.is_floating_point() else tensor.numpy()


def back(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """An array as a tensor of the type of `like`."""
    if like.is_floating_point():
        return torch.from_numpy(np.ascontiguousarray(array, np.float64)).to(like.dtype)
    return torch.from_numpy(np.ascontiguousarray(array).astype(like.numpy().dtype))


def seen(
    actual: torch.Tensor, expected: torch.Tensor, others: list[torch.Tensor] | None = None
) -> list[PatternMatch]:
    named = [view_of(other, f"other {i}") for i, other in enumerate(others or [])]
    return recognize_patterns(view_of(actual), view_of(expected), Tolerance(), named)


def assert_seen(
    pattern: Pattern, actual: torch.Tensor, expected: torch.Tensor, others: list[torch.Tensor] | None = None
) -> PatternMatch:
    found = seen(actual, expected, others)
    fitting = [finding for finding in found if finding.pattern is pattern]
    assert fitting, found
    assert fitting[0].confidence >= SURE, found
    return fitting[0]


def replaced(
    expected: torch.Tensor, rows: slice, columns: slice, values: torch.Tensor | float
) -> torch.Tensor:
    actual = expected.clone()
    actual[rows, columns] = values[rows, columns] if isinstance(values, torch.Tensor) else values
    return actual


REGIONS = [(slice(None), slice(None)), (slice(32, 64), slice(64, 128))]


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("fill", [0, 77])
def test_never_written(dtype: DType, region: tuple[slice, slice], fill: int) -> None:
    expected = random_tensor(dtype)
    finding = assert_seen(Pattern.NEVER_WRITTEN, replaced(expected, *region, fill), expected)
    assert ("the fill 77" in finding.evidence) == (fill == 77)


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_never_written_nan(dtype: DType) -> None:
    expected = random_tensor(dtype)
    actual = replaced(expected, *REGIONS[1], math.nan)
    assert "hold the fill nan" in assert_seen(Pattern.NON_FINITE_SPREAD, actual, expected).evidence
    assert len(seen(actual, expected)) == 1


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("region", REGIONS)
def test_stale(dtype: DType, region: tuple[slice, slice]) -> None:
    expected, unrelated, earlier = (random_tensor(dtype, seed) for seed in range(3))
    actual = replaced(expected, *region, earlier)
    assert "other 1" in assert_seen(Pattern.STALE, actual, expected, [unrelated, earlier]).evidence
    assert not [
        finding for finding in seen(actual, expected, [unrelated]) if finding.pattern is Pattern.STALE
    ]


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize(("k", "words"), [(1, "1 elements"), (-7, "7 elements"), (2 * COLUMNS, "2 rows")])
def test_shifted(dtype: DType, k: int, words: str) -> None:
    expected = random_tensor(dtype)
    actual = expected.flatten().roll(k).reshape(expected.shape)
    assert words in assert_seen(Pattern.SHIFTED, actual, expected).evidence
    within_rows = expected.roll(k % 50, dims=1)
    assert_seen(Pattern.SHIFTED, within_rows, expected)


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_shifted_in_a_tile_only(dtype: DType) -> None:
    expected = random_tensor(dtype)
    actual = replaced(expected, slice(32, 64), slice(64, 128), expected.roll(-3, dims=1))
    assert "3 elements further on" in assert_seen(Pattern.SHIFTED, actual, expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_transposed(dtype: DType) -> None:
    square = random_tensor(dtype, shape=(96, 96))
    assert "axes 0 and 1" in assert_seen(Pattern.TRANSPOSED, square.T.contiguous(), square).evidence
    wide = random_tensor(dtype)
    assert_seen(Pattern.TRANSPOSED, wide.T.reshape(wide.shape), wide)
    assert_seen(Pattern.TRANSPOSED, wide.reshape(COLUMNS, ROWS).T.contiguous(), wide)
    deep = random_tensor(dtype, shape=(4, 6, 64))
    assert (
        "axes 0 and 1"
        in assert_seen(Pattern.TRANSPOSED, deep.transpose(0, 1).reshape(4, 6, 64), deep).evidence
    )


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_transposed_blocks(dtype: DType) -> None:
    expected = random_tensor(dtype)
    blocks = expected.reshape(ROWS // 16, 16, COLUMNS // 16, 16)
    actual = blocks.transpose(1, 3).reshape(ROWS, COLUMNS)
    assert "16x16 block" in assert_seen(Pattern.TRANSPOSED, actual, expected).evidence
    fractals = blocks.permute(2, 0, 1, 3).reshape(ROWS, COLUMNS)
    assert "16x16 fractals" in assert_seen(Pattern.TRANSPOSED, fractals, expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_permuted_blocks(dtype: DType) -> None:
    expected = random_tensor(dtype)
    blocks = expected.reshape(ROWS // 32, 32, COLUMNS // 64, 64)
    order = torch.tensor([2, 0, 3, 1])
    actual = blocks[order].reshape(ROWS, COLUMNS)
    assert_seen(Pattern.PERMUTED_BLOCKS, actual, expected)
    swapped = expected.clone()
    swapped[0:32, 0:64], swapped[64:96, 128:192] = expected[64:96, 128:192], expected[0:32, 0:64]
    assert "32x64" in assert_seen(Pattern.PERMUTED_BLOCKS, swapped, expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize(
    ("rows", "columns", "pattern", "words"),
    [
        (slice(32, 64), slice(64, 128), Pattern.TILE, "rows 32:64, columns 64:128"),
        (slice(16, 32), slice(None), Pattern.TILE, "rows 16:32"),
        (slice(120, 128), slice(None), Pattern.TAIL, "the last 8 of 128 rows"),
        (slice(None), slice(180, 192), Pattern.TAIL, "the last 12 of 192 columns"),
        (slice(None), slice(3, None, 8), Pattern.PERIODIC, "one of every 8 columns, from 3"),
        (slice(1, None, 2), slice(None), Pattern.PERIODIC, "one of every 2 rows, from 1"),
    ],
)
def test_placement(dtype: DType, rows: slice, columns: slice, pattern: Pattern, words: str) -> None:
    expected = random_tensor(dtype)
    actual = replaced(expected, rows, columns, random_tensor(dtype, 1))
    assert words in assert_seen(pattern, actual, expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_placement_of_several_tiles_and_of_their_tails(dtype: DType) -> None:
    expected, wrong = random_tensor(dtype), random_tensor(dtype, 1)
    actual = replaced(
        replaced(expected, slice(0, 32), slice(0, 64), wrong), slice(64, 96), slice(128, 192), wrong
    )
    assert "32x64" in assert_seen(Pattern.TILE, actual, expected).evidence
    tails = torch.where(torch.arange(COLUMNS) % 32 >= 27, wrong, expected)
    assert "the last 5 of every 32 columns" in assert_seen(Pattern.TAIL, tails, expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("factor", [3, 0.125])
def test_scaled(dtype: DType, factor: float) -> None:
    if dtype.is_floating:
        expected = random_tensor(dtype)
        actual = (expected.double() * factor).to(expected.dtype)
    else:
        expected = small_integers(dtype, 40 if dtype.itemsize == 1 else 10_000)
        actual = torch.from_numpy(np.rint(expected.numpy() * factor).astype(dtype.storage))
    evidence = assert_seen(Pattern.SCALED, actual, expected).evidence
    assert float(evidence.split(" are ")[1].split()[0]) == pytest.approx(factor, rel=0.05)


@pytest.mark.parametrize("factor", [0.0, -0.0])
def test_a_product_with_zero(factor: float) -> None:
    expected = random_tensor(DType.FLOAT32)
    finding = assert_seen(Pattern.SCALED, expected * factor, expected)
    assert "0 times the expected, with their signs" in finding.evidence
    assert finding.confidence > 0.9


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("shift", [5, 1])
def test_offset(dtype: DType, shift: int) -> None:
    expected = random_tensor(dtype) if dtype.is_floating else small_integers(dtype, 100)
    actual = (expected.double() + shift).to(expected.dtype)
    assert f"{shift:+d} off" in assert_seen(Pattern.OFFSET, actual, expected).evidence


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("region", REGIONS)
def test_sign_flipped(dtype: DType, region: tuple[slice, slice]) -> None:
    expected = random_tensor(dtype)
    negated = -expected if dtype.is_floating else torch.from_numpy(np.negative(expected.numpy()))
    assert_seen(Pattern.SIGN_FLIPPED, replaced(expected, *region, negated), expected)


@pytest.mark.parametrize("dtype", each(NUMBERS))
def test_saturated(dtype: DType) -> None:
    expected = random_tensor(dtype) if dtype.is_floating else small_integers(dtype, 65_535)
    high = 2.5 if dtype.is_floating else {1: 100, 2: 1000}.get(dtype.itemsize, 32767)
    low = 0 if dtype.value.startswith("u") else -high
    actual = back(np.clip(as_array(expected), low, high), expected)
    evidence = assert_seen(Pattern.SATURATED, actual, expected).evidence
    assert ("int16" in evidence) == (high == 32767)


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_overflow_of_float16_is_a_narrower_type(dtype: DType) -> None:
    if dtype is DType.FLOAT16:
        pytest.skip("float16 is not narrower than itself")
    expected = torch.full((64, 64), 1.0).to(of(dtype))
    expected[10:20] = torch.linspace(70_000, 90_000, 64).to(of(dtype))
    actual = expected.half().to(of(dtype))
    assert_seen(Pattern.NARROWER_TYPE, actual, expected)


def ulp(tensor: torch.Tensor) -> np.ndarray:
    """The gap between each float and its neighbour away from zero, as float64."""
    further = torch.nextafter(tensor, torch.sign(tensor) * math.inf)
    return (further.double() - tensor.double()).abs().numpy()


ROUNDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ties away": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "truncation": np.trunc,
    "rounding down": np.floor,
    "rounding up": np.ceil,
}


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("mode", list(ROUNDERS))
def test_rounding_mode(dtype: DType, mode: str) -> None:
    """A value with half and quarter steps is rounded to nearest even, and by the other mode."""
    rng = np.random.default_rng(6)
    if dtype.is_floating:
        digits = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 8}[dtype]
        # Whole steps of a binade: significands of full length, so that one is one unit in the last place.
        steps = rng.integers(2 ** (digits - 1), 2**digits - 2, (ROWS, COLUMNS)).astype(float)
        steps *= rng.choice([-1.0, 1.0], steps.shape)
    else:
        most = 100 if dtype.itemsize == 1 else 30_000
        steps = rng.integers(0 if dtype.value.startswith("u") else -most, most, (ROWS, COLUMNS)).astype(float)
    fraction = rng.choice([0.0, 0.25, 0.5, 0.75], steps.shape) * np.where(steps < 0, -1, 1)
    # Kept apart, because a float64 has no room for the fraction of its own last step.
    whole = np.abs(steps)
    part = np.abs(fraction)
    sign = np.where(steps < 0, -1.0, 1.0)

    def rounded(rounder: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        parity = whole % 2
        return sign * (whole - parity) + rounder(sign * (parity + part))

    like = (
        torch.zeros((), dtype=of(dtype))
        if dtype.is_floating
        else torch.from_numpy(np.zeros((), dtype.storage))
    )
    expected, actual = back(rounded(np.rint), like), back(rounded(ROUNDERS[mode]), like)
    evidence = assert_seen(Pattern.ROUNDING_MODE, actual, expected).evidence
    signed = not dtype.value.startswith("u")
    if signed:
        assert mode in evidence


def test_rounding_to_bfloat16_kept_as_float32() -> None:
    exact = torch.randn(ROWS, COLUMNS)
    expected = exact.bfloat16().float()
    actual = (exact.view(torch.int32) & ~0xFFFF).view(torch.float32)
    assert "truncation" in assert_seen(Pattern.ROUNDING_MODE, actual, expected).evidence


NARROWER = {
    DType.FLOAT64: ["float32", "float16", "bfloat16"],
    DType.FLOAT32: ["float16", "bfloat16"],
    DType.FLOAT16: ["bfloat16"],
    DType.BFLOAT16: ["float16"],
    DType.INT64: ["int8", "int16", "int32", "float32"],
    DType.INT32: ["int8", "int16", "float16", "bfloat16", "float32"],
    DType.INT16: ["int8", "float16", "bfloat16"],
    DType.INT8: [],
    DType.UINT64: ["uint8", "int16", "uint32", "float32"],
    DType.UINT32: ["uint8", "int16", "float32"],
    DType.UINT16: ["uint8", "float16", "bfloat16"],
    DType.UINT8: [],
}


@pytest.mark.parametrize(("dtype", "narrow"), [(d, n) for d in NUMBERS for n in NARROWER[d]])
@pytest.mark.parametrize("region", REGIONS)
def test_narrower_type(dtype: DType, narrow: str, region: tuple[slice, slice]) -> None:
    expected = random_tensor(dtype)
    if dtype is DType.BFLOAT16:
        expected = expected * 2.0**-17  # float16 has more digits than bfloat16, but not its range
    elif not dtype.is_floating and "float" in narrow:
        numbers = small_integers(dtype, min(60_000, np.iinfo(dtype.storage).max)).numpy()
        if narrow == "float32":
            low = np.random.default_rng(5).integers(0, 2**15, numbers.shape, dtype=dtype.storage)
            numbers = numbers * (2**15 if dtype.itemsize == 4 else 2**40) + low
        expected = torch.from_numpy(numbers)
    narrowed = expected.to(getattr(torch, narrow)).to(expected.dtype)
    finding = assert_seen(Pattern.NARROWER_TYPE, replaced(expected, *region, narrowed), expected)
    assert narrow in finding.evidence


@pytest.mark.parametrize("dtype", each(d for d in NUMBERS if d.itemsize > 1))
@pytest.mark.parametrize("by_row", [False, True])
def test_quantized_to_int8(dtype: DType, by_row: bool) -> None:
    if dtype.is_floating:
        expected = torch.from_numpy(np.random.default_rng(1).standard_normal((32, 2048)) * 3).to(of(dtype))
    else:
        low = 0 if dtype.value.startswith("u") else -25_000
        drawn = np.random.default_rng(1).integers(low, 25_000, (32, 2048), dtype=dtype.storage)
        expected = torch.from_numpy(drawn)
    values = as_array(expected).astype(np.float64)
    scale = np.abs(values).max(axis=1 if by_row else None, keepdims=True) / 127
    if not dtype.is_floating:
        scale = np.ceil(scale)
    actual = back(np.rint(values / scale) * scale, expected)
    evidence = assert_seen(Pattern.NARROWER_TYPE, actual, expected).evidence
    assert "int8" in evidence


ACCUMULATORS = {
    DType.FLOAT64: "float32",
    DType.FLOAT32: "float16",
    DType.FLOAT16: "bfloat16",
    DType.INT64: "float32",
    DType.INT32: "float16",
    DType.INT16: "bfloat16",
    DType.UINT64: "float32",
    DType.UINT32: "float16",
    DType.UINT16: "bfloat16",
}


@pytest.mark.parametrize("dtype", list(ACCUMULATORS))
def test_accumulated_in_lower_precision(dtype: DType) -> None:
    """Sums of 200 terms, kept in the type and in a shorter one. bfloat16 and 8-bit integers have none shorter."""
    rng = np.random.default_rng(8)
    wide = dtype in (DType.INT64, DType.UINT64)
    most = 2**20 if wide else 100
    terms = rng.standard_normal((200, 64, 64)) if dtype.is_floating else rng.integers(0, most, (200, 64, 64))
    exact = torch.from_numpy(terms.sum(axis=0))
    narrow = getattr(torch, ACCUMULATORS[dtype])
    total = torch.zeros(64, 64, dtype=narrow)
    for term in terms:
        total += torch.from_numpy(term).to(narrow)
    finding = assert_seen(Pattern.LOWER_PRECISION, total.to(of(dtype)), exact.to(of(dtype)))
    assert ACCUMULATORS[dtype] in finding.evidence


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_accumulated_in_another_order(dtype: DType) -> None:
    """float32 sums taken forwards and backwards; integer sums do not depend on their order."""
    rng = np.random.default_rng(9)
    terms = torch.from_numpy(rng.standard_normal((60, 64, 64)))
    partial = torch.float64 if dtype is DType.FLOAT64 else torch.float32
    sums = []
    for ordered in (terms, terms.flip(0)):
        total = torch.zeros(64, 64, dtype=partial)
        for term in ordered:
            total += term.to(partial)
            if dtype.itemsize == 2:
                total = total.to(of(dtype)).to(partial)
        sums.append(total.to(of(dtype)))
    finding = [each for each in seen(sums[1], sums[0]) if each.pattern is Pattern.OTHER_ORDER]
    assert [each.confidence for each in finding] == [0.5], (
        "any rounding may leave the same: the odds are even"
    )


@pytest.mark.parametrize("dtype", each(FLOATS))
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (slice(5, 6), slice(None), "row 5"),
        (slice(None), slice(7, 8), "column 7"),
        (slice(10, 26), slice(32, 64), "rows 10:26, columns 32:64"),
        (slice(100, None), slice(None), "rows from 100 to 127"),
    ],
)
def test_non_finite_spread(dtype: DType, value: float, rows: slice, columns: slice, words: str) -> None:
    expected = random_tensor(dtype)
    assert (
        words
        in assert_seen(Pattern.NON_FINITE_SPREAD, replaced(expected, rows, columns, value), expected).evidence
    )


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_scattered_nan_does_not_spread(dtype: DType) -> None:
    expected = random_tensor(dtype)
    actual = torch.where(torch.rand(expected.shape) < 0.02, math.nan, expected)
    assert Pattern.NON_FINITE_SPREAD not in {finding.pattern for finding in seen(actual, expected)}


def scattered(dtype: DType, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    expected, wrong = random_tensor(dtype, seed), random_tensor(dtype, seed + 1000)
    return torch.where(
        torch.from_numpy(np.random.default_rng(seed).random((ROWS, COLUMNS)) < 0.03), wrong, expected
    ), expected


def unrelated(dtype: DType, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return random_tensor(dtype, seed), random_tensor(dtype, seed + 1000)


def blurred(dtype: DType, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise of a tenth of the values' spread on every element, but no multiple of a type's step."""
    rng = np.random.default_rng(seed)
    if dtype.is_floating:
        expected = random_tensor(dtype, seed)
        rng = np.random.default_rng(seed + 77)
        return back(as_array(expected) + rng.normal(0, 0.3, (ROWS, COLUMNS)), expected), expected
    most = 100 if dtype.itemsize == 1 else 25_000
    expected = small_integers(dtype, most, seed)
    noise = np.rint(rng.normal(0, most / 10, (ROWS, COLUMNS))).astype(np.int64)
    values = np.clip(
        expected.numpy().astype(np.int64) + noise, 0 if dtype.value.startswith("u") else -128, 2 * most
    )
    keep = (values > 0) & (values < np.iinfo(dtype.storage).max)
    return back(np.where(keep, values, expected.numpy()), expected), expected


@pytest.mark.parametrize("dtype", each(NUMBERS))
@pytest.mark.parametrize("noise", [scattered, unrelated, blurred])
@pytest.mark.parametrize("seed", range(3))
def test_noise_fits_no_pattern(
    dtype: DType, noise: Callable[[DType, int], tuple[torch.Tensor, torch.Tensor]], seed: int
) -> None:
    actual, expected = noise(dtype, seed)
    assert seen(actual, expected, [random_tensor(dtype, 500)]) == []


def test_equal_tensors_have_no_pattern() -> None:
    expected = random_tensor(DType.FLOAT32)
    assert seen(expected.clone(), expected) == []


def test_confidence_grows_with_evidence_and_falls_with_chance() -> None:
    rising = [confidence(hits=n, total=n, chance=0.1) for n in (1, 2, 10, 1000)]
    assert rising == sorted(rising)
    assert rising[0] < 0.7 < 0.99 < rising[-1]
    assert confidence(hits=50, total=100, chance=0.5) == 0.0
    assert confidence(hits=0, total=0, chance=0.0) == 0.0
    assert confidence(hits=5, total=5, chance=1.0) == 0.0


@pytest.mark.parametrize("shape", quick_first([((5_000_000,),), ((3_000_000, 2),), ((20_000, 300),)]))
def test_large_tensors_are_looked_at_where_they_are_wrong(shape: tuple[int, ...]) -> None:
    expected = torch.randn(shape)
    actual = expected.clone()
    actual.view(-1)[4_500_000:4_600_000] = 0.0
    assert_seen(Pattern.NEVER_WRITTEN, actual, expected)

"""Tensors with differences that follow no pattern, drawn by a seed: what a detector names in them is a false alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from precision_bisect.runner.tensor import DType, Storage, TensorView, decode

Values = npt.NDArray[np.float64]
Random = np.random.Generator

MASK = -1e4
SHAPES = ((64, 64), (32, 96), (128, 48), (16, 256), (4, 16, 32), (1, 512), (2048,), (3, 7, 50), (256, 16))


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One pair of tensors, what kind of values and of differences they have, and two others of the same kind."""

    values: str
    difference: str
    actual: TensorView
    expected: TensorView
    others: tuple[TensorView, ...]


def _random(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    if dtype.is_floating:
        return random.standard_normal(shape) * 3
    if dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(np.float64)
    info = np.iinfo(dtype.storage)
    reach = min(int(info.max), 2**40)
    return random.integers(max(int(info.min), -reach), reach, shape, endpoint=True).astype(np.float64)


def _sparse(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    return np.where(random.random(shape) < random.choice([0.05, 0.2]), _random(dtype, shape, random), 0.0)


def _masked(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    mask = MASK if dtype.is_floating or dtype.value in ("int16", "int32", "int64") else 0.0
    hidden = np.broadcast_to(np.arange(shape[-1]) >= random.integers(1, shape[-1]), shape)
    if random.random() < 0.5:
        hidden = random.random(shape) < 0.4
    return np.where(hidden, mask, _random(dtype, shape, random))


def _small(low: int, high: int) -> Callable[[DType, tuple[int, ...], Random], Values]:
    def draw(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
        least = max(low, 0) if dtype.value.startswith("u") or dtype is DType.BOOL else low
        most = min(high, 1) if dtype is DType.BOOL else high
        return random.integers(least, most, shape, endpoint=True).astype(np.float64)

    return draw


def _nan_scattered(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    values = _random(dtype, shape, random)
    return np.where(random.random(shape) < 0.1, np.nan, values) if dtype.is_floating else values


def _constant(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    value = float(random.choice([0.0, 1.0, 3.0, 100.0]))
    return np.full(shape, min(value, 1.0) if dtype is DType.BOOL else value)


def _sorted(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    return np.sort(_random(dtype, shape, random), axis=None).reshape(shape)


def _low_rank(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    rows = int(np.prod(shape[:-1], dtype=int))
    limit = 3.0 if dtype.is_floating else 5.0
    left, right = random.standard_normal((rows, 1)) * limit, random.standard_normal((1, shape[-1])) * limit
    values = (left @ right).reshape(shape)
    return values if dtype.is_floating else np.rint(values)


def _periodic(dtype: DType, shape: tuple[int, ...], random: Random) -> Values:
    count = int(np.prod(shape, dtype=int))
    period = int(random.choice([2, 8, 16, shape[-1]]))
    return np.resize(_random(dtype, (period,), random), count).reshape(shape)


VALUES: dict[str, Callable[[DType, tuple[int, ...], Random], Values]] = {
    "random": _random,
    "sparse": _sparse,
    "masked": _masked,
    "boolean": _small(0, 1),
    "ternary": _small(-1, 1),
    "small integers": _small(-4, 7),
    "NaN scattered": _nan_scattered,
    "constant": _constant,
    "sorted": _sorted,
    "low rank": _low_rank,
    "periodic": _periodic,
}


def _noise(dtype: DType, stored: Storage, fresh: Storage, random: Random) -> Storage:
    """Every element off by independent noise, from a thousandth of the values' spread to all of it."""
    values = decode(dtype, stored).astype(np.float64)
    spread = np.nanstd(values) or 1.0
    size = spread * 10.0 ** random.uniform(-3, 0)
    if not dtype.is_floating:
        size = max(size, 0.4)
    return store(dtype, values + random.standard_normal(values.shape) * size)


def _rounding(dtype: DType, stored: Storage, fresh: Storage, random: Random) -> Storage:
    """A share of the elements one or two steps of their type off, up or down."""
    reach = int(random.integers(1, 3))
    steps = random.integers(-reach, reach + 1, stored.shape)
    steps = np.where(random.random(stored.shape) < random.choice([0.02, 0.3, 1.0]), steps, 0)
    if not dtype.is_floating:
        return store(dtype, decode(dtype, stored).astype(np.float64) + steps)
    patterns = stored.view(f"<u{dtype.itemsize}")
    values = decode(dtype, stored)
    moved = (patterns + steps.astype(patterns.dtype)).astype(patterns.dtype)
    firm = np.isfinite(values) & (np.abs(values) > 1e-30)
    return np.where(firm, moved, patterns).astype(patterns.dtype).view(dtype.storage)


def _wrong(dtype: DType, stored: Storage, fresh: Storage, random: Random) -> Storage:
    """Some elements replaced by others of the same distribution."""
    return np.where(_chosen(stored.shape, random), fresh, stored)


def _foreign(dtype: DType, stored: Storage, fresh: Storage, random: Random) -> Storage:
    """Some elements replaced by values of another distribution."""
    other = store(dtype, _random(dtype, stored.shape, random))
    return np.where(_chosen(stored.shape, random), other, stored)


def _chosen(shape: tuple[int, ...], random: Random) -> npt.NDArray[np.bool_]:
    share = random.choice([0.002, 0.02, 0.2, 1.0])
    chosen = random.random(shape) < share
    chosen.flat[random.integers(0, chosen.size)] = True
    return chosen


DIFFERENCES: dict[str, Callable[[DType, Storage, Storage, Random], Storage]] = {
    "noise": _noise,
    "rounding": _rounding,
    "wrong": _wrong,
    "foreign": _foreign,
}


def store(dtype: DType, values: Values) -> Storage:
    """Values rounded to the nearest that `dtype` holds, as they are stored; beyond an integer's range clipped."""
    if dtype is DType.BFLOAT16:
        patterns = values.astype(np.float32).view(np.uint32)
        rounded = (patterns + 0x7FFF + ((patterns >> 16) & 1)) >> 16
        return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            return values.astype(dtype.storage)
    if dtype is DType.BOOL:
        return (np.rint(values) > 0).astype(np.uint8)
    info = np.iinfo(dtype.storage)
    # Below 2**53 alone, where float64 holds each integer.
    reach = 2.0**52
    return np.clip(np.rint(values), max(info.min, -reach), min(info.max, reach)).astype(dtype.storage)


def draw(dtype: DType, seed: int) -> Draw:
    """The draw of one seed: kinds take turns, all else is random."""
    random = np.random.default_rng((seed, list(DType).index(dtype)))
    kinds = [(values, difference) for values in VALUES for difference in DIFFERENCES]
    values, difference = kinds[seed % len(kinds)]
    shape = SHAPES[int(random.integers(len(SHAPES)))]
    expected, *others = (store(dtype, VALUES[values](dtype, shape, random)) for _ in range(3))
    fresh = random.permutation(expected.ravel()).reshape(shape)
    if values == "constant":  # which has no other value of its own
        fresh = store(dtype, _random(dtype, shape, random))
    actual = DIFFERENCES[difference](dtype, expected, fresh, random)

    def view(name: str, stored: Storage) -> TensorView:
        return TensorView.from_contiguous(name, dtype, shape, np.ascontiguousarray(stored).reshape(-1))

    return Draw(
        values=values,
        difference=difference,
        actual=view("actual", actual),
        expected=view("expected", expected),
        others=tuple(view(f"other {i}", other) for i, other in enumerate(others)),
    )

"""The null model of values: how often wrong elements agree with an explanation by accident.

Two accidents are thought of. A wrong element may hold any value, each as often as the tensor holds it: where values are
few, agreement is cheap. And it may be off by any error, each as often as others are off by it: where errors are a step
or two of the type, as of rounding, being near proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...tensor.view import DType
from ..kernels.elements import Array

NEAR = 8
"""Steps of the type up to which noise may have moved a value."""

_SAMPLED = 1 << 13
_SEED = 2026


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each value stands in a sample. `values` ascend; `counts` has one entry a value."""

    values: Array
    counts: Array

    @classmethod
    def of(cls, sample: Array) -> Counts:
        """Counted values of a flat sample."""
        values, counts = np.unique(sample, return_counts=True)
        return cls(values, counts)

    @property
    def total(self) -> int:
        """Size of the sample."""
        return int(self.counts.sum())

    @property
    def most_frequent(self) -> int:
        """The value that stands there most often."""
        return int(self.values[self.counts.argmax()])

    def __call__(self, asked: Array) -> Array:
        """How often each of `asked` stands in the sample."""
        if self.values.size == 0:
            return np.zeros(asked.shape, np.int64)
        slot = np.minimum(np.searchsorted(self.values, asked), self.values.size - 1)
        return np.where(self.values[slot] == asked, self.counts[slot], 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class NullModel:
    """What accident makes of the wrong elements: values and errors of a sample, counted.

    `at` are the sampled places, as indices into the wrong elements; `found` and `wanted` are the stored patterns of
    actual and expected there.
    """

    dtype: DType
    at: Array
    found: Array
    wanted: Array
    everywhere: Counts
    wrong: Counts
    errors: Counts

    @classmethod
    def of(cls, dtype: DType, found: Array, wanted: Array, expected: Array) -> NullModel:
        """The model of wrong elements `found` where `wanted` was expected; `expected` is all of the tensor, flat."""
        at = evenly(found.size)
        found, wanted = found[at], wanted[at]
        return cls(
            dtype=dtype,
            at=at,
            found=found,
            wanted=wanted,
            everywhere=Counts.of(expected[evenly(expected.size)]),
            wrong=Counts.of(found),
            errors=Counts.of(steps(dtype, found, wanted)),
        )

    def chance(self, there: Array) -> float:
        """How often the wrong elements hold `there` (stored patterns, one a wrong element) by accident."""
        there = there[self.at]
        agree = there == self.found
        drawn = np.maximum(
            self.everywhere(there) / max(self.everywhere.total, 1), self._others(self.wrong, there, agree)
        )
        kept = np.maximum(
            self.everywhere(self.wanted) / max(self.everywhere.total, 1),
            self._others(self.wrong, self.wanted, False),
        )
        possible = there != self.wanted  # an element that is wrong does not hold what was expected
        drawn = np.maximum(drawn, 2.0 ** (-8 * self.dtype.itemsize))
        replaced = np.where(possible, np.minimum(drawn / np.maximum(1.0 - kept, 1e-9), 1.0), 0.0)
        off = steps(self.dtype, there, self.wanted)
        near = possible & (np.abs(off) <= NEAR)
        moved = np.where(near, self._others(self.errors, off, agree), 0.0)
        return float(max(replaced.mean(), moved.mean())) if there.size else 1.0

    def _others(self, counts: Counts, asked: Array, agree: Array | bool) -> Array:
        """The share of the other wrong elements that hold what is asked: an element is no witness of itself."""
        return (counts(asked) - agree) / max(self.found.size - 1, 1)

    @property
    def collision(self) -> float:
        """How often two elements of the tensor hold one value."""
        rates = self.everywhere.counts / max(self.everywhere.total, 1)
        return float(np.sum(rates * rates))

    @property
    def one_way(self) -> float:
        """How often noise of a few steps goes one way: half the time, and always from zero or an end of the type.

        Of one expected value alone it may do so by that value's nature: steps down from a power of two are smaller.
        """
        single = self.wanted == Counts.of(self.wanted).most_frequent
        patterns = self.wanted if self.dtype.is_floating else self.wanted.view(self.dtype.storage)
        ends = patterns == 0
        if not self.dtype.is_floating:
            info = np.iinfo(self.dtype.storage)
            ends |= (patterns == info.min) | (patterns == info.max)
        return float(max(0.5 + 0.5 * ends.mean(), single.mean()))

    def fill_chance(self, fill: int) -> float:
        """How often the wrong elements hold one value (a stored pattern) by accident."""
        held, total = self.everywhere.counts, max(self.everywhere.total, 1)
        rates = held / total
        rate = float(self.everywhere(np.asarray([fill], self.found.dtype))[0]) / total
        differing = float(np.sum(rates * (1.0 - rates)))
        chance = max(rate, rate * (1.0 - rate) / differing if differing > 0 else 0.0)
        # Where wrong elements hold few values, each of them stands as often as the next one does.
        others = self.wrong.counts[self.wrong.values != fill]
        chance = max(chance, float(others.max(initial=0)) / self.found.size)
        filled = np.full(self.wanted.shape, fill, self.wanted.dtype)
        near = np.abs(steps(self.dtype, filled, self.wanted)) <= NEAR
        # Noise takes an element there that is near, as often as there are such, and one way of two.
        return float(np.where(near, max(0.5, 1.0 - rate, chance), chance).mean())


def evenly(total: int) -> Array:
    """Places spread over `total`, all of them where they are few; none at a fixed distance, which a period may have."""
    if total <= _SAMPLED:
        return np.arange(total)
    inside = np.random.default_rng(_SEED).random(_SAMPLED)
    return ((np.arange(_SAMPLED) + inside) * (total / _SAMPLED)).astype(np.int64)


def steps(dtype: DType, first: Array, second: Array) -> Array:
    """How many numbers of the type lie between two stored patterns, up counted positive; int64, and wrapping."""
    return _ordered(dtype, first) - _ordered(dtype, second)


def _ordered(dtype: DType, patterns: Array) -> Array:
    if not dtype.is_floating:
        return patterns.view(dtype.storage).astype(np.int64)
    top = np.uint64(1 << (8 * dtype.itemsize - 1))
    wide = patterns.astype(np.uint64)
    size = (wide & (top - np.uint64(1))).astype(np.int64)
    return np.where(wide & top != 0, -size, size)

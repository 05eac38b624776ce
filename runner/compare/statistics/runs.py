"""Several runs of one case against its reference: the same rows each time, or rows that move?

A deterministic bug hits the same rows with the same values in every run. A race moves, or varies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ...tensor.chunks import bits, raw_run, spans
from ...tensor.view import TensorView
from ..kernels.elements import Array
from .rows import breakdown
from .statistics import Tolerance, require_comparable

DRAWS = 9999
"""Random placements of the permutation test: its smallest p-value is 1 / 10000."""

_SEED = 2026
_SURE = 0.01


class Behaviour(Enum):
    """How several runs of one case behave."""

    ALL_PASS = "all runs pass"
    DETERMINISTIC = "the same rows with the same values in every run"
    VARYING_VALUES = "the same rows in every run, with values that vary"
    RECURRING_ROWS = "rows that differ from run to run, but recur more often than chance would have it"
    MOVING_ROWS = "rows that move as if placed at random"


@dataclass(frozen=True, kw_only=True)
class RunsReport:
    """How alike the runs are. `wrong_rows` counts them in each run, `always_wrong` are those that are wrong in all.

    `overlap` is the number of wrong rows that pairs of runs share, summed over all pairs. `p_value` is the chance
    of at least that overlap if every run had as many wrong rows as it has, at random places: small means that the
    rows recur. `hidden_rate` is the largest rate, at 95 % confidence, at which single runs could differ from the
    others without any having done so here; NaN where some did.
    """

    behaviour: Behaviour
    runs: int
    rows: int
    wrong_rows: tuple[int, ...]
    always_wrong: tuple[int, ...]
    overlap: int
    p_value: float
    bit_identical: bool
    hidden_rate: float

    @property
    def is_race(self) -> bool:
        """Whether equal inputs gave unequal results: then something is not deterministic, at any p-value."""
        return not self.bit_identical


def compare_runs(runs: Sequence[TensorView], expected: TensorView, tolerance: Tolerance) -> RunsReport:
    """Judge two or more runs of one tensor.

    Raises:
        ValueError: fewer than two runs.
        IncomparableError: type or shape of a run differ from the reference's.
    """
    if len(runs) < 2:
        raise ValueError(f"expected at least two runs, found {len(runs)}")
    for run in runs:
        require_comparable(run, expected)
    rows = [breakdown(run, expected, tolerance) for run in runs]
    wrong = np.stack([found.over > 0 for found in rows])
    identical = all(_same_bits(runs[0], run) for run in runs[1:])
    overlap = shared_rows(wrong)
    p_value = overlap_p_value(wrong)
    return RunsReport(
        behaviour=_behaviour(wrong, identical, p_value),
        runs=len(runs),
        rows=int(wrong.shape[1]),
        wrong_rows=tuple(int(n) for n in wrong.sum(axis=1)),
        always_wrong=tuple(rows[0].slice(int(row)).start for row in np.flatnonzero(wrong.all(axis=0))),
        overlap=overlap,
        p_value=p_value,
        bit_identical=identical,
        hidden_rate=1 - 0.05 ** (1 / (len(runs) - 1)) if identical else math.nan,
    )


def shared_rows(wrong: Array) -> int:
    """Wrong rows that pairs of runs share, over all pairs; `wrong` has shape (runs, rows)."""
    hits = wrong.sum(axis=0, dtype=np.int64)
    return int((hits * (hits - 1) // 2).sum())


def overlap_p_value(wrong: Array) -> float:
    """Chance of at least the overlap seen, if every run's wrong rows lay at random.

    Two runs: exact, the upper tail of the hypergeometric distribution. More: a permutation test of `DRAWS` draws
    with a fixed seed, (1 + at least as large) / (1 + draws) after Phipson and Smyth (2010).
    """
    counts = [int(n) for n in wrong.sum(axis=1)]
    seen = shared_rows(wrong)
    rows = int(wrong.shape[1])
    if len(counts) == 2:
        return _hypergeometric_tail(rows, counts[0], counts[1], seen)
    reached = int(np.count_nonzero(_random_overlaps(rows, counts) >= seen))
    return (1 + reached) / (1 + DRAWS)


def _random_overlaps(rows: int, counts: Sequence[int]) -> Array:
    """The overlap in each of `DRAWS` random placements.

    It depends only on how many rows were hit how often. A further run takes its rows from these classes as balls
    are drawn from an urn: multivariate hypergeometric, one class after another.
    """
    random = np.random.default_rng(_SEED)
    classes = [np.full(DRAWS, rows, np.int64)]  # entry h: rows hit h times
    for count in counts:
        left, pool = np.full(DRAWS, count, np.int64), np.full(DRAWS, rows, np.int64)
        taken: list[Array] = []
        for size in classes:
            pool = pool - size
            taken.append(random.hypergeometric(size, pool, left))
            left = left - taken[-1]
        kept = [size - gone for size, gone in zip(classes, taken, strict=True)]
        classes = [*kept, np.zeros(DRAWS, np.int64)]
        for hits, gone in enumerate(taken):
            classes[hits + 1] += gone
    pairs = [hits * (hits - 1) // 2 * size for hits, size in enumerate(classes)]
    return np.sum(pairs, axis=0)


def _hypergeometric_tail(rows: int, first: int, second: int, least: int) -> float:
    """P(overlap >= least) of two random subsets of `rows`, of sizes `first` and `second`."""

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    least = max(least, first + second - rows)
    whole = log_choose(rows, second)
    terms = (
        math.exp(log_choose(first, k) + log_choose(rows - first, second - k) - whole)
        for k in range(least, min(first, second) + 1)
    )
    return min(math.fsum(terms), 1.0)


def _behaviour(wrong: Array, identical: bool, p_value: float) -> Behaviour:
    if not wrong.any():
        return Behaviour.ALL_PASS
    if (wrong == wrong[0]).all():
        return Behaviour.DETERMINISTIC if identical else Behaviour.VARYING_VALUES
    return Behaviour.RECURRING_ROWS if p_value <= _SURE else Behaviour.MOVING_ROWS


def _same_bits(first: TensorView, second: TensorView) -> bool:
    return all(
        bool(
            np.array_equal(
                bits(first.dtype, raw_run(first, *span)), bits(second.dtype, raw_run(second, *span))
            )
        )
        for span in spans(first.numel)
    )

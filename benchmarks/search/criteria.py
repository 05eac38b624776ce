"""What the search is to reach, and what a run of the benchmark found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2

from benchmarks.search.large_range import LargeRange
from benchmarks.search.table import Row


@dataclass(frozen=True)
class Criterion:
    """`found` is the worst cell's figure."""

    name: str
    asked: str
    found: str
    met: bool


def criteria(rows: Sequence[Row], large: Sequence[LargeRange]) -> list[Criterion]:
    """Each figure over all cells that it speaks of; those whose cells were not run are left out."""
    ours = [row for row in rows if row.method == "ours"]
    certain = [row for row in ours if (row.good, row.bad) == (0, 1) and row.workers == 1 and not row.innocent]
    plain = [row for row in certain if not row.skip_share]
    noisy = [row for row in ours if (row.good, row.bad) != (0, 1)]
    long = [row for row in noisy if row.n >= 128 and row.workers == 1 and not row.innocent]
    found = [
        _most(
            "deterministic lines: mean probes less log2(n)",
            [(row.probes - log2(row.n), row) for row in plain if not row.merge_rate],
            0.2,
        ),
        _most(
            "deterministic, any history: mean probes less those of git bisect on the same",
            [(row.probes - git.probes, row) for row in plain for git in _same(rows, row, "git x1")],
            0.0,
        ),
        _least("noisy: exact culprit, share", [(row.accuracy, row) for row in noisy], 0.99),
        _most(
            "noisy, rates known, n >= 128: mean probes / (log2(n) / C)",
            [(row.ratio, row) for row in long if row.known],
            1.35,
        ),
        _most(
            "noisy, rates unknown, n >= 128: mean probes / (log2(n) / C)",
            [(row.ratio, row) for row in long if not row.known],
            2.0,
        ),
        _most(
            "no culprit in the range: falsely accused, share",
            [(row.false_innocent, row) for row in ours if row.innocent],
            0.01,
        ),
        _most(
            "claimed confidence less achieved, either way, confirmed answers",
            [(abs(row.claimed - row.achieved), row) for row in ours if row.claimed],
            0.01,
        ),
        _calibration_unconfirmed(ours),
        _most(
            "n = 1024, deterministic: makespan of 4 workers by that of one",
            _makespans(ours, workers=4),
            0.55,
        ),
        _most(
            "30 % clustered skips: extra probes by those of git bisect",
            _extra_probes(rows, certain, plain),
            0.5,
        ),
        *(
            _most(f"100,000 commits, {size.workers} workers: seconds to choose", [(size.seconds, None)], 1.0)
            for size in large
        ),
        *(
            _most(
                f"100,000 commits, {size.workers} workers: GB of the process", [(size.gigabytes, None)], 1.0
            )
            for size in large
        ),
    ]
    return [criterion for criterion in found if criterion is not None]


def _calibration_unconfirmed(ours: Sequence[Row]) -> Criterion | None:
    """Over all cells together: a cell's share alone is not known to a hundredth from 300 ranges."""
    named = [row for row in ours if row.named_claimed]
    seeds = sum(row.seeds for row in named)
    if not seeds:
        return None
    claimed = sum(row.named_claimed * row.seeds for row in named) / seeds
    right = sum(row.named_right * row.seeds for row in named) / seeds
    return Criterion(
        "claimed confidence less achieved when first reached, all cells together",
        "<= 0.01",
        f"{claimed:.4f} claimed, {right:.4f} achieved",
        abs(claimed - right) <= 0.01,
    )


def _makespans(ours: Sequence[Row], *, workers: int) -> list[tuple[float, Row | None]]:
    seconds = {row.workers: row for row in ours if row.part == "workers" and (row.good, row.bad) == (0, 1)}
    if not {1, workers} <= seconds.keys():
        return []
    return [(seconds[workers].seconds / seconds[1].seconds, seconds[workers])]


def _extra_probes(
    rows: Sequence[Row], certain: Sequence[Row], plain: Sequence[Row]
) -> list[tuple[float, Row | None]]:
    """On ranges of 128 and more: below, a stretch is one commit."""
    found: list[tuple[float, Row | None]] = []
    for row in certain:
        if row.skip_share != 0.3 or row.skip_cluster == 1:
            continue
        without = [other for other in plain if (other.n, other.merge_rate, other.known) == (row.n, 0, True)]
        for bare in without:
            for git in _same(rows, row, "git x1"):
                found += [
                    ((row.probes - bare.probes) / (git.probes - bare_git.probes), row)
                    for bare_git in _same(rows, bare, "git x1")
                ]
    return found


def _same(rows: Iterable[Row], of: Row, method: str) -> list[Row]:
    """The rows of a method on the ranges of a row: the same cell, the same seeds."""

    def ranges(row: Row) -> tuple[object, ...]:
        return row.part, row.n, row.good, row.bad, row.merge_rate, row.skip_share, row.skip_cluster, row.seeds

    return [row for row in rows if row.method == method and ranges(row) == ranges(of)]


def _most(name: str, values: Sequence[tuple[float, Row | None]], limit: float) -> Criterion | None:
    if not values:
        return None
    worst, where = max(values, key=lambda value: value[0])
    # Sums of whole numbers: what differs in the last digit is equal.
    return Criterion(name, f"<= {limit:g}", f"{worst:.4g}{_where(where)}", worst <= limit + 1e-9)


def _least(name: str, values: Sequence[tuple[float, Row | None]], limit: float) -> Criterion | None:
    if not values:
        return None
    worst, where = min(values, key=lambda value: value[0])
    return Criterion(name, f">= {limit:g}", f"{worst:.4g}{_where(where)}", worst >= limit)


def _where(row: Row | None) -> str:
    return f" ({row.part}, n {row.n}, {row.good:g}/{row.bad:g})" if row is not None else ""

"""One row for each cell and method, as CSV and Markdown."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log2, sqrt
from pathlib import Path

import numpy as np

from benchmarks.search.ours import Answer
from benchmarks.search.world import Cell, capacity


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method on a cell. Intervals are at 95 %: Wilson's for shares, normal for means.

    accuracy: of ranges with a culprit, the share where it was named. false: of all ranges, the share where a
    wrong commit was named; false_innocent: of those without a culprit. claimed: the mean of the claims for what was
    named in the end. achieved: the share of these that were right. named_claimed, named_right: the same at the moment
    when the confidence was first reached, before anything was confirmed. probes: the mean number of runs until a
    commit was first named (`ours.Answer`), without those of the ends (end_runs); confirming: runs after that. ratio:
    mean probes by log2(n) / C; ratio_confirmed: all of both.
    """

    part: str
    method: str
    n: int
    good: float
    bad: float
    known: bool
    merge_rate: float
    skip_share: float
    skip_cluster: int
    innocent: float
    workers: int
    seeds: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    false: float
    false_innocent: float
    claimed: float
    achieved: float
    named_claimed: float
    named_right: float
    probes: float
    probes_error: float
    confirming: float
    ratio: float
    ratio_confirmed: float
    end_runs: float
    builds: float
    seconds: float
    seconds_error: float


def row(part: str, method: str, cell: Cell, results: Sequence[tuple[int | None, Answer]]) -> Row:
    """`results` are pairs of the true culprit (None: there is none) and the answer."""
    guilty = [(truth, answer) for truth, answer in results if truth is not None]
    innocent = [answer for truth, answer in results if truth is None]
    right = sum(answer.culprit == truth for truth, answer in guilty)
    final = [(truth, answer) for truth, answer in results if answer.culprit is not None]
    hits = sum(answer.culprit == truth for truth, answer in final)
    named = [(truth, answer) for truth, answer in results if answer.named_claim is not None]
    probes = _mean([answer.probes for _, answer in results])
    confirming = _mean([answer.confirming for _, answer in results])
    bound = log2(cell.n) / capacity(cell.good, cell.bad)
    low, high = _wilson(right, len(guilty))
    return Row(
        part=part,
        method=method,
        **asdict(cell),
        seeds=len(results),
        accuracy=right / max(1, len(guilty)),
        accuracy_low=low,
        accuracy_high=high,
        false=(len(final) - hits) / len(results),
        false_innocent=sum(answer.culprit is not None for answer in innocent) / max(1, len(innocent)),
        claimed=_mean([answer.claimed for _, answer in final]),
        achieved=hits / max(1, len(final)),
        named_claimed=_mean([answer.named_claim or 0.0 for _, answer in named]),
        named_right=_mean([answer.named == truth for truth, answer in named]),
        probes=probes,
        probes_error=_error([answer.probes for _, answer in results]),
        confirming=confirming,
        ratio=probes / bound,
        ratio_confirmed=(probes + confirming) / bound,
        end_runs=_mean([answer.end_runs for _, answer in results]),
        builds=_mean([answer.builds for _, answer in results]),
        seconds=_mean([answer.seconds for _, answer in results]),
        seconds_error=_error([answer.seconds for _, answer in results]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _error(values: Sequence[float]) -> float:
    return float(1.96 * np.std(values) / sqrt(len(values)))


def _wilson(hits: int, of: int) -> tuple[float, float]:
    if of == 0:
        return 0.0, 1.0
    z, share = 1.96, hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """All columns."""
    fields = [asdict(row) for row in rows]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(fields[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in fields)


_HEADINGS = (
    "method | range | seeds | accuracy (95 %) | false | claimed / achieved | probes | + confirming | ratio"
    " | builds | hours"
)


def markdown(rows: Sequence[Row]) -> str:
    """The main columns, a table a part."""
    lines: list[str] = []
    for part in dict.fromkeys(row.part for row in rows):
        lines += [f"### {part}", "", f"| {_HEADINGS} |", f"|{' --- |' * len(_HEADINGS.split(' | '))}"]
        lines += [f"| {' | '.join(_main(row))} |" for row in rows if row.part == part]
        lines.append("")
    return "\n".join(lines)


def _main(row: Row) -> list[str]:
    where = f"n {row.n}, {row.good:g}/{row.bad:g}"
    where += f", merges {row.merge_rate:g}" if row.merge_rate else ""
    where += f", skips {row.skip_share:g} in {row.skip_cluster}s" if row.skip_share else ""
    where += f", {row.innocent:g} innocent" if row.innocent else ""
    where += f", {row.workers} workers" if row.part == "workers" else ""
    false = f"{row.false:.3f}" + (f" ({row.false_innocent:.3f} of innocent)" if row.innocent else "")
    return [
        row.method,
        where,
        str(row.seeds),
        f"{row.accuracy:.3f} ({row.accuracy_low:.3f} to {row.accuracy_high:.3f})",
        false,
        f"{row.claimed:.4f} / {row.achieved:.4f}",
        f"{row.probes:.2f} ± {row.probes_error:.2f}",
        f"{row.confirming:.2f}",
        f"{row.ratio:.2f}",
        f"{row.builds:.1f}",
        f"{row.seconds / 3600:.2f} ± {row.seconds_error / 3600:.2f}",
    ]


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value

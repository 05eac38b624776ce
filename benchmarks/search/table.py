"""One row for each cell and method, as CSV, Markdown, and a picture."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log2, sqrt
from pathlib import Path

import numpy as np

from .ours import Answer
from .world import Cell, capacity


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method on a cell. Intervals are at 95 %: Wilson's for shares, normal for means.

    accuracy: of ranges with a culprit, the share where it was named. false: of all ranges, the share where a
    wrong commit was named. claimed: the mean of the claims for what was named. achieved: the share of these
    that were right. ratio: mean probes by log2(n) / C.
    """

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
    claimed: float
    achieved: float
    probes: float
    probes_error: float
    ratio: float
    end_runs: float
    builds: float
    seconds: float


def row(method: str, cell: Cell, results: Sequence[tuple[int | None, Answer]]) -> Row:
    """`results` are pairs of the true culprit (None: there is none) and the answer."""
    guilty = [(truth, answer) for truth, answer in results if truth is not None]
    right = sum(answer.culprit == truth for truth, answer in guilty)
    named = [(truth, answer) for truth, answer in results if answer.culprit is not None]
    hits = sum(answer.culprit == truth for truth, answer in named)
    probes = np.array([answer.probes for _, answer in results], dtype=np.float64)
    low, high = _wilson(right, len(guilty))
    return Row(
        method=method,
        **asdict(cell),
        seeds=len(results),
        accuracy=right / max(1, len(guilty)),
        accuracy_low=low,
        accuracy_high=high,
        false=(len(named) - hits) / len(results),
        claimed=float(np.mean([answer.claimed for _, answer in named])) if named else 0.0,
        achieved=hits / max(1, len(named)),
        probes=float(probes.mean()),
        probes_error=float(1.96 * probes.std() / sqrt(len(probes))),
        ratio=float(probes.mean() * capacity(cell.good, cell.bad) / log2(cell.n)),
        end_runs=float(np.mean([answer.end_runs for _, answer in results])),
        builds=float(np.mean([answer.builds for _, answer in results])),
        seconds=float(np.mean([answer.seconds for _, answer in results])),
    )


def _wilson(hits: int, of: int) -> tuple[float, float]:
    if of == 0:
        return 0.0, 1.0
    z, share = 1.96, hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def write(rows: Sequence[Row], folder: Path) -> None:
    """table.csv, table.md and table.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = [asdict(row) for row in rows]
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(fields[0]))
        writer.writeheader()
        writer.writerows(fields)
    names = list(fields[0])
    lines = [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]
    lines += [f"| {' | '.join(_short(value) for value in of_row.values())} |" for of_row in fields]
    (folder / "table.md").write_text("\n".join(lines) + "\n")
    (folder / "table.svg").write_text(_picture(rows))


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _picture(rows: Sequence[Row]) -> str:
    """Accuracy over probes in units of the bound, a dot for each cell: the upper left is best."""
    width, height, margin = 860, 400, 50
    most = 4.0
    methods = list(dict.fromkeys(row.method for row in rows))
    colors = dict(
        zip(methods, ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7"), strict=False)
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">probes / (log2 n / C), up to {most:g}</text>',
        f'<text x="15" y="{height / 2}" transform="rotate(-90 15 {height / 2})" text-anchor="middle">accuracy</text>',
    ]
    inner = width - 2 * margin, height - 2 * margin
    parts.append(
        f'<rect x="{margin}" y="{margin}" width="{inner[0]}" height="{inner[1]}" fill="none" stroke="#888"/>'
    )
    for row in rows:
        x = margin + inner[0] * min(row.ratio, most) / most
        y = margin + inner[1] * (1 - row.accuracy)
        label = f"{row.method}, n={row.n}, {row.good:g}/{row.bad:g}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colors[row.method]}" fill-opacity="0.6">'
            f"<title>{label}</title></circle>"
        )
    for place, (method, color) in enumerate(colors.items()):
        parts.append(f'<circle cx="{margin + 130 * place}" cy="25" r="4" fill="{color}"/>')
        parts.append(f'<text x="{margin + 8 + 130 * place}" y="29">{method}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

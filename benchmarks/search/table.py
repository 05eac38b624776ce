"""One row for each kind of range and method, as CSV and Markdown."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import log2, sqrt
from pathlib import Path
from statistics import fmean, pstdev

from benchmarks.outsider.world import Ending
from benchmarks.search.answer import Answer
from benchmarks.search.cells import Cell
from precision_bisect.bisect.search.decision import capacity

_NONE = (Ending.NONE, Ending.REFUSED, Ending.GAVE_UP)
_NOT_ENDED = (Ending.UNENDED, Ending.CRASHED)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method on a kind of range; counts are of ranges.

    right: a true culprit was named with the confidence. wrong: another one was. suspects: some were left, without_truth
    of these without the culprit. none: nothing was named, refused of these because the ends do not differ. not_ended:
    stopped from outside. runs: the mean of all that were made, of ends, search and confirmation; error: half of its
    interval at 95 %; most: the largest. bound: log2(n) / C, with C the capacity of one run in bits: no method that is
    right takes fewer by much; 0 where chance is not that of two rates. seconds: mean makespan, where it is timed.
    """

    part: str
    name: str
    shape: str
    n: int
    workers: int
    method: str
    ranges: int
    right: int
    wrong: int
    suspects: int
    without_truth: int
    none: int
    refused: int
    not_ended: int
    runs: float
    error: float
    most: int
    bound: float
    seconds: float

    @property
    def of_range(self) -> tuple[str, str, str, int, int]:
        """What tells the kind of range from all others."""
        return self.part, self.name, self.shape, self.n, self.workers


def row(cell: Cell, method: str, answers: Sequence[Answer]) -> Row:
    """The answers of a method on the ranges of a cell."""
    endings = Counter(each.ending for each in answers)
    runs = [each.runs for each in answers]
    bound = 0.0
    if cell.rates is not None:
        bound = log2(cell.n) / capacity(*cell.rates)
    return Row(
        part=cell.part,
        name=cell.name,
        shape=cell.shape,
        n=cell.n,
        workers=cell.workers,
        method=method,
        ranges=len(answers),
        right=endings[Ending.RIGHT],
        wrong=endings[Ending.WRONG],
        suspects=endings[Ending.WITH] + endings[Ending.WITHOUT],
        without_truth=endings[Ending.WITHOUT],
        none=sum(endings[each] for each in _NONE),
        refused=endings[Ending.REFUSED],
        not_ended=sum(endings[each] for each in _NOT_ENDED),
        runs=fmean(runs),
        error=1.96 * pstdev(runs) / sqrt(len(runs)),
        most=max(runs),
        bound=bound,
        seconds=fmean(each.seconds for each in answers),
    )


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """All columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in asdict(each).items()} for each in rows)


_COLUMNS = (
    "range",
    "method",
    "ranges",
    "right",
    "**wrong**",
    "suspects",
    "without the truth",
    "none",
    "not ended",
    "runs",
    "most",
    "bound",
)


def markdown(rows: Sequence[Row]) -> str:
    """The main columns, a table a part."""
    lines: list[str] = []
    for part in dict.fromkeys(each.part for each in rows):
        of_part = [each for each in rows if each.part == part]
        timed = ("hours",) if any(each.seconds for each in of_part) else ()
        columns = (*_COLUMNS, *timed)
        lines += [f"### {part.capitalize()}", "", _cells(columns)]
        lines.append(_cells(["---", "---", *["---:"] * (len(columns) - 2)]))
        lines += [
            _cells([*_main(each), *([f"{each.seconds / 3600:.2f}"] if timed else [])]) for each in of_part
        ]
        lines.append("")
    return "\n".join(lines)


def _main(of: Row) -> list[str]:
    where = f"{of.shape}, n {of.n}, {of.name}" + (f", {of.workers} workers" if of.workers > 1 else "")
    counts = (of.right, of.wrong, of.suspects, of.without_truth, of.none, of.not_ended)
    return [
        where,
        of.method,
        str(of.ranges),
        *(str(count or "") for count in counts),
        f"{of.runs:.1f} ± {of.error:.1f}",
        str(of.most),
        f"{of.bound:.1f}" if of.bound else "",
    ]


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value

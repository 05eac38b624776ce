"""What the results say: ours against the others in each cell, and a row for each cell and contender."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks.reduce.results import Result
from benchmarks.reduce.world import Cell

OPTIMAL = 0.9  # share of its results at the optimum, from which on another contender does the same job


@dataclass(frozen=True, kw_only=True)
class Row:
    """Means over the seeds, where nothing else is said; columns as those of `Result`. optimal: share of the results
    at the optimum; failing: share that fail as the whole did."""

    kind: str
    n: int
    rate: float
    method: str
    graph: bool
    seeds: int
    calls: float
    calls_median: float
    calls_max: int
    invalid: float
    slipped: float
    size: float
    optimal: float
    failing: float
    seconds_1: float
    seconds_2: float | str

    @property
    def name(self) -> str:
        """The method, and what it knows."""
        return f"{self.method}, {'graph' if self.graph else 'raw'}"


def write(results: Sequence[Result], folder: Path, notes: Sequence[str] = ()) -> None:
    """table.csv and table.md, where `notes` come after the verdicts."""
    rows = _rows(results)
    fields = [asdict(one) for one in rows]
    names = list(fields[0])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in one.items()} for one in fields)
    seeds = sorted({one.seed for one in results})
    parts = [
        [f"Seeds {seeds[0]} to {seeds[-1]}, {len(seeds)} of them; `Row` in `table.py` explains the columns."],
        _verdicts(rows),
        *([line] for line in notes),
        markdown(names, [list(one.values()) for one in fields]),
    ]
    (folder / "table.md").write_text("\n\n".join("\n".join(part) for part in parts) + "\n")


def markdown(names: Sequence[str], lines: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a table."""
    cells = [names, ["---"] * len(names), *([_short(value) for value in line] for line in lines)]
    return [f"| {' | '.join(line)} |" for line in cells]


def _rows(results: Sequence[Result]) -> list[Row]:
    groups: dict[tuple[Cell, str, bool], list[Result]] = {}
    for one in sorted(results, key=lambda one: (one.n, one.seed)):
        groups.setdefault((one.cell, one.method, one.graph), []).append(one)
    rows = [_row(*key, group) for key, group in groups.items()]
    order = list(dict.fromkeys(key[0] for key in groups))
    return sorted(rows, key=lambda row: order.index(Cell(kind=row.kind, n=row.n, rate=row.rate)))


def _row(cell: Cell, method: str, graph: bool, group: Sequence[Result]) -> Row:
    calls = [one.calls for one in group]
    seconds = [one.seconds_2 for one in group if one.seconds_2 is not None]
    return Row(
        **asdict(cell),
        method=method,
        graph=graph,
        seeds=len(group),
        calls=mean(calls),
        calls_median=median(calls),
        calls_max=max(calls),
        invalid=mean(one.invalid for one in group),
        slipped=mean(one.slipped for one in group),
        size=mean(one.size for one in group),
        optimal=mean(one.size == 1 for one in group),
        failing=mean(one.failing for one in group),
        seconds_1=mean(one.seconds_1 for one in group),
        seconds_2=mean(seconds) if seconds else "",
    )


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Ours, with the graph, against the fewest calls of those that do the same job, against picire, and against the
    fewest calls of all, whatever they end with; and `Cell.bits`. What is not as it should be is set in bold."""
    lines: list[list[object]] = []
    for cell in dict.fromkeys((one.kind, one.n, one.rate) for one in rows):
        here = [one for one in rows if (one.kind, one.n, one.rate) == cell]
        ours = next(one for one in here if one.method == "ours" and one.graph)
        others = [one for one in here if one.method != "ours"]
        picire = {one.graph: one.calls_median for one in others if one.method == "picire"}
        peers = [one for one in others if one.optimal >= min(OPTIMAL, ours.optimal)]
        best = min(peers, key=lambda one: one.calls)
        by_median = min(peers, key=lambda one: one.calls_median)
        fewest = min(others, key=lambda one: one.calls)
        lines.append(
            [
                *cell,
                ours.calls,
                ours.calls_median,
                _at_least(ours.optimal, 1),
                _at_least(ours.failing, 1),
                best.name,
                _at_most(ours.calls / best.calls, 1.05),
                _at_most(ours.calls_median / by_median.calls_median, 1.05),
                *(
                    _at_most(ours.calls_median / picire[graph], 0.5) if graph in picire else "not run"
                    for graph in (True, False)
                ),
                f"{fewest.name}: {_at_most(ours.calls / fewest.calls, 1.05)}, at the optimum in {fewest.optimal:.0%}",
                Cell(kind=ours.kind, n=ours.n, rate=ours.rate).bits,
            ]
        )
    names = ["kind", "n", "rate", "calls of ours", "median", "optimal", "failing", "best other"]
    more = [
        "calls by its",
        "medians",
        "median by picire's",
        "by picire's, raw",
        "calls by the fewest of all",
        "bits",
    ]
    return markdown([*names, *more], lines)


def _at_most(value: float, limit: float) -> str:
    return _short(value) if value <= limit else f"**{_short(value)}**"


def _at_least(value: float, limit: float) -> str:
    return _short(value) if value >= limit else f"**{_short(value)}**"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

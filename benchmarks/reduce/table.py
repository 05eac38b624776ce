"""One row for each cell and contender, and what they say of ours, as CSV and Markdown."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from precision_bisect.reduce.minimize.outcome import Outcome, Run

from .contenders import Answer
from .world import Cell, World


@dataclass(frozen=True, kw_only=True)
class Row:
    """Means over the seeds, where nothing else is said.

    calls: fresh oracle calls; of these, invalid dangled, and slipped failed otherwise. size: of the result, by the
    optimum. optimal: share of the results at the optimum. failing: share that fail as the whole did. seconds: from the
    first call to the last, on 1 and on 2 simulated workers; picire is run on one only (0: not measured).
    """

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
    seconds_2: float


def row(
    cell: Cell, method: str, adapted: bool, results: Sequence[tuple[World, Answer, Answer | None]]
) -> Row:
    """`results`: each seed's world, and answers with one and two workers."""
    outcomes = [[outcome for _, outcome in answer.runs] for _, answer, _ in results]
    sizes = [len(answer.best) / len(world.minimum) for world, answer, _ in results]
    fails = [
        world.outcome(Run(answer.best, 0), rate=1) is Outcome.INTERESTING for world, answer, _ in results
    ]
    return Row(
        **asdict(cell),
        method=method,
        graph=adapted,
        seeds=len(results),
        calls=mean(map(len, outcomes)),
        calls_median=median(map(len, outcomes)),
        calls_max=max(map(len, outcomes)),
        invalid=mean(one.count(Outcome.INVALID) for one in outcomes),
        slipped=mean(one.count(Outcome.SLIPPED) for one in outcomes),
        size=mean(sizes),
        optimal=mean(size == 1 for size in sizes),
        failing=mean(fails),
        seconds_1=mean(answer.seconds for _, answer, _ in results),
        seconds_2=mean(second.seconds if second else 0 for _, _, second in results),
    )


def write(rows: Sequence[Row], folder: Path) -> None:
    """table.csv and table.md."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = [asdict(one) for one in rows]
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(fields[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in one.items()} for one in fields)
    text = [*_verdicts(rows), "", *_table(list(fields[0]), [list(one.values()) for one in fields])]
    (folder / "table.md").write_text("\n".join(text) + "\n")


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Ours, with the graph, against the best of the others that ends as often at the optimum, and against picire."""
    lines: list[list[object]] = []
    for cell in dict.fromkeys((one.kind, one.n, one.rate) for one in rows):
        here = [one for one in rows if (one.kind, one.n, one.rate) == cell]
        ours = next(one for one in here if one.method == "ours" and one.graph)
        others = [one for one in here if one.method != "ours"]
        picire = {one.graph: one.calls_median for one in others if one.method == "picire"}
        peers = [one for one in others if one.optimal >= min(0.9, ours.optimal)]
        best = min(peers, key=lambda one: one.calls, default=None)
        fewest = min(others, key=lambda one: one.calls)
        lines.append(
            [
                *cell,
                ours.calls,
                ours.optimal,
                _name(best) if best else "none",
                ours.calls / best.calls if best else "",
                ours.calls_median / picire[True],
                ours.calls_median / picire[False],
                f"{_name(fewest)}: {_short(fewest.calls)} calls, optimal {_short(fewest.optimal)}",
            ]
        )
    names = ["kind", "n", "rate", "ours", "optimal", "best other that ends at the optimum", "calls by its"]
    return _table(
        [*names, "median by picire's", "by picire's, raw", "fewest calls, whatever the result"], lines
    )


def _name(one: Row) -> str:
    return f"{one.method}, {'graph' if one.graph else 'raw'}"


def _table(names: Sequence[str], lines: Sequence[Sequence[object]]) -> list[str]:
    cells = [names, ["---"] * len(names), *([_short(value) for value in line] for line in lines)]
    return [f"| {' | '.join(line)} |" for line in cells]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

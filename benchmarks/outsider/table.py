"""What came of many ranges, as one Markdown table and as rows."""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.outsider.drive import Row
from benchmarks.outsider.world import Ending

_COLUMNS = (
    "world",
    "ranges",
    "named right",
    "**named wrong**",
    "suspects, with truth",
    "suspects, without",
    "refused at the ends",
    "none explains it",
    "gave up",
    "not ended",
    "acceptable",
    "runs, mean",
    "max",
    "git's tests, mean",
    "git right",
)
_READ: dict[object, Callable[[str], object]] = {
    int: int,
    float: float,
    bool: lambda cell: cell == "True",
    Ending: Ending,
}
_SHOWN = tuple(each for each in Ending if each is not Ending.CRASHED)


def markdown(rows: Sequence[Row]) -> str:
    """A table with a row for each world, in the order of the rows."""
    lines = [_cells(_COLUMNS), _cells(["---"] + ["---:"] * (len(_COLUMNS) - 1))]
    names = dict.fromkeys(row.world for row in rows)
    lines += [_cells(_summary(name, [row for row in rows if row.world == name])) for name in names]
    lines.append(_cells(_summary("all", rows)))
    crashes = [row for row in rows if row.ending is Ending.CRASHED]
    return "\n".join([*lines, *(f"\n{row.world}, seed {row.seed}: {row.message}" for row in crashes)])


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [_row(cells) for cells in csv.DictReader(file)]


def add_row(row: Row, path: Path) -> None:
    """Write one more line."""
    begun = path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
        if not begun:
            table.writeheader()
        table.writerow(asdict(row))


def _row(cells: Mapping[str, str]) -> Row:
    """A row from its line."""
    kinds = {each.name: each.type for each in fields(Row)}
    values: dict[str, Any] = {name: _READ.get(kinds[name], str)(cell) for name, cell in cells.items()}
    return Row(**values)


def _summary(name: str, rows: Sequence[Row]) -> list[str]:
    endings = Counter(row.ending for row in rows)
    return [
        name,
        str(len(rows)),
        *(str(endings[each] or "") for each in _SHOWN),
        str(sum(row.acceptable for row in rows)),
        f"{fmean(row.runs for row in rows):.0f}",
        str(max(row.runs for row in rows)),
        f"{fmean(row.git_tests for row in rows):.1f}",
        str(sum(row.git_right for row in rows)),
    ]


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

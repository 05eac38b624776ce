"""The table of the planted faults, made from the rows of all runs so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

Row = dict[str, Any]

_HEAD = """\
| scenario | seeds | right task | right class | runs (most) | bytes of a full dump | seconds | walk right |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def read_rows(journal: Path) -> list[Row]:
    """All rows that were written; none where nothing was."""
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def write_table(rows: Sequence[Row], path: Path) -> None:
    """One line a scenario, and one for all."""
    names = list(dict.fromkeys(row["scenario"] for row in rows))
    lines = [_line(name, [row for row in rows if row["scenario"] == name]) for name in names]
    path.write_text("".join([_HEAD, *lines, _line("all", rows)]))


def _line(name: str, rows: Sequence[Row]) -> str:
    def share(key: str) -> str:
        return f"{sum(row[key] for row in rows)}/{len(rows)}"

    runs = [row["runs"] for row in rows]
    dumped = mean(row["bytes"] / row["full_dump"] for row in rows)
    seconds = mean(row["seconds"] for row in rows)
    return (
        f"| {name} | {len(rows)} | {share('right')} | {share('class_right')} | {mean(runs):.1f} ({max(runs)}) | "
        f"{dumped:.0%} | {seconds:.0f} | {share('walk_right')} |\n"
    )

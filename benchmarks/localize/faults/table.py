"""The table of drawn faults by family, made from the rows of all runs so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.localize.table import Row

from .answer import Grade

_COLUMNS = (
    "family",
    "faults",
    "kinds",
    "right first",
    "task right",
    "among three",
    "wrong",
    "nothing found in red",
    "no answer",
    "blamed in green",
    "runs (median)",
    "seconds (median)",
)


def write_table(rows: Sequence[Row], path: Path) -> None:
    """One line a family, one for all, and the kinds that are not always right."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    lines = [f"| {' | '.join(_COLUMNS)} |", f"| --- |{' ---: |' * (len(_COLUMNS) - 1)}"]
    lines += [_line(name, [row for row in rows if row["family"] == name]) for name in sorted(families)]
    lines += [_line("all", rows), *_kinds(rows)]
    path.write_text("\n".join(lines) + "\n")


def _line(name: str, rows: Sequence[Row]) -> str:
    red = [row for row in rows if row["ending"] != "pass"]
    green = [row for row in rows if row["ending"] == "pass"]

    def share(grade: Grade, of: Sequence[Row]) -> str:
        return f"{sum(row['grade'] == grade.value for row in of)}/{len(of)}" if of else "-"

    grades = (Grade.WRONG, Grade.NOTHING, Grade.ERROR)
    among = sum(row["grade"] in (Grade.FIRST.value, Grade.AMONG_THREE.value) for row in red)
    cells = [
        name,
        len(rows),
        len({row["kind"] for row in rows}),
        share(Grade.FIRST, red),
        f"{sum(row['task_right'] for row in red)}/{len(red)}" if red else "-",
        f"{among}/{len(red)}" if red else "-",
        *(share(grade, red) for grade in grades),
        share(Grade.BLAMED, green),
        f"{median(row['runs'] for row in rows):.0f}",
        f"{median(row['seconds'] for row in rows):.0f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _kinds(rows: Sequence[Row]) -> list[str]:
    """What went otherwise, by kind: the grades, and the case and number of each; no line where nothing did."""
    fine = (Grade.FIRST.value, Grade.CLEARED.value)
    lines: list[str] = []
    for kind in sorted({row["kind"] for row in rows}):
        here = [row for row in rows if row["kind"] == kind]
        failed = [row for row in here if row["grade"] not in fine]
        if failed:
            told = ", ".join(
                f"{row['grade']} ({row['case']}, {row['seed']}:{row['number']})" for row in failed
            )
            lines.append(f"| {kind} | {len(here) - len(failed)}/{len(here)} | {told} |")
    return ["", "| kind | right | otherwise |", "| --- | ---: | --- |", *lines] if lines else []

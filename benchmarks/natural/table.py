"""The table of what the product and git made of the corpus, from the rows that are kept."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.natural.answer import Answer
from benchmarks.natural.regression import Regression

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One regression. git: None where it was not asked."""

    name: str
    product: Answer
    git: Answer | None

    @classmethod
    def from_json(cls, line: str) -> "Row":
        """A line of the file of rows."""
        found: Any = json.loads(line)
        git = None if found["git"] is None else _answer(found["git"])
        return cls(name=found["name"], product=_answer(found["product"]), git=git)

    def to_json(self) -> str:
        """The same as a line."""
        return json.dumps(asdict(self))


def _answer(fields: dict[str, Any]) -> Answer:
    named, layers = fields.pop("named"), fields.pop("layers")
    return Answer(**fields, named=tuple(named), layers=tuple(layers))


def keep(row: Row, rows: Path) -> None:
    """Write a row in place of the one of its name."""
    kept = {each.name: each for each in read_rows(rows)} | {row.name: row}
    rows.write_text("".join(f"{each.to_json()}\n" for _, each in sorted(kept.items())), encoding="utf-8")


def read_rows(rows: Path) -> list[Row]:
    """The rows that are kept."""
    if not rows.exists():
        return []
    return [Row.from_json(line) for line in rows.read_text(encoding="utf-8").splitlines()]


def markdown(rows: list[Row], corpus: Mapping[str, Regression]) -> str:
    """The page."""
    lines = [
        "# Natural regressions, found",
        "",
        "Runs and minutes of the product are all there were: of both ends, of the search, to confirm. git believes its",
        "ends and confirms nothing; it is given the same check. `untestable`: runs that were skips.",
        "",
        "| regression | repository | sought | commits | layers | product | runs | untestable | builds | minutes "
        "| git bisect run | runs | untestable | minutes |",
        "|" + " --- |" * 14,
        *(_line(row, corpus[row.name]) for row in rows),
        "",
        *(f"- `{row.name}`: {corpus[row.name].case}. {corpus[row.name].known}" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row, regression: Regression) -> str:
    product, git = row.product, row.git
    cells = [
        f"`{row.name}`",
        regression.repository.split("/")[1],
        regression.seeks,
        product.commits,
        ", ".join(product.layers),
        product.verdict(regression.culprit),
        product.runs,
        product.untestable,
        "" if product.builds is None else product.builds,
        f"{product.minutes:.1f}",
        *(
            ("", "", "", "")
            if git is None
            else (git.verdict(regression.culprit), git.runs, git.untestable, f"{git.minutes:.1f}")
        ),
    ]
    return f"| {' | '.join(map(str, cells))} |"

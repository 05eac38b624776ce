"""python -m benchmarks.meaning.planted [--write NAME]: what `explain` says of faults planted in pypto.

`planted/truth.json` has a row for each fault and each harmless change: the pass, the case that meets it, and for
memory the tiles that `explain` must name. It was written before any run, from pypto's sources and without a look at
`meaning`. One build of pypto holds all of them, each behind a number of its environment. `planted/builds.tar.xz` holds
the dumps and tensors that `planted/planted_kernels.py` left with it. A fault after which no dump says anything else
than without it is not asked. --write writes the answers to `results/NAME.md`.

    python -m benchmarks.meaning.planted --record FOLDER

packs a folder of `planted/planted_kernels.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from precision_bisect.meaning.ladder import LadderVerdict, list_dumps

from .natural import Answer, answer, pack

HERE = Path(__file__).parent
RECORDED = HERE / "planted"
BUILDS = RECORDED / "builds.tar.xz"
BLAMED = (LadderVerdict.PASS_CHANGED_VALUES, LadderVerdict.MEMORY_FAULT)


@dataclass(frozen=True)
class Row:
    """A fault or a harmless change, and what came of it. `changed` is the first pass whose dump differs."""

    truth: dict[str, Any]
    changed: str | None
    answer: Answer | None

    @property
    def is_asked(self) -> bool:
        """The IR says something else than without the change."""
        return self.changed is not None

    @property
    def verdict(self) -> str:
        if not self.is_asked:
            return "not asked"
        if self.answer is None:
            return "not recorded"
        if "harmless" in self.truth:
            return "wrong: blamed" if self.answer.verdict in BLAMED else "right"
        if self.answer.pass_name != self.truth["pass"]:
            return "wrong: pass"
        named = all(set(each.split("|")) & self.answer.names for each in self.truth["tiles"])
        return "right" if named else "wrong: tiles"


def first_change(without: Path, build: Path) -> str | None:
    """Return the first pass after which the dumps of two builds differ, or after which one has none."""
    if not build.is_dir() or not without.is_dir():
        return None
    mine, theirs = (
        {dump.order: dump for dump in list_dumps(each / "passes_dump")} for each in (build, without)
    )
    for order, dump in sorted((theirs | mine).items()):
        pair = [each.get(order) for each in (mine, theirs)]
        if None in pair or len({each.path.read_text() for each in pair if each}) > 1:
            return dump.pass_name
    return None


def judge_rows(folder: Path) -> list[Row]:
    rows: list[Row] = []
    for truth in json.loads((RECORDED / "truth.json").read_text()):
        build = folder / f"{truth['number']}.{truth['case']}"
        changed = first_change(folder / f"0.{truth['case']}", build)
        rows.append(Row(truth, changed, answer(build) if changed else None))
        said = rows[-1].answer.describe() if rows[-1].answer else ""
        print(
            truth["number"],
            truth["case"],
            truth["pass"],
            changed,
            "|",
            rows[-1].verdict,
            "|",
            said,
            flush=True,
        )
    return rows


def table(rows: list[Row]) -> str:
    asked = [row for row in rows if row.is_asked]
    faults = [row for row in asked if "fault" in row.truth]
    harmless = [row for row in asked if "harmless" in row.truth]
    right, blamed = (
        sum(row.verdict == "right" for row in faults),
        sum(row.verdict != "right" for row in harmless),
    )
    lines = [
        f"- {len(faults)} faults in {len({row.truth['pass'] for row in faults})} passes, {right} named right "
        f"({right / len(faults):.1%}).",
        f"- {len(harmless)} harmless changes, {blamed} blamed.",
        f"- {len(rows) - len(asked)} rows are not asked: no dump differs from those without the change.",
        "",
        "| number | pass | change | case | answer | verdict |",
        "| ---: | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        truth = row.truth
        tiles = "".join(f", `{each}`".replace("|", "` or `") for each in truth.get("tiles", ()))
        said = row.answer.describe() if row.answer else ""
        lines.append(
            f"| {truth['number']} | {truth['pass']}{tiles} | {truth.get('fault') or 'harmless: ' + truth['harmless']} "
            f"| {truth['case']} | {said} | {row.verdict} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", metavar="NAME", help="write the table to results/NAME.md")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.record:
        pack(arguments.record, BUILDS)
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(BUILDS) as packed:
            packed.extractall(temporary, filter="data")
        rows = judge_rows(Path(temporary))
    made = table(rows)
    print(made.partition("\n\n")[0])
    if arguments.write:
        path = HERE / "results" / f"{arguments.write}.md"
        head = path.read_text().partition("## Answers")[0] if path.exists() else "# Planted faults\n\n"
        path.write_text(f"{head}## Answers\n\n{made}\n")
    sys.exit(any(row.verdict.startswith("wrong") for row in rows))


if __name__ == "__main__":
    main()

"""python -m benchmarks.meaning.wrong_explanations [--seed N]: are explanations refuted that show an innocent change?

20 times, the seed draws a case of the demo and two edits of a dump, as one pass would make them. The first, which is
innocent, stands before the guilty one in the same kernel or in the one after it, so that it is what is seen first:

- `rounding`: a value is multiplied by 1.00003, a third of what the case allows at most.
- `shift`: a constant is added to the maximum of each row of a softmax, where it cancels.
- `move`: a tile is moved to bytes that nothing uses. The guilty edit puts another one over a tile that is still needed.

The truth is the edit. Each edit alone is run, too: the dump must be right with the innocent one and wrong with the
guilty one, or the draw counts for nothing. A row is right where `explain` proves the guilty change, and nothing else.

    results/wrong_explanations.md    the rows and the shares
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from precision_bisect.meaning.intervention import PassIntervention
from precision_bisect.meaning.ir import Assign
from precision_bisect.meaning.ladder import PassCase, explain, first_difference, list_dumps, run_dumps

from .demo_faults import ATTENTION, CHAIN, NORM, PRODUCT, SOFTMAX, TOLERANCES, Tile, compile_case, tiles_of

RESULTS = Path(__file__).parent / "results"
COUNTS = {"rounding": 8, "shift": 6, "move": 6}
CASES = {
    "rounding": (CHAIN, SOFTMAX, NORM, PRODUCT, ATTENTION),
    "shift": (SOFTMAX, ATTENTION),
    "move": (CHAIN, SOFTMAX, NORM, ATTENTION),
}
_VALUE = re.compile(r"^( +)(\w+): (pl\.Tile\[.*pl\.FP32.*\]) = pl\.tile\.(\w+)\((.*)\)$")
_GUILTY = {
    "add": "sub",
    "sub": "add",
    "mul": "add",
    "exp": "abs",
    "row_sum": "row_max",
    "row_expand_div": "row_expand_mul",
    "row_expand_mul": "row_expand_add",
    "col_expand_add": "col_expand_sub",
    "col_expand_mul": "col_expand_add",
    "log": "abs",
    "sqrt": "abs",
}


@dataclass(frozen=True)
class Edit:
    """A line of a dump in other words, and the variable whose statement or place it is."""

    line: int
    text: str
    variable: str


@dataclass(frozen=True)
class Row:
    """A draw and what was said of it; `shown` is what is seen first without an intervention."""

    kind: str
    case: str
    innocent: str
    guilty: str
    shown: str
    proven: tuple[str, ...]
    refuted: tuple[str, ...]
    runs: int

    @property
    def is_right(self) -> bool:
        return self.guilty in self.proven and self.innocent not in self.proven

    @property
    def is_misleading(self) -> bool:
        """Whether the innocent change is what is seen first."""
        return self.shown.removesuffix("__tile") == self.innocent.removesuffix("__tile")


def build_case(case: str, folder: Path) -> tuple[Path, PassCase]:
    """The dumps and the data of a case, which is compiled where `folder` does not have it."""
    build = folder / case / "build"
    if not build.exists():
        problem = compile_case(None, case, folder / case)
        assert problem is None, problem
    saved = torch.load(build / "case.pt")
    rtol, atol = TOLERANCES[case]
    return build / "passes_dump", PassCase(
        inputs=saved["inputs"], expected=saved["expected"], rtol=rtol, atol=atol
    )


def value_edits(lines: list[str], kind: str) -> tuple[list[Edit], list[Edit]]:
    """The innocent and the guilty edits that a dump offers."""
    innocent: list[Edit] = []
    guilty: list[Edit] = []
    for number, line in enumerate(lines):
        match = _VALUE.match(line)
        if match is None or match[4] == "load":
            continue
        indent, name, type_, operation, operands = match.groups()
        head = f"{indent}{name}: {type_} = pl.tile."
        value = f"pl.tile.{operation}({operands})"
        if kind == "rounding":
            innocent.append(Edit(number, f"{head}muls({value}, 1.00003)", name))
        elif operation == "row_max":
            innocent.append(Edit(number, f"{head}adds({value}, 0.5)", name))
        if operation in _GUILTY:
            guilty.append(Edit(number, f"{head}{_GUILTY[operation]}({operands})", name))
    return innocent, guilty


def move_edits(lines: list[str]) -> Iterator[tuple[Edit, Edit]]:
    """Pairs of an innocent move and a guilty one, in one kernel."""
    starts = [number for number, line in enumerate(lines) if "@pl.function" in line]
    for start, end in pairwise([*starts, len(lines)]):
        tiles = [tile for tile in tiles_of("\n".join(lines[start:end])) if tile.memory == "Vec"]

        def moved(tile: Tile, offset: int, start: int = start) -> Edit:
            line = lines[start + tile.made]
            return Edit(
                start + tile.made, line.replace(f"const({tile.first},", f"const({offset},", 1), tile.name
            )

        free = max((tile.first + tile.size for tile in tiles), default=0)
        for tile in tiles:
            over = [
                other for other in tiles if other.made < tile.made < other.read and other.first != tile.first
            ]
            for other in over:
                for third in tiles:
                    if third.name not in (tile.name, other.name):
                        yield moved(third, free), moved(tile, other.first)


def draw_edits(lines: list[str], kind: str, rng: random.Random) -> tuple[Edit, Edit] | None:
    """An innocent edit and a guilty one; None where the dump offers none."""
    if kind == "move":
        pairs = list(move_edits(lines))
    else:
        innocents, guilties = value_edits(lines, kind)
        pairs = [
            (one, other) for one in innocents for other in guilties if one.line < other.line <= one.line + 16
        ]
    return rng.choice(pairs) if pairs else None


def write_dumps(folder: Path, lines: list[str], edits: tuple[Edit, ...]) -> Path:
    """The dump, and the same with the edits, as a pass between them would leave them."""
    folder.mkdir()
    changed = list(lines)
    for edit in edits:
        changed[edit.line] = edit.text
    # Addresses count from the beginning of a memory from this pass on.
    for name, content in (("05_after_AllocateMemoryAddr", lines), ("06_after_Rewrite", changed)):
        (folder / f"{name}.py").write_text("\n".join(content) + "\n")
    return folder


def is_right(folder: Path, case: PassCase) -> bool:
    return run_dumps(folder, case).first_bad is None


def row_of(
    kind: str, case: str, built: tuple[Path, PassCase], rng: random.Random, folder: Path
) -> Row | None:
    """One draw; None where its edits are not what they should be."""
    dumps, data = built
    pattern = "*_after_AllocateMemoryAddr.py" if kind == "move" else "*_after_ReuseMemory.py"
    (dump,) = dumps.glob(pattern)
    lines = dump.read_text().splitlines()
    edits = draw_edits(lines, kind, rng)
    if edits is None:
        return None
    innocent, guilty = edits
    if not is_right(write_dumps(folder / "innocent", lines, (innocent,)), data):
        return None
    if is_right(write_dumps(folder / "guilty", lines, (guilty,)), data):
        return None
    both = write_dumps(folder / "both", lines, edits)
    answer = explain(both, data)
    (found,) = (step.evidence for step in answer.steps if isinstance(step.evidence, PassIntervention))
    return Row(
        kind=kind,
        case=case,
        innocent=innocent.variable,
        guilty=guilty.variable,
        shown=first_shown(both, data),
        proven=tuple(name for change in found.cause for name in names_of(change.tiles, change.after)),
        refuted=tuple(name for change in found.refuted for name in names_of(change.tiles, change.after)),
        runs=found.runs,
    )


def names_of(tiles: tuple[str, ...], statements: tuple[object, ...]) -> list[str]:
    targets = [target.name for each in statements if isinstance(each, Assign) for target in each.targets]
    return [*tiles, *targets]


def first_shown(folder: Path, case: PassCase) -> str:
    """What is seen first of the two changes, before any is undone."""
    bad = run_dumps(folder, case).first_bad
    if bad is not None and bad.faults:
        return bad.faults[0].other or bad.faults[0].tile
    before, after = list_dumps(folder)
    difference = first_difference(before, after, case)
    return "" if difference is None else difference.variable


def rows_of(seed: int, counts: dict[str, int] | None = None) -> Iterator[Row]:
    rng = random.Random(f"wrong explanations/{seed}")
    with tempfile.TemporaryDirectory() as temporary:
        for kind, count in (COUNTS if counts is None else counts).items():
            found = 0
            for attempt in range(50 * count):
                folder = Path(temporary) / f"{kind}{attempt}"
                folder.mkdir()
                case = rng.choice(CASES[kind])
                row = row_of(kind, case, build_case(case, Path(temporary)), rng, folder)
                if row is not None:
                    found += 1
                    yield row
                if found == count:
                    break
            assert found == count, f"too few draws of {kind}"


def report(rows: list[Row], seed: int) -> str:
    right = [row for row in rows if row.is_right]
    misleading = [row for row in rows if row.is_misleading]
    refuted = [row for row in rows if row.innocent in row.refuted]
    lines = [
        "# Wrong explanations\n",
        f"Made by `python -m benchmarks.meaning.wrong_explanations --seed {seed}`.\n",
        "| | count |",
        "| --- | ---: |",
        f"| dumps with an innocent change and a guilty one | {len(rows)} |",
        f"| the innocent one is what is seen first | {len(misleading)} |",
        f"| the guilty one is proven, and the innocent one is not | {len(right)} |",
        f"| the innocent one was tried, and is listed as refuted | {len(refuted)} |",
        "",
        "| kind | case | innocent | guilty | seen first | proven | refuted | runs | right |",
        "| --- | --- | --- | --- | --- | --- | --- | ---: | --- |",
    ]
    lines += [
        f"| {row.kind} | {row.case} | {row.innocent} | {row.guilty} | {row.shown} | {', '.join(row.proven)} "
        f"| {', '.join(row.refuted)} | {row.runs} | {'yes' if row.is_right else 'no'} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Row] = []
    for row in rows_of(arguments.seed):
        rows.append(row)
        print(row.is_right, row, flush=True)
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / "wrong_explanations.md").write_text(report(rows, arguments.seed))


if __name__ == "__main__":
    main()

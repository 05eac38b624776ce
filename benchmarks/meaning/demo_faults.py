"""python -m benchmarks.meaning.demo_faults [--seed N]: how often a fault in a pass of the demo's compiler is explained.

60 faults are drawn by the seed over the compiler's passes, as many for each. A fault is an edit of a pass's source, and
a case that it makes wrong. The case is compiled once with it and not run; there is no good build. Beside them stand 20
harmless edits, which must be blamed in nothing, and faults that the IR cannot hold, which must leave it right.

The truth is written down here, of the sources alone: the pass, and the values that its first wrong rewrite makes. A
rewrite counts as right where the first statement that `explain` shows makes one of them. For a fault of the memory
planner the truth is found in the dump's text, without execution: the tiles that share bytes while both are needed. The
rewrite is right where `explain` names one of them.

    results/demo.json    one row an edit
    results/demo.md      the shares, and the rows that are wrong
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from precision_bisect.demo.history.edit import Change, Replace, TreeEdit, Write
from precision_bisect.demo.scenarios import SETTINGS, Scenario
from precision_bisect.demo.trees import load_tree
from precision_bisect.meaning.intervention import PassIntervention
from precision_bisect.meaning.ladder import FirstDifference, LadderVerdict, PassCase, explain

HERE = Path(__file__).parent
FAULTS, HARMLESS = 60, 20
TOLERANCES: Mapping[str, tuple[float, float]] = {
    "elementwise_chain": (1e-3, 1e-5),
    "softmax": (2e-3, 1e-6),
    "rms_norm": (1e-4, 1e-5),
    "matmul_splitk": (1e-3, 1e-3),
    "attention_decode": (1e-3, 2e-3),
    "quant_matmul": (1e-5, 1e-5),
}
"""rtol and atol, as the cases themselves have them."""

FILES: Mapping[str, str] = {
    "EliminateDeadCode": "minipto/passes/eliminate_dead_code.py",
    "LegalizeCasts": "minipto/passes/legalize_casts.py",
    "FuseElementwise": "minipto/passes/fuse_elementwise.py",
    "TileLoops": "minipto/passes/tile_loops.py",
    "PlaceScopes": "minipto/passes/place_scopes.py",
    "ReuseMemory": "minipto/passes/reuse_memory.py",
    "AllocateMemoryAddr": "minipto/passes/allocate_memory_addr.py",
}
PLANNER = "AllocateMemoryAddr"


@dataclass(frozen=True)
class Planted:
    """An edit of a pass; `first` are the values that its first wrong rewrite makes. No pass: the IR stays right.

    Without values it misplaces tiles, which are found in the dump.
    """

    name: str
    case: str
    edit: TreeEdit
    pass_name: str | None = None
    first: frozenset[str] = frozenset()


# A wrong rewrite of one kind of operation, wherever a pass takes one up

SITES: Mapping[str, tuple[str, str]] = {
    "EliminateDeadCode": ("kept.append(statement)", "kept.append(_rewrite(statement))"),
    "LegalizeCasts": (
        "for statement in body:\n            if not isinstance",
        "for statement in map(_rewrite, body):\n            if not isinstance",
    ),
    "FuseElementwise": ("group.append(statement)", "group.append(_rewrite(statement))"),
    "TileLoops": (
        "for statement in body:\n            if group",
        "for statement in map(_rewrite, body):\n            if group",
    ),
    "PlaceScopes": ("inner.append(_task(statement))", "inner.append(_task(_rewrite(statement)))"),
    "ReuseMemory": (
        "stage: Stage = task.stage.map_regions",
        "stage: Stage = _rewrite(task.stage).map_regions",
    ),
    "AllocateMemoryAddr": (
        "    stage = task.stage\n    placed",
        "    stage = _rewrite(task.stage)\n    placed",
    ),
}

REWRITE = """

def _rewrite(statement):
    from dataclasses import replace

    from ..ir import Op, Scalar, Stage

    def change(op):
        {change}
        return op

    if isinstance(statement, Stage):
        return replace(statement, ops=tuple(change(op) for op in statement.ops))
    return change(statement) if isinstance(statement, Op) else statement
"""


def other_kind(kind: str, wrong: str) -> str:
    return f'if op.kind == "{kind}":\n            return replace(op, kind="{wrong}")'


def swapped(kind: str) -> str:
    """The wider operand becomes the second; a pass that takes an operation up twice does not swap them back."""
    return (
        f'if op.kind == "{kind}" and not op.scalars and op.inputs[0].columns > op.inputs[1].columns:\n'
        "            return replace(op, inputs=op.inputs[::-1])"
    )


LARGER_CONSTANT = (
    "if len(op.inputs) == 2 and isinstance(op.inputs[1], Scalar) and not op.inputs[1].name:\n"
    "            return replace(op, inputs=(op.inputs[0], Scalar(value=op.inputs[1].value * 1.5)))"
)

CHAIN, SOFTMAX, NORM, PRODUCT, ATTENTION, QUANT = TOLERANCES
REWRITES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "sub as add": (other_kind("sub", "add"), {ATTENTION: "shifted"}),
    "add as sub": (other_kind("add", "sub"), {CHAIN: "total", PRODUCT: "y", ATTENTION: "logits"}),
    "mul as add": (
        other_kind("mul", "add"),
        {CHAIN: "scaled", NORM: "squares", ATTENTION: "scaled", QUANT: "scaled"},
    ),
    "div as mul": (other_kind("div", "mul"), {SOFTMAX: "share", NORM: "mean", QUANT: "scale"}),
    "exp as abs": (other_kind("exp", "abs"), {CHAIN: "grown", SOFTMAX: "weights", ATTENTION: "weights"}),
    "row_sum as row_max": (
        other_kind("row_sum", "row_max"),
        {SOFTMAX: "total", NORM: "energy", ATTENTION: "total"},
    ),
    "row_max as row_sum": (other_kind("row_max", "row_sum"), {QUANT: "peak"}),
    "sqrt as abs": (other_kind("sqrt", "abs"), {NORM: "rms"}),
    "log as abs": (other_kind("log", "abs"), {ATTENTION: "log_total"}),
    "abs as exp": (other_kind("abs", "exp"), {QUANT: "magnitude"}),
    "larger constant": (LARGER_CONSTANT, {CHAIN: "scaled", NORM: "mean", QUANT: "scale"}),
    "operands of sub swapped": (swapped("sub"), {SOFTMAX: "shifted", ATTENTION: "shifted"}),
    "operands of div swapped": (swapped("div"), {SOFTMAX: "share", QUANT: "steps"}),
}
"""What is changed, and in each case the first operation that it hits.

Softmax does not change with what is added to a row: its row_max is none of these, nor is its difference as a sum.
"""


def values_of(case: str, variable: str) -> frozenset[str]:
    """The sum of two bfloat16 matrices is computed wide by LegalizeCasts, and rounded: one operation, two values."""
    if not variable:
        return frozenset()
    return frozenset({variable, "total_fp32"} if (case, variable) == (CHAIN, "total") else {variable})


def rewrites(pass_name: str) -> Iterator[Planted]:
    path, (old, new) = FILES[pass_name], SITES[pass_name]
    text = load_tree("minipto")[path]
    for name, (change, hits) in REWRITES.items():
        planted = text.replace(old, new) + REWRITE.format(change=change)
        assert text.count(old) == 1, (pass_name, old)
        for case, variable in hits.items():
            yield Planted(
                name, case, TreeEdit(name, (Write(path, planted),)), pass_name, values_of(case, variable)
            )


# Faults of the passes' own logic

OWN: Mapping[str, tuple[tuple[str, str, str, Mapping[str, str]], ...]] = {
    "LegalizeCasts": (
        ("ties away from zero", "= RoundMode.RINT", "= RoundMode.ROUND", {CHAIN: "total"}),
        (
            "narrow accumulator",
            "DType.BF16: DType.FP32,",
            "DType.BF16: DType.BF16,",
            {PRODUCT: "product", ATTENTION: "scores"},
        ),
        ("integers in float16", "DType.INT8: DType.INT32,", "DType.INT8: DType.FP16,", {QUANT: "product"}),
        (
            "codes through float16",
            "return (DType.INT32, target)",
            "return (DType.FP16, DType.FP32, DType.INT32, target)",
            {QUANT: "codes"},
        ),
        (
            "every operand widened as the first",
            "        return self._widened[value]",
            "        return next(iter(self._widened.values()))",
            {CHAIN: "total"},
        ),
    ),
    "TileLoops": (
        (
            "tail not masked",
            "columns % LANES == 0 else",
            "columns % 8 == 0 else",
            {NORM: "energy", SOFTMAX: "peak"},
        ),
        (
            "first step added twice",
            "start=depth, stop",
            "start=0, stop",
            {PRODUCT: "product", ATTENTION: "out", QUANT: "product"},
        ),
        (
            "later steps not added",
            "accumulate=True)",
            "accumulate=False)",
            {PRODUCT: "product", ATTENTION: "out", QUANT: "product"},
        ),
        (
            "each step takes the first rows",
            "(depth, columns), (k0, n0)",
            "(depth, columns), (0, n0)",
            {PRODUCT: "product", ATTENTION: "out", QUANT: "product"},
        ),
        (
            "each tile is the first",
            "(Index.variable(self._row), 0)",
            "(Index(), 0)",
            {CHAIN: "a_fp32", SOFTMAX: "wide", NORM: "squares", PRODUCT: "left", QUANT: "magnitude"},
        ),
        (
            "a row is cut as a matrix is",
            "if region.rows == 1:",
            "if region.rows == 0:",
            {CHAIN: "shifted", NORM: "y", PRODUCT: "y", QUANT: "y"},
        ),
        (
            "column tiles put on each other",
            "op.output.view((rows, columns), (m0, n0))",
            "op.output.view((rows, columns), (m0, 0))",
            {ATTENTION: "scores", QUANT: "product"},
        ),
    ),
    "ReuseMemory": (
        (
            "handed on when written",
            "for user in self._users[tensor.name]",
            "for user in self._writers[tensor.name]",
            {ATTENTION: "peak"},
        ),
        (
            "always handed on",
            "        return all(\n            user in",
            "        return True or all(\n            user in",
            {ATTENTION: "peak"},
        ),
    ),
    "AllocateMemoryAddr": tuple(
        (name, old, new, dict.fromkeys(cases, ""))
        for name, old, new, cases in (  # the cases in which the edit misplaces a tile
            (
                "dead one operation early",
                "if other.last >= life.first",
                "if other.last > life.first",
                (CHAIN, SOFTMAX, NORM, ATTENTION, QUANT),
            ),
            (
                "stored tiles end at their last reader",
                "last=end if region in stage.writes else used[region]",
                "last=used[region]",
                (ATTENTION,),
            ),
            (
                "two bytes an element",
                "columns * life.region.tensor.dtype.size //",
                "columns * 2 //",
                (CHAIN, SOFTMAX, NORM, PRODUCT, ATTENTION, QUANT),
            ),
            (
                "lanes past the edge forgotten",
                "rows, columns = tile_shape(stage, life.region)",
                "rows, columns = life.region.shape",
                (SOFTMAX, NORM),
            ),
            (
                "replaced while it is still read",
                "if other.last == life.first and same_type:",
                "if other.last >= life.first and same_type:",
                (CHAIN, ATTENTION),
            ),
            (
                "replaced whatever the shape",
                "if other.last == life.first and same_type:",
                "if other.last == life.first:",
                (CHAIN, SOFTMAX, NORM, ATTENTION, QUANT),
            ),
            (
                "next to the start of the one before",
                "max(offset, place.offset + place.size)",
                "max(offset, place.offset)",
                (CHAIN, SOFTMAX, NORM, PRODUCT, ATTENTION, QUANT),
            ),
            (
                "gaps not measured",
                "if offset + size <= place.offset:",
                "if offset <= place.offset:",
                (CHAIN, SOFTMAX, NORM, PRODUCT, ATTENTION, QUANT),
            ),
        )
    ),
}


def own(pass_name: str) -> Iterator[Planted]:
    path = FILES[pass_name]
    for name, old, new, hits in OWN.get(pass_name, ()):
        changes: tuple[Change, ...] = (Replace(path, old, new),)
        for case, variable in hits.items():
            yield Planted(name, case, TreeEdit(name, changes), pass_name, values_of(case, variable))


# What must be blamed in nothing

EQUAL: tuple[tuple[str, str, str, str], ...] = (
    ("smaller row tiles", "TileLoops", "ROW_TILE = 32", "ROW_TILE = 16"),
    ("larger row tiles", "TileLoops", "ROW_TILE = 32", "ROW_TILE = 64"),
    ("more lanes", "TileLoops", "LANES = 64 ", "LANES = 128 "),
    ("shorter steps", "TileLoops", "MATMUL_DEPTH = 128", "MATMUL_DEPTH = 64"),
    ("narrower products", "TileLoops", "MATMUL_COLUMNS = 64", "MATMUL_COLUMNS = 32"),
    ("lower products", "TileLoops", "MATMUL_ROWS = 64", "MATMUL_ROWS = 16"),
    ("every tail masked", "TileLoops", "Tail.FULL if columns % LANES == 0 else Tail.MASKED", "Tail.MASKED"),
    ("fewer fused", "FuseElementwise", "MAX_FUSED_OPS = 4", "MAX_FUSED_OPS = 2"),
    ("more fused", "FuseElementwise", "MAX_FUSED_OPS = 4", "MAX_FUSED_OPS = 8"),
    ("more stored", "FuseElementwise", "uses[name] > used_inside[name]", "uses[name] >= used_inside[name]"),
    ("widened each time", "LegalizeCasts", "if value not in self._widened:", "if value is not None:"),
    (
        "arguments in another order",
        "PlaceScopes",
        "    return Task(\n",
        "    regions.reverse()\n    return Task(\n",
    ),
    ("nothing reused", "ReuseMemory", "if same_type and liveness", "if False and liveness"),
    ("wider alignment", PLANNER, "ALIGNMENT = 32", "ALIGNMENT = 512"),
    ("nothing replaced", PLANNER, "if other.last == life.first and same_type:", "if False and same_type:"),
    ("one memory for all", PLANNER, "if place.memory == memory", "if place.memory"),
    ("no bytes used twice", PLANNER, "if other.last >= life.first", "if other.last >= 0"),
    ("oldest buffer first", "ReuseMemory", "for tenant in reversed(tenants):", "for tenant in tenants:"),
)


def harmless() -> Iterator[Planted]:
    for name, pass_name, old, new in EQUAL:
        for case in TOLERANCES:
            yield Planted(name, case, TreeEdit(name, (Replace(FILES[pass_name], old, new),)))


def outside_the_ir() -> Iterator[Planted]:
    """Faults of the order of tasks, or of what follows the passes."""
    for scenario in (Scenario.DROPPED_DEP, Scenario.STALL, Scenario.CRASH):
        setting = SETTINGS[scenario]
        assert setting.fault is not None
        yield Planted(scenario, Path(setting.case).stem, setting.fault)


def draw(seed: int) -> list[Planted]:
    """Of each pass at most half rewrites, as far as it has faults of its own logic."""
    rng = random.Random(f"demo faults/{seed}")
    drawn: list[Planted] = []
    for index, pass_name in enumerate(FILES):
        wanted = FAULTS // len(FILES) + (index < FAULTS % len(FILES))
        mine = list(own(pass_name))
        mine = rng.sample(mine, min(len(mine), wanted // 2))
        drawn += [*mine, *rng.sample(list(rewrites(pass_name)), wanted - len(mine))]
    return [*drawn, *rng.sample(list(harmless()), HARMLESS), *outside_the_ir()]


# Tiles that share bytes, of the text alone

_TILE = re.compile(
    r"(?P<name>\w+): pl\.Tile\[\[(?P<shape>[\d, ]+)\], pl\.(?P<dtype>\w+), pl\.MemRef\(\w+, pl\.const\((?P<offset>\d+),"
    r" pl\.INT64\), (?P<size>\d+)\), pl\.Mem\.(?P<memory>\w+).*?\] = pl\.tile\.(?P<operation>\w+)\((?P<operands>.*)\)"
)
_WIDTHS = {"FP32": 4, "INT32": 4, "FP16": 2, "BFLOAT16": 2, "INT8": 1}
_LANE_BY_LANE = re.compile(r"(row_expand_|col_expand_)?(add|sub|mul|div)s?|exp|log|abs|sqrt|cast")


@dataclass
class Tile:
    """A tile as the text has it, with the lines of its kernel at which it is made and read last."""

    name: str
    shape: str
    width: int
    memory: str
    first: int
    end: int
    size: int
    operation: str
    made: int
    read: int

    def misplaces(self, other: Tile) -> bool:
        """Whether this tile is made in bytes of an earlier one that are still needed."""
        if self.name == other.name or self.memory != other.memory or other.made >= self.made:
            return False
        if self.first >= other.end or other.first >= self.end or other.read < self.made:
            return False
        in_place = self.shape == other.shape and self.first == other.first and self.width <= other.width
        return not (other.read == self.made and in_place and _LANE_BY_LANE.fullmatch(self.operation))


def tiles_of(kernel: str) -> list[Tile]:
    """The tiles of a kernel in the order of its text."""
    tiles: dict[str, Tile] = {}
    for number, line in enumerate(kernel.splitlines()):
        for tile in tiles.values():
            if re.search(rf"[(, ]{tile.name}\b(?!:)", line):
                tile.read = number
        match = _TILE.search(line)
        if match is not None:
            width, first = _WIDTHS[match["dtype"]], int(match["offset"])
            tiles[match["name"]] = Tile(
                name=match["name"],
                shape=match["shape"],
                width=width,
                memory=match["memory"],
                first=first,
                end=first + math.prod(map(int, match["shape"].split(","))) * width,
                size=int(match["size"]),
                operation=match["operation"],
                made=number,
                read=number,
            )
    return list(tiles.values())


def misplaced(text: str) -> frozenset[str]:
    """The tiles of a dump that share bytes while both are needed, or that are larger than their place.

    They are those of the first kernel that has any.
    """
    for kernel in text.split("@pl.function"):
        tiles = tiles_of(kernel)
        pairs = {(tile.name, other.name) for tile in tiles for other in tiles if tile.misplaces(other)}
        found = {name for pair in pairs for name in pair}
        found |= {tile.name for tile in tiles if tile.first + tile.size < tile.end}
        if found:
            return frozenset(found)
    return frozenset()


# One compile, and what is said of it


def compile_case(edit: TreeEdit | None, case: str, folder: Path) -> str | None:
    """Compile a case with an edit of the compiler into `folder`/build; its last line where that fails."""
    trees = folder / "trees"
    for name in ("minipto", "minilib", "minirt"):
        tree = load_tree(name)
        for path, text in (edit.apply(tree) if edit is not None and name == "minipto" else tree).items():
            (trees / name / path).parent.mkdir(parents=True, exist_ok=True)
            (trees / name / path).write_text(text)
    compiled = subprocess.run(
        [sys.executable, HERE / "compile_demo.py", trees, case, folder / "build"],
        capture_output=True,
        text=True,
        check=False,
    )
    return compiled.stderr.splitlines()[-1] if compiled.returncode else None


def explained(planted: Planted, folder: Path) -> dict[str, Any]:
    build = folder / "build"
    row: dict[str, Any] = {
        "edit": planted.name,
        "case": planted.case,
        "pass": planted.pass_name,
        "first": sorted(planted.first),
    }
    problem = compile_case(planted.edit, planted.case, folder)
    if problem is not None:
        return row | {"found": None, "verdict": "does not compile", "variable": problem, "proven": False}
    saved = torch.load(build / "case.pt")
    rtol, atol = TOLERANCES[planted.case]
    case = PassCase(inputs=saved["inputs"], expected=saved["expected"], rtol=rtol, atol=atol)
    answer = explain(build / "passes_dump", case)
    steps = [step.evidence for step in answer.steps if isinstance(step.evidence, FirstDifference)]
    tried = [step.evidence for step in answer.steps if isinstance(step.evidence, PassIntervention)]
    bad = answer.first_bad
    shown = steps[0].variable if steps else None
    if planted.pass_name == PLANNER and not planted.first:
        (dump,) = (build / "passes_dump").glob(f"*_{PLANNER}.py")
        row["first"] = sorted(misplaced(dump.read_text()))
        assert row["first"], "the edit is no fault in this case"
        shown = bad.faults[0].other or bad.faults[0].tile if bad is not None and bad.faults else None
    return row | {
        "found": None if bad is None else bad.dump.pass_name,
        "verdict": answer.verdict.name.lower(),
        "variable": shown,
        "proven": any(each.cause for each in tried),
        "seconds": round(sum(step.seconds for step in answer.steps), 1),
        "not_executed": answer.not_executed,
    }


def is_pass_right(row: Mapping[str, Any]) -> bool:
    if row["pass"] is None:
        return row["verdict"] == LadderVerdict.RIGHT_IR.name.lower() and not row["not_executed"]
    return row["found"] == row["pass"]


def report(rows: list[dict[str, Any]], seed: int) -> str:
    faults = [row for row in rows if row["pass"] is not None]
    clean = [row for row in rows if row["pass"] is None]
    right = [row for row in faults if is_pass_right(row)]
    shown = [row for row in right if row["variable"] in row["first"]]
    proven = [row for row in right if row["proven"]]
    blamed = [row for row in clean if not is_pass_right(row)]
    lines = [
        "# Faults of the demo's compiler\n",
        f"Made by `python -m benchmarks.meaning.demo_faults --seed {seed}`.\n",
        "| | count | share |",
        "| --- | ---: | ---: |",
        f"| faults, one compile each | {len(faults)} | |",
        f"| pass right | {len(right)} | {len(right) / len(faults):.1%} |",
        f"| pass and rewrite right | {len(shown)} | {len(shown) / len(faults):.1%} |",
        f"| proven by an intervention | {len(proven)} | {len(proven) / len(faults):.1%} |",
        f"| harmless edits, and faults that the IR cannot hold | {len(clean)} | |",
        f"| of these blamed on a pass, or not decided | {len(blamed)} | |",
        "",
        "What is not as it should be:\n",
        "| edit | case | pass | found | first | shown |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if row in blamed or (row in faults and row not in shown):
            first = ", ".join(row["first"])
            lines.append(
                f"| {row['edit']} | {row['case']} | {row['pass']} | {row['found'] or row['verdict']} | {first} "
                f"| {row['variable']} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HERE / "results", metavar="DIR")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for planted in draw(arguments.seed):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(explained(planted, Path(folder)))
        print(is_pass_right(rows[-1]), rows[-1], flush=True)
    arguments.results.mkdir(exist_ok=True)
    (arguments.results / "demo.json").write_text(json.dumps(rows, indent=1) + "\n")
    (arguments.results / "demo.md").write_text(report(rows, arguments.seed))


if __name__ == "__main__":
    main()

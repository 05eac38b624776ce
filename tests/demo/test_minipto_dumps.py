"""The demo compiler's dumps are read and run by `meaning`, and a fault planted in a pass is explained of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.meaning.demo_faults import FILES, draw, harmless, misplaced, outside_the_ir, own, rewrites
from benchmarks.meaning.wrong_explanations import rows_of
from precision_bisect.demo.scenarios import SETTINGS, DemoRepository, Scenario
from precision_bisect.demo.trees import load_tree
from precision_bisect.meaning.ladder import PassCase, State, exact_outputs, read_frontend, run_dumps
from tests.demo.minipto_support import CASES, load, trees
from tests.demo.minirt_support import built_tree
from tests.demo.test_minipto_programs import random_program
from tests.support.quick import quick_first

PROGRAM = Path(sys.executable).parent / "bisect-precision"


def states(dumps: Path, case: PassCase) -> list[State]:
    return [rung.state for rung in run_dumps(dumps, case).rungs]


@pytest.mark.parametrize("case", quick_first(CASES))
def test_every_dump_of_a_case_is_executed_and_right(case: str, tmp_path: Path) -> None:
    minipto, runner, data = load("minipto"), load("golden.runner"), load("golden.data")
    module = load(case)
    torch.manual_seed(0)
    specs = module.specs()
    program = getattr(module, case).trace([runner._parameter(spec) for spec in specs])
    minipto.compile(program, work_dir=tmp_path, dump_passes=True)
    values = {spec.name: spec.create() for spec in specs}
    outputs = data.output_names(specs)
    expected = {name: value.item() if value.dim() == 0 else value.clone() for name, value in values.items()}
    module.expected(expected)
    found = PassCase(inputs=values, expected={name: expected[name] for name in outputs}, rtol=2e-3, atol=2e-3)
    assert set(states(tmp_path / "passes_dump", found)) == {State.RIGHT}


@pytest.mark.parametrize("seed", quick_first(range(8), 2))
def test_every_dump_of_a_random_program_means_the_same(seed: int, tmp_path: Path) -> None:
    minipto = load("minipto")
    program, inputs = random_program(minipto, seed)
    minipto.compile(program, work_dir=tmp_path, dump_passes=True)
    inputs = {**inputs, "y": torch.zeros_like(inputs["x"]), "z": torch.zeros_like(inputs["x"])}
    dumps = tmp_path / "passes_dump"
    expected = exact_outputs(read_frontend(dumps), inputs)
    assert "z" in expected  # y is all zeros where its factor is a difference of equal values
    # A value at a bfloat16 boundary may round either way.
    found = PassCase(inputs=inputs, expected=expected, rtol=2e-2, atol=2e-2)
    assert set(states(dumps, found)) == {State.RIGHT}


def test_a_planted_fault_is_explained_of_one_build(tmp_path: Path) -> None:
    setting = SETTINGS[Scenario.ROUNDING]
    assert setting.fault is not None
    for path, text in setting.fault.apply(load_tree(DemoRepository.COMPILER)).items():
        file = tmp_path / "minipto" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    folders = (tmp_path / "minipto", trees() / "minilib", built_tree())
    failed = subprocess.run(
        [sys.executable, trees() / "minilib" / setting.case, "--dump-passes", "--save-data"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "'y' FAIL" in failed.stdout, failed.stderr
    (build,) = (tmp_path / "build_output").iterdir()
    explained = subprocess.run(
        [PROGRAM, "explain", build, "--rtol", "1e-3", "--atol", "1e-5", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(explained.stdout)
    assert (report["last_good"], report["first_bad"]) == ("01 EliminateDeadCode", "02 LegalizeCasts")
    changed = report["changed"]
    assert changed["variable"] == "total"
    assert "pl.tensor.add(a, b)" in changed["before"]["statement"]
    assert changed["after"]["statement"].endswith("target_type=pl.BFLOAT16, mode='round')")


def test_the_benchmark_s_faults_fit_the_compiler_and_are_drawn_alike() -> None:
    tree = load_tree(DemoRepository.COMPILER)
    faults = [fault for name in FILES for fault in (*own(name), *rewrites(name))]
    for planted in (*faults, *harmless(), *outside_the_ir()):
        changed = planted.edit.apply(tree)
        assert changed != tree, planted.name
        for path in planted.edit.paths:
            compile(changed[path], path, "exec")
    drawn = draw(1)
    assert drawn == draw(1)
    assert sum(planted.pass_name is not None for planted in drawn) == 60


def test_tiles_that_share_bytes_are_found_in_the_text() -> None:
    place = "pl.MemRef(mem_vec_0, pl.const({}, pl.INT64), 256), pl.Mem.Vec"
    kernel = "\n".join(
        [
            f"x: pl.Tile[[8, 8], pl.FP32, {place}] = pl.tile.load(a, [0, 0])",
            f"e: pl.Tile[[8, 8], pl.FP32, {place}] = pl.tile.exp(x)",
            f"s: pl.Tile[[8, 8], pl.FP32, {place}] = pl.tile.add(e, x)",
        ]
    )
    assert misplaced(kernel.format(0, 256, 0)) == frozenset()
    assert misplaced(kernel.format(0, 0, 256)) == {"x", "e"}
    assert misplaced(kernel.format(0, 256, 128)) == {"x", "e", "s"}
    assert misplaced(kernel.replace("], pl.FP32", "00], pl.FP32").format(0, 8192, 0)) == {"x", "e", "s"}


def test_an_innocent_change_that_is_seen_first_is_refuted() -> None:
    (row,) = rows_of(1, {"shift": 1})
    assert row.is_misleading
    assert row.is_right
    assert row.innocent in row.refuted


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rounding", "move"])
def test_an_innocent_change_beside_the_cause_is_not_proven(kind: str) -> None:
    assert all(row.is_right for row in rows_of(1, {kind: 2}))

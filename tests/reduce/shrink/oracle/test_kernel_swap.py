"""A harmless difference is never what a reduction ends at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from precision_bisect.reduce.cli import main
from tests.demo.minirt_support import SCALE
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.reduce.small_builds import SHIFT, WRONG, small_build

ROUNDING = SCALE.replace("2.0f", "2.0000002f")


@pytest.mark.long
def test_a_rounding_difference_before_the_fault_is_passed_over(tmp_path: Path, good_trees: Trees) -> None:
    bad, good = small_build(tmp_path / "bad", WRONG), small_build(tmp_path / "good", SHIFT)
    (scale,) = (bad / "kernels").rglob("scale.cpp")
    text = scale.read_text()
    assert SCALE in text
    scale.write_text(text.replace(SCALE, ROUNDING))
    output = tmp_path / "out"
    arguments = [str(bad), "--reference", str(good), "--stack", str(good_trees.stack_file), "-o", str(output)]
    with quick_runs():
        done = CliRunner().invoke(main, [*arguments, "--jobs", "1", "--quiet"])
    assert done.exit_code == 0, done.output
    found = json.loads((output / "reduction.json").read_text())
    assert found["kept_tasks"] == ["1: middle"]
    assert found["kernels"]["after"] == 1

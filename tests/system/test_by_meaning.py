"""A range is bisected by the dumped IR of its commits alone: nothing is assembled, and there is no runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from precision_bisect.demo.scenarios import Scenario
from tests.support.program import run_program
from tests.system.conftest import DemoStack

ROOT = Path(__file__).parents[2]

CHECK = """\
#!/bin/sh
rm -rf build_output
PYTHONPATH=$PWD:{stack}/minirt:{stack}/minilib {python} {stack}/minilib/{case} --dump-passes > log 2>&1
{program} explain build_output/* --check --inputs {data}/in --expected {data}/out --rtol 1e-3 --atol 1e-5
"""


def freeze(stack: DemoStack, folder: Path) -> Path:
    """The tensors of the case, as one file each."""
    case = Path(stack.truth.case).stem
    script = ROOT / "benchmarks" / "meaning" / "compile_demo.py"
    subprocess.run([sys.executable, script, stack.directory, case, folder / "build"], check=True)
    saved = torch.load(folder / "build" / "case.pt")
    for part, name in (("in", "inputs"), ("out", "expected")):
        (folder / part).mkdir()
        for tensor, value in saved[name].items():
            torch.save(value, folder / part / f"{tensor}.pt")
    return folder


@pytest.mark.long
def test_the_planted_commit_is_named_without_a_runtime(
    make: Callable[..., DemoStack], tmp_path: Path
) -> None:
    stack = make(Scenario.ROUNDING)
    data = tmp_path / "data"
    data.mkdir()
    check = tmp_path / "check.sh"
    check.write_text(
        CHECK.format(
            stack=stack.directory,
            python=sys.executable,
            case=stack.truth.case,
            program=Path(sys.executable).parent / "bisect-precision",
            data=freeze(stack, data),
        )
    )
    check.chmod(0o755)
    ends = ("--good", stack.truth.good, "--bad", stack.truth.bad, "-o", str(stack.output))
    done = run_program(
        *ends,
        "--",
        str(check),
        cwd=stack.directory / "minipto",
        environment={**stack.environment, "CXX": "false"},
    )
    assert done.returncode == 0, done.stderr
    (named,) = stack.report()["culprits"]
    assert named["commit"] == stack.truth.culprits[0].commit
    assert not list(stack.directory.rglob("*.so"))

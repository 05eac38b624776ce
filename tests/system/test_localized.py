"""The last step of a bisection: the first wrong tensor is in the report, and whatever comes of it the answer stands."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.demo.scenarios import Scenario
from tests.system.conftest import DemoStack

pytestmark = pytest.mark.long


def localizing(stack: DemoStack) -> list[str]:
    return [word for word in stack.arguments if word != "--no-localize"]


def test_the_first_wrong_tensor_is_in_every_report_and_its_line_reduces(
    make: Callable[..., DemoStack], tmp_path: Path
) -> None:
    """The culprit is in the runtime, a submodule."""
    stack = make(Scenario.RUNTIME_BUMP)
    before = stack.snapshot()
    done = stack.run(*localizing(stack))
    assert done.code == 0, done.err
    assert stack.snapshot() == before
    found = stack.report()["localization"]
    assert found["status"] == "found", found["message"]
    first = found["divergence"]["first_divergent"][0]
    assert (first["kernel"], first["tensor"], first["task_class"]) == ("total", "total", "introduced")
    assert found["divergence"]["generated"]["origin"] == "runtime"
    assert (stack.output / "divergence.json").is_file()
    assert 'href="report.md"' in (stack.output / "task_graph.html").read_text()
    for text in (done.out, (stack.output / "report.md").read_text()):
        assert re.search(r"total of task \d+ total", text)
        assert "introduced" in text
    check_reduction(stack, tmp_path)


def test_a_fault_of_the_compiler_is_followed_to_its_pass(make: Callable[..., DemoStack]) -> None:
    stack = make(Scenario.ROUNDING)
    done = stack.run(*localizing(stack))
    assert done.code == 0, done.err
    found = stack.report()["localization"]
    assert found["status"] == "found", found["message"]
    assert found["divergence"]["generated"]["first_pass"]["name"] == "LegalizeCasts"
    for text in (done.out, (stack.output / "report.md").read_text()):
        assert "LegalizeCasts" in text
    explained = stack.report()["explanation"]
    assert explained == json.loads((stack.output / "explanation.json").read_text())
    assert (explained["verdict"], explained["first_bad"]) == ("pass_changed_values", "02 LegalizeCasts")
    assert (explained["rtol"], explained["outputs"]) == (1e-3, ["y"])
    assert explained["proof"]["cause"]


def check_reduction(stack: DemoStack, tmp_path: Path) -> None:
    """The line that the report prints reduces the failing build, and needs nothing else."""
    line = stack.report()["reduce"]
    assert line in (stack.output / "report.md").read_text()
    home, program, *words = shlex.split(line)
    name, _, folder = home.partition("=")
    assert (name, program) == ("PRECISION_BISECT_HOME", "reduce")
    code = "from precision_bisect.reduce.reduce_cli import main; main()"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=elsewhere,
        env={key: value for key, value in stack.environment.items() if key != name} | {name: folder},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "tasks 12 -> 1, left: task 0 (total)" in done.stdout
    assert (stack.output / "reduced" / "result" / "check.sh").is_file()
    assert not (stack.output / "reduced" / "work").exists()

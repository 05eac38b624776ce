"""Planted faults of the demo stack, reduced: how small, still failing for the same reason, and resumed after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from precision_bisect.demo.scenarios import Scenario
from precision_bisect.reduce.reduce_command import _print_reduction
from precision_bisect.reduce.shrink.reproducer import (
    ReductionResult,
    _source_differences,
    schema_text,
)
from precision_bisect.store.durable_files import read_document
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.small_builds import SHIFT, WRONG, small_build

SCHEMA = Path(__file__).parents[3] / "docs" / "reduction.schema.json"
pytestmark = pytest.mark.xdist_group("reduction")


def command(twins: Twins, output: Path, *options: str) -> list[str]:
    return [
        *(
            sys.executable,
            "-c",
            "from precision_bisect.reduce.reduce_cli import main; main()",
            str(twins.bad),
        ),
        *("--reference", str(twins.good), "--golden-data", str(twins.good / "data"), "-o", str(output)),
        *("--stack", str(twins.bad_trees.stack_file), "--reference-stack", str(twins.good_trees.stack_file)),
        *("--rtol", "1e-5", "--atol", "1e-5", *options),
    ]


def runs(output: Path) -> list[tuple[str, int]]:
    file = output / "tests.jsonl"
    entries = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(entry["candidate"], entry["run"]) for entry in entries]


def checked(output: Path) -> dict[str, object]:
    """The written result, after its own check has run both builds anew."""
    found = json.loads((output / "reduction.json").read_text())
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    check = subprocess.run([output / "result" / "check.sh"], capture_output=True, text=True)
    assert (check.returncode, check.stdout) == (0, "reproduced in run 1 of up to 4\n")
    return found


def test_the_published_schema_is_current() -> None:
    assert SCHEMA.read_text() == schema_text(), (
        "run: python -m precision_bisect.reduce.shrink.reproducer > docs/reduction.schema.json"
    )


def test_a_result_of_an_earlier_version_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    size = {"before": 2, "after": 1}
    old = {
        "schema_version": 1, "failing_build": "bad", "reference": None, "stopped": "done", "failure": "mismatch",
        "signature": "mismatch y", "extents": [], "blocks": [], "plain_inputs": [], "statements_dropped": 0,
        "rewritten_kernels": ["middle"], "kept_tasks": ["1: middle"], "kernels_of_failing_build": ["middle"],
        "tasks": size, "kernels": size, "bytes": size, "baseline": {"runs": 2, "failures": 2}, "oracle_calls": 1,
        "cached": 0, "invalid": 0, "slipped": 0, "substituted": [], "preloaded": [],
        "verified": {"runs": 4, "failures": 4, "passes": None},
    }  # fmt: skip
    found = read_document(ReductionResult, old)
    assert found.kept_tasks == ("1: middle",)
    _print_reduction(found, Path("out"), SimpleNamespace(as_json=False, verbose=False))  # pyright: ignore[reportArgumentType]
    assert capsys.readouterr().out.startswith("tasks 2 -> 1, left: task 1 (middle)\nkernels 2 -> 1, ")


def test_why_it_fails_has_the_lines_in_which_the_sources_differ(tmp_path: Path) -> None:
    bad, good = (small_build(tmp_path / name, body) for name, body in (("bad", WRONG), ("good", SHIFT)))
    path = next((bad / "kernels").rglob("middle.cpp")).relative_to(bad)
    told = [*_source_differences(bad, good)]
    first = told.index(f"--- passing/{path}")
    assert told[:first] == ["The sources differ so (`-` passes, `+` fails):", "", "```diff"]
    removed, added = (line for line in told if line[:1] in ("-", "+") and ";" in line)
    assert (removed[0], SHIFT in removed, added[0], WRONG in added) == ("-", True, "+", True)
    assert told[-2:] == ["```", ""]
    assert [*_source_differences(bad, bad)] == [
        "The sources of both builds are the same: they differ in how they are run.",
        "",
    ]
    assert [*_source_differences(bad, tmp_path / "none")] == []


@pytest.mark.long
def test_a_rounding_mode_killed_and_resumed(tmp_path: Path, good_trees: Trees) -> None:
    twins = Twins.make(tmp_path / "twins", Scenario.ROUNDING, good_trees)
    output = tmp_path / "out"
    process = subprocess.Popen(
        command(twins, output), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert any("running no task at all" in line for line in process.stderr), "it ended before its second run"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = runs(output)
    assert before
    subprocess.run(command(twins, output, "--resume"), check=True, stdout=subprocess.DEVNULL)
    after = runs(output)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after)
    found = checked(output)
    assert found["tasks"] == {"before": 12, "after": 1}
    assert found["kernels"] == {"before": 3, "after": 1}
    assert found["kernels_of_failing_build"] == ["total"]

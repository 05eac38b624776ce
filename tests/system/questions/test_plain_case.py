"""Stacks of one repository: the plain one of the page on stack files, searched by `--case` and run
by a night; one whose cases call the harness, and fail only after another; and one whose cases are scene tests."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from tests.conftest import TestRepository
from tests.runner.case.fake_golden import write_golden
from tests.support.program import run_program
from tests.support.scene_runtime import STACK, scene_files

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "stack-file.md"
AROUND = """
name = "plain"
searched = "tool"
[repositories.tool]
path = "tool"
[platforms.host]
"""

UNDER_THE_SHIM = """
[case]
repository = "tool"
command = ["{python}", "{case}"]
cwd = "{tool}"
[environment.variables]
PYTHONPATH = "LIB"
[[verdicts]]
verdict = "mismatch"
pattern = '^differs'
"""
CASE = """
import cache, golden
golden.PLAN.append({"passed": not cache.KEPT, "error": "differs: y" if cache.KEPT else None})
golden.run(None, [], golden_fn=print)
"""


@pytest.mark.long
def test_a_script_that_prints_its_verdict(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(name = \"plain\"\n.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "stack.toml").write_text(example)
    (tmp_path / "night.toml").write_text(
        'job = "plain"\nstack = "stack.toml"\ncases = ["case.sh"]\noutput = "night"\n[platforms.host]\n'
    )
    repository = TestRepository(tmp_path / "tool")
    script = "grep -q fine state && echo PASSED || { echo FAILED; exit 1; }\n"
    states = ("fine", "fine", "fine", "broken", "broken")
    commits = [
        repository.commit(f"commit {place}", {"case.sh": script, "state": state, "place": str(place)})
        for place, state in enumerate(states)
    ]

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
        return run_program(*words, cwd=tmp_path, environment=environment)

    done = run("--stack", "stack.toml", "--case", "case.sh", "--good", commits[0], "--bad", "main")
    assert done.returncode == 0, done.stderr
    assert commits[3] in done.stdout
    night = run("nightly", "night.toml")
    assert night.returncode == 8, night.stdout + night.stderr
    assert "case.sh on host" in night.stderr


@pytest.mark.long
def test_a_failure_that_shows_only_after_another_case(tmp_path: Path) -> None:
    write_golden(tmp_path / "lib", "newest")
    (tmp_path / "stack.toml").write_text(AROUND + UNDER_THE_SHIM.replace("LIB", str(tmp_path / "lib")))
    for name in ("in/x.pt", "out/y.pt"):
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        torch.save(torch.ones(1), tmp_path / "data" / name)
    repository = TestRepository(tmp_path / "tool")
    leave = "import cache\ncache.KEPT.append(1)\ncache.clear()\n"
    commits = [
        repository.commit(
            f"commit {place}",
            {
                "case.py": CASE,
                "other.py": leave,
                "cache.py": f"KEPT = []\ndef clear():\n    {body}\n",
                "n": str(place),
            },
        )
        for place, body in enumerate(["KEPT.clear()"] * 3 + ["pass"] * 2)
    ]

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
        ends = ("--good", commits[0], "--bad", "main", "--golden-data", "data", "--no-localize")
        return run_program(
            "--stack", "stack.toml", "--case", "case.py", *ends, *words, cwd=tmp_path, environment=environment
        )

    alone = run()
    assert alone.returncode == 4, alone.stderr
    assert "expected a commit where the case fails" in alone.stderr
    done = run("--after", "other.py", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert commits[3] in done.stdout
    report = (tmp_path / "out" / "report.md").read_text()
    said = "every run of the case comes after other.py in one process"
    assert said in done.stderr
    assert said in report
    assert "--after other.py" in report
    scripts = [file.read_text() for file in (tmp_path / "out").glob("reproduce-*.sh")]
    assert ["/other.py" in script for script in scripts] == [True, True]


@pytest.mark.long
def test_a_culprit_of_a_scene_test_has_its_divergence(tmp_path: Path) -> None:
    (tmp_path / "stack.toml").write_text(STACK)
    repository = TestRepository(tmp_path / "runtime")
    commits = [
        repository.commit(f"commit {place}", {**scene_files(factor), "place": str(place)})
        for place, factor in enumerate([2.0, 2.5])
    ]
    done = run_program(
        *("--stack", "stack.toml", "--case", "tests/test_scale.py", "--good", commits[0], "--bad", "main"),
        *("-o", "report"),
        cwd=tmp_path,
        environment={**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["culprits"][0]["commit"] == commits[1]
    localized = report["localization"]
    assert localized["status"] == "found", localized
    assert localized["message"].endswith("on data drawn from one seed")
    (first,) = localized["divergence"]["first_divergent"]
    assert (first["task_id"], first["argument"], first["task_class"]) == (
        "0x0000000000000001",
        1,
        "introduced",
    )
    assert first["reason"] == "all that it was given is the same in both runs"
    assert first["statistics"]["elements"] == 64
    assert localized["divergence"]["tasks"] == 2
    assert "argument 1 of task unnamed (0x0000000000000001)" in done.stdout

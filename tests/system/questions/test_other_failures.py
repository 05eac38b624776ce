"""Two faults in one range: the one with an error of another size does not count as bad."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

STACK = """
name = "sized"
searched = "tool"
[repositories.tool]
path = "tool"
[case]
repository = "tool"
command = ["sh", "-c", "e=$(cat {tool}/error.txt); [ $e = 0 ] && echo RIGHT || { echo WRONG y $e; exit 1; }"]
cwd = "{tool}"
harness = false
[platforms.sim]
[[verdicts]]
verdict = "mismatch"
pattern = '^WRONG (?P<output>\\w+) (?P<max_diff>\\S+)'
[[verdicts]]
verdict = "pass"
pattern = '^RIGHT$'
"""


def bisect(
    folder: Path, errors: list[str]
) -> tuple[list[str], "subprocess.CompletedProcess[str]", dict[str, Any]]:
    """A line of commits with errors of these sizes; 0 passes."""
    (folder / "stack.toml").write_text(STACK)
    tool = TestRepository(folder / "tool")
    commits = [
        tool.commit(f"commit {n}", {"error.txt": error, "n": str(n)}) for n, error in enumerate(errors)
    ]
    done = run_program(
        *("--stack", "stack.toml", "--good", commits[0], "--bad", "HEAD", "--case", "n", "-o", "out"),
        cwd=folder,
        environment={**os.environ, "PRECISION_BISECT_HOME": str(folder / "home")},
    )
    return commits, done, json.loads((folder / "out" / "report.json").read_text())


@pytest.mark.long
@pytest.mark.parametrize("other", ["2e3", "nan"])
def test_a_second_fault_in_the_middle(tmp_path: Path, other: str) -> None:
    """Halving meets the other fault first: taken for bad, it would be named, or its end called a fix."""
    errors = ["0"] * 5 + [other] * 6 + ["0"] * 2 + ["0.02", "0.05", "0.011", "0.02"]
    commits, done, report = bisect(tmp_path, errors)
    assert done.returncode == 0, done.stderr
    (named,) = report["culprits"]
    assert named["commit"] == commits[13]
    assert report["earlier_failures"] == []
    skipped = {each["commit"]: each for each in report["skipped"]}
    assert set(skipped) <= set(commits[5:11])
    assert skipped
    for each in skipped.values():
        assert each["verdict"] == "mismatch"
        assert each["reason"].startswith("y")
        assert "max diff" in each["reason"]
    text = (tmp_path / "out" / "report.md").read_text()
    assert "max diff 0.02" in text
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
    assert "max diff" in run_program("history", report["name"], environment=environment).stdout


@pytest.mark.long
def test_what_a_second_fault_hides_is_not_guessed(tmp_path: Path) -> None:
    """The other fault goes in the commit that brings the one searched for, or hid it before."""
    commits, done, report = bisect(tmp_path, ["0"] * 4 + ["2e3"] * 6 + ["0.02"] * 4)
    assert done.returncode == 3, done.stderr
    assert {each["commit"] for each in report["suspects"]} == set(commits[4:11])


@pytest.mark.parametrize(
    ("stretch", "end"),
    [
        ("k.cpp:3:5: error: expected a type; exit 2", "exit 1"),
        ("exit 1", "k.cpp:3:5: error: no type; exit 1"),
    ],
)
def test_a_command_that_fails_to_compile_where_the_end_does_not_is_no_failure_of_that_kind(
    tmp_path: Path, stretch: str, end: str
) -> None:
    """A script that builds and runs ends with some code in either case; what a compiler says tells them apart."""
    tool = TestRepository(tmp_path / "tool")
    commits = [
        tool.commit(f"commit {n}", {"n": f"{n}", "run.sh": f"echo {said}" if ";" in said else said})
        for n, said in enumerate(["exit 0"] * 4 + [stretch] * 9 + ["exit 0"] * 2 + [end] * 5)
    ]
    done = run_program(
        *("--good", commits[0], "--bad", "HEAD", "-o", str(tmp_path / "out"), "--", "sh", "-e", "./run.sh"),
        cwd=tool.path,
        environment={**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")},
    )
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert done.returncode == 0, done.stderr
    (named,) = report["culprits"]
    assert named["commit"] == commits[15]
    assert {each["commit"] for each in report["skipped"]} <= set(commits[4:13])
    assert report["skipped"]


def two_exit_codes(
    folder: Path, *, mended: bool
) -> tuple[list[str], "subprocess.CompletedProcess[str]", dict[str, Any]]:
    """Another exit code in the middle, which halving meets first: mended, or turned into the end's."""
    tool = TestRepository(folder / "tool")
    scripts = ["exit 0"] * 5 + ["exit 2"] * 5 + ["exit 0"] * mended + ["exit 1"] * 6
    commits = [
        tool.commit(f"commit {n}", {"n": f"{n}", "run.sh": script}) for n, script in enumerate(scripts)
    ]
    done = run_program(
        *("--good", commits[0], "--bad", "HEAD", "-o", str(folder / "out"), "--", "sh", "./run.sh"),
        cwd=tool.path,
        environment={**os.environ, "PRECISION_BISECT_HOME": str(folder / "home")},
    )
    report = json.loads((folder / "out" / "report.json").read_text())
    (other,) = report["other_failures"]
    assert (other["signature"], other["counts_as_bad"]) == ("exit code 2", False)
    assert other["onset"]["commit"] == commits[5]
    assert f"exit code 2 at {other['commits']} commits from {commits[5][:12]}" in done.stdout
    return commits, done, report


def test_the_commit_is_named_that_brought_the_end_s_exit_code(tmp_path: Path) -> None:
    commits, done, report = two_exit_codes(tmp_path, mended=True)
    assert done.returncode == 0, done.stderr
    assert [each["commit"] for each in report["culprits"]] == [commits[11]]
    log = (tmp_path / "out" / "bisect.log").read_text()
    assert not [sha for sha in commits[5:10] if f"git bisect good {sha}" in log]
    tool = tmp_path / "tool"
    subprocess.run(
        ["git", "bisect", "replay", tmp_path / "out" / "bisect.log"],
        cwd=tool,
        check=True,
        capture_output=True,
    )
    found = subprocess.run(
        ["git", "bisect", "log"], cwd=tool, check=True, capture_output=True, text=True
    ).stdout
    assert f"# first bad commit: [{commits[11]}]" in found


def test_where_another_exit_code_may_hide_the_end_s_no_commit_is_named(tmp_path: Path) -> None:
    """The first one that ends with the bad end's may only have mended the other failure."""
    commits, done, report = two_exit_codes(tmp_path, mended=False)
    assert done.returncode == 3, done.stderr
    assert report["culprits"] == []
    assert [each["commit"] for each in report["suspects"]] == commits[5:11]

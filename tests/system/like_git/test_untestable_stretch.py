"""A long stretch that does not compile, with the script that git's users write: `make || exit 125`."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import TestRepository
from tests.support.quick import quick_first
from tests.system.questions.test_predicate import found, run

CHECK = "c++ -fsyntax-only main.cpp || { echo; seq 9; exit 125; }; ! grep -q wrong state"
"""The lines behind the error are more than are kept of an output's end."""
WALL = range(8, 36)
COMMITS = 44


def history(repository: TestRepository, culprit: int) -> list[str]:
    commits: list[str] = []
    for n in range(COMMITS):
        broken = "  int half = exp(;\n" if n in WALL else ""
        header = f"// version {n // 3}\nint answer();\n{broken}"
        files = {"include/a.hpp": header, "n": str(n), "main.cpp": '#include "include/a.hpp"\n'}
        commits.append(
            repository.commit(f"commit {n}", {**files, "state": "wrong" if n >= culprit else "fine"})
        )
    return commits


def bisected(
    repository: TestRepository, folder: Path, commits: list[str], *options: str
) -> tuple[int, dict[str, object]]:
    """The exit code and the report."""
    ends = ["--good", commits[0], "--bad", commits[-1]]
    words = [*ends, "-o", str(folder / "out"), *options, "--", "sh", "-c", CHECK]
    done = run(repository.path, folder / "home", *words)
    return done.returncode, json.loads((folder / "out" / "report.json").read_text())


def list_of(report: dict[str, object], key: str) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], report[key])


def skipped(report: dict[str, object]) -> set[str]:
    return {probe["commit"] for probe in list_of(report, "probes") if probe["judgement"] == "skip"}


@pytest.mark.long
@pytest.mark.parametrize("culprit", [3, 40])
def test_one_commit_of_it_is_met(repository: TestRepository, tmp_path: Path, culprit: int) -> None:
    commits = history(repository, culprit)
    code, report = bisected(repository, tmp_path, commits)
    assert code == 0
    assert found(tmp_path / "out") == commits[culprit]
    assert len(skipped(report)) == 1
    code, report = bisected(repository, tmp_path, commits)
    assert code == 0
    assert not skipped(report), "the store knows it"


@pytest.mark.long
def test_where_it_holds_the_culprit_it_is_said_what_mends_it(
    repository: TestRepository, tmp_path: Path
) -> None:
    commits = history(repository, 20)
    code, report = bisected(repository, tmp_path, commits)
    assert code == 3
    assert len(skipped(report)) == 3
    message = str(report["message"])
    assert "include/a.hpp:3: " in message
    mends, before, last = commits[WALL.stop][:12], commits[WALL.start - 1][:12], commits[WALL.stop - 1][:12]
    assert message.endswith(
        f"which {mends} fixes, whose change does not apply to 27 of these 28; to test them with that file as it is "
        f"there, add --overlay include/a.hpp@{mends}"
    ), message
    # With the change of the commit, as far as it applies, the answer stays; with its file the culprit is found.
    pick = ("--cherry-pick", f"{mends}@{before}..{last}")
    code, report = bisected(repository, tmp_path, commits, *pick)
    assert code == 3
    (patch,) = list_of(report, "cherry_picks")
    tried = {probe["commit"] for probe in list_of(report, "probes")} & {*commits[WALL.start : WALL.stop]}
    assert tried
    assert set(patch["used_at"]) == tried & {commits[WALL.stop - 1]}
    assert bisected(repository, tmp_path, commits, "--overlay", f"include/a.hpp@{mends}")[0] == 0
    assert found(tmp_path / "out") == commits[20]


@pytest.mark.parametrize("also", ["other", None])
def test_what_is_advised_is_accepted(repository: TestRepository, tmp_path: Path, also: str | None) -> None:
    """Typed in a folder, where the advice names files as git does. A file is laid over the others only where that hides
    no fault: one commit broke it, and the fault stands in another."""
    commits = [repository.commit("folder", {"sub/f": ""})]
    for n in range(16):
        half = "int half = exp(;\n" if 4 <= n < 12 else "int half;\n"
        fault = f"int fault = {int(n > 8)}; // {n}\n"
        files = {"main.c": half, also: fault} if also else {"main.c": fault + half}
        commits.append(repository.commit(f"commit {n}", files))
    check = "cc -fsyntax-only ../main.c || exit 125; ! cat ../main.c ../other | grep -q 'fault = 1'"
    words = ("--good", commits[1], "--bad", "main", "-o", str(tmp_path / "out"))
    done = run(repository.path / "sub", tmp_path / "home", *words, "--", "sh", "-c", check)
    assert done.returncode == 3, done.stderr
    message = str(json.loads((tmp_path / "out" / "report.json").read_text())["message"])
    assert "../main.c:" in message
    assert ("--overlay main.c@" in message) is (also is not None)
    for said in re.findall(r"add (--\S+ \S+)", message):
        planned = run(
            repository.path / "sub", tmp_path / "home", *words, *said.split(), "--dry-run", "--", "true"
        )
        assert planned.returncode == 0, planned.stderr


@pytest.mark.parametrize(
    "untestable",
    quick_first(
        ["echo 'made.c:3:1: error: expected ;'; exit 1", "exit 125"],
    ),
)
def test_where_no_error_names_a_file_of_git_s_the_first_testable_commit_behind_is_named(
    repository: TestRepository, tmp_path: Path, untestable: str
) -> None:
    """The file that the error names is made by the build, or nothing says why."""
    commits: list[str] = []
    for n in range(20):
        files = {
            "builds": "no" if 8 <= n < 13 else "yes",
            "state": "wrong" if n >= 10 else "fine",
            f"n{n}": "",
        }
        commits.append(repository.commit(f"commit {n}", files))
    command = ("sh", "-c", f"grep -q yes builds || {{ {untestable}; }}; ! grep -q wrong state")
    words = ("--good", commits[0], "--bad", commits[-1], "-o", str(tmp_path / "out"))
    done = run(repository.path, tmp_path / "home", *words, "--", *command)
    assert done.returncode == 3, done.stderr
    message = json.loads((tmp_path / "out" / "report.json").read_text())["message"]
    mends, before, last = (commits[n][:12] for n in (13, 7, 12))
    assert f"; the first that can be tested behind them is {mends}" in message
    said = message.rpartition("add ")[2].partition(";")[0]
    assert said == f"--cherry-pick {mends}@{before}..{last}"
    done = run(repository.path, tmp_path / "home", *words, *said.split(), "--", *command)
    assert done.returncode == 0, done.stdout
    assert found(tmp_path / "out") == commits[10]

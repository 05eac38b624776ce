"""A long stretch that does not compile, with the script that git's users write: `make || exit 125`."""

import json
from pathlib import Path

import pytest

from tests.conftest import TestRepository
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


def bisected(repository: TestRepository, folder: Path, commits: list[str]) -> tuple[int, dict[str, object]]:
    """The exit code and the report."""
    words = ["--good", commits[0], "--bad", commits[-1], "-o", str(folder / "out"), "--", "sh", "-c", CHECK]
    done = run(repository.path, folder / "home", *words)
    return done.returncode, json.loads((folder / "out" / "report.json").read_text())


def skipped(report: dict[str, object]) -> set[str]:
    probes = report["probes"]
    assert isinstance(probes, list)
    return {probe["commit"] for probe in probes if probe["judgement"] == "skip"}


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
        f"which {mends} mends; to test them with its change, add --cherry-pick {mends}@{before}..{last}"
    )

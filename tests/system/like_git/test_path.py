"""`--path`: only commits that touch it are candidates, as behind `--` of `git bisect start`."""

import json
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.like_git.test_ends_like_git import ran
from tests.system.questions.test_predicate import found, run

CHECK = ("--", "sh", "-c", '! grep -rq wrong "$(git rev-parse --show-toplevel)"/*/state')


@pytest.fixture
def history(repository: TestRepository) -> list[str]:
    """Every third commit touches lib/, the others do not."""
    commits = [repository.commit("begins", {"lib/state": "fine", "other/state": "fine", "n": "0"})]
    names = [f"lib/{n}" if n % 3 == 0 else f"other/{n}" for n in range(1, 15)]
    return commits + [repository.commit(name, {name: "1"}) for name in names]


def with_fault(repository: TestRepository, history: list[str], name: str) -> str:
    """A commit that breaks it, between others; the tip touches none of lib/."""
    culprit = repository.commit("breaks", {f"{name}/state": "wrong"})
    for n in range(20, 25):
        repository.commit(f"commit {n}", {f"lib/{n}" if n == 23 else f"other/{n}": str(n)})
    return culprit


@pytest.mark.long
def test_only_commits_that_touch_it_are_searched(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    culprit = with_fault(repository, history, "lib")
    done = run(
        repository.path / "other", tmp_path / "home", "--good", history[0], "--bad", "main",
        "-o", str(tmp_path / "out"), "--path", "../lib", *CHECK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == culprit
    touching = set(repository.git("rev-list", f"{history[0]}..main", "--", "lib").split())
    parent = repository.git("rev-parse", f"{culprit}^")
    assert ran(tmp_path) <= touching | {history[0], repository.git("rev-parse", "main"), parent}
    assert "--path lib: only commits that touch it are searched, 6 of 20 commits, and the end " in done.stderr
    assert "20 commits in the range, 7 that can change the result" in done.stderr
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{culprit} is the first bad commit" in replayed


@pytest.mark.long
def test_a_change_elsewhere_is_not_pinned_on_a_commit_that_touches_it(
    repository: TestRepository, history: list[str], tmp_path: Path
) -> None:
    """Git names the next commit that touches the path; its parent, which git does not run, fails already."""
    culprit = with_fault(repository, history, "other")
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--path", "lib", *CHECK,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["culprits"] == []
    first, last = report["message"].split("between ")[1].split(", which")[0].split(" and ")
    assert culprit in repository.git("rev-list", f"{first}..{last}").split()


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("none", 4, "touches --path none, found none; name another path, or leave it out"),
        ("lob", 4, "touches --path lob, found none; did you mean lib?"),
        ("..", 2, "one outside"),
    ],
)
def test_a_path_without_commits(
    repository: TestRepository, history: list[str], tmp_path: Path, path: str, code: int, says: str
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", history[0], "--bad", "main", "--path", path, *CHECK
    )
    assert done.returncode == code
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert says in line

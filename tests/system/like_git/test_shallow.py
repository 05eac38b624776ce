"""Shallow clones: both ends and what lies between are enough."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.questions.test_predicate import found, run

COMMITS = 20
BROKEN_FROM = 15
CHECK = ("--", "grep", "-q", "fine", "state")


@pytest.fixture
def line(repository: TestRepository) -> list[str]:
    """Commits in a line, with a branch that was forked early and merged near its end."""
    commits: list[str] = []
    for n in range(COMMITS):
        commits.append(
            repository.commit(f"commit {n}", {"state": "broken" if n >= BROKEN_FROM else "fine", "n": str(n)})
        )
        if n == 5:
            repository.git("branch", "old")
    return commits


def shallow(repository: TestRepository, folder: Path, depth: int) -> Path:
    clone = folder / "shallow"
    url = repository.path.as_uri()
    subprocess.run(["git", "clone", "--quiet", f"--depth={depth}", url, str(clone)], check=True)
    return clone


@pytest.mark.long
def test_both_ends_are_there(repository: TestRepository, line: list[str], tmp_path: Path) -> None:
    """The good end is the very commit at which the clone ends; later it is deepened, and that is seen."""
    clone = shallow(repository, tmp_path, 10)
    words = ["--bad", "main", "-o", str(tmp_path / "out"), *CHECK]
    done = run(clone, tmp_path / "home", "--good", line[10], *words)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == line[BROKEN_FROM]
    subprocess.run(["git", "-C", str(clone), "fetch", "--quiet", "--unshallow"], check=True)
    done = run(clone, tmp_path / "home", "--good", line[2], "--bad", "main", "--dry-run", *CHECK)
    assert "17 commits in the range" in done.stdout, done.stderr


@pytest.mark.long
def test_what_is_not_there_is_asked_for(repository: TestRepository, line: list[str], tmp_path: Path) -> None:
    repository.git("checkout", "--quiet", "old")
    for n in range(12):
        repository.commit(f"on the side {n}", {f"side{n}": "1"})
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "old")
    clone = shallow(repository, tmp_path, 8)
    for good, code, says in (("HEAD~9", 2, "expected a revision"), ("HEAD~3", 1, "ends at")):
        done = run(clone, tmp_path / "home", "--good", good, "--bad", "main", *CHECK)
        assert done.returncode == code
        (error,) = [text for text in done.stderr.splitlines() if text.startswith("error: ")]
        assert says in error
        assert "fetch --deepen=200, or --unshallow" in error
    dated = run(clone, tmp_path / "home", "--good", "2001-01-01", "--bad", "main", *CHECK)
    assert "a shallow clone ends there; run: git -C " in dated.stderr, dated.stderr
    plan = run(clone, tmp_path / "home", "--bad", "main", "--dry-run", *CHECK)
    assert "where this shallow clone ends; for more: git -C " in plan.stdout, plan.stderr
    never = run(clone, tmp_path / "home", "--bad", "main", "--", "false")
    assert never.returncode == 4
    assert "found none back to the end of a shallow clone" in never.stderr

"""`--replay`: a log of git bisect, or of our own, is gone on with."""

import json
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.like_git.test_ends_like_git import ran
from tests.system.questions.test_predicate import found, run

CHECK = ("--", "grep", "-q", "fine", "state")
COMMITS = 24
CHANGED_AT = 13


def line(repository: TestRepository, *, before: str, after: str) -> list[str]:
    return [
        repository.commit(f"commit {n}", {"state": before if n < CHANGED_AT else after, "n": str(n)})
        for n in range(COMMITS)
    ]


@pytest.mark.long
def test_what_git_was_told_is_not_run_again(repository: TestRepository, tmp_path: Path) -> None:
    """Then our own log of it is replayed, by us and by git: all name the same commit."""
    commits = line(repository, before="fine", after="broken")
    repository.git("bisect", "start", commits[23], commits[0])
    repository.git("bisect", "good", commits[8])
    repository.git("bisect", "bad", commits[18])
    repository.git("bisect", "skip", commits[15])
    log = tmp_path / "log"
    log.write_text(repository.git("bisect", "log") + "\n")
    repository.git("bisect", "reset")
    done = run(repository.path, tmp_path / "home", "--replay", str(log), "-o", str(tmp_path / "out"), *CHECK)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[CHANGED_AT]
    assert ran(tmp_path) <= set(commits[8:19]) - {commits[15]}
    notices = json.loads((tmp_path / "out" / "report.json").read_text())["notices"]
    assert any(
        "5 judgements of it count as they stand, without a run of ours" in notice for notice in notices
    )
    written = (tmp_path / "out" / "report.md").read_text()
    for text in (written, done.stdout):
        assert "5 judgements of --replay, which left this range, count as they stand" in text
    ours = tmp_path / "out" / "bisect.log"
    again = run(
        repository.path, tmp_path / "home", "--replay", str(ours), "-o", str(tmp_path / "out-2"), *CHECK
    )
    assert again.returncode == 0, again.stderr
    assert found(tmp_path / "out-2") == commits[CHANGED_AT]
    assert f"{commits[CHANGED_AT]} is the first bad commit" in repository.git("bisect", "replay", str(ours))


@pytest.mark.long
def test_a_log_with_terms_seeks_a_fix(repository: TestRepository, tmp_path: Path) -> None:
    commits = line(repository, before="broken", after="fine")
    repository.git("bisect", "start", "--term-old=broken", "--term-new=fixed", commits[23], commits[0])
    repository.git("bisect", "broken", commits[9])
    log = tmp_path / "log"
    log.write_text(repository.git("bisect", "log") + "\n")
    done = run(
        repository.path,
        tmp_path / "home",
        "--replay",
        str(log),
        "--find-fix",
        "-o",
        str(tmp_path / "out"),
        *CHECK,
    )
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[CHANGED_AT]
    assert not ran(tmp_path) & set(commits[:9])

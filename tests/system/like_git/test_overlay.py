"""`--overlay`: a check that is younger than the range is laid over every commit."""

import json
import re
from pathlib import Path

from tests.conftest import TestRepository
from tests.system.like_git.test_ends_like_git import ran
from tests.system.questions.test_predicate import found, run


def test_a_check_that_is_younger_than_the_range(repository: TestRepository, tmp_path: Path) -> None:
    commits = [repository.commit(f"commit {n}", {"state": "fine", "n": str(n)}) for n in range(6)]
    culprit = repository.commit("breaks", {"state": "broken"})
    repository.commit("check", {"check.sh": "exit 1\n"})
    repository.commit("mend the check", {"check.sh": "! grep -q broken state\n"})
    (repository.path / "check.sh").write_text('echo "on disk"; ! grep -q broken state\n')
    words = ("--good", commits[0], "--bad", "main")
    refused = run(repository.path, tmp_path / "home", *words, "--", "sh", "check.sh")
    assert refused.returncode == 2
    (advised,) = re.findall(r"lay it over every commit with (--overlay \S+),", refused.stderr)
    planned = run(
        repository.path, tmp_path / "home", *words, *advised.split(), "--dry-run", "--", "sh", "check.sh"
    )
    assert planned.returncode == 0, planned.stderr

    done = run(
        repository.path, tmp_path / "home", *words, "--overlay", "check.sh",
        "-o", str(tmp_path / "out"), "--", "sh", "check.sh",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == culprit
    told = "check.sh as on disk is laid over every commit of"
    assert told in done.stderr
    assert told in (tmp_path / "out" / "report.md").read_text()
    assert repository.git("rev-parse", "main~1") not in ran(tmp_path), "what lies under it is no candidate"
    assert repository.git("status", "--porcelain").strip() == "M check.sh"


def test_what_is_laid_over_is_held_in_the_line_that_searches_again(
    repository: TestRepository, tmp_path: Path
) -> None:
    commits = [repository.commit(f"commit {n}", {"state": "fine", "n": str(n)}) for n in range(3)]
    repository.commit("breaks", {"state": "broken"})
    repository.git("branch", "checks", commits[0])
    repository.git("checkout", "--quiet", "checks")
    check = repository.commit("check", {"check.sh": "! grep -q broken state\n"})
    repository.git("checkout", "--quiet", "main")
    done = run(
        repository.path, tmp_path / "home", "--good", commits[0], "--bad", "main", "--overlay", "check.sh@checks",
        "-o", str(tmp_path / "out"), "--", "sh", "check.sh",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert f" --overlay check.sh@{check} " in report["repeat"]

"""--cherry-pick: a stretch that one commit broke is tested with the patch that mends it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.questions.test_predicate import found, run

COMMITS, BROKEN, WRONG_FROM, MENDED = 16, 5, 8, 11
CHECK = "[ -f needed ] || exit 125; ! grep -q wrong state"


def history(
    repository: TestRepository, *, wrong_from: int = WRONG_FROM, other: int | None = None
) -> list[str]:
    """A line whose commits cannot be tested from BROKEN to before MENDED; `other` adds what MENDED adds otherwise."""
    commits: list[str] = []
    for number in range(COMMITS):
        files: dict[str, str | None] = {"state": f"{number} {'wrong' if number >= wrong_from else 'right'}\n"}
        if number == MENDED:
            files = {"needed": "yes\n"}
        elif number == 0:
            files["needed"] = "yes\n"
        elif number == BROKEN:
            files["needed"] = None
        elif number == other:
            files["needed"] = "no\n"
        commits.append(repository.commit(f"commit {number}", files))
    return commits


def bisect(
    repository: TestRepository, folder: Path, good: str, *options: str
) -> "subprocess.CompletedProcess[str]":
    return run(
        repository.path, folder / "home", "--good", good, "--bad", "main", "-o", str(folder / "out"), *options,
        "--", "sh", "-c", CHECK,
    )  # fmt: skip


def test_it_is_found_in_the_stretch(repository: TestRepository, tmp_path: Path) -> None:
    commits = history(repository)
    pick = f"{commits[MENDED]}@{commits[BROKEN]}~1..{commits[MENDED]}~1"
    done = bisect(repository, tmp_path, commits[0], "--cherry-pick", pick)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[WRONG_FROM]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    (patch,) = report["cherry_picks"]
    assert (patch["commit"], patch["old"], patch["new"]) == (
        commits[MENDED], commits[BROKEN - 1], commits[MENDED - 1]
    )  # fmt: skip
    held = f"--cherry-pick {commits[MENDED]}@{commits[BROKEN - 1]}..{commits[MENDED - 1]} "
    assert held in report["repeat"], "names may mean other commits by then"
    assert {commits[WRONG_FROM], commits[WRONG_FROM - 1]} <= set(patch["used_at"])
    assert set(patch["used_at"]) <= set(commits[BROKEN:MENDED])
    assert f"with       repository {commits[MENDED][:12]}" in done.stdout
    assert "## Unbroken by patches" in (tmp_path / "out" / "report.md").read_text()
    for side, code in (("bad", 1), ("good", 0)):
        script = subprocess.run(["sh", str(tmp_path / "out" / f"reproduce-{side}.sh")], capture_output=True)
        assert script.returncode == code, script.stderr
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.long
def test_a_patch_that_does_not_apply_is_a_skip(repository: TestRepository, tmp_path: Path) -> None:
    """MENDED changes what another commit of the stretch adds: before that one it has nothing to change."""
    commits = history(repository, wrong_from=BROKEN + 1, other=BROKEN + 2)
    pick = f"{commits[MENDED]}@{commits[BROKEN]}~1..{commits[MENDED]}~1"
    done = bisect(repository, tmp_path, commits[0], "--cherry-pick", pick)
    assert done.returncode == 3, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {each["commit"] for each in report["suspects"]} == {*commits[BROKEN : BROKEN + 3], commits[MENDED]}
    reasons = {each["commit"]: each["reason"] for each in report["skipped"]}
    assert set(reasons) == set(commits[BROKEN : BROKEN + 2])
    assert set(reasons.values()) == {f"cherry-pick: {commits[MENDED][:12]} does not apply in needed"}


@pytest.mark.long
def test_a_change_at_the_edge_of_the_stretch_may_be_the_patch(
    repository: TestRepository, tmp_path: Path
) -> None:
    """What is advised then tells them apart: the patch is innocent, or it fails on top of the good end too."""
    commits = history(repository, wrong_from=BROKEN)
    pick = f"{commits[MENDED]}@{commits[BROKEN]}~1..{commits[MENDED]}~1"
    done = bisect(repository, tmp_path, commits[1], "--cherry-pick", pick)
    assert done.returncode == 6, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [each["commit"] for each in report["suspects"]] == [commits[BROKEN], commits[MENDED]]
    option, advised = report["message"].split()[-2:]
    done = bisect(repository, tmp_path, commits[1], option, advised)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[BROKEN]


@pytest.mark.long
@pytest.mark.parametrize(
    ("pick", "says"),
    [
        ("HEAD", "expected REV@A..B"),
        ("HEAD@HEAD~3", "expected REV@A..B"),
        ("nonsense@HEAD~3..HEAD~1", "nonsense"),
        ("HEAD~2@HEAD~1..HEAD~3", "name the older end first"),
        ("HEAD~2@HEAD~3..HEAD~1", "expected commits that lack the change of HEAD~2"),
        ("HEAD~15@HEAD~3..HEAD~1", "expected a commit with one parent, found 0"),
    ],
)
def test_wrong_words(repository: TestRepository, tmp_path: Path, pick: str, says: str) -> None:
    commits = history(repository)
    done = bisect(repository, tmp_path, commits[0], "--cherry-pick", pick)
    assert done.returncode in (1, 2)
    (line,) = done.stderr.splitlines()
    assert says in line


def test_a_culprit_that_was_picked_to_another_branch_too_is_told_of_that(
    repository: TestRepository, tmp_path: Path
) -> None:
    """Either may be found, where both are merged: the other is named beside it."""
    root = repository.commit("root", {"needed": "yes\n", "state": "right\n"})
    twins: set[str] = set()
    for branch in ("main", "side"):
        repository.git("checkout", "--quiet", "-B", branch, root)
        for number in range(4):
            repository.commit(f"{branch} {number}", {branch: str(number)})
        if twins:
            repository.git("cherry-pick", *twins)
        else:
            repository.commit("rounding\x1b[31m", {"state": "wrong\n"})
        twins.add(repository.git("rev-parse", "HEAD"))
        for number in range(4, 7):
            repository.commit(f"{branch} {number}", {branch: str(number)})
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "side")
    done = bisect(repository, tmp_path, root)
    culprit = found(tmp_path / "out")
    (other,) = twins - {culprit}
    assert culprit in twins
    told = f"the same change was also made by {other[:12]} (rounding"
    assert done.returncode == 0, done.stdout
    (line,) = [text for text in done.stdout.splitlines() if "same change" in text]
    assert line.split(maxsplit=1)[1].startswith(told)
    assert "\x1b" not in done.stdout

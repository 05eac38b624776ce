"""--find-fix: the old end fails, the new end passes, and the report speaks of the fix."""

import json
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.questions.test_predicate import found, run

COMMITS, FIXED_FROM = 16, 11
CHECK = 'case "$(cat state)" in fine) exit 0;; untestable) exit 125;; *) exit 1;; esac'


def history(repository: TestRepository) -> list[str]:
    """A line that fails until a commit; one commit cannot be tested."""
    states = ["fine" if number >= FIXED_FROM else "broken" for number in range(COMMITS)]
    states[7] = "untestable"
    return [
        repository.commit(f"commit {number}", {"state": state, "n": str(number)})
        for number, state in enumerate(states)
    ]


@pytest.mark.long
def test_the_first_fixed_commit_is_named(repository: TestRepository, tmp_path: Path) -> None:
    commits = history(repository)
    done = run(
        repository.path, tmp_path / "home", "--find-fix", "--bad", commits[0], "--good", "main",
        "-o", str(tmp_path / "out"), "--", "sh", "-c", CHECK,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[FIXED_FROM]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["seeks"] == "fix"
    assert (report["good"], report["bad"]) == (commits[-1], commits[0])
    assert report["culprits"][0]["parent"] == commits[FIXED_FROM - 1]
    assert {rate["end"]: rate["failures"] == rate["runs"] for rate in report["rates"]} == {
        "good": False,
        "bad": True,
    }
    assert report["reproduce"]["good"]["commit"] == commits[FIXED_FROM]
    assert report["reproduce"]["bad"]["commit"] == commits[FIXED_FROM - 1]
    assert f"{commits[FIXED_FROM]} fixed it" in report["message"]
    text = (tmp_path / "out" / "report.md").read_text()
    assert "## First fixed commit: repository" in text
    assert "first fixed commit found" in text
    assert done.stdout.splitlines()[-1].startswith(f"fixed by   repository {commits[FIXED_FROM][:12]} ")
    for words in (text, done.stdout):
        assert "ulprit" not in words
        assert "introduced" not in words
    listed = run(repository.path, tmp_path / "home", "history").stdout
    assert f"  first fixed commit found, with a caveat: repository {commits[FIXED_FROM][:12]} " in listed
    assert "ulprit" not in listed
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{commits[FIXED_FROM]} is the first fixed commit" in replayed
    pages = run(repository.path, tmp_path / "home", "report", "--html", str(tmp_path / "site"))
    assert pages.returncode == 0, pages.stderr
    (page,) = (tmp_path / "site" / "bisections").rglob("*.html")
    assert "First fixed commit, repository" in page.read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "says"),
    [
        # As for a regression, but the old end fails and the new one passes.
        (["--good", "0", "--bad", "-1"], "did you mean --find-fix, with --bad {0} --good {-1}?"),
        (["--find-fix", "--bad", "-1", "--good", "0"], "leave out --find-fix"),
        (["--bad", "0", "--good", "-1"], "To find what fixed it, add --find-fix"),
        (["--find-fix", "--bad", "-3", "--good", "-1"], "expected a commit where the case fails"),
    ],
    ids=str,
)
def test_wrong_directions(repository: TestRepository, tmp_path: Path, words: list[str], says: str) -> None:
    commits = history(repository)
    words = [commits[int(word)] if word.lstrip("-").isdigit() else word for word in words]
    done = run(repository.path, tmp_path / "home", *words, "--", "sh", "-c", CHECK)
    assert done.returncode == 4, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert says.replace("{0}", commits[0][:12]).replace("{-1}", commits[-1][:12]) in line


@pytest.mark.long
def test_a_fix_needs_both_ends(repository: TestRepository, tmp_path: Path) -> None:
    history(repository)
    done = run(repository.path, tmp_path / "home", "--find-fix", "--bad", "HEAD~9", "--", "sh", "-c", CHECK)
    assert done.returncode == 2
    assert "--good" in done.stderr

"""`--skip`: commits that are never run, as after `git bisect skip`."""

import json
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.quick import quick_first
from tests.system.like_git.test_ends_like_git import ran
from tests.system.questions.test_predicate import found, run

COMMITS = 12
BROKEN_FROM = 7


@pytest.fixture
def line(repository: TestRepository) -> list[str]:
    """Commits in a line, of which all from one on are broken."""
    return [
        repository.commit(f"commit {n}", {"state": "broken" if n >= BROKEN_FROM else "fine", "n": str(n)})
        for n in range(COMMITS)
    ]


@pytest.mark.long
def test_what_is_skipped_is_never_run_and_is_told(
    repository: TestRepository, line: list[str], tmp_path: Path
) -> None:
    """The bad end lies in the range that is skipped, and is run all the same."""
    done = run(
        repository.path, tmp_path / "home", "--good", line[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--skip", f"{line[8]}..main", "--skip", line[3], "--", "grep", "-q", "fine", "state",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == line[BROKEN_FROM]
    assert not ran(tmp_path) & {line[3], *line[9:11]}
    assert f"--skip {line[11][:12]}: it is an end of the range, which is run all the same" in done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {(each["commit"], each["reason"]) for each in report["skipped"]} == {
        (sha, "it was named with --skip") for sha in (line[3], *line[9:11])
    }
    ends = f"--good {line[0]} --bad {line[11]}"
    program = f"PRECISION_BISECT_HOME={tmp_path / 'home'} bisect-precision"
    assert report["repeat"].startswith(f"cd {repository.path} && {program} {ends} -o ")
    assert report["repeat"].endswith(f"--skip {line[8]}..{line[-1]} --skip {line[3]} -- grep -q fine state")
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{line[BROKEN_FROM]} is the first bad commit" in replayed


def test_a_culprit_that_is_skipped_is_not_said_to_lack_a_patch(
    repository: TestRepository, line: list[str], tmp_path: Path
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", line[0], "--bad", "main", "-o", str(tmp_path / "out"),
        "--skip", line[BROKEN_FROM], "--", "grep", "-q", "fine", "state",
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "whose runs do not tell them apart; --skip leaves out 1 of them" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("text", "says"),
    quick_first(
        [
            ("nothing", "expected a revision"),
            ("main..main~2", "found none"),
            ("main..", "expected REV, or A..B"),
        ]
    ),
)
def test_what_cannot_be_skipped(
    repository: TestRepository, line: list[str], tmp_path: Path, text: str, says: str
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", line[0], "--bad", "main", "--skip", text, "--", "true"
    )  # fmt: skip
    assert done.returncode in (1, 2)
    (error,) = [text for text in done.stderr.splitlines() if text.startswith("error: ")]
    assert "--skip" in error
    assert says in error

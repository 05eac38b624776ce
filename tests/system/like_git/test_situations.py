"""The situations of a bisection that git tests of itself, each asked of git and of us: both answer alike."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.quick import quick_first
from tests.system.questions.test_predicate import run

CHECK = ("sh", "-c", "[ -e untestable ] && exit 125; ! grep -rq wrong --include=*.txt .")
_NAMED = re.compile(r"^# (?:possible )?first (?:bad|fixed) commit: \[(\w+)\]", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """How a history comes about, what is typed for it after that, for us and for `git bisect start`, and what git is
    told to skip."""

    name: str
    make: Callable[[TestRepository], None]
    ours: tuple[str, ...]
    start: tuple[str, ...]
    skip: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def line(repository: TestRepository, name: str, *marks: str) -> None:
    """Commits in a line, tagged NAME1, NAME2, ...: one of each mark.

    One is `good`, `breaks` or `mends` it; none can be tested from one that is `untestable`, or that `hides` (it breaks
    it too), until one that is `testable`.
    """
    for n, mark in enumerate(marks, start=1):
        files: dict[str, str | None] = {f"{name}/{n}.txt": "fine"}
        if mark == "breaks":
            files[f"{name}/fault.txt"] = "wrong"
        if mark == "mends":
            files[f"{name}/fault.txt"] = "right"
        if mark in ("untestable", "testable"):
            files["untestable"] = "" if mark == "untestable" else None
        if mark == "hides":
            files |= {f"{name}/fault.txt": "wrong", "untestable": ""}
        repository.commit(f"{name}{n} {mark}", files)
        repository.git("tag", f"{name}{n}")


def fork(repository: TestRepository, branch: str, at: str) -> None:
    repository.git("checkout", "--quiet", "-b", branch, at)


def merge(repository: TestRepository, *branches: str) -> None:
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", *branches)
    repository.git("tag", "merged")


def plain(repository: TestRepository) -> None:
    line(repository, "m", *["good"] * 6, "breaks", *["good"] * 5)


def with_side(repository: TestRepository) -> None:
    """A fault on a branch that was forked, and merged, between the ends."""
    line(repository, "m", "good", "good", "good", "good", "good")
    fork(repository, "side", "m2")
    line(repository, "s", "good", "good", "breaks", "good")
    merge(repository, "side")
    line(repository, "n", "good", "good")


def hidden(repository: TestRepository) -> None:
    """What breaks it cannot be tested, nor can the commits beside it."""
    line(repository, "m", *["good"] * 4, "untestable", "good", "breaks", "testable", *["good"] * 4)


def hidden_on_side(repository: TestRepository) -> None:
    line(repository, "m", "good", "good", "good")
    fork(repository, "side", "m2")
    line(repository, "s", "good", "hides", "good", "testable", "good")
    merge(repository, "side")
    line(repository, "n", "good")


def siblings(repository: TestRepository) -> None:
    """The good end is on a branch of its own."""
    line(repository, "m", "good", "good")
    fork(repository, "side", "m2")
    line(repository, "s", "good", "good")
    repository.git("checkout", "--quiet", "main")
    line(repository, "n", "good", "breaks", "good", "good")


def mended(repository: TestRepository) -> None:
    line(repository, "m", "breaks", "good", "good", "good", "mends", "good", "good")


SITUATIONS = [
    Situation(name="a line", make=plain, ours=("--good", "m1", "--bad", "main"), start=("main", "m1")),
    Situation(
        name="only skipped commits are left",
        make=hidden,
        ours=("--good", "m1", "--bad", "main"),
        start=("main", "m1"),
    ),
    Situation(
        name="skips at both ends",
        make=plain,
        ours=("--good", "m1", "--bad", "main", "--skip", "m9..main", "--skip", "m2", "--skip", "m1"),
        start=("main", "m1"),
        skip=("m9..m12", "m2", "m1"),
    ),
    Situation(
        name="all between the ends is skipped",
        make=plain,
        ours=("--good", "m5", "--bad", "m9", "--skip", "m5..m9"),
        start=("m9", "m5"),
        skip=("m5..m9",),
    ),
    Situation(
        name="a side branch", make=with_side, ours=("--good", "m1", "--bad", "main"), start=("main", "m1")
    ),
    Situation(
        name="a good end before a fork, another on the side",
        make=with_side,
        ours=("--good", "m1", "--good", "s1", "--bad", "main"),
        start=("main", "m1", "s1"),
    ),
    Situation(
        name="skipped commits on a side branch",
        make=hidden_on_side,
        ours=("--good", "m1", "--bad", "main"),
        start=("main", "m1"),
    ),
    Situation(
        name="a skipped range on a side branch",
        make=with_side,
        ours=("--good", "m1", "--bad", "main", "--skip", "m2..s3"),
        start=("main", "m1"),
        skip=("m2..s3",),
    ),
    Situation(
        name="a merge base that passes",
        make=siblings,
        ours=("--good", "side", "--bad", "main"),
        start=("main", "side"),
    ),
    Situation(
        name="first parents alone",
        make=with_side,
        ours=("--good", "m1", "--bad", "main", "--first-parent"),
        start=("--first-parent", "main", "m1"),
    ),
    Situation(
        name="a folder",
        make=with_side,
        ours=("--good", "m1", "--bad", "main", "--path", "s"),
        start=("main", "m1", "--", "s"),
    ),
    Situation(
        name="a folder and a file",
        make=with_side,
        ours=("--good", "m1", "--bad", "main", "--path", "m", "--path", "s/fault.txt"),
        start=("main", "m1", "--", "m", "s/fault.txt"),
    ),
    Situation(
        name="terms, for a fix",
        make=mended,
        ours=("--find-fix", "--bad", "m1", "--good", "main"),
        start=("--term-old=broken", "--term-new=fixed", "main", "m1"),
    ),
]


def git_answers(repository: TestRepository, situation: Situation) -> set[str]:
    """The first bad commit by git, or those that may be it."""
    repository.git("bisect", "start", *situation.start)
    for each in situation.skip:
        # It fails where nothing is left to test.
        subprocess.run(["git", "bisect", "skip", each], cwd=repository.path, capture_output=True, check=False)
    check = list(CHECK)
    if "--term-new=fixed" in situation.start:
        check = ["sh", "-c", "! grep -rq wrong --include=*.txt . && exit 1; exit 0"]
    subprocess.run(
        ["git", "bisect", "run", *check], cwd=repository.path, capture_output=True, text=True, check=False
    )
    return set(_NAMED.findall(repository.git("bisect", "log")))


@pytest.mark.parametrize("situation", quick_first(SITUATIONS), ids=str)
def test_we_answer_as_git_does(situation: Situation, repository: TestRepository, tmp_path: Path) -> None:
    situation.make(repository)
    done = run(repository.path, tmp_path / "home", *situation.ours, "-o", str(tmp_path / "out"), "--", *CHECK)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    named = {each["commit"] for each in report["culprits"] or report["suspects"]}
    expected = git_answers(repository, situation)
    assert expected
    assert named == expected, done.stderr
    assert done.returncode == (0 if len(named) == 1 else 3)


@pytest.mark.long
def test_a_merge_base_that_fails_ends_it_here_as_there(repository: TestRepository, tmp_path: Path) -> None:
    """Git exits with 3, and says that it was fixed between the merge base and the good end."""
    line(repository, "m", "breaks", "good")
    fork(repository, "side", "m2")
    repository.commit("mends", {"m/fault.txt": "right"})
    repository.git("checkout", "--quiet", "main")
    line(repository, "n", "good", "good")
    done = run(repository.path, tmp_path / "home", "--good", "side", "--bad", "main", "--", *CHECK)
    assert done.returncode == 4
    assert "the failure was fixed on the side of" in done.stderr
    repository.git("bisect", "start", "main", "side")
    told = subprocess.run(
        ["git", "bisect", "bad"], cwd=repository.path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 3
    assert "the bug has been fixed between" in (told.stdout + told.stderr).replace("\n", " ")

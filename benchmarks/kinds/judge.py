"""Asks the product and `git bisect run` for the culprit of a case, and judges their answers."""

import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal

from benchmarks.kinds.case import Case
from benchmarks.kinds.history import History, build_history, git
from benchmarks.kinds.project import Project

Judgement = Literal[
    "right",
    "right, caveat",
    "list with it",
    "unknown, no list",
    "list without it",
    "wrong",
    "wrong, caveat",
    "error",
]
GitJudgement = Literal["right", "list with it", "list without it", "wrong", "stopped"]
_UNKNOWN = (3, 5, 6)
"""Exit codes: only skipped commits are left, no commit of the range explains it, not decided."""
_LIMIT_S = 300
_FIRST = re.compile(r"^([0-9a-f]{40}) is the first bad commit", re.MULTILINE)
_LEFT = re.compile(r"any of:\n((?:[0-9a-f]{40}\n)+)")


@dataclass(frozen=True)
class Answer:
    """`named` and `listed` hold numbers of commits from the good end. `first_line`: the report's, and its answer."""

    judgement: str
    code: int
    named: list[int]
    listed: list[int]
    first_line: str
    caveats: list[str]
    runs: int
    seconds: float


@dataclass(frozen=True)
class Row:
    case: Case
    product: Answer
    twin: Answer
    git: str
    git_runs: int

    def as_data(self) -> dict[str, Any]:
        case = self.case
        facts = {"expected": case.expected, "culprit": case.culprit, "commits": len(case.commits)}
        return {
            "name": case.name,
            "project": case.project,
            "shape": case.shape,
            **facts,
            "product": asdict(self.product),
            "twin": asdict(self.twin),
            "git": self.git,
            "git_runs": self.git_runs,
        }


def ask_all(case: Case, project: Project, program: str, plain_line: str) -> Row:
    """The case and git in one repository, the twin in another. `plain_line`: how a report begins that has no caveat."""
    with TemporaryDirectory(prefix="kinds-") as folder:
        history = build_history(case, project, Path(folder))
        product = ask_product(case, history, program, plain_line)
        answer, git_runs = ask_git(case, history)
    with TemporaryDirectory(prefix="kinds-") as folder:
        twin = ask_product(
            case.twin(), build_history(case.twin(), project, Path(folder)), program, plain_line
        )
    return Row(case, product, twin, answer, git_runs)


def ask_product(case: Case, history: History, program: str, plain_line: str) -> Answer:
    folder = history.repository.parent
    ends = ("--good", history.commits[0], "--bad", history.commits[-1])
    begun = perf_counter()
    try:
        done = subprocess.run(
            [program, *ends, "--output", str(folder / "report"), "--json", "--", *history.command],
            cwd=history.repository,
            env={**os.environ, "PRECISION_BISECT_HOME": str(folder / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        line = f"no answer within {_LIMIT_S} s"
        return Answer("error", -1, [], [], line, [], len(history.take_runs()), perf_counter() - begun)
    seconds, runs = perf_counter() - begun, len(history.take_runs())
    try:
        report = json.loads(done.stdout)
        heading = (folder / "report" / "report.md").read_text(encoding="utf-8").splitlines()[0]
    except (ValueError, OSError, IndexError):
        errors = done.stderr.decode(errors="replace").strip().splitlines()
        line = errors[-1] if errors else "nothing was printed"
        return Answer("error", done.returncode, [], [], line, [], runs, seconds)
    numbers = {commit: i for i, commit in enumerate(history.commits)}
    named = sorted(numbers[one["commit"]] for one in report["culprits"])
    listed = {numbers[one["commit"]] for one in report["suspects"]}
    if done.returncode == 3 and not listed:
        listed = {numbers[one["commit"]] for one in report["skipped"] if one["commit"] in numbers}
    first_line = f"{heading} / {report['message']}"
    caveat = bare(first_line) != plain_line
    judgement = judge(case.culprit, done.returncode, named, sorted(listed | {*named}), caveat)
    return Answer(
        judgement, done.returncode, named, sorted(listed), first_line, report["caveats"], runs, seconds
    )


def judge(culprit: int, code: int, named: list[int], listed: list[int], caveat: bool) -> Judgement:
    """Wrong is a culprit that is named with exit code 0, is not the one, and has no caveat in its first line."""
    if code == 0 and len(named) == 1:
        if named == [culprit]:
            return "right, caveat" if caveat else "right"
        return "wrong, caveat" if caveat else "wrong"
    if code == 0 and named and culprit not in named:
        return "wrong, caveat" if caveat else "wrong"
    if code not in (0, *_UNKNOWN):
        return "error"
    if not listed:
        return "unknown, no list"
    return "list with it" if culprit in listed else "list without it"


def bare(line: str) -> str:
    """The line without what differs from one bisection to the next: hashes, names and numbers."""
    line = re.sub(r"^# Bisection \S+:", "# Bisection:", line)
    line = re.sub(r"\S+ [0-9a-f]{12,40}\b", "COMMIT", line)
    return re.sub(r"\d+", "N", line)


def ask_git(case: Case, history: History) -> tuple[GitJudgement, int]:
    repository = history.repository
    git(repository, "bisect", "start", history.commits[-1], history.commits[0])
    said = git(repository, "bisect", "run", *history.command, check=False)
    runs = len(history.take_runs())
    truth = history.commits[case.culprit]
    first, left = _FIRST.search(said), _LEFT.search(said)
    if first:
        return ("right" if first[1] == truth else "wrong"), runs
    if left:
        return ("list with it" if truth in left[1].split() else "list without it"), runs
    return "stopped", runs

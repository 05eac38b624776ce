"""Commands that fail in two ways, and the advice that is given about them, followed word for word."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

WRONG = "raise AssertionError('error 0.5')"
IMPORT = "from os import nothing_of_the_kind"
VALUE = "raise ValueError('shapes do not match')"
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
HANG = "import time; time.sleep(600)"
PRINTS = "print('max_diff:', {})"
EXIT = "raise SystemExit({})"
WORD = "raise SystemExit('FAILED')"
SIZE = 14


def history(repository: TestRepository, states: Mapping[range, str], *, fine: str = "pass") -> list[str]:
    """A line of commits whose `main.py` holds what a stretch says; the first stretch that has a commit decides."""
    commits: list[str] = []
    for number in range(SIZE):
        state = next((code for stretch, code in states.items() if number in stretch), fine)
        commits.append(repository.commit(f"commit {number}", {"main.py": f"# {number}\n{state}\n"}))
    return commits


def bisect(
    repository: TestRepository, *words: str, command: Sequence[str] = ("python3", "main.py")
) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
    """What is said of the line, and its report; an empty one where none was written."""
    folder = repository.path.parent
    out = folder / "out"
    done = run_program(
        *("--good", f"main~{SIZE - 1}", "--bad", "main", "-o", str(out), *words, "--", *command),
        cwd=repository.path,
        environment={**os.environ, "PRECISION_BISECT_HOME": str(folder / "home")},
    )
    report = out / "report.json"
    return done, json.loads(report.read_text()) if report.exists() else {}


def advised_words(before: str, text: str) -> list[str]:
    """The option that stands behind some words."""
    advised = re.search(rf"{before}(--bad-when (?:'[^']*'|[^\s;]+))", text)
    assert advised is not None, text
    return shlex.split(advised[1])


def named(report: Mapping[str, Any]) -> list[str]:
    return [each["commit"] for each in report["culprits"]]


def suspected(report: Mapping[str, Any]) -> set[str]:
    return {each["commit"] for each in report["suspects"]}


def test_an_import_error_is_not_named_for_an_assertion(repository: TestRepository) -> None:
    commits = history(repository, {range(3, 8): IMPORT, range(5, SIZE): WRONG})
    done, report = bisect(repository)
    assert done.returncode == 3, done.stderr
    assert named(report) == []
    assert {*commits[3:9]} == suspected(report)
    reasons = {each["reason"] for each in report["skipped"]}
    assert all("ImportError: cannot import name 'nothing_of_the_kind'" in reason for reason in reasons)


@pytest.mark.long
@pytest.mark.parametrize("other", [IMPORT, CRASH, VALUE])
def test_the_commit_behind_another_failure_is_named(repository: TestRepository, other: str) -> None:
    commits = history(repository, {range(3, 6): other, range(8, SIZE): WRONG})
    done, report = bisect(repository)
    assert done.returncode == 0, done.stderr
    assert named(report) == [commits[8]]


@pytest.mark.long
def test_a_crash_is_a_skip_or_the_end_of_the_search(repository: TestRepository) -> None:
    commits = history(repository, {range(5, 8): CRASH, range(10, SIZE): WRONG})
    assert named(bisect(repository)[1]) == [commits[10]]
    stopped, _ = bisect(repository, "--crash", "stop", "--name", "stops")
    assert stopped.returncode == 1
    assert "which stops the bisection as --crash stop says" in stopped.stderr


@pytest.mark.long
def test_a_crash_is_bad_where_that_is_asked(repository: TestRepository) -> None:
    commits = history(repository, {range(5, 8): CRASH, range(8, SIZE): WRONG})
    assert named(bisect(repository, "--crash", "bad")[1]) == [commits[5]]


@pytest.mark.long
def test_what_is_advised_for_a_failure_that_exits_with_zero_finds_its_commit(
    repository: TestRepository,
) -> None:
    commits = history(
        repository, {range(9, SIZE): "print('AssertionError: error 0.5')"}, fine="print('fine')"
    )
    refused, _ = bisect(repository)
    advised = advised_words("to count that as bad, add ", refused.stderr)
    assert named(bisect(repository, *advised, "--name", "again")[1]) == [commits[9]]


@pytest.mark.long
def test_a_crash_is_what_is_searched_for_where_the_end_crashes(repository: TestRepository) -> None:
    commits = history(repository, {range(3, 5): WRONG, range(8, SIZE): CRASH})
    assert named(bisect(repository)[1]) == [commits[8]]


@pytest.mark.long
def test_the_number_that_is_advised_for_a_measure_finds_its_commit(repository: TestRepository) -> None:
    """`max_diff:0.002` is refused beside a command; what is advised was once a pipe that made crashes good."""
    commits = history(
        repository,
        {range(3, 8): CRASH, range(10, SIZE): PRINTS.format(0.5)},
        fine=PRINTS.format(0.0001),
    )
    refused, _ = bisect(repository, "--bad-when", "max_diff:0.002")
    assert refused.returncode == 2
    advised = shlex.split(refused.stderr[refused.stderr.index("such as --bad-when") :])[2:4]
    done, report = bisect(repository, *advised)
    assert done.returncode == 0, done.stderr
    assert named(report) == [commits[10]]


@pytest.mark.long
def test_the_time_limit_that_is_advised_for_a_hang_finds_its_commit(repository: TestRepository) -> None:
    commits = history(repository, {range(3, 6): IMPORT, range(9, SIZE): HANG})
    hangs, _ = bisect(repository, "--timeout", "2")
    assert hangs.returncode == 1
    words = re.search(r"-- (timeout) SECONDS COMMAND", hangs.stderr)
    assert words is not None, hangs.stderr
    done, report = bisect(repository, "--name", "again", command=(words[1], "2", "python3", "main.py"))
    assert done.returncode == 0, done.stderr
    assert named(report) == [commits[9]]


@pytest.mark.long
def test_what_is_advised_to_tell_two_failures_apart_tells_them(repository: TestRepository) -> None:
    commits = history(repository, {range(4, 8): VALUE, range(8, SIZE): WRONG})
    unsure, report = bisect(repository)
    assert unsure.returncode in (3, 6), unsure.stderr
    assert {commits[4], commits[8]} <= suspected(report)
    advised = advised_words("if not, ask with ", report["message"])
    done, report = bisect(repository, *advised, "--name", "again")
    assert done.returncode == 3, done.stderr
    assert suspected(report) == {*commits[4:9]}


@pytest.mark.long
@pytest.mark.parametrize("bad", ["exception:AssertionError", "regex:error 0.5", r"log:/error (\S+)/ > 0.2"])
def test_what_is_bad_can_be_said_of_a_command(repository: TestRepository, bad: str) -> None:
    commits = history(
        repository,
        {range(5, 7): VALUE, range(9, SIZE): WRONG, range(3, 4): EXIT.format(7)},
        fine="print('error 0.1')",
    )
    done, report = bisect(repository, "--bad-when", bad)
    assert done.returncode == 0, done.stderr
    assert named(report) == [commits[9]]


@pytest.mark.long
def test_a_pytest_node_is_a_case(repository: TestRepository) -> None:
    """A module that cannot be collected is a skip, and so is a test that is not there."""
    commits: list[str] = []
    for number in range(SIZE):
        body = f"def test_y():\n    assert {0.5 if number >= 9 else 0.1} < 0.2\n"
        body = f"import nothing_of_the_kind\n{body}" if 3 <= number < 6 else body
        body = "def test_z():\n    pass\n" if number == 7 else body
        commits.append(repository.commit(f"commit {number}", {"test_x.py": f"# {number}\n{body}"}))
    done, report = bisect(repository, command=("python3", "-m", "pytest", "-q", "test_x.py::test_y"))
    assert done.returncode == 0, done.stderr
    assert named(report) == [commits[9]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("left_out", "command"),
    [
        ("", ("python3", "-m", "unittest")),
        ("    @unittest.expectedFailure\n{test}", ("python3", "-m", "unittest")),
        (None, ("python3", "test_x.py")),
    ],
)
def test_a_pass_that_runs_fewer_tests_is_none(
    repository: TestRepository, left_out: str | None, command: tuple[str, ...]
) -> None:
    """The failing test is not there, or may fail; or the script says that it checked nothing."""
    commits: list[str] = []
    for number in range(SIZE):
        test = f"    def test_y(self): self.assertLess({0.5 if number >= 6 else 0.1}, 0.2)\n"
        shown = (left_out or "").format(test=test) if 4 <= number < 9 else test
        off = "print('skipped: no device')\nraise SystemExit(0)\n"
        body = "import unittest\nclass Test(unittest.TestCase):\n    def test_x(self): pass\n" + shown
        body += "unittest.main()\n" if left_out is None else ""
        body = off + body if left_out is None and 4 <= number < 9 else body
        commits.append(repository.commit(f"commit {number}", {"test_x.py": f"# {number}\n{body}"}))
    done, report = bisect(repository, command=command)
    assert done.returncode == 3, done.stderr
    assert {*commits[4:10]} <= suspected(report)


@pytest.mark.long
def test_another_assertion_of_the_same_test_is_no_sure_sign(repository: TestRepository) -> None:
    commits: list[str] = []
    for number in range(SIZE):
        unit = "'USD'" if 4 <= number < 9 else "'EUR'"
        total = 60 if number >= 6 else 30
        body = f"def test_y():\n    assert {unit} == 'EUR'\n    assert {total} == 30\n"
        commits.append(repository.commit(f"commit {number}", {"test_x.py": f"# {number}\n{body}"}))
    done, report = bisect(repository, command=("python3", "-m", "pytest", "-q", "test_x.py::test_y"))
    assert done.returncode in (3, 6), done.stderr
    assert {*commits[4:10]} <= suspected(report)


@pytest.mark.long
def test_a_patch_that_may_be_the_fault_is_among_the_suspects(repository: TestRepository) -> None:
    """The first commit that can be tested behind a broken stretch is the culprit; its change is what is advised."""
    commits = history(repository, {range(4, 9): IMPORT, range(9, SIZE): WRONG})
    pick = f"{commits[9]}@{commits[3]}..{commits[8]}"
    _, report = bisect(repository, "--cherry-pick", pick)
    assert commits[9] in suspected(report) | {*named(report)}


@pytest.mark.long
@pytest.mark.parametrize("whole_suite", [False, True])
def test_a_pass_that_skips_the_failing_test_is_none(repository: TestRepository, whole_suite: bool) -> None:
    commits: list[str] = []
    for number in range(SIZE):
        mark = "import pytest\n@pytest.mark.skip\n" if 4 <= number < 9 else ""
        body = f"{mark}def test_y():\n    assert {0.5 if number >= 6 else 0.1} < 0.2\n"
        other = "def test_x():\n    pass\n" if whole_suite else ""
        commits.append(repository.commit(f"commit {number}", {"test_x.py": f"# {number}\n{body}{other}"}))
    done, report = bisect(repository, command=("python3", "-m", "pytest", "-q"))
    assert done.returncode == 3, done.stderr
    assert {*commits[4:10]} == suspected(report)
    assert any("skip" in each["reason"] for each in report["skipped"]), report["skipped"]


@pytest.mark.long
@pytest.mark.parametrize(("state", "is_mute"), [(EXIT.format(1), True), (WORD, True), (WRONG, False)])
def test_a_failure_that_prints_no_reason_is_named_with_a_caveat(
    repository: TestRepository, state: str, is_mute: bool
) -> None:
    commits = history(repository, {range(9, SIZE): state})
    _, report = bisect(repository)
    assert named(report) == [commits[9]]
    assert (
        any("does not distinguish this failure from others" in note for note in report["caveats"]) is is_mute
    )


@pytest.mark.parametrize(
    ("broken", "is_untested"),
    [("print('--- FAIL: TestSum (0.00s)'); raise SystemExit(1)", True), (IMPORT, False)],
)
def test_a_culprit_before_which_no_test_ran_has_a_caveat(
    repository: TestRepository, broken: str, is_untested: bool
) -> None:
    passes = r"print('ok  \texample\t0.002s [no tests to run]')"
    commits = history(repository, {range(9, SIZE): broken}, fine=passes)
    _, report = bisect(repository)
    assert named(report) == [commits[9]]
    untested = f"no test ran at {commits[8][:12]}, which counted as passing"
    assert any(note.startswith(untested) for note in report["caveats"]) is is_untested


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_culprit_that_may_only_rename_a_failing_test_has_a_caveat(
    repository: TestRepository, is_renamed: bool
) -> None:
    """The other test fails until the commit from which on the end's test fails. The two are one, or they are not."""
    commits: list[str] = []
    for number in range(SIZE):
        old = f"    assert {30 if 4 <= number < 9 else 3} == 3\n"
        new = f"    if {30 if number >= 9 else 3} != 3:\n        raise ValueError('wrong total')\n"
        if is_renamed:
            body = f"def test_total():\n{new}" if number >= 9 else f"def test_sum():\n{old}"
        else:
            body = f"def test_total():\n{new}\n\ndef test_sum():\n{old}"
        commits.append(repository.commit(f"commit {number}", {"test_x.py": f"# {number}\n{body}"}))
    _, report = bisect(repository, command=("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"))
    assert named(report) == [commits[9]]
    adds = "it adds the failing test's name (test_x.py::test_total), and test_x.py::test_sum fails before"
    assert any(note.startswith(adds) for note in report["caveats"]) is is_renamed


@pytest.mark.long
def test_a_report_says_which_runs_failed_otherwise(repository: TestRepository) -> None:
    commits = history(repository, {range(3, 6): IMPORT, range(8, SIZE): WRONG})
    _, report = bisect(repository)
    others = {each["signature"] for each in report["other_failures"]} | {
        each["reason"] for each in report["skipped"]
    }
    assert any("ImportError" in (each or "") for each in others)
    text = (Path(repository.path.parent) / "out" / "report.md").read_text()
    assert commits[8] in text

"""The command itself: what it resumes, plans, refuses and says before the first run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.bisect.ask.prepare import prepare
from precision_bisect.bisect.ask.typed_question import question_of
from precision_bisect.bisect.bisect_command import bisect
from precision_bisect.bisect.cli import SlowStart
from precision_bisect.bisect.report.terminal import plan_json, plan_lines
from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.workspace.home import Home
from tests.bisect.ask.test_typed_question import STACK, options, tool  # noqa: F401
from tests.conftest import TestRepository
from tests.support.trusted import write_trusted


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "predicate", "names"),
    [
        (["--good", "a", "--bad", "b"], None, "--good, --bad"),
        (["--case", "case.sh"], None, "--case"),
        (["--after", "case.sh"], None, "--after"),
        (["--dry-run"], None, "--dry-run"),
        (["-o", "out", "--skip=a", "--find-fix"], None, "-o, --skip, --find-fix"),
        (["-j2", "-q", "-psim"], None, "-p"),
        (["-qo", "out"], None, "-o"),
        (["-qj2", "-qpsim"], None, "-p"),
        ([], ("true",), "a command behind --"),
    ],
)
def test_a_resume_asks_nothing_else(
    words: list[str], predicate: tuple[str, ...] | None, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(options("--resume", *words, predicate=predicate), SlowStart(quiet=True)) == 2
    assert f"--resume: expected no question beside it, found {names}: " in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_usage_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect(options("--bad", "b", "--no-localize", "--reduce"), SlowStart(quiet=True)) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupt_before_anything_has_begun_says_so(tool: TestRepository) -> None:  # noqa: F811
    """In a process of its own: what it has started is ended with it, and here that would be the tests' own."""
    code = (
        "import sys; from unittest.mock import patch; from precision_bisect.bisect.cli import main; "
        "patch('precision_bisect.bisect.bisect_command.prepare', side_effect=KeyboardInterrupt).start(); "
        "main(sys.argv[1:])"
    )
    words = ("--good", "HEAD~1", "--bad", "HEAD", "--case", "case.sh", "--repo", "tool")
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert f"{json.loads(done.stdout)['error']['message']}\n" == done.stderr
    assert done.stderr == "interrupted before anything had begun: nothing was run or kept; ask again\n"


def test_the_lines_of_a_plan(tool: TestRepository, home: Home) -> None:  # noqa: F811
    """Of a range, and of a good end that has to be found first."""
    good, bad = tool.git("rev-parse", "HEAD~1"), tool.git("rev-parse", "HEAD")
    with_range = prepare(question_of(options("--good", good, "--bad", bad, "--case", "case.sh")), home)
    lines = list(plan_lines(with_range))
    assert lines[:5] == [
        "stack:     small",
        "case:      case.sh",
        "platform:  sim, device 0",
        f"range:     tool {good[:12]}..{bad[:12]}",
        "           tool: 1 commit in the range",
    ]
    assert "bad when:  mismatch" in lines
    command = prepare(question_of(options("--good", good, "--bad", bad, predicate=("true",))), home)
    assert "bad when:  the command fails as the bad end does" in plan_lines(command)
    (probes,) = (place for place, line in enumerate(lines) if line.startswith("runs:"))
    assert re.fullmatch(r"runs:      about \d+ runs to come \(\d+ of the ends.*\)", lines[probes])
    assert re.fullmatch(
        r"           a good end that fails is run up to \d times, a bad one that passes \d\d",
        lines[probes + 2],
    )
    assert lines[probes + 3] == "           until a confidence of 0.99"
    made = [line for line in lines if line.startswith("report to:")]
    assert made == [
        f"report to: {with_range.request.output}; a new name is made when it is begun, or name it with --output"
    ]
    told = json.loads(plan_json(with_range))
    assert (told["output"], told["bad_when"], told["confidence"]) == (None, "mismatch", 0.99)
    assert f"about {told['runs']} runs to come" in lines[probes]
    named = prepare(
        question_of(options("--good", good, "--bad", bad, "--case", "case.sh", "-o", "here")), home
    )
    assert f"report to: {Path.cwd() / 'here'}" in list(plan_lines(named))
    assert json.loads(plan_json(named))["output"] == str(Path.cwd() / "here")
    surer = prepare(
        question_of(options("--good", good, "--bad", bad, "--case", "case.sh", "--confidence", "0.999")), home
    )
    assert "           until a confidence of 0.999" in list(plan_lines(surer))
    assert json.loads(plan_json(surer))["confidence"] == 0.999
    without = list(plan_lines(prepare(question_of(options("--bad", bad, "--case", "case.sh")), home)))
    assert without[3:5] == [
        f"range:     tool ..{bad[:12]}",
        "           the good end is looked for 1, 2, 4, ... commits before the bad one",
    ]


@pytest.mark.usefixtures("tool")
def test_what_comes_before_a_case_needs_the_shim_and_is_said(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--good",
        "HEAD~1",
        "--bad",
        "HEAD",
        "--case",
        "case.sh",
        "--after",
        "case.sh -x",
        "--after",
        "b.sh",
    )
    with pytest.raises(
        UsageError, match=r"--after b\.sh: expected a file of .*tool at [0-9a-f]{12}, found none"
    ):
        prepare(question_of(options(*words)), home)
    plan = prepare(question_of(options(*words[:-2])), home)
    assert plan.request.stack.case.after == ("case.sh -x",)
    assert any("every run of the case comes after case.sh -x in one process" in each for each in plan.notices)
    without = STACK.replace("[platforms.sim]", "harness = false\n    [platforms.sim]")
    write_trusted(tmp_path / "stack.toml", without)
    assert bisect(options(*words), SlowStart(quiet=True)) == 2
    assert "expected a case that runs under the harness's shim" in capsys.readouterr().err


def test_a_name_in_an_error_adds_no_line_and_no_terminal_code(
    tool: TestRepository,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "log").write_text("git bisect start\ngit bisect bad 'a\x1b[31m\u202eb'\n")
    for words in (("--replay", str(tmp_path / "log")), ("--bad", "a\x1b[31m\u202e\nb")):
        assert bisect(options(*words, "--case", "case.sh"), SlowStart(quiet=True)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: --bad a\\x1b[31m\\u202e")
        assert line.isprintable()

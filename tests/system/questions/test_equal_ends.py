"""Ends that do not differ say why, and what was mended is run again."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program
from tests.support.trusted import write_trusted

STACK = """
name = "small"
searched = "tool"
[repositories.tool]
path = "tool"
[case]
repository = "tool"
command = ["sh", "{case}"]
cwd = "{tool}"
harness = false
[platforms.sim]
[[verdicts]]
verdict = "environment_error"
pattern = "^no (?P<what>\\\\w+) here$"
signature = "no {what}"
[[verdicts]]
verdict = "device_error"
pattern = "^the board is gone$"
[[verdicts]]
verdict = "mismatch"
pattern = "^WRONG$"
[[verdicts]]
verdict = "pass"
pattern = "^RIGHT$"
"""


@dataclass(frozen=True)
class Small:
    """A repository of one script, in which the tool is called."""

    folder: Path
    tool: TestRepository

    def run(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PRECISION_BISECT_HOME": str(self.folder / "home"), **variables}
        return run_program(*words, cwd=self.folder, environment=environment)

    def ends(self, *scripts: str) -> list[str]:
        """What names the first of some commits of the script as good, and the last as bad."""
        shas = [
            self.tool.commit(f"commit {number}", {"case.sh": text}) for number, text in enumerate(scripts)
        ]
        return ["--good", shas[0], "--bad", shas[-1], "-o", str(self.folder / "report")]


@pytest.fixture
def small(tmp_path: Path) -> Small:
    write_trusted(tmp_path / "stack.toml", STACK, tmp_path / "home")
    return Small(tmp_path, TestRepository(tmp_path / "tool"))


@pytest.mark.long
def test_a_command_that_exits_alike_shows_what_it_printed_and_where(small: Small) -> None:
    ends = small.ends("echo one; echo two\n", "echo three; echo four\n")
    done = small.run(*ends, "--repository", f"tool={small.tool.path}", "--", "sh", "case.sh")
    assert done.returncode == 4, done.stderr
    lines = done.stderr.splitlines()
    for last in ("    two", "    four"):
        at = lines.index(last)
        assert lines[at - 2] == "  its last run ends with"
        assert Path(lines[at + 1]).is_file(), "the log's path stands alone"
    assert any(re.match(r"bad \w{12}: pass in \d+ runs", line) for line in lines)
    assert "to check:" in lines
    assert any("exit code 0 is good" in line for line in lines)
    assert any("both ends exit with 0" in line for line in lines)
    assert lines[-1].startswith("error: ")


@pytest.mark.long
def test_ends_that_fail_by_different_exit_codes_are_told_so(small: Small) -> None:
    ends = small.ends("exit 2\n", "exit 1\n")
    done = small.run(*ends, "--repository", f"tool={small.tool.path}", "--", "sh", "case.sh")
    assert done.returncode == 4, done.stderr
    assert "  - the good end fails otherwise than the bad one: name an older --good" in done.stderr


@pytest.mark.parametrize("good", [["--good", "HEAD~1"], []])
def test_a_misspelt_test_is_named_after_the_first_run(small: Small, good: list[str]) -> None:
    tests = "class TestSum:\n    def test_small(self):\n        assert True\n"
    for subject in ("first", "second"):
        small.tool.commit(subject, {"test_sum.py": tests, "subject": subject})
    inside = Small(small.tool.path, small.tool)
    pytest_words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    done = inside.run(*good, "--bad", "HEAD", "--", *pytest_words, "test_sum.py::TestSum::test_smal")
    assert done.returncode == 4, done.stderr
    assert "run 1 " in done.stderr
    assert "run 2 " not in done.stderr
    assert "to check:" not in done.stderr
    assert "is run until" not in done.stderr
    assert done.stderr.endswith(
        ": expected the test test_sum.py::TestSum::test_smal, found none by that name; "
        "did you mean test_sum.py::TestSum::test_small?\n"
    )


def test_a_command_that_hangs_is_told_how_to_be_asked_about(small: Small) -> None:
    hangs = "exec tail -f /dev/null"
    ends = small.ends("exit 0", "exit 0", hangs)
    inside = Small(small.tool.path, small.tool)
    done = inside.run("--timeout", "1", *ends, "--", "sh", "case.sh")
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    way = "-- timeout SECONDS COMMAND ends it with exit code 124, which is bad"
    assert error.startswith(
        f"error: bad {ends[3][:12]}: expected a run that passes or fails as asked, found timeout"
    )
    assert error.endswith(f"; if to hang is the failure, {way}; or give it longer: --timeout")
    assert f"an end did not end within --timeout 1: if to hang is the failure, {way}" in done.stderr
    assert "--bad-when" not in done.stderr
    assert "can the command be found" not in done.stderr
    # So it is done, as it says.
    done = inside.run(*ends, "--", "timeout", "1", "sh", "case.sh")
    assert done.returncode == 0, done.stderr
    assert ends[3] in done.stdout


@pytest.mark.long
def test_a_line_for_a_shell_is_told_to_name_one(small: Small) -> None:
    ends = small.ends("exit 0\n", "exit 1\n")
    done = small.run(*ends, "--repository", f"tool={small.tool.path}", "--", "sh case.sh && true")
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "error: -- 'sh case.sh && true': expected the program and each argument as separate words, found one word; "
        "remove the quotes, or run a shell line with: -- sh -c 'LINE'\n"
    )


@pytest.mark.long
def test_a_case_that_fails_otherwise_is_told_what_would_count(small: Small) -> None:
    ends = small.ends("echo RIGHT\n", "echo broken; exit 3\n")
    done = small.run(*ends, "--case", "case.sh")
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    assert "    broken" in lines
    says = "the bad end ends with exit code 3, which does not count as bad: if it is the failure, say --bad-when exit:3"
    assert any(says in line for line in lines)
    found = small.run(*ends, "--case", "case.sh", "--bad-when", "exit:3")
    assert f"culprit    tool {small.tool.git('rev-parse', 'HEAD')[:12]}" in found.stdout, found.stderr
    assert any(line.startswith("  - the case at both ends: case.sh") for line in lines)


@pytest.mark.long
def test_what_was_mended_is_run_again_at_a_resume(small: Small) -> None:
    lacking = 'test -n "$MENDED" || { echo no module here; exit 1; }\n'
    ends = small.ends(
        f"{lacking}echo RIGHT\n", f"{lacking}echo still RIGHT; echo RIGHT\n", f"{lacking}echo WRONG\n"
    )
    done = small.run(*ends, "--case", "case.sh")
    assert done.returncode == 1
    assert "fix the environment (no module), then resume" in done.stderr
    assert "--bad-when environment_error" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "--resume" in line]
    again = small.run("--resume", line.split()[-1])
    assert (again.returncode, "no module here" in again.stderr) == (1, True), "it is still not mended"
    mended = small.run("--resume", line.split()[-1], MENDED="1")
    assert mended.returncode == 0, mended.stderr
    assert small.tool.git("rev-parse", "HEAD") in mended.stdout


COUNTED = """n=$(cat "$COUNT"); echo $((n + 1)) >"$COUNT"
case " $LOST " in *" $n "*) echo the board is gone; exit 1;; esac
"""
"""A script that is lost in some of its runs, counted from 0."""


def counted(small: Small, commits: int, broken: int) -> list[str]:
    """The ends of a range, whose commits fail from one on."""
    (small.folder / "count").write_text("0")
    return small.ends(
        *(f"{COUNTED}: {each}\necho {'WRONG' if each >= broken else 'RIGHT'}\n" for each in range(commits))
    )


@pytest.mark.long
def test_one_error_of_the_device_does_not_end_the_night(small: Small) -> None:
    ends = counted(small, 8, 5)
    culprit = small.tool.git("rev-parse", "HEAD~2")
    done = small.run(*ends, "--case", "case.sh", COUNT=str(small.folder / "count"), LOST="0 1 3")
    assert done.returncode == 0, done.stderr
    assert culprit in done.stdout
    assert "again: it could not be judged" in done.stderr


@pytest.mark.long
def test_a_board_that_goes_in_the_middle_is_told_and_what_was_lost_is_run_again(small: Small) -> None:
    ends = counted(small, 20, 13)
    culprit = small.tool.git("rev-parse", "HEAD~6")
    gone = {"COUNT": str(small.folder / "count"), "LOST": " ".join(map(str, range(4, 60)))}
    done = small.run(*ends, "--case", "case.sh", **gone)
    assert done.returncode == 1, done.stderr
    assert "error: runs 5 to " in done.stderr
    assert (
        "could be judged, though commits among them were before: something besides the commits" in done.stderr
    )
    assert "again: to see whether it can still be judged" in done.stderr
    assert "the board is gone" in done.stderr
    assert "to check:" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "--resume" in line]
    mended = small.run("--resume", line.split()[-1], COUNT=gone["COUNT"], LOST="")
    assert mended.returncode == 0, mended.stderr
    assert culprit in mended.stdout
    assert "?" not in mended.stderr, "what was lost counts for nothing"

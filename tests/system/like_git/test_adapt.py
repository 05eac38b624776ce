"""`--adapt`: a case with the names of one time, over a range in which a commit of the tool renames an argument."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.program import start_program
from tests.system.questions.test_predicate import found, run

STACK = """
name = "renaming"
searched = "tool"
[repositories]
tool.path = "tool"
cases.path = "cases"
[environment.variables]
PYTHONPATH = "{tool}"
[case]
repository = "cases"
command = ["{python}", "{case}"]
cwd = "{cases}"
harness = false
[platforms.host]
[[verdicts]]
verdict = "unknown"
pattern = '''^TypeError: (?P<function>[\\w.<>]+\\(\\)) got an unexpected keyword argument '(?P<keyword>\\w+)\\b'''
raised_in = '/cases/'
signature = "case too old or too new: {function} takes no {keyword}"
[[verdicts]]
verdict = "mismatch"
pattern = '^WRONG'
[[verdicts]]
verdict = "pass"
pattern = '^RIGHT'
"""
LIBRARY = "def load(x, rows):\n    return x * rows {}\n\n\ndef slice(x, lines):\n    return x * lines\n"
CASE = (
    "import lib\n\nassert lib.slice(2, lines=3) == 6\nprint('RIGHT' if lib.load(2, {}=3) == 6 else 'WRONG')\n"
)
COMMITS, RENAMED = 12, 6


class Renaming:
    """A tool that renames an argument in the middle of its history, and gets a fault at one commit."""

    def __init__(self, folder: Path, *, broken: int) -> None:
        self.folder = folder
        (folder / "stack.toml").write_text(STACK)
        self.tool, self.cases = TestRepository(folder / "tool"), TestRepository(folder / "cases")
        self.commits = [self.tool.commit(f"commit {n}", self.files(n, broken)) for n in range(COMMITS)]

    @staticmethod
    def files(place: int, broken: int) -> Mapping[str, str]:
        text = LIBRARY.format("+ 1" if place >= broken else "")
        if place >= RENAMED:
            text = text.replace("rows", "lines")
        return {"lib.py": text, "place": str(place)}

    @property
    def question(self) -> list[str]:
        ends = ("--good", self.commits[0], "--bad", self.commits[-1])
        return ["--stack", "stack.toml", "--case", "case.py", *ends, "-o", str(self.folder / "out")]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return run(self.folder, self.folder / "home", *words)

    def bisect(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.run(*self.question, *words)

    def interrupt(self, *words: str) -> int:
        """Interrupt a search once a run has ended; the exit code."""
        environment = {**os.environ, "PRECISION_BISECT_HOME": str(self.folder / "home")}
        process = start_program(*self.question, *words, cwd=self.folder, environment=environment)
        assert process.stderr is not None
        next(line for line in process.stderr if re.match(r"run +1\b", line))
        process.send_signal(signal.SIGINT)
        process.communicate()
        return process.returncode

    def adapt(self) -> str:
        """The file of renames, as it is proposed."""
        done = self.run("adapt", self.commits[RENAMED], "--stack", "stack.toml")
        assert done.returncode == 0, done.stderr
        (self.folder / "renames.toml").write_text(done.stdout)
        return done.stdout

    @property
    def report(self) -> dict[str, object]:
        return json.loads((self.folder / "out" / "report.json").read_text())


@pytest.mark.parametrize(
    ("broken", "spelling"),
    [
        (9, "lines"),
        pytest.param(3, "lines", marks=pytest.mark.long),
        pytest.param(9, "rows", marks=pytest.mark.long),
        pytest.param(3, "rows", marks=pytest.mark.long),
        pytest.param(RENAMED, "rows", marks=pytest.mark.long),
    ],
)
def test_the_culprit_on_either_side_of_the_rename(tmp_path: Path, broken: int, spelling: str) -> None:
    scene = Renaming(tmp_path, broken=broken)
    scene.cases.commit("case", {"case.py": CASE.format(spelling)})
    assert 'old = "rows"\nnew = "lines"\nkeyword_of = ["load"]\n' in scene.adapt()
    done = scene.bisect("--adapt", "renames.toml")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == scene.commits[broken]
    end = "good" if spelling == "lines" else "bad"
    for text in (done.stderr, (tmp_path / "out" / "report.md").read_text()):
        assert f"rows of load became lines with {scene.commits[RENAMED][:12]} of tool" in text
        assert f"at the {end} end, 1 place of cases/case.py" in text
    assert scene.report["renames"] == [
        {
            "repository": "tool", "commit": scene.commits[RENAMED], "old": "rows", "new": "lines",
            "keyword_of": ["load"],
        }
    ]  # fmt: skip
    for side, code in (("good", "RIGHT"), ("bad", "WRONG")):
        script = tmp_path / "out" / f"reproduce-{side}.sh"
        shown = subprocess.run(
            ["sh", str(script), str(tmp_path / side)], capture_output=True, text=True, check=False
        )
        assert shown.stdout == f"{code}\n", shown.stderr
    assert scene.cases.git("status", "--porcelain") == scene.tool.git("status", "--porcelain") == ""


@pytest.mark.parametrize("spelling", ["lines", pytest.param("rows", marks=pytest.mark.long)])
def test_without_it_the_commit_that_renamed_is_named(tmp_path: Path, spelling: str) -> None:
    """An end cannot be judged; the command that is told writes the file that it can be judged with."""
    scene = Renaming(tmp_path, broken=9)
    scene.cases.commit("case", {"case.py": CASE.format(spelling)})
    refused = scene.bisect()
    assert refused.returncode == 1
    assert f"case too old or too new: load() takes no {spelling}" in refused.stderr
    (hint,) = re.findall(
        r"  - at \w+ load takes no argument \w+: .*; run: (.*), look at it, and ask", refused.stderr
    )
    assert hint == f"bisect-precision adapt {scene.commits[RENAMED][:12]} --stack stack.toml > renames.toml"
    subprocess.run(["sh", "-c", hint], cwd=tmp_path, check=True)
    planned = scene.bisect("--adapt", "renames.toml", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "1 place of cases/case.py" in planned.stdout


def test_of_commits_between_the_ends_it_is_told_with_the_answer(tmp_path: Path) -> None:
    """The name comes and goes, so that both ends can be judged."""
    scene = Renaming(tmp_path, broken=7)
    last = Renaming.files(COMMITS, 7)["lib.py"].replace(
        "lines):\n    return x * lines + 1", "rows):\n    return x * rows + 1"
    )
    scene.commits.append(scene.tool.commit("the old name again", {"lib.py": last}))
    scene.cases.commit("case", {"case.py": CASE.format("rows")})
    done = scene.bisect()
    assert done.returncode == 3, done.stderr
    assert "--adapt make commits testable" in done.stdout
    (hint,) = re.findall(
        r"note: at \w+ load takes no argument rows: .*; run: (.*), look at it, and ask", done.stderr
    )
    there, back = (
        f"bisect-precision adapt {sha[:12]} --stack stack.toml" for sha in scene.commits[RENAMED::6]
    )
    assert hint == f"{there} > renames.toml && {back} >> renames.toml"
    subprocess.run(["sh", "-c", hint], cwd=tmp_path, check=True)
    done = scene.bisect("--adapt", "renames.toml")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == scene.commits[7]


@pytest.mark.long
def test_a_resume_goes_on_with_the_same_names(tmp_path: Path) -> None:
    scene = Renaming(tmp_path, broken=3)
    scene.cases.commit("case", {"case.py": CASE.format("lines")})
    scene.adapt()
    assert scene.interrupt("--adapt", "renames.toml") == 130
    (tmp_path / "renames.toml").unlink()
    refused = scene.run("--resume", "--adapt", "renames.toml")
    assert refused.returncode == 2
    assert "expected no question beside it, found --adapt" in refused.stderr
    done = run(scene.tool.path, tmp_path / "home", "--resume")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == scene.commits[3]


def test_a_commit_that_renames_nothing(tmp_path: Path) -> None:
    scene = Renaming(tmp_path, broken=3)
    done = scene.run("adapt", scene.commits[1], "--stack", "stack.toml")
    assert done.returncode == 1
    assert "expected a name that" in done.stderr
    assert "[[rename]]" not in done.stdout
    done = scene.run("adapt", scene.commits[1], "--stack", "stack.toml", "--repo", "toll")
    assert done.returncode == 2
    assert "--repo toll: expected one of cases, tool" in done.stderr

"""Five nights of two plain cases, typed as a job of a machine types them: what each exits with, and its line."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program
from tests.support.quick import quick_first

if TYPE_CHECKING:
    import subprocess

_STACK = """
name = "plain"
searched = "tool"
repositories.tool.path = "tool"
platforms.host = {}
[case]
repository = "tool"
command = ["sh", "{case}"]
cwd = "{tool}"
harness = false
[[verdicts]]
verdict = "mismatch"
pattern = "^WRONG$"
[[verdicts]]
verdict = "pass"
pattern = "^RIGHT$"
"""
_NIGHT = """
job = "plain"
stack = "stack.toml"
branches = ["main"]
cases = ["one.sh", "two.sh"]
platforms.host = {}
output = "nights"
"""


@dataclass(frozen=True)
class Job:
    """A job whose cases read one file each of the repository."""

    folder: Path
    tool: TestRepository

    def commit(self, subject: str, **states: str) -> str:
        return self.tool.commit(subject, states)

    def night(self, *words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PRECISION_BISECT_HOME": str(self.folder / "home")}
        return run_program("nightly", "night.toml", *words, cwd=self.folder, environment=environment)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "stack.toml").write_text(_STACK)
    (tmp_path / "night.toml").write_text(_NIGHT)
    job = Job(tmp_path, TestRepository(tmp_path / "tool"))
    scripts = {f"{name}.sh": f"cat {name}; ! grep -q WRONG {name}\n" for name in ("one", "two")}
    job.tool.commit("begin", {**scripts, "one": "RIGHT\n", "two": "RIGHT\n"})
    return job


def test_five_nights_exit_by_what_is_new_what_is_known_and_what_could_not_be_run(job: Job) -> None:
    first = job.night()
    assert (first.returncode, "  2 passed\n" in first.stdout) == (0, True), first.stderr
    job.commit("before", three="1")
    culprit = job.commit("break", one="WRONG\n")
    job.commit("after", three="2")
    new = job.night("--fail-on", "new")
    assert new.returncode == 7, new.stderr
    assert f"  culprit tool {culprit[:12]}, " in new.stdout
    assert "  1 passed, 1 regressed\n" in new.stdout
    assert job.night("--fail-on", "new").returncode == 0
    known = job.night("--json")
    assert known.returncode == 8
    shown = {case["case"]: case["status"] for case in json.loads(known.stdout)["cases"]}
    assert shown == {"one.sh": "known", "two.sh": "passed"}
    file = job.folder / "night.toml"
    file.write_text(file.read_text().replace("two.sh", "tow.sh"))
    for words in (("--fail-on", "new"), ("-q",)):
        misspelt = job.night(*words)
        assert misspelt.returncode == 9
        (line,) = (line for line in misspelt.stdout.splitlines() if "could not be run" in line)
        assert line.endswith("no tow.sh at this commit")


def test_a_night_goes_to_a_folder_beside_its_file_where_none_is_named(job: Job) -> None:
    """As the documents say."""
    file = job.folder / "night.toml"
    file.write_text(file.read_text().replace('output = "nights"\n', ""))
    assert job.night("-q").returncode == 0
    written = {path.name for path in (job.folder / "nightly" / "plain" / "night-0001").iterdir()}
    assert written == {"night.json", "night.md", "junit.xml"}
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "nights.md").read_text(encoding="utf-8")
    assert (
        "go to `JOB/night-0001` and so on, in the folder that the key `output` names, without it `nightly/`"
        in page
    )


def test_where_nights_cannot_be_written_is_said_before_the_first_run(job: Job) -> None:
    """/proc lets root write, and has no files."""
    file = job.folder / "night.toml"
    file.write_text(file.read_text().replace('output = "nights"', 'output = "/proc/nights"'))
    done = job.night()
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: /proc/nights/plain: expected a place for the nights, found /proc, ")
    assert line.endswith("name another one as output in night.toml")


def test_nights_do_not_change_the_checkout_that_they_are_written_to(job: Job) -> None:
    file = job.folder / "night.toml"
    file.write_text(file.read_text().replace('output = "nights"', 'output = "tool/nights"'))
    for _ in range(2):
        assert job.night("-q").returncode == 0
    assert (job.tool.path / "nights" / "plain" / "night-0002" / "night.md").is_file()
    assert job.tool.git("status", "--porcelain") == ""


@pytest.mark.parametrize("words", [[], ["--keep"]])
def test_a_hook_that_is_not_there_is_said_before_the_first_run(job: Job, words: list[str]) -> None:
    """It would be missed when an incident is to be told."""
    file = job.folder / "night.toml"
    file.write_text('on_incident = ["/nonexistent/tell", "them"]\n' + file.read_text())
    done = job.night(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line == (
        "error: night.toml: on_incident: expected a program that can be run, found no /nonexistent/tell"
    )
    assert not (job.folder / "nights").exists()


@pytest.mark.parametrize("words", quick_first([["-q"], ["--json"]]))
def test_a_night_is_told_whatever_happens_to_its_folder(job: Job, words: list[str]) -> None:
    """A case itself puts a file in its place."""
    spoils = f"cat one; rm -rf {job.folder}/nights; touch {job.folder}/nights\n"
    job.tool.commit("spoil", {"one.sh": spoils})
    done = job.night(*words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"error: {job.folder}/nights/plain/night-0001: expected a folder"
    )
    if "--json" in words:
        assert [case["status"] for case in json.loads(done.stdout)["cases"]] == ["passed", "passed"]
    else:
        assert "  2 passed\n" in done.stdout
        assert "written to" not in done.stdout


def test_a_night_is_told_where_its_store_is_removed(job: Job) -> None:
    store = job.folder / "home" / "state" / "store.sqlite"
    job.tool.commit("spoil", {"one.sh": f"cat one; rm -f {store}\n"})
    done = job.night("-q")
    assert done.returncode == 1
    assert "  2 passed\n" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {store}: expected the store that was opened there, found none: ")

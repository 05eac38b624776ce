"""A question that was asked before: its runs count again, each once, and are told as reused."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TestRepository
from tests.support.hold import Hold
from tests.support.program import run_program, start_program
from tests.support.quick import quick_first

COMMITS, CULPRIT = 16, 11
CHECK = "echo >>{runs}; test ${{LEVEL:-1}} = 1 && grep -q fine state"


def run(folder: Path, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_program(*words, cwd=folder, environment={**os.environ, "PRECISION_BISECT_HOME": str(home)})


class Asked:
    """A line of commits, and a check outside of it that counts its runs."""

    def __init__(self, repository: TestRepository, folder: Path) -> None:
        self.repository, self.folder = repository, folder
        self.commits = [
            repository.commit(f"commit {n}", {"state": "fine" if n < CULPRIT else "broken", "n": str(n)})
            for n in range(COMMITS)
        ]
        self._runs = folder / "runs"
        self.check = folder / "check.sh"
        self.check.write_text(f"#!/bin/sh\n{CHECK.format(runs=self._runs)}\n")
        self.check.chmod(0o755)

    def ask(self, *words: str, code: int = 0, command: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
        """How many runs that took, and the report."""
        self._runs.write_text("")
        ends = () if "--good" in words else ("--good", self.commits[0])
        options = (*ends, "--bad", self.commits[-1], "-o", str(self.folder / "out"), *words)
        done = run(
            self.repository.path, self.folder / "home", *options, "--", *(command or (str(self.check),))
        )
        self.said = done.stderr
        assert done.returncode == code, done.stderr
        return self._runs.read_text().count("\n"), json.loads(
            (self.folder / "out" / "report.json").read_text()
        )

    def interrupt(self, name: str, *, after: int) -> None:
        """Ask, and interrupt the run behind so many."""
        hold = Hold(self.folder)
        held = f"[ -p {hold.hold} ] && [ $(wc -l <{self._runs}) -gt {after} ] && echo >{hold.held} && cat {hold.hold}"
        self.check.write_text(f"{self.check.read_text()}".replace("; test", f"; {held}; test"))
        process = start_program(
            *(
                "--good",
                self.commits[0],
                "--bad",
                self.commits[-1],
                "-o",
                str(self.folder / "out"),
                "--name",
                name,
            ),
            *("--", str(self.check)),
            cwd=self.repository.path,
            environment={**os.environ, "PRECISION_BISECT_HOME": str(self.folder / "home")},
        )
        hold.wait(process)
        process.send_signal(signal.SIGINT)
        process.communicate()
        hold.let_go()
        assert process.returncode == 130


@pytest.fixture
def asked(repository: TestRepository, tmp_path: Path) -> Asked:
    return Asked(repository, tmp_path)


def runs_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(
        (each for probe in report["probes"] for each in probe["runs"]), key=lambda each: each["ordinal"]
    )


def test_its_runs_count_again_each_once_and_are_told(asked: Asked) -> None:
    made, first = asked.ask("--name", "first")
    assert made == len(runs_of(first)) > 5
    for name in ("second", "third"):
        made, report = asked.ask("--name", name)
        assert made == 0
        assert (
            f"note: {len(runs_of(first))} runs of first count here, which asked the same; --fresh"
            in asked.said
        )
        assert {each["reused"] for each in runs_of(report)} == {"first"}
        assert [(each["started"], each["judgement"]) for each in runs_of(report)] == [
            (each["started"], each["judgement"]) for each in runs_of(first)
        ]
        assert report["culprits"] == first["culprits"]
        assert "reused from first" in (asked.folder / "out" / "report.md").read_text()
        assert report["timing"]["run"] == 0
    made, report = asked.ask("--fresh")
    assert made == len(runs_of(report)) == len(runs_of(first))
    assert {each["reused"] for each in runs_of(report)} == {None}


def test_of_another_range_what_is_equal_counts(asked: Asked) -> None:
    """And of a search that was not ended, too: with what it made itself since."""
    asked.interrupt("stopped", after=4)
    made, report = asked.ask("--name", "whole")
    reused = [each["reused"] for each in runs_of(report)]
    assert (reused.count("stopped"), reused.count(None)) == (4, made)
    assert made > 0
    _, report = asked.ask("--good", asked.commits[4])
    by_commit = {probe["commit"] for probe in report["probes"] for each in probe["runs"] if each["reused"]}
    assert by_commit <= {*asked.commits[4:]}
    assert asked.commits[CULPRIT] in by_commit
    assert {each["reused"] for each in runs_of(report)} <= {"stopped", "whole", None}
    assert report["culprits"][0]["commit"] == asked.commits[CULPRIT]


@pytest.mark.parametrize("change", quick_first(["script", "variable", "words", "timeout", "bad end"]))
def test_another_question_runs_all_anew(asked: Asked, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = asked.ask()
    words, command = [], ()
    match change:
        case "script":
            asked.check.write_text(asked.check.read_text())
        case "variable":
            monkeypatch.setenv("LEVEL", "1")
        case "words":
            command = (str(asked.check), "again")
        case "timeout":
            words = ["--timeout", "77"]
        case _:
            asked.commits.append(asked.repository.commit("on top", {"n": "on top"}))
    made, report = asked.ask(*words, command=command)
    assert made == len(runs_of(report)) >= first


def test_no_run_under_another_value_of_a_variable_counts(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known to read them, or they are named like secrets."""
    asked.ask("--name", "first")
    for name, value in (
        ("PYTEST_ADDOPTS", "-k small"),
        ("NUM_TOKENS", "8"),
        ("PATH", f"{os.environ['PATH']}:/none"),
    ):
        with monkeypatch.context() as shell:
            shell.setenv(name, value)
            made, report = asked.ask()
        assert made == len(runs_of(report)) > 0, name
        (note,) = [line for line in asked.said.splitlines() if "asked the same" in line]
        assert "do not count here: " in note
        assert name in note
    assert asked.ask()[0] == 0


@pytest.mark.long
def test_where_ends_did_not_differ_all_is_run_anew(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is mended since, or nobody would ask again."""
    monkeypatch.setenv("LEVEL", "2")
    asked.ask(code=4)
    made, report = asked.ask(code=4)
    assert made == len(runs_of(report)) >= 2


@pytest.mark.long
def test_a_copy_is_no_second_witness(asked: Asked) -> None:
    """Neither of what commits take, nor in the commit's own page, nor in a later bisection."""
    asked.ask("--name", "first")
    asked.ask("--name", "second")
    pages = asked.folder / "pages"
    done = run(asked.repository.path, asked.folder / "home", "report", "--html", str(pages))
    assert done.returncode == 0, done.stderr
    (page,) = pages.rglob(f"*{asked.commits[CULPRIT]}*.html")
    assert "first run" in page.read_text()
    assert "second run" not in page.read_text()

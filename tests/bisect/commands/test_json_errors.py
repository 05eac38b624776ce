"""With --json, a command that ends early prints one document with its error."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import jsonschema
import pytest
from click.testing import CliRunner

from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.compare import diff_command
from precision_bisect.runner.compare.diff_cli import main as diff_tensors
from tests.conftest import TestRepository
from tests.support.program import kill_driver, run_program

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "error.schema.json").read_text())
ENDS = ["--good", "main~1", "--bad", "main"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def two_commits(tmp_path: Path) -> Run:
    """Runs the command in a repository of two commits."""
    repository = TestRepository(tmp_path / "repository")
    for subject in ("first", "second"):
        repository.commit(subject, {"check.sh": "exit 0\n", "subject": subject})
    home = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home"), "HELD": str(tmp_path / "held")}
    return partial(run_program, cwd=repository.path, environment=home)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([*ENDS, "--jsn", "--json"], 2, "--jsn: expected an option"),
        (["--json"], 2, "expected a question, found none"),
        (["--good", "mian", "--bad", "main", "--json", "--", "true"], 2, "did you mean main?"),
        ([*ENDS, "--json", "--path", "nowhere", "--", "true"], 4, "touches --path nowhere"),
        ([*ENDS, "--json", "--", "./chek.sh"], 2, "did you mean check.sh?"),
        (["history", "gone", "--json"], 1, "expected a store"),
        (["explain", "gone", "--json"], 1, "gone"),
        (["nightly", "gone.toml", "--json"], 2, "gone.toml"),
        ([*ENDS, "--budget", "0.01s", "--json", "--", "true"], 6, "the budget was spent"),
    ],
)
def test_an_early_error_is_a_document(two_commits: Run, words: list[str], code: int, says: str) -> None:
    done = two_commits(*words)
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert (done.returncode, document["error"]["exit_code"]) == (code, code)
    assert says in document["error"]["message"]
    assert done.stderr.endswith(f"error: {document['error']['message']}\n")


def test_an_interrupt_is_a_document_that_says_how_to_resume(two_commits: Run) -> None:
    check = f"grep -q first subject && exit 0; [ -e $HELD ] && exit 1; touch $HELD; {kill_driver('INT')}; sleep 60"
    done = two_commits(*ENDS, "--json", "--", "sh", "-c", check)
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert (done.returncode, document["error"]["exit_code"]) == (130, 130)
    said, _, resume = document["error"]["message"].partition(": ")
    assert said == "interrupted; to resume"
    assert resume in done.stderr.splitlines()
    resumed = two_commits(*shlex.split(resume.partition("bisect-precision ")[2]))
    assert json.loads(resumed.stdout)["culprits"][0]["subject"] == "second"


def test_an_interrupt_before_the_program_has_begun_is_a_document() -> None:
    code = "from precision_bisect.runner.process.entry import exit_at_once; exit_at_once(2, None)"
    for words, is_printed in ((["--json"], True), (["--", "tool", "--json"], False)):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 130
        assert bool(done.stdout) == is_printed
        if is_printed:
            jsonschema.validate(json.loads(done.stdout), SCHEMA)


def test_an_interrupted_comparison_prints_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(diff_command, "compare", interrupt)
    done = CliRunner().invoke(diff_tensors, ["a.pt", "b.pt", "--json"])
    assert done.exit_code == 130
    assert json.loads(done.stdout)["error"] == {"message": "interrupted", "exit_code": 130}


@pytest.mark.parametrize(
    ("program", "words", "code"),
    [
        (diff_tensors, ["gone.pt", "gone.npy"], 2),
        (diff_tensors, ["gone.pt"], 2),
        (reduce, ["gone", "--reference", "gone"], 2),
        (reduce, ["gone", "--timeout", "soon"], 2),
    ],
)
def test_the_other_programs_do_so_too(program: click.Command, words: list[str], code: int) -> None:
    done = CliRunner().invoke(program, [*words, "--json"])
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert (done.exit_code, document["error"]["exit_code"]) == (code, code)
    assert done.stderr == f"error: {document['error']['message']}\n"


def test_a_command_that_knows_json_itself_prints_no_document(tmp_path: Path) -> None:
    done = run_program("--bad", "x", "--", "tool", "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")

"""The reference says what the code takes: its tables of options and traits, the keys of stack files, the exit codes."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from precision_bisect.bisect.bisect_command import EXIT_CODES
from precision_bisect.bisect.cli import main as bisect_precision
from precision_bisect.bisect.report.model import Report
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner import stack
from precision_bisect.runner.compare.diff_cli import main as diff_tensors
from precision_bisect.runner.verdict.classify import Classifier
from precision_bisect.runner.verdict.rules import Ending, VerdictRule
from tests.conftest import TestRepository

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
FOREIGN_OPTIONS = {
    "dask": {"--nthreads", "--resources"},
    "ray": {"--head", "--address", "--num-cpus", "--resources"},
    "git": {"--term-old", "--term-new"},
    "a case": {"--manual", "--dump-args", "--dump-passes", "--save-data"},
}
NO_KEYS = {"overlays", "commits", "renames"}
"""What options and the tool itself fill in."""
MODELS = (
    stack.Stack, stack.Repository, stack.Releases, stack.GitlinkPin, stack.CommitFilePin, stack.VersionFilePin,
    stack.EarlierPlace, stack.Step, stack.Environment, stack.Tool, stack.Case, stack.CaseFlags, stack.Platform,
    stack.Schedule, stack.Perturbation, stack.MachineLimits, VerdictRule,
)  # fmt: skip


def test_the_tables_of_the_reference_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "options.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_comma_between_two_spellings_is_no_code() -> None:
    page = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    assert "| `-p`, `--platform` `NAME` |" in page
    assert not re.search(r"^\| `[^|]*,` ", page, re.MULTILINE)


def options_of(command: click.Command) -> Iterator[str]:
    """Each spelling of the options of a command and its subcommands."""
    for parameter in command.params:
        yield from parameter.opts + parameter.secondary_opts
    for subcommand in getattr(command, "commands", {}).values():
        yield from options_of(subcommand)


def test_each_option_that_a_page_names_is_there() -> None:
    known = {"--help"}.union(*(options_of(program) for program in (bisect_precision, diff_tensors, reduce)))
    pages = [ROOT / "README.md", *(ROOT / "skills").rglob("*.md")]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if page.name != "architecture.md"]
    named = {
        option: page.name
        for page in pages
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 60
    others = set[str]().union(*FOREIGN_OPTIONS.values())
    assert {option: page for option, page in named.items() if option not in known | others} == {}


def models_of(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models that a model's fields have."""
    for field in model.model_fields.values():
        for name in re.findall(r"\w+", str(field.annotation)):
            found = getattr(stack, name, None)
            if isinstance(found, type) and issubclass(found, BaseModel):
                yield found


def test_all_parts_of_a_stack_file_are_asked_for() -> None:
    parts = {part for model in MODELS for part in models_of(model)}
    assert parts - set(MODELS) <= {stack.Overlay, stack.Rename, stack.Model}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_each_key_of_a_stack_file_is_explained(model: type[BaseModel]) -> None:
    words = {
        word
        for code in re.findall(r"`([^`\n]+)`", (REFERENCE / "stack-file.md").read_text(encoding="utf-8"))
        for word in re.findall(r"\w+", code)
    }
    assert set(model.model_fields) - NO_KEYS - words == set()


def test_each_outcome_of_a_bisection_has_its_exit_code() -> None:
    text = (
        (REFERENCE / "exit-codes.md")
        .read_text(encoding="utf-8")
        .partition("\n## bisect-precision nightly")[0]
    )
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == {
        *EXIT_CODES.values(), 2, 130,
    }  # fmt: skip
    keys = (REFERENCE / "json.md").read_text(encoding="utf-8")
    assert [outcome for outcome in EXIT_CODES if f"`{outcome}`" not in keys] == []


def test_the_errors_of_a_script_are_read_as_the_page_says() -> None:
    text = (
        (REFERENCE / "stack-file.md")
        .read_text(encoding="utf-8")
        .partition("### Errors that a script prints")[2]
    )
    (rule,) = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])["verdicts"]
    classifier = Classifier([VerdictRule.model_validate(rule)])
    classifier.feed("stdout", "FAILED y error=0.25")
    found = classifier.finish(Ending(exit_code=1), None)
    assert (found.verdict, found.signature) == ("mismatch", "y")
    assert found.metrics == {"y": {"relative_l2": 0.25}}


def test_each_key_of_a_report_that_the_page_names_is_there() -> None:
    text = (REFERENCE / "json.md").read_text(encoding="utf-8").partition("## What to read of a report")[2]
    keys = {re.match(r"\w+", name)[0] for name in re.findall(r"^\| `(\w[^`]*)`", text, re.MULTILINE)}
    assert len(keys) > 8
    assert keys - set(Report.model_fields) == set()


def test_the_models_that_the_page_names_can_be_imported() -> None:
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(precision_bisect\.[\w.]+)\.(\w+)` \|", text, re.MULTILINE)
    assert len(named) > 3
    for module, name in named:
        assert issubclass(getattr(importlib.import_module(module), name), BaseModel)


def test_the_python_program_of_the_page_prints_the_culprit(tmp_path: Path) -> None:
    repository = TestRepository(tmp_path / "tool")
    commits = [
        repository.commit(f"commit {place}", {"check.sh": f"#!/bin/sh\n[ {place} -lt 2 ] || exit 1\n"})
        for place in range(4)
    ]
    repository.git("tag", "v1", commits[0])
    (program,) = re.findall(r"```python\n(.*?)```", (REFERENCE / "python.md").read_text("utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program.replace("./check.sh", 'sh", "./check.sh')],
        cwd=repository.path,
        env={
            **os.environ,
            "PRECISION_BISECT_HOME": str(tmp_path / "home"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(f"{commits[2][:12]} commit 2 0.99"), done.stderr

"""The examples under configs/: files that their own readers accept, with commands that exist."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.nightly.matrix import load_config
from precision_bisect.bisect.nightly.night_report import schema_text
from precision_bisect.runner.settings import named_stacks

CONFIGS = Path(__file__).parents[3] / "configs"
SCHEDULERS = CONFIGS / "schedulers"
PROGRAM = "/opt/precision-bisect/bin/bisect-precision"


def test_the_published_schema_is_current() -> None:
    assert (CONFIGS.parent / "docs" / "nightly.schema.json").read_text() == schema_text(), (
        "run: python -m precision_bisect.bisect.nightly.night_report > docs/nightly.schema.json"
    )


def test_the_nightly_file_is_one() -> None:
    config, stack = load_config(CONFIGS / "nightly.toml")
    assert (config.job, stack.name) == ("pypto", "pypto")
    assert config.window is not None
    assert "nightly" not in named_stacks()


def test_the_nightly_file_of_the_documents_is_one(tmp_path: Path) -> None:
    text = (CONFIGS.parent / "docs" / "how-to" / "nights.md").read_text()
    shown = text.partition("A branch `night`")[2].partition("```toml")[2].partition("```")[0]
    file = tmp_path / "night.toml"
    file.write_text(shown)
    (tmp_path / "stack.toml").write_text((CONFIGS / "demo.toml").read_text().replace("@ROOT@", str(tmp_path)))
    config, stack = load_config(file)
    assert (config.job, config.branches, stack.name) == ("try", ("night",), "demo")


def commands(text: str) -> Iterator[list[str]]:
    """Every call of ours in a line, a unit's or a script's."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        for place, word in enumerate(words):
            if word.rpartition("/")[2].rpartition("=")[2] == "bisect-precision":
                yield words[place + 1 :]


def check_command(words: list[str]) -> None:
    """Parsed by our command line, and not run."""
    name, *rest = words
    command = main.commands[name]
    with command.make_context(name, rest) as context:
        assert isinstance(context, click.Context)


@pytest.mark.parametrize("file", sorted(SCHEDULERS.iterdir()), ids=lambda file: file.name)
def test_commands_exist(file: Path) -> None:
    if file.suffix == ".timer":
        return
    found = list(commands(file.read_text()))
    assert {words[0] for words in found} == {"nightly", "report"}
    for words in found:
        check_command(words)
    with pytest.raises(click.UsageError):
        check_command(["nightly", "file", "--no-such-option"])


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_ci_files_are_what_their_services_read(name: str) -> None:
    """By the schemas of schemastore.org, which come with the checker."""
    schema = {"github-actions.yml": "vendor.github-workflows", "gitlab-ci.yml": "vendor.gitlab-ci"}[name]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(SCHEDULERS / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert isinstance(yaml.safe_load((SCHEDULERS / name).read_text()), dict)


def test_crontab_lines_have_times_and_commands() -> None:
    """crontab(5): settings, and lines of five fields within their ranges before a command."""
    ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
    lines = [line for line in (SCHEDULERS / "crontab").read_text().splitlines() if not line.startswith("#")]
    timed = [line for line in lines if not re.match(r"[A-Z_]+=", line)]
    assert len(timed) == 2
    for line in timed:
        *fields, command = line.split(None, 5)
        for field, (low, high) in zip(fields, ranges, strict=True):
            assert field == "*" or low <= int(field) <= high
        assert command.startswith(PROGRAM)
        assert "%" not in command  # cron's newline


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in ("precision-bisect-nightly.service", "precision-bisect-nightly.timer"):
        # The verifier wants the program to be there.
        text = (SCHEDULERS / unit).read_text().replace(PROGRAM, sys.executable)
        (tmp_path / unit).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if "precision-bisect" in line]
    assert (done.returncode, said) == (0, []), done.stderr
    broken = tmp_path / "precision-bisect-nightly.timer"
    broken.write_text(broken.read_text().replace("22:05:00", "25:05:00"))
    refused = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(broken)], capture_output=True, text=True, check=False
    )
    assert "Failed to parse calendar" in refused.stderr

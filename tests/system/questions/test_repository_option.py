"""`--repository NAME=PATH` means the same in every program that has it."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from precision_bisect.bisect.cli import main as bisect_precision
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.errors import UsageError

COMMANDS: dict[str, tuple[click.Command, list[str], str]] = {
    "bisect": (
        bisect_precision,
        ["--good", "a", "--bad", "b", "--stack", "pypto"],
        "bisect.ask.typed_question",
    ),
    "doctor": (bisect_precision, ["doctor", "--stack", "pypto"], "bisect.ask.typed_question"),
    "reduce": (
        reduce,
        [".", "--localize-only", "--reference", ".", "--stack", "pypto"],
        "reduce.reduce_command",
    ),
}
"""With the module that reads the stack."""


def call(name: str, override: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    command, arguments, _ = COMMANDS[name]
    return CliRunner().invoke(command, [*arguments, "--repository", override])


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("override", ["runtime", "runtime=", "=x"])
def test_a_name_and_a_path_are_needed(
    name: str, override: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = call(name, override, tmp_path, monkeypatch)
    assert result.exit_code == 2
    assert f"--repository {override}: expected NAME=PATH" in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_path_counts_from_the_current_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, Path]] = []

    def load_stack(_name: str, *, overrides: Mapping[str, Path]) -> object:
        asked.append(overrides)
        raise UsageError("asked")

    module = import_module(f"precision_bisect.{COMMANDS[name][2]}")
    monkeypatch.setattr(module, "load_stack", load_stack)
    call(name, "runtime=./x", tmp_path, monkeypatch)
    assert asked == [{"runtime": tmp_path / "x"}]

"""`--repository NAME=PATH` means the same in every program that has it."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from precision_bisect.bisect.cli import main as bisect_precision
from precision_bisect.reduce.cli import main as reduce
from precision_bisect.runner.errors import UsageError

COMMANDS: dict[str, tuple[click.Command, list[str]]] = {
    "bisect.commands.bisect": (bisect_precision, ["--good", "a", "--bad", "b", "--stack", "pypto"]),
    "bisect.commands.doctor": (bisect_precision, ["doctor", "--stack", "pypto"]),
    "reduce.command": (reduce, [".", "--localize-only", "--reference", ".", "--stack", "pypto"]),
}
"""By the module that reads the stack."""


def call(module: str, override: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    command, arguments = COMMANDS[module]
    return CliRunner().invoke(command, [*arguments, "--repository", override])


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.parametrize("override", ["runtime", "runtime=", "=x"])
def test_a_name_and_a_path_are_needed(
    module: str, override: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = call(module, override, tmp_path, monkeypatch)
    assert result.exit_code == 2
    assert f"--repository {override}: expected NAME=PATH" in result.stderr


@pytest.mark.parametrize("module", COMMANDS)
def test_a_path_counts_from_the_current_folder(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, Path]] = []

    def load_stack(_name: str, *, overrides: Mapping[str, Path]) -> object:
        asked.append(overrides)
        raise UsageError("asked")

    monkeypatch.setattr(import_module(f"precision_bisect.{module}"), "load_stack", load_stack)
    call(module, "runtime=./x", tmp_path, monkeypatch)
    assert asked == [{"runtime": tmp_path / "x"}]

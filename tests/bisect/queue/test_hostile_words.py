"""Files and words that somebody else chose: every command refuses each in one line, none with a traceback."""

from pathlib import Path

import click.testing
import pytest
import torch

from precision_bisect.bisect.cli import doctor, main
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.cli_options import parse_duration
from tests.conftest import TestRepository
from tests.runner.build_output.build_files import KERNEL_CONFIG, ORCHESTRATION

DEEP = "a = " + "[" * 100_000
LONG = "a = " + "9" * 5000
NUL = r'stack = "a\u0000"'


def refusal(command: click.Command, *words: str) -> str:
    done = click.testing.CliRunner().invoke(command, words)
    assert isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (1, 2), done.output
    return done.output


@pytest.mark.parametrize(
    ("text", "says"), [(DEEP, "nesting too deep"), (LONG, "digits"), (NUL, "expected a text without NUL")]
)
def test_toml_that_cannot_be_read(
    text: str, says: str, tmp_path: Path, tool: TestRepository, store: str
) -> None:
    file = tmp_path / "hostile.toml"
    file.write_text(text)
    for command, words in (
        (doctor, ["--stack", str(file)]),
        (main, ["--bad", "HEAD", "--stack", str(file)]),
        (main, ["nightly", str(file)]),
        (main, ["--good", "HEAD~1", "--bad", "HEAD", "--adapt", str(file), "--", "true"]),
    ):
        assert says in refusal(command, *words), words
    (tool.path / "precision-bisect.toml").write_text(text)
    assert says in refusal(main, "--bad", "HEAD", "--", "true")
    (tool.path / "precision-bisect.toml").unlink()
    (tool.path / "pyproject.toml").write_text(f"[tool.precision-bisect]\n{text}")
    assert says in refusal(main, "--bad", "HEAD", "--", "true")


@pytest.mark.parametrize(
    "words",
    [
        ["status", "9" * 30],
        ["status", "9" * 30, "--follow"],
        ["cancel", "9" * 30],
        ["worker", "--quota", "9" * 30],
        ["--bad", "HEAD", "--bad-when", f"exit:{'9' * 5000}", "--", "true"],
        ["worker", "--board", f"a={'9' * 5000}"],
        ["--bad", "HEAD", "--jobs", "9" * 30, "--", "true"],
        ["--bad", "HEAD", "--device", "9" * 30, "--", "true"],
        ["--bad", "HEAD", "--budget", "9" * 400 + "h", "--", "true"],
        ["--bad", "HEAD", "--budget", "9" * 30, "--", "true"],
        ["--bad", "HEAD", "--timeout", "1e300", "--", "true"],
    ],
)
def test_numbers_that_nothing_takes(words: list[str], tool: TestRepository, store: str) -> None:
    assert "expected" in refusal(main, *words)


def test_numbers_of_a_reduction(tmp_path: Path) -> None:
    assert "expected at most 256" in refusal(reduce, "--jobs", "9" * 30, str(tmp_path))


@pytest.mark.parametrize("text", ["9" * 400, "1e9", "9" * 30 + "d", "36501d"])
def test_times_that_no_clock_has(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time"):
        parse_duration(text)


@pytest.mark.parametrize("name", [r"\ud800.cpp", r"\0.cpp"])
def test_a_path_of_a_build_that_no_system_takes(name: str, tool: TestRepository, tmp_path: Path) -> None:
    stack = tmp_path / "stack.toml"
    stack.write_text(
        f"""
        name = "small"
        searched = "tool"
        repositories.tool.path = "{tool.path}"
        case = {{repository = "tool", command = ["{{case}}"], cwd = "{{slot}}"}}
        platforms.sim = {{}}
        """
    )
    build = tmp_path / "build"
    for folder in ("data/in", "data/out", "orchestration"):
        (build / folder).mkdir(parents=True)
    torch.save(torch.zeros(1), build / "data" / "in" / "x.pt")
    (build / "orchestration" / "sums.cpp").write_text(ORCHESTRATION)
    (build / "kernel_config.py").write_text(KERNEL_CONFIG.replace("sum.cpp", name))
    said = refusal(reduce, str(build), "--reference", str(build), "--stack", str(stack))
    assert "a text that no path or command can hold is not read" in said

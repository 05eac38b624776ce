"""The command's words, and the published schema."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from precision_bisect.reduce.cli import main
from precision_bisect.runner.localization.divergence import schema_text

PUBLISHED = Path(__file__).parents[2] / "docs" / "divergence.schema.json"


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == schema_text(), (
        "run: python -m precision_bisect.runner.localization.divergence > docs/divergence.schema.json"
    )


@pytest.mark.parametrize(
    ("text", "size"), [("256MiB", 2**28), ("1.5GB", 1_500_000_000), ("20kB", 20_000), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    context = main.make_context("reduce", ["build", "--dump-budget", text, "-o", "out"])
    assert context.params["dump_budget"] == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "12 parsecs", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"expected a size such as 256MiB, found {text!r}"):
        main.make_context("reduce", ["build", "--dump-budget", text, "-o", "out"])


def test_a_folder_that_is_no_build_is_one_line(tmp_path: Path) -> None:
    arguments = [
        *(str(tmp_path), "--localize-only", "--reference", str(tmp_path), "--stack", "pypto"),
        *("-o", str(tmp_path / "out")),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--rtol and --atol"),
        (("--reference-data", "."), "--rtol and --atol"),
        (("--reference", ".", "--reference-data", "."), "expected one reference"),
        (("--reference", ".", "--against", "a5sim"), "expected one reference"),
        (("--against", "moon"), "'moon'"),
        (("--against-schedule", "backwards"), "'reverse', 'serial'"),
    ],
)
def test_one_reference_that_there_is(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    arguments = [str(tmp_path), "--localize-only", "--stack", "demo", "-o", str(tmp_path / "out"), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--rtol and --atol"),
        (("--interesting", "nowhere"), "expected a script"),
        (("--fail-regex", "("), "expected a regular expression"),
        (("--fail-code", "3", "--interesting", "/bin/true"), "found both"),
        (("--reference", ".", "--against-schedule", "serial"), "expected one reference"),
        (("--fail-code", "3", "--with", "true"), "--with: expected a reference"),
        (("--reference", ".", "--with", "no-such-reducer"), "expected a program that can be run"),
    ],
)
def test_what_counts_as_the_failure_is_said_once(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    result = CliRunner().invoke(
        main, [str(tmp_path), "--stack", "demo", "-o", str(tmp_path / "out"), *options]
    )
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_command_line_does_not_import_torch() -> None:
    code = "import sys, precision_bisect.reduce.cli\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

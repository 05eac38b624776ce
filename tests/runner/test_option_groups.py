"""How a command says which of its options has no value, and lists them by groups."""

import click
import pytest
from click.testing import CliRunner

from precision_bisect.runner.cli_options import (
    Completion,
    GroupedCommand,
    GroupedOption,
    OptionGroup,
    option_group,
)

COMMAND = GroupedCommand(
    "command",
    params=[
        GroupedOption(["--good"], group=OptionGroup.QUESTION, metavar="REV"),
        GroupedOption(["--json"], group=OptionGroup.OUTPUT, is_flag=True),
        click.Argument(["words"], nargs=-1),
    ],
    callback=lambda good, json, words: click.echo(f"{good} {json} {' '.join(words)}"),
)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--good"], "nothing"),
        (["--good", ""], "nothing"),
        (["--good="], "nothing"),
        (["--good", "--json"], "the option --json in its place"),
    ],
)
def test_an_option_without_its_value_is_named(words: list[str], found: str) -> None:
    done = CliRunner().invoke(COMMAND, words)
    assert done.exit_code == 2
    assert f"--good is empty: expected REV behind it, found {found}" in done.output


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--good", "v1", "x"], "v1 False x"),
        (["--good=--odd", "x"], "--odd False x"),
        (["--json", "x"], "None True x"),
        (["--", "--good", "--json"], "None False --good --json"),
    ],
)
def test_what_has_its_value_is_taken(words: list[str], printed: str) -> None:
    done = CliRunner().invoke(COMMAND, words)
    assert (done.exit_code, done.output) == (0, f"{printed}\n")


def test_help_lists_options_by_their_groups() -> None:
    lines = CliRunner().invoke(COMMAND, ["--help"]).output.splitlines()
    places = [
        lines.index(f"{group}:") for group in (OptionGroup.QUESTION, OptionGroup.OUTPUT, OptionGroup.OTHER)
    ]
    assert places == sorted(places)
    assert any("--good REV" in line for line in lines[places[0] : places[1]])
    assert option_group(click.Option(["--plain"])) is OptionGroup.OTHER


def test_a_shell_is_offered_names_then_files_and_never_an_error() -> None:
    def fail(context: click.Context) -> list[str]:
        raise OSError("no store")

    context, option = click.Context(COMMAND), click.Option(["--name"])

    def offered(completion: Completion, typed: str) -> list[tuple[str, str]]:
        return [(item.value, item.type) for item in completion(context, option, typed)]

    names = Completion(lambda context: ["one", "other", "two"], or_files=True)
    assert offered(names, "o") == [("one", "plain"), ("other", "plain")]
    assert offered(names, "x") == [("x", "file")]
    assert offered(Completion(fail), "") == []

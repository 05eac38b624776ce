"""The options that several programs share, and the command class that reads their defaults from the checkout.

`option` declares an option in an `OptionGroup`, under which `--help` lists it. The option types refuse values that
`click`'s own types accept, such as NaN, empty paths, and numbers that no clock or store can hold. A
`ConfiguredCommand` takes the value of an option that was not typed from the settings of the checkout.
"""

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import dataclass_click
from click.shell_completion import CompletionItem
from typing_extensions import override

from ..store.vocabulary import Judgement, wrap_text
from .errors import UsageError, nearest_name
from .process.entry import INTERRUPTED, asks_json

if TYPE_CHECKING:
    from rich.console import Console


def print_error(message: str, exit_code: int, *, as_json: bool) -> int:
    """Print an error on standard error in one line, and with `--json` as a document, too. Return the exit code."""
    print_text(f"error: {message}", err=True)
    if as_json:
        print_json_error(message, exit_code)
    return exit_code


def print_json_error(message: str, exit_code: int) -> None:
    """Print an error on standard output, as the document of docs/error.schema.json."""
    error = {"message": message, "exit_code": exit_code}
    click.echo(json.dumps({"schema_version": 1, "error": error}, indent=2))


def print_text(text: str, *, indent: int = 0, err: bool = False) -> None:
    """Print lines on standard output, or on standard error. On a terminal they are broken between words.

    `indent` is that of a broken line's other lines. A word that is longer than the terminal, such as a path, stays
    whole, so that it can be copied.
    """
    from rich.console import Console  # imported late because `--help` does not need it

    console = Console(stderr=err)
    for line in text.split("\n"):
        click.echo("\n".join(break_line(line, console, indent=indent)), err=err)


def break_line(text: str, console: "Console", *, indent: int = 0, margin: int = 0) -> list[str]:
    """Return a line in parts that fit the console, broken between words. Anything but a terminal gets it whole.

    `margin` is the number of columns that stay free.
    """
    return wrap_text(text, console.width - margin, indent=indent) if console.is_terminal else [text]


MAX_SECONDS = 3650 * 86400.0
"""An option accepts at most this time, ten years in seconds, because every clock and every wait can handle it."""
_MAX_COUNT = 2**31 - 1
"""An option without a limit of its own accepts no larger count, so that it fits into 32 bits with a sign."""


class NumberType(click.FloatRange):
    """Accepts a number in a range, but no NaN or infinity."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. A value that is no number, or is out of range, is a usage error."""
        try:
            number = float(super().convert(value, param, ctx))
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            range_words = (
                "" if (self.min, self.max) == (None, None) else f" in the range {self._describe_range()}"
            )
            self.fail(f"expected a number{range_words}, found {value!r}", param, ctx)
        return number


class CountType(click.IntRange):
    """Accepts a whole number of up to 32 bits."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. A value that is no number, or is out of range, is a usage error."""
        number = int(click.INT.convert(value, param, ctx))
        most = _MAX_COUNT if self.max is None else self.max
        if number > most:
            self.fail(f"expected at most {most:.0f}", param, ctx)
        return int(super().convert(value, param, ctx))


class PathType(click.Path):
    """Accepts a path that is not empty.

    In a shell, a variable that is not set gives an empty path, and `click` would take that as the current folder.
    """

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay)

    @override
    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path. A path that is empty or has NUL, or a file where a folder is expected, is a usage error."""
        if not os.fspath(value):
            self.fail("expected a path, found an empty one", param, ctx)
        if "\0" in os.fspath(value):
            self.fail("expected a path without NUL", param, ctx)
        return super().convert(value, param, ctx)


class OptionGroup(StrEnum):
    """The subjects of options, in the order in which `--help` lists them."""

    QUESTION = "Question"
    STACK = "Stack"
    SEARCH = "Search"
    RESOURCES = "Resources"
    OUTPUT = "Output"
    OTHER = "Other options"


class GroupedOption(click.Option):
    """An option that `--help` lists under its group's name."""

    def __init__(self, *args: Any, group: OptionGroup, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group
        self.needs_value = not self.is_flag and "flag_value" not in settings


_MIN_HELP_COLUMNS = 60
"""On a narrower terminal, `--help` explains an option below its name, and not beside it."""


class GroupedCommand(click.Command):
    """A command whose `--help` lists its options by groups, and which reports a wrong command line in one line."""

    @override
    def main(self, *args: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Run the command, and exit. Without `standalone_mode`, raise errors and return, as `click` does."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **settings)
        words: Sequence[str] = (args[0] if args else settings.get("args")) or sys.argv[1:]
        try:
            sys.exit(super().main(*args, standalone_mode=False, **settings))
        except click.ClickException as error:
            sys.exit(print_error(_usage_message(error), error.exit_code, as_json=asks_json([*words])))
        except click.Abort:
            sys.exit(INTERRUPTED)

    @override
    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        columns = shutil.get_terminal_size().columns
        if columns < _MIN_HELP_COLUMNS:
            extra.setdefault("terminal_width", columns)  # click itself would print wider lines
        return super().make_context(info_name, args, *rest, **extra)

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            self._check_values(ctx, args)
        return super().parse_args(ctx, args)

    def _check_values(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Check that each option has its value, which may be missing because a shell variable is empty.

        `click` itself would take the next option as the value, and complain about the word after that. Raises
        `click.UsageError`.
        """
        options = {
            name: parameter
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        words = list(takewhile(lambda word: word != "--", args))
        for index, word in enumerate(words):
            name, equals, value = word.partition("=")
            option = options.get(name)
            if not (isinstance(option, GroupedOption) and option.needs_value):
                continue
            if not equals:
                value = words[index + 1] if index + 1 < len(words) else ""
            if not value or value in options:
                found = f"the option {value} in its place" if value else "nothing"
                wanted = option.metavar or "a value"
                raise click.UsageError(f"{name} is empty: expected {wanted} behind it, found {found}")

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        for group in OptionGroup:
            members = (option.get_help_record(ctx) for option in options if option_group(option) is group)
            records = [record for record in members if record is not None]
            if records:
                with formatter.section(group):
                    is_narrow = formatter.width < _MIN_HELP_COLUMNS
                    formatter.write_dl(records, col_max=2 if is_narrow else 30)


def _usage_message(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        near = nearest_name(error.option_name, error.possibilities or ())
        hint = "" if near is None else f"; did you mean {near}?"
        return f"{error.option_name}: expected an option, found none by that name{hint}"
    return " ".join(error.format_message().split()).rstrip(".")


@dataclass(frozen=True)
class Completion:
    """Completes an option's value in a shell, as click's `shell_complete`."""

    names: Callable[[click.Context], Iterable[str]]
    """Returns the values to choose from."""
    or_files: bool = False
    """Whether files are offered where no value begins with the typed text."""

    def __call__(self, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the values that begin with the typed text, in their order."""
        try:
            found = [CompletionItem(name) for name in self.names(ctx) if name.startswith(incomplete)]
        except Exception:
            found = []  # An error must not disturb the shell's line.
        return found if found or not self.or_files else [CompletionItem(incomplete, type="file")]


def option_group(option: click.Option) -> OptionGroup:
    """Return the group of an option; the other options for one that declares none, such as `--help`."""
    return option.group if isinstance(option, GroupedOption) else OptionGroup.OTHER


def option(*names: str, group: OptionGroup, **settings: Any) -> Any:
    """Declare an option as the field of a dataclass of options. `settings` are those of `click.option`."""
    return dataclass_click.option(*names, cls=GroupedOption, group=group, **settings)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS_OF_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as `90s`, `20m`, `6h` or `1.5d`. Raises `ValueError`.

    >>> parse_duration("1.5h"), parse_duration("90")
    (5400.0, 90.0)
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = 0.0 if found is None else float(found[1]) * _SECONDS_OF_UNIT[found[2]]
    if not 0 < seconds <= MAX_SECONDS:
        most = f"{MAX_SECONDS / 86400:.0f}d"
        raise ValueError(f"expected a time such as 20m or 6h, of at most {most}, found {text[:80]!r}")
    return seconds


class DurationType(click.ParamType[float]):
    """Accepts a time such as `20m`, and gives seconds to the command."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds of the typed text. A text that is no duration is a usage error."""
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


BUDGET = option(
    "--budget",
    group=OptionGroup.RESOURCES,
    type=DurationType(),
    metavar="TIME",
    help="Stop after this time, such as 90s, 20m or 6h, with what is known by then.",
)


_MAX_JOBS = 256
"""At most this many runs are made at once, because each worker of this machine is a process.

A submission may ask for any number."""


def jobs_option(default: int) -> Any:
    """Declare `--jobs` with a default."""
    return option(
        "-j",
        "--jobs",
        group=OptionGroup.RESOURCES,
        metavar="N",
        type=CountType(min=1, max=_MAX_JOBS),
        default=default,
        show_default=True,
        help="Make this many runs at once.",
    )


def _stacks(_ctx: click.Context) -> Iterable[str]:
    """Return the names of the stacks that come with the tool."""
    from .settings import named_stacks  # This import is late because it loads pydantic.

    return named_stacks()


STACK = option(
    "--stack",
    group=OptionGroup.STACK,
    metavar="NAME|FILE",
    shell_complete=Completion(_stacks, or_files=True),
    help="Take the stack from this file, or the one of this name that comes with the tool, such as pypto.",
)
REPOSITORY = option(
    "--repository",
    group=OptionGroup.STACK,
    metavar="NAME=PATH",
    multiple=True,
    help="Take the stack's repository NAME from the checkout at PATH; repeatable.",
)
PLATFORM = option(
    "-p",
    "--platform",
    group=OptionGroup.QUESTION,
    metavar="NAME",
    help="Run on this target; the default is the first one of the stack.",
)
DEVICE = option(
    "-d",
    "--device",
    group=OptionGroup.QUESTION,
    metavar="N",
    type=CountType(min=0),
    default=0,
    show_default=True,
    help="Run on the device of this number.",
)


STORE_VARIABLE = "PRECISION_BISECT_STORE"
"""This environment variable gives `--store` its default."""

STORE = option(
    "--store",
    group=OptionGroup.RESOURCES,
    metavar="URL",
    envvar=STORE_VARIABLE,
    help="Use this database of results, SQLite or PostgreSQL; the default is one SQLite file for each user.",
)
QUIET = option(
    "-q", "--quiet", group=OptionGroup.OUTPUT, is_flag=True, help="Print the result and errors, no progress."
)
JSON = option("--json", group=OptionGroup.OUTPUT, is_flag=True, help="Print the result as JSON.")


def version_option() -> Any:
    """Declare the option `--version` of a program."""
    return click.version_option(package_name="precision-bisect")


_INFO_OPTIONS = frozenset({"-h", "--help", "--version"})
"""With one of these options, a command prints something and does nothing else."""


class ConfiguredCommand(GroupedCommand):
    """A command whose options have their defaults in the settings of the checkout around the current folder."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.is_configured(ctx, args):
            try:
                ctx.default_map = self._defaults(args)
            except UsageError as error:
                raise click.UsageError(str(error), ctx) from error
            except FileNotFoundError as error:
                raise click.UsageError(
                    "expected a current folder, found it removed: change to another", ctx
                ) from error
        return super().parse_args(ctx, args)

    def is_configured(self, ctx: click.Context, args: list[str]) -> bool:
        """Return whether the command reads the settings: it is to do more than print help or the version."""
        return not _INFO_OPTIONS & set(args) and not ctx.resilient_parsing

    def _defaults(self, args: list[str]) -> dict[str, Any]:
        """Return the defaults of the options, as `click` takes them. Raises `UsageError` and `FileNotFoundError`."""
        # This import is late because it loads pydantic, which `--help` does not need.
        from .settings import read_defaults

        defaults = read_defaults(Path.cwd())
        if typed_value("--bisection", args) is not None:
            defaults = defaults.restrict_to_stored_bisection()
        if not any(parameter.name == "stack" for parameter in self.params):
            defaults = defaults.model_copy(update={"stack": None})
        return defaults.restrict_to_stack(typed_value("--stack", args)).option_values()


def typed_value(option: str, words: Sequence[str]) -> str | None:
    """Return the value that was typed for an option; None where the option was not typed."""
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


STYLES: Mapping[Judgement, str] = {Judgement.GOOD: "green", Judgement.BAD: "red", Judgement.SKIP: "yellow"}

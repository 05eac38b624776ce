"""The options that several programs share, and the command class that reads their defaults from the checkout.

The shared options say which store and which stack a command uses, how long it may work, and how much it prints.
`OptionGroup` names the groups in which `--help` lists options. The option types refuse values that `click`'s own types
accept: NaN, infinities, empty paths and numbers that no clock or store can hold. `ConfiguredCommand` takes the value of
an option that was not typed from the settings of the checkout.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import dataclass_click
from click.shell_completion import CompletionItem
from typing_extensions import override

from .errors import UsageError

MAX_SECONDS = 3650 * 86400.0
"""An option accepts at most this time in seconds: ten years. Every clock and every wait can handle it."""
_LARGEST_COUNT = 2**31 - 1
"""An option without a limit of its own accepts no larger count. It fits into 32 bits with a sign."""


class NumberType(click.FloatRange):
    """Accepts a number of a range. It refuses NaN and infinities, which no comparison of bounds would refuse."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. A value that is no number, or is out of range, is a usage error."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a number, found {value!r}", param, ctx)
        return number


class SecondsType(NumberType):
    """Accepts a time above zero, in seconds."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds. A value that is no number, or is more than a clock can hold, is a usage error."""
        seconds = super().convert(value, param, ctx)
        if seconds > MAX_SECONDS:
            self.fail(f"expected at most {MAX_SECONDS:.0f} seconds", param, ctx)
        return seconds


class CountType(click.IntRange):
    """Accepts a whole number that a store, a clock and a system call can hold too."""

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number. A value that is no number, or is out of range, is a usage error."""
        number = int(click.INT.convert(value, param, ctx))
        most = _LARGEST_COUNT if self.max is None else self.max
        if number > most:
            self.fail(f"expected at most {most:.0f}", param, ctx)
        return int(super().convert(value, param, ctx))


class PathType(click.Path):
    """Accepts a path that is not empty.

    A shell makes an empty path of a variable that is not set, and `click` would read it as the current folder.
    """

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay)

    @override
    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path. An empty path, or a file where a folder is expected, is a usage error."""
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


class GroupedCommand(click.Command):
    """A command whose `--help` lists its options by groups, and which reports an option without a value."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            self._check_values(ctx, args)
        return super().parse_args(ctx, args)

    def _check_values(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise `click.UsageError` where an option has no value, for example because a shell variable is empty.

        `click` itself would take the next option as the value, and then complain about the word after that.
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
                    formatter.write_dl(records)


@dataclass(frozen=True)
class Completion:
    """Completes an option's value in a shell, as click's `shell_complete`.

    It offers the names that begin with what is typed. Where there are none and `or_files` is set, it offers files. No
    error disturbs the shell's line.
    """

    names: Callable[[click.Context], Iterable[str]]
    or_files: bool = False

    def __call__(self, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the matching names, in their order."""
        try:
            found = [CompletionItem(name) for name in self.names(ctx) if name.startswith(incomplete)]
        except Exception:
            found = []
        return found if found or not self.or_files else [CompletionItem(incomplete, type="file")]


def option_group(option: click.Option) -> OptionGroup:
    """Return the group of an option. An option that declares none, such as `--help`, belongs to the other options."""
    return option.group if isinstance(option, GroupedOption) else OptionGroup.OTHER


def option(*names: str, group: OptionGroup, **settings: Any) -> Any:
    """Declare an option of a dataclass of options; `settings` are those of `click.option`."""
    return dataclass_click.option(*names, cls=GroupedOption, group=group, **settings)


_TEXT = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as `90s`, `20m`, `6h` or `1.5d`; a number without a unit is seconds.

    Raises `ValueError`.

    >>> parse_duration("1.5h"), parse_duration("90")
    (5400.0, 90.0)
    """
    found = _TEXT.fullmatch(text.strip())
    seconds = 0.0 if found is None else float(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= MAX_SECONDS:
        most = f"{MAX_SECONDS / 86400:.0f}d"
        raise ValueError(f"expected a time such as 20m or 6h, of at most {most}, found {text[:80]!r}")
    return seconds


class DurationType(click.ParamType[float]):
    """Accepts a time such as `20m`; the command gets seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds of what was typed. A text that is no duration is a usage error."""
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


_MOST_JOBS = 256
"""At most this many runs are made at once. Each worker of this machine is a process of its own, and a submission may
ask for them."""


def jobs_option(default: int) -> Any:
    """Declare `--jobs` for a command that makes `default` runs at once."""
    return option(
        "-j",
        "--jobs",
        group=OptionGroup.RESOURCES,
        metavar="N",
        type=CountType(min=1, max=_MOST_JOBS),
        default=default,
        show_default=True,
        help="Make this many runs at once.",
    )


def _stacks(_ctx: click.Context) -> Iterable[str]:
    """Return the names of the stacks that come with the tool."""
    from .settings import named_stacks  # The module is imported late because it loads pydantic.

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


class ConfiguredCommand(GroupedCommand):
    """A command whose options take their defaults from the settings of the checkout around the current folder."""

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
        """Return whether the words ask for more than help or the version, so that the checkout's settings matter."""
        return not _INFO_OPTIONS & set(args) and not ctx.resilient_parsing

    def _defaults(self, args: list[str]) -> dict[str, Any]:
        # The module is imported late because it loads pydantic, which `--help` does not need.
        from .settings import read_defaults

        defaults, folder = read_defaults(Path.cwd())
        if typed_value("--bisection", args) is not None:
            defaults = defaults.for_existing_bisection()
        if not any(parameter.name == "stack" for parameter in self.params):
            defaults = defaults.model_copy(update={"stack": None})
        return defaults.for_stack(typed_value("--stack", args)).by_option(folder)


def typed_value(option: str, words: Sequence[str]) -> str | None:
    """Return the value that was typed for an option."""
    for index, word in enumerate(words):
        if word == option and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None

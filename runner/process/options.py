"""The options that bound what a command spends: how long it works, and how many runs it makes at once."""

import math
from typing import Any

import click

from ...store.option_groups import OptionGroup, option
from .duration import parse_duration


class DurationType(click.ParamType[float]):
    """An option's value that is a time such as `20m`; the command gets seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of what was typed; what is no duration is a usage error."""
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NumberType(click.FloatRange):
    """An option's value that is a number of a range, neither NaN nor infinite, which no comparison would refuse."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error where it is none, or out of range."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a number, found {value!r}", param, ctx)
        return number


BUDGET = option(
    "--budget",
    group=OptionGroup.RESOURCES,
    type=DurationType(),
    metavar="TIME",
    help="Stop after this time, such as 90s, 20m or 6h, with what is known by then.",
)


def jobs_option(default: int) -> Any:
    """The option `--jobs` of a command that makes `default` runs at once where nothing else is asked."""
    return option(
        "-j",
        "--jobs",
        group=OptionGroup.RESOURCES,
        metavar="N",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Make this many runs at once.",
    )

"""The options that bound what a command spends: how long it works, and how many runs it makes at once."""

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

"""The options that say which stack a command works on, and where: which target and which device."""

from collections.abc import Iterable

import click

from ...store.option_groups import Completion, OptionGroup, option


def _stacks(_ctx: click.Context) -> Iterable[str]:
    """The stacks that come with the tool."""
    from .file import named_stacks  # with what validates them

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
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Run on the device of this number.",
)

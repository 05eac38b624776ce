"""The options that say which stack a command works on, and where: which target and which device."""

from dataclass_click import option

STACK = option(
    "--stack",
    metavar="NAME|FILE",
    help="Take the stack from this file, or the one of this name that comes with the tool, such as pypto.",
)
REPOSITORY = option(
    "--repository",
    metavar="NAME=PATH",
    multiple=True,
    help="Take the stack's repository NAME from the checkout at PATH; repeatable.",
)
PLATFORM = option(
    "-p",
    "--platform",
    metavar="NAME",
    help="Run on this target; the default is the first one of the stack.",
)
DEVICE = option(
    "-d",
    "--device",
    metavar="N",
    default=0,
    show_default=True,
    help="Run on the device of this number.",
)

"""The entry points of the programs. From their first line on, Ctrl-C ends them with exit code 130.

Nothing is imported before that, because a busy machine may take long to find even a small module.
"""

import os
import signal

INTERRUPTED = 130
"""A program that was interrupted ends with this exit code: 128 and the number of SIGINT, 2."""

NOTHING_BEGUN = "interrupted before anything had begun: nothing was run or kept; ask again"


def bisect_precision() -> None:
    """Run the program `bisect-precision`."""
    _begin("precision_bisect.bisect.cli")


def reduce() -> None:
    """Run the program `reduce`."""
    _begin("precision_bisect.reduce.reduce_cli")


def diff_tensors() -> None:
    """Run the program `diff-tensors`."""
    _begin("precision_bisect.runner.compare.diff_cli")


def exit_at_once(_number: int, _frame: object) -> None:
    """Handle SIGINT where there is nothing to undo yet."""
    try:
        os.write(2, f"{NOTHING_BEGUN}\n".encode())
    finally:
        os._exit(INTERRUPTED)


def _begin(commands: str) -> None:
    """Run the commands of the module `commands`. It is given by name, because it belongs to a layer above this one."""
    # A shell that starts the program in the background makes it ignore SIGINT, and that stays so.
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, exit_at_once)
    from .signals import run

    run(commands, heeds=heeds)

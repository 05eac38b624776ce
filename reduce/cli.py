"""`reduce`: parse the options into their model, call one function, which prints."""

from __future__ import annotations

import sys

import click
from dataclass_click import dataclass_click  # pyright: ignore[reportUnknownVariableType]

from ..runner.stack.configured_command import ConfiguredCommand
from ..store.options import version_option
from .options import ReduceOptions


@click.command(cls=ConfiguredCommand, context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
@dataclass_click(ReduceOptions)
def main(options: ReduceOptions) -> None:
    """Shrink FAILING_BUILD to the fewest tasks and kernels that still fail where a good build passes, or (with
    --localize-only) find what makes it fail: the change, the task and kernel, and the tensor that shows it.

    A smaller build counts only if it fails as the whole does (in a tensor that was wrong before, by as much within a
    factor of 100, and in kernels that make the whole good build fail so, too; with the same signal, stall or compile
    error), and the same tasks of the good build pass. Without a good build, the golden data alone
    judge it: no task's result can be replaced then, and what the failing outputs are made of stays. The builds are
    copied, run again on frozen data, and never changed. In place of a build directory, the script of a scene test is
    taken, and written as one beside the output folder. Exit code: 0 found, 1 error, 2 usage, 3 the case
    passes, or nothing differs, 6 stopped by its budget, 130 interrupted.
    """
    from .command import reduce

    sys.exit(reduce(options))

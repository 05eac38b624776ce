"""`diff-tensors`: parse the options into their model, call one function, which prints."""

from __future__ import annotations

import sys
import traceback

import click
from dataclass_click import dataclass_click  # pyright: ignore[reportUnknownVariableType]

from ...store.option_groups import GroupedCommand
from ...store.options import version_option
from .options import CompareOptions

_PICTURES = (".html", ".svg", ".png")


@click.command(cls=GroupedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
@dataclass_click(CompareOptions)
def main(options: CompareOptions) -> None:
    """Compare ACTUAL with EXPECTED: files (.pt, .npy, .npz), golden folders, argument dumps or build directories.

    One line tells of each record that differs, the first in execution order on top; -v tells more, and of two single
    tensors more is always told. Without --rtol and --atol values must be equal in one type (NaN equals NaN); with one
    of them torch.allclose decides (the other is 0, NaN equals nothing). With more than two PATHS the last is expected
    and the others are runs of the same case: do they fail alike, or is it a race?

    Exit status: 0 equal, 1 different, 2 something could not be read or compared.
    """
    if len(options.paths) < 2:
        raise click.UsageError("expected at least two paths, ACTUAL and EXPECTED")
    picture = options.picture
    if picture is not None and (picture.suffix not in _PICTURES or len(options.paths) > 2):
        raise click.UsageError(f"expected --picture with two paths and a name on {', '.join(_PICTURES)}")
    if options.brief and (options.verbose or options.as_json):
        raise click.UsageError("expected --brief without -v and --json, which print more than a line")
    from .command import UNREADABLE, compare

    try:
        status = compare(options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except Exception:
        # Python would end with 1, which says that tensors differ.
        traceback.print_exc()
        sys.exit(UNREADABLE)
    sys.exit(status)

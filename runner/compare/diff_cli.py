"""Declares the options of `diff-tensors`. No heavy module is imported here, so that `--help` answers at once."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from dataclass_click import (
    argument,
    dataclass_click,  # pyright: ignore[reportUnknownVariableType]
)

from ..cli_options import (
    CountType,
    GroupedCommand,
    NumberType,
    OptionGroup,
    PathType,
    option,
    print_json_error,
    version_option,
)
from ..errors import UsageError
from ..process.entry import INTERRUPTED
from ..process.signals import interruptible_work

COMPARATORS = ("allclose", "ratio-allclose", "ratio-reldiff")
_PATH = PathType()
_NOT_NEGATIVE = NumberType(min=0)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """The options of `diff-tensors`: what is compared, by which rule, and what is printed."""

    paths: Annotated[tuple[Path, ...], argument(nargs=-1, required=True, type=_PATH)]
    rtol: Annotated[
        float | None,
        option(
            "--rtol",
            group=OptionGroup.QUESTION,
            metavar="R",
            type=_NOT_NEGATIVE,
            help="Let values differ by this relative tolerance, as torch.allclose does.",
        ),
    ]
    atol: Annotated[
        float | None,
        option(
            "--atol",
            group=OptionGroup.QUESTION,
            metavar="A",
            type=_NOT_NEGATIVE,
            help="Let values differ by this absolute tolerance, as torch.allclose does.",
        ),
    ]
    comparator: Annotated[
        str,
        option(
            "--comparator",
            group=OptionGroup.QUESTION,
            type=click.Choice(COMPARATORS),
            default=COMPARATORS[0],
            show_default=True,
            help="Have this comparator of the golden harness decide.",
        ),
    ]
    max_error_ratio: Annotated[
        float | None,
        option(
            "--max-error-ratio",
            group=OptionGroup.QUESTION,
            metavar="SHARE",
            type=NumberType(0, 1),
            help="Let this share of the elements differ; a ratio comparator is needed.",
        ),
    ]
    diff_threshold: Annotated[
        float | None,
        option(
            "--diff-threshold",
            group=OptionGroup.QUESTION,
            metavar="X",
            type=NumberType(min=0, min_open=True),
            help="Let ratio-reldiff count an element as different beyond this relative difference.",
        ),
    ]
    valid_rows: Annotated[
        int | None,
        option(
            "--valid-rows",
            group=OptionGroup.QUESTION,
            metavar="N",
            type=CountType(min=1),
            help="Compare only this many leading rows; a ratio comparator is needed.",
        ),
    ]
    zero_tail: Annotated[
        bool,
        option(
            "--zero-tail",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Ask that all is zero behind the --valid-rows.",
        ),
    ]
    topk: Annotated[
        tuple[str, ...],
        option(
            "--topk",
            group=OptionGroup.QUESTION,
            metavar="INDICES=SCORES",
            multiple=True,
            help="Let indices differ where the actual scores are in order, as the harness does; repeatable.",
        ),
    ]
    picture: Annotated[
        Path | None,
        option(
            "--picture",
            group=OptionGroup.OUTPUT,
            metavar="FILE",
            type=_PATH,
            help="Write heat maps to this file, whose name ends with .html or .svg.",
        ),
    ]
    records: Annotated[
        tuple[str, ...],
        option(
            "--record",
            group=OptionGroup.QUESTION,
            metavar="TEXT",
            multiple=True,
            help="Compare only records whose kernel or name has this text, and tell all about them; repeatable.",
        ),
    ]
    ignored: Annotated[
        tuple[str, ...],
        option(
            "--ignore",
            group=OptionGroup.QUESTION,
            metavar="GLOB",
            multiple=True,
            help="Leave out files and folders whose path below A and B matches; * matches / too; repeatable.",
        ),
    ]
    limit: Annotated[
        int,
        option(
            "--limit",
            group=OptionGroup.OUTPUT,
            metavar="N",
            type=CountType(min=0),
            default=20,
            show_default=True,
            help="Print at most N records of a kind, or all with 0; --json has all.",
        ),
    ]
    brief: Annotated[
        bool,
        option(
            "-q",
            "--brief",
            "--quiet",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Print one line: whether they differ, and where first.",
        ),
    ]
    verbose: Annotated[
        bool,
        option(
            "-v",
            "--verbose",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Print statistics, patterns, rows and a map of each record.",
        ),
    ]
    as_json: Annotated[bool, option("--json", group=OptionGroup.OUTPUT, is_flag=True, help="Print JSON.")]


_PICTURES = (".html", ".svg")


@click.command(cls=GroupedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
@dataclass_click(CompareOptions)
def main(options: CompareOptions) -> None:
    """Compare ACTUAL with EXPECTED: files (.pt, .npy, .npz), golden folders, argument dumps or build directories.

    Folders are read to the bottom: each file is compared, or named with the reason why it is not. One line tells of
    each record that differs, the first in execution order on top. The option -v tells more, and of two single tensors
    more is always told. Without --rtol and --atol values must be equal in one type (NaN equals NaN). With one of them
    torch.allclose decides (the other is 0, NaN equals nothing). With more than two PATHS the last is expected and the
    others are runs of the same case. Do they fail alike, or is it a race?

    Exit status: 0 all is equal, 1 something differs, 2 nothing differs but something was not compared.
    """
    if len(options.paths) < 2:
        raise click.UsageError("expected at least two paths, ACTUAL and EXPECTED")
    picture = options.picture
    if picture is not None and (picture.suffix not in _PICTURES or len(options.paths) > 2):
        raise click.UsageError(f"expected --picture with two paths and a name on {', '.join(_PICTURES)}")
    if options.brief and (options.verbose or options.as_json):
        raise click.UsageError("expected --brief without -v and --json, which print more than a line")

    from .diff_command import UNREADABLE, compare

    try:
        with interruptible_work():
            status = compare(options)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        if options.as_json:
            print_json_error("interrupted", INTERRUPTED)
        sys.exit(INTERRUPTED)
    except Exception:
        # An exception would make Python exit with 1, which says that tensors differ.
        traceback.print_exc()
        sys.exit(UNREADABLE)
    sys.exit(status)

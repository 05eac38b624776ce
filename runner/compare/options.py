"""The options of `diff-tensors`. They import nothing heavy, so that `--help` answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from dataclass_click import argument

from ...store.option_groups import OptionGroup, option
from ..process.option_types import PathType

_PATH = PathType()
_NOT_NEGATIVE = click.FloatRange(min=0)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What to compare, what decides that values are equal, and what is shown."""

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
            type=click.Choice(["allclose", "ratio-allclose", "ratio-reldiff"]),
            default="allclose",
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
            type=click.FloatRange(0, 1),
            help="Let this share of the elements differ; a ratio comparator is needed.",
        ),
    ]
    diff_threshold: Annotated[
        float | None,
        option(
            "--diff-threshold",
            group=OptionGroup.QUESTION,
            metavar="X",
            type=click.FloatRange(min=0, min_open=True),
            help="Let ratio-reldiff count an element as different beyond this relative difference.",
        ),
    ]
    valid_rows: Annotated[
        int | None,
        option(
            "--valid-rows",
            group=OptionGroup.QUESTION,
            metavar="N",
            type=click.IntRange(min=0),
            help="Compare only this many leading rows; a ratio comparator is needed.",
        ),
    ]
    valid_axis: Annotated[
        int,
        option(
            "--valid-axis",
            group=OptionGroup.QUESTION,
            metavar="N",
            default=0,
            show_default=True,
            help="Count the --valid-rows along this axis.",
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
            help="Let indices differ where the scores tie; both are names of tensors; repeatable.",
        ),
    ]
    axis: Annotated[
        int | None,
        option(
            "--axis",
            group=OptionGroup.OUTPUT,
            metavar="N",
            help="List the slices of this axis that differ, in place of rows.",
        ),
    ]
    picture: Annotated[
        Path | None,
        option(
            "--picture",
            group=OptionGroup.OUTPUT,
            metavar="FILE",
            type=_PATH,
            help="Write heat maps to this file, whose name ends with .html, .svg or .png.",
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
    first: Annotated[
        bool,
        option(
            "--first", group=OptionGroup.OUTPUT, is_flag=True, help="Stop at the first record that differs."
        ),
    ]
    limit: Annotated[
        int,
        option(
            "--limit",
            group=OptionGroup.OUTPUT,
            metavar="N",
            type=click.IntRange(min=0),
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

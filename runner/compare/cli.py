"""`diff-tensors`: compare golden folders, argument dumps, build directories or .pt files, and say how they differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from .difference import Comparison, Difference
    from .report.diff_json import Json
    from .sources import Source
    from .statistics.statistics import Tolerance

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2

_DETAILED = 8  # differences shown at length; --json has all

_PICTURES = (".html", ".svg", ".png")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance, as torch.allclose has it.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance, as torch.allclose has it.")
@click.option(
    "--comparator",
    type=click.Choice(["allclose", "ratio-allclose", "ratio-reldiff"]),
    default="allclose",
    show_default=True,
    help="The golden harness's comparator that decides.",
)
@click.option(
    "--max-error-ratio", type=click.FloatRange(0, 1), help="Share of elements a ratio comparator lets go."
)
@click.option("--diff-threshold", type=click.FloatRange(min=0, min_open=True), help="Of ratio-reldiff.")
@click.option(
    "--valid-rows", type=click.IntRange(min=0), help="A ratio comparator looks at the leading rows alone."
)
@click.option("--valid-axis", type=int, default=0, show_default=True, help="The axis of --valid-rows.")
@click.option("--zero-tail", is_flag=True, help="What lies behind --valid-rows must be zero.")
@click.option(
    "--topk", multiple=True, metavar="INDICES=SCORES", help="Indices may differ where the scores tie."
)
@click.option("--axis", type=int, help="List slices of this axis in place of rows.")
@click.option("--picture", type=click.Path(path_type=Path), help="Write heat maps: .html, .svg or .png.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    paths: tuple[Path, ...],
    rtol: float | None,
    atol: float | None,
    comparator: str,
    max_error_ratio: float | None,
    diff_threshold: float | None,
    valid_rows: int | None,
    valid_axis: int,
    zero_tail: bool,
    topk: tuple[str, ...],
    axis: int | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Compare ACTUAL with EXPECTED: .pt files, golden folders, argument dumps or build directories.

    Without --rtol and --atol values must be equal (NaN equals NaN); with one of them torch.allclose decides (the
    other is 0, NaN equals nothing). With more than two PATHS the last is expected and the others are runs of the
    same case: do they fail alike, or is it a race?

    Exit status: 0 equal, 1 different, 2 something could not be read or compared.
    """
    from ..build_output.files.errors import BuildOutputError
    from .difference import Comparison
    from .judges import Choice, judge_for, parse_topk
    from .sources import open_source
    from .statistics.agreement import ValidRows
    from .statistics.statistics import Tolerance

    if len(paths) < 2:
        raise click.UsageError("expected at least two paths, ACTUAL and EXPECTED")
    if picture is not None and (picture.suffix not in _PICTURES or len(paths) > 2):
        raise click.UsageError(f"expected --picture with two paths and a name on {', '.join(_PICTURES)}")
    exact = rtol is None and atol is None
    tolerance = Tolerance(rtol=rtol or 0.0, atol=atol or 0.0, equal_nan=exact)
    valid = None if valid_rows is None else ValidRows(rows=valid_rows, axis=valid_axis, zero_tail=zero_tail)
    try:
        choice = Choice(
            comparator=comparator,
            max_error_ratio=max_error_ratio,
            threshold=diff_threshold,
            valid=valid,
            topk=parse_topk(topk),
        )
        sources = [open_source(path) for path in paths]
        how = Comparison(tolerance=tolerance, judge=judge_for(choice, tolerance, sources[0]), axis=axis)
        if len(sources) == 2:
            status = _compare_two(sources[0], sources[1], how, picture=picture, as_json=as_json)
        else:
            status = _compare_runs(sources[:-1], sources[-1], tolerance, as_json=as_json)
    except (BuildOutputError, IndexError) as error:
        click.echo(f"diff-tensors: {error}", err=True)
        status = UNREADABLE
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    sys.exit(status)


def _compare_two(
    actual: Source, expected: Source, how: Comparison, *, picture: Path | None, as_json: bool
) -> int:
    from rich.console import Console

    from .difference import Outcome, compare_sources
    from .preflight import check_sources
    from .report import diff_json, diff_text

    console = Console(highlight=False, soft_wrap=True)
    remarks = check_sources(actual, expected, how.tolerance)
    if not as_json:
        diff_text.show_remarks(console, remarks)
    found: list[Difference] = []
    for difference in compare_sources(actual, expected, how):
        found.append(difference)
        if not as_json:
            detailed = sum(each.outcome is Outcome.DIFFERENT for each in found) <= _DETAILED
            diff_text.show_difference(console, difference, in_detail=detailed)
    counts = {outcome: sum(each.outcome is outcome for each in found) for outcome in Outcome}
    if as_json:
        tensors = [diff_json.difference(each) for each in found]
        _print_json(preflight=diff_json.remarks(remarks), tensors=tensors)
    else:
        console.print(", ".join(f"{count} {outcome.value}" for outcome, count in counts.items()))
    if picture is not None:
        _draw(picture, found)
    if counts[Outcome.DIFFERENT]:
        return DIFFERENT
    whole = not counts[Outcome.UNKNOWN] and not actual.incomplete and not expected.incomplete
    return EQUAL if counts[Outcome.EQUAL] and whole else UNREADABLE


def _compare_runs(runs: Sequence[Source], expected: Source, tolerance: Tolerance, *, as_json: bool) -> int:
    from rich.console import Console

    from .report import diff_json, diff_text
    from .statistics.runs import Behaviour, RunsReport, compare_runs
    from .statistics.statistics import IncomparableError

    reports: dict[str, RunsReport] = {}
    refused: dict[str, str] = {}
    for name in expected.names():
        if name not in expected.tensors or any(name not in run.tensors for run in runs):
            refused[name] = "no whole tensor in every run"
            continue
        views = [source.tensors[name].open() for source in (*runs, expected)]
        try:
            reports[name] = compare_runs(views[:-1], views[-1], tolerance)
        except IncomparableError as error:
            refused[name] = str(error)
    if as_json:
        found = [diff_json.runs(name, report) for name, report in reports.items()]
        _print_json(runs=found, not_compared=diff_json.plain(refused))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for name, report in reports.items():
            diff_text.show_runs(console, name, report)
        for name, reason in refused.items():
            console.print(diff_text.printable(f"{name}: not compared, {reason}"), markup=False)
    if any(report.behaviour is not Behaviour.ALL_PASS for report in reports.values()):
        return DIFFERENT
    whole = not refused and not any(source.incomplete for source in (*runs, expected))
    return EQUAL if reports and whole else UNREADABLE


def _draw(path: Path, found: Sequence[Difference]) -> None:
    from .report.picture import write_picture

    maps = [(each.name, each.map) for each in found if each.map is not None]
    maps.sort(key=lambda named: -float(named[1].share_over.mean()))
    if not maps:
        click.echo("diff-tensors: no tensor differs in its values, no picture is written", err=True)
        return
    write_picture(path, maps)
    click.echo(
        f"diff-tensors: {path} shows {len(maps) if path.suffix == '.html' else maps[0][0]!r}", err=True
    )


def _print_json(**parts: Json) -> None:
    click.echo(json.dumps(parts, allow_nan=False, indent=1))

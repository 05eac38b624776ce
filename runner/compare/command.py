"""`diff-tensors`: from its options to a comparison, and from differences to exit codes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console

from ..build_output.files.errors import BuildOutputError
from .difference import Comparison, Difference, Equality, compare_sources
from .judges import Choice, judge_for, parse_topk
from .options import CompareOptions
from .preflight import check_sources
from .report import diff_json, diff_text
from .report.diff_json import Json
from .report.picture import write_picture
from .sources import Source, open_source
from .statistics.agreement import ValidRows
from .statistics.runs import Behaviour, RunsReport, compare_runs
from .statistics.statistics import IncomparableError, Tolerance

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2

_DETAILED = 8  # differences shown at length; --json has all


def compare(options: CompareOptions) -> int:
    """Compare two sources, or several runs with what is expected, and print how they differ; the exit code.

    Raises `ValueError` where options do not go together.
    """
    exact = options.rtol is None and options.atol is None
    tolerance = Tolerance(rtol=options.rtol or 0.0, atol=options.atol or 0.0, equal_nan=exact)
    try:
        choice = _choice(options)
        sources = [open_source(path) for path in options.paths]
        comparison = Comparison(
            tolerance=tolerance, judge=judge_for(choice, tolerance, sources[0]), axis=options.axis
        )
        if len(sources) == 2:
            return _compare_two(
                sources[0], sources[1], comparison, picture=options.picture, as_json=options.as_json
            )
        return _compare_runs(sources[:-1], sources[-1], tolerance, as_json=options.as_json)
    except (BuildOutputError, IndexError) as error:
        click.echo(f"diff-tensors: {error}", err=True)
        return UNREADABLE


def _choice(options: CompareOptions) -> Choice:
    valid = None
    if options.valid_rows is not None:
        valid = ValidRows(rows=options.valid_rows, axis=options.valid_axis, zero_tail=options.zero_tail)
    return Choice(
        comparator=options.comparator,
        max_error_ratio=options.max_error_ratio,
        threshold=options.diff_threshold,
        valid=valid,
        topk=parse_topk(options.topk),
    )


def _compare_two(
    actual: Source, expected: Source, comparison: Comparison, *, picture: Path | None, as_json: bool
) -> int:
    console = Console(highlight=False, soft_wrap=True)
    remarks = check_sources(actual, expected, comparison.tolerance)
    if not as_json:
        diff_text.show_remarks(console, remarks)
    differences: list[Difference] = []
    for difference in compare_sources(actual, expected, comparison):
        differences.append(difference)
        if not as_json:
            shown = sum(each.outcome is Equality.DIFFERENT for each in differences)
            diff_text.show_difference(console, difference, in_detail=shown <= _DETAILED)
    counts = {outcome: sum(each.outcome is outcome for each in differences) for outcome in Equality}
    if as_json:
        tensors = [diff_json.difference(each) for each in differences]
        _print_json(preflight=diff_json.remarks(remarks), tensors=tensors)
    else:
        console.print(", ".join(f"{count} {outcome.value}" for outcome, count in counts.items()))
    if picture is not None:
        _draw(picture, differences)
    if counts[Equality.DIFFERENT]:
        return DIFFERENT
    whole = not counts[Equality.UNKNOWN] and not actual.incomplete and not expected.incomplete
    return EQUAL if counts[Equality.EQUAL] and whole else UNREADABLE


def _compare_runs(runs: Sequence[Source], expected: Source, tolerance: Tolerance, *, as_json: bool) -> int:
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
        tensors = [diff_json.runs(name, report) for name, report in reports.items()]
        _print_json(runs=tensors, not_compared=diff_json.plain(refused))
    else:
        _print_runs(reports, refused)
    if any(report.behaviour is not Behaviour.ALL_PASS for report in reports.values()):
        return DIFFERENT
    whole = not refused and not any(source.incomplete for source in (*runs, expected))
    return EQUAL if reports and whole else UNREADABLE


def _print_runs(reports: Mapping[str, RunsReport], refused: Mapping[str, str]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for name, report in reports.items():
        diff_text.show_runs(console, name, report)
    for name, reason in refused.items():
        console.print(diff_text.printable(f"{name}: not compared, {reason}"), markup=False)


def _draw(path: Path, differences: Sequence[Difference]) -> None:
    maps = [(each.name, each.map) for each in differences if each.map is not None]
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

"""`diff-tensors`: from its options to a comparison, and from differences to exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from ...store.words import plural
from ..build_output.files.errors import BuildOutputError, MissingFileError
from ..process.output import outlive_readers
from .difference import (
    Comparison,
    Difference,
    Equality,
    compare_sources,
    is_divergent,
)
from .judges import Choice, judge_for, parse_topk
from .kernels.jit import is_compiled
from .options import CompareOptions
from .preflight import check_sources
from .report import diff_json, diff_text
from .report.diff_json import Json
from .report.picture import write_picture
from .report.text_report import TextReport
from .sources import Entry, Source, are_single, named_as, open_source
from .statistics.agreement import ValidRows
from .statistics.runs import Behaviour, RunsReport, compare_runs
from .statistics.statistics import IncomparableError, Tolerance

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2


def compare(options: CompareOptions) -> int:
    """Compare two sources, or several runs with what is expected, and print how they differ; the exit code.

    Raises `ValueError` where options do not go together.
    """
    outlive_readers()
    exact = options.rtol is None and options.atol is None
    tolerance = Tolerance(rtol=options.rtol or 0.0, atol=options.atol or 0.0, equal_nan=exact)
    try:
        choice = _choice(options)
        *runs, expected = [open_source(path) for path in options.paths]
        sources = [*(named_as(run, expected) for run in runs), expected]
        comparison = Comparison(
            tolerance=tolerance, judge=judge_for(choice, tolerance, sources[0]), axis=options.axis
        )
        _check_records(options.records, sources)
        if sys.stderr.isatty() and not is_compiled():
            click.echo("compiling what compares for this machine, once: this takes a while", err=True)
        if len(sources) == 2:
            return _compare_two(sources[0], sources[1], comparison, options)
        return _compare_runs(sources[:-1], sources[-1], tolerance, options)
    except (BuildOutputError, IndexError) as error:
        click.echo(f"error: {error}", err=True)
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


def _check_records(texts: Sequence[str], sources: Sequence[Source]) -> None:
    """Raises `ValueError` for a text of --record that no name has."""
    labels = [f"{source.kernels.get(name, '')} {name}" for source in sources for name in source.names()]
    for text in texts:
        if not any(text in label for label in labels):
            raise ValueError(
                f"--record {text!r}: expected a part of a name, such as {labels[0].strip()!r}"
                if labels
                else f"--record {text!r}: there are no records"
            )


def _asked_for(texts: Sequence[str], label: str) -> bool:
    return not texts or any(text in label for text in texts)


def _compare_two(actual: Source, expected: Source, comparison: Comparison, options: CompareOptions) -> int:
    remarks = check_sources(actual, expected, comparison.tolerance)
    in_detail = options.verbose or bool(options.records) or are_single(actual, expected)
    printed = not (options.as_json or options.brief)
    text = TextReport(
        Console(highlight=False, soft_wrap=True), remarks, limit=options.limit, in_detail=in_detail
    )
    if printed:
        text.begin()
    differences: list[Difference] = []
    for difference in compare_sources(
        actual, expected, comparison, lambda label: _asked_for(options.records, label)
    ):
        differences.append(difference)
        if printed:
            text.add(difference)
        if options.first and is_divergent(difference):
            break
    if options.as_json:
        _print_json(**diff_json.comparison(remarks, differences))
    elif options.brief:
        text.brief(differences)
    else:
        text.end(differences, stopped=options.first and any(map(is_divergent, differences)))
    if options.picture is not None:
        _draw(options.picture, differences)
    outcomes = {difference.outcome for difference in differences}
    if Equality.DIFFERENT in outcomes:
        return DIFFERENT
    whole = Equality.UNKNOWN not in outcomes and not actual.incomplete and not expected.incomplete
    return EQUAL if Equality.EQUAL in outcomes and whole else UNREADABLE


def _compare_runs(
    runs: Sequence[Source], expected: Source, tolerance: Tolerance, options: CompareOptions
) -> int:
    reports: dict[str, RunsReport] = {}
    refused: dict[str, str] = {}
    for name, entries in _same_tensors(runs, expected):
        if not _asked_for(options.records, f"{expected.kernels.get(name, '')} {name}"):
            continue
        try:
            if entries is None:
                raise IncomparableError("no whole tensor in every run")
            views = [entry.open() for entry in entries]
            reports[name] = compare_runs(views[:-1], views[-1], tolerance)
        except (IncomparableError, BuildOutputError) as error:
            refused[name] = str(error)
            continue
        if options.first and reports[name].behaviour is not Behaviour.ALL_PASS:
            break
    if options.as_json:
        tensors = [diff_json.runs(name, report) for name, report in reports.items()]
        _print_json(runs=tensors, not_compared=diff_json.plain(refused))
    else:
        show = diff_text.show_brief_runs if options.brief else diff_text.show_all_runs
        show(Console(highlight=False, soft_wrap=True), reports, refused, options.limit)
    if any(report.behaviour is not Behaviour.ALL_PASS for report in reports.values()):
        return DIFFERENT
    whole = not refused and not any(source.incomplete for source in (*runs, expected))
    return EQUAL if reports and whole else UNREADABLE


def _same_tensors(runs: Sequence[Source], expected: Source) -> Iterator[tuple[str, Sequence[Entry] | None]]:
    """The tensors of one name in all sources, expected's last; None where one of them has none.

    Sources of one tensor each belong together whatever the tensors' names.
    """
    sources = (*runs, expected)
    if are_single(*sources):
        (name,) = expected.tensors
        yield name, [next(iter(source.tensors.values())) for source in sources]
        return
    for name in expected.names():
        held = all(name in source.tensors for source in sources)
        yield name, [source.tensors[name] for source in sources] if held else None


def _draw(path: Path, differences: Sequence[Difference]) -> None:
    maps = [(each.label, each.map) for each in differences if each.map is not None]
    if not maps:
        click.echo("diff-tensors: no tensor differs in its values, no picture is written", err=True)
        return
    try:
        write_picture(path, maps)
    except OSError as error:
        raise MissingFileError(
            path=path,
            expected="a place to write the picture to",
            found=error.strerror or str(error),
            remedy="name another one with --picture",
        ) from error
    shown = plural(len(maps), "tensor") if path.suffix == ".html" else repr(maps[0][0])
    click.echo(f"diff-tensors: {path} shows {shown}", err=True)


def _print_json(**parts: Json) -> None:
    click.echo(json.dumps(parts, allow_nan=False, indent=1))

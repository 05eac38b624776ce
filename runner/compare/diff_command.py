"""Runs `diff-tensors`: makes a comparison from its options, and an exit code from the differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from ...store.vocabulary import plural
from ..build_output.files import BuildOutputError, MissingFileError
from ..process.signals import outlive_readers
from . import diff_report
from .diff_cli import CompareOptions
from .diff_report import Json, TextReport, write_picture
from .judges import (
    ComparatorOptions,
    Comparison,
    ComparisonResult,
    Equality,
    ValidRows,
    check_sources,
    compare_files,
    compare_sources,
    find_comparator,
    is_in_refused_file,
    parse_topk,
    require_one_shape,
)
from .sources import Entry, Source, are_single, copy_names, open_sources, same_scalar
from .statistics import Behaviour, IncomparableError, RunsReport, Tolerance, compare_runs

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2
"""These are the exit codes of a comparison, as its `--help` lists them."""


def compare(options: CompareOptions) -> int:
    """Compare two sources, or several runs with what is expected, print how they differ, and return the exit code.

    Raises `ValueError` where options do not go together.
    """
    outlive_readers()
    exact = options.rtol is None and options.atol is None
    tolerance = Tolerance(rtol=options.rtol or 0.0, atol=options.atol or 0.0, equal_nan=exact)
    try:
        choice = _comparator_options(options)
        *runs, expected = open_sources(options.paths, options.ignored)
        sources = [*(copy_names(run, expected) for run in runs), expected]
        comparison = Comparison(tolerance=tolerance, judge=find_comparator(choice, tolerance, sources[0]))
        _check_records(options.records, sources)
        if len(sources) == 2:
            return _compare_two(sources[0], sources[1], comparison, options)
        return _compare_runs(sources[:-1], sources[-1], tolerance, options)
    except BuildOutputError as error:
        click.echo(f"error: {error}", err=True)
        return UNREADABLE


def _comparator_options(options: CompareOptions) -> ComparatorOptions:
    valid = None
    if options.valid_rows is not None:
        valid = ValidRows(rows=options.valid_rows, zero_tail=options.zero_tail)
    return ComparatorOptions(
        comparator=options.comparator,
        max_error_ratio=options.max_error_ratio,
        threshold=options.diff_threshold,
        valid=valid,
        topk=parse_topk(options.topk),
    )


def _check_records(texts: Sequence[str], sources: Sequence[Source]) -> None:
    """Raise `ValueError` for a text of --record that no name has."""
    labels = [f"{source.kernels.get(name, '')} {name}" for source in sources for name in source.names()]
    for text in texts:
        if not any(text in label for label in labels):
            raise ValueError(
                f"--record {text!r}: expected a part of a name, such as {labels[0].strip()!r}"
                if labels
                else f"--record {text!r}: there are no records"
            )


def _is_selected(texts: Sequence[str], label: str) -> bool:
    return not texts or any(text in label for text in texts)


def _compare_two(actual: Source, expected: Source, comparison: Comparison, options: CompareOptions) -> int:
    """Compare two sources, and print the report. Return the exit code."""
    remarks = check_sources(actual, expected, comparison.tolerance)
    in_detail = options.verbose or bool(options.records) or are_single(actual, expected)
    printed = not (options.as_json or options.brief)
    text = TextReport(
        Console(highlight=False, soft_wrap=True),
        remarks,
        tolerance=comparison.tolerance,
        limit=options.limit,
        in_detail=in_detail,
    )
    if printed:
        text.begin()
    lost = "; ".join(f"{side.path}: {side.incomplete}" for side in (actual, expected) if side.incomplete)
    differences: list[ComparisonResult] = []
    for difference in compare_sources(
        actual, expected, comparison, lambda label: _is_selected(options.records, label)
    ):
        differences.append(difference)
        if printed:
            text.add(difference)
    if options.as_json:
        _print_json(**diff_report.comparison_json(remarks, differences))
    elif options.brief:
        text.brief(differences, lost=lost)
    else:
        text.end(differences)
    if options.picture is not None:
        _draw(options.picture, differences)
    outcomes = {difference.outcome for difference in differences}
    if Equality.DIFFERENT in outcomes:
        return DIFFERENT
    return (
        EQUAL if Equality.EQUAL in outcomes and Equality.UNKNOWN not in outcomes and not lost else UNREADABLE
    )


def _compare_runs(
    runs: Sequence[Source], expected: Source, tolerance: Tolerance, options: CompareOptions
) -> int:
    """Compare several runs with one reference, and print the report. Return the exit code."""
    reports: dict[str, RunsReport] = {}
    refused: dict[str, str] = {}
    for name, entries in _same_tensors(runs, expected):
        if not _is_selected(options.records, f"{expected.kernels.get(name, '')} {name}"):
            continue
        try:
            if entries is None:
                raise IncomparableError("no whole tensor in every run")
            for entry in entries[:-1]:
                require_one_shape(entry, entries[-1])
            views = [entry.open() for entry in entries]
            reports[name] = compare_runs(views[:-1], views[-1], tolerance)
        except (IncomparableError, BuildOutputError) as error:
            refused[name] = str(error)
            continue
    files = [
        file
        for run in runs
        for file in compare_files(run, expected)
        if _is_selected(options.records, file.name)
    ]
    refused |= {file.name: file.reason for file in files if file.outcome is Equality.UNKNOWN}
    left_out = {file.name: file.reason for file in files if file.outcome is Equality.LEFT_OUT}
    if options.as_json:
        tensors = [diff_report.runs_json(name, report) for name, report in reports.items()]
        _print_json(
            runs=tensors, not_compared=diff_report.to_json(refused), left_out=diff_report.to_json(left_out)
        )
    else:
        show = diff_report.show_brief_runs if options.brief else diff_report.show_all_runs
        show(Console(highlight=False, soft_wrap=True), reports, refused, options.limit)
    if any(report.behaviour is not Behaviour.ALL_PASS for report in reports.values()):
        return DIFFERENT
    whole = not refused and not any(source.incomplete for source in (*runs, expected))
    return EQUAL if reports and whole else UNREADABLE


def _same_tensors(runs: Sequence[Source], expected: Source) -> Iterator[tuple[str, Sequence[Entry] | None]]:
    """Yield the tensors of one name in all sources, with expected's last; None where one of the sources has none.

    Sources of one tensor each belong together, whatever the tensors' names. Scalars that are the same in all sources
    are skipped.
    """
    sources = (*runs, expected)
    if are_single(*sources):
        (name,) = expected.tensors
        yield name, [next(iter(source.tensors.values())) for source in sources]
        return
    for name in dict.fromkeys(name for source in (expected, *runs) for name in source.names()):
        if all(name in source.tensors for source in sources):
            yield name, [source.tensors[name] for source in sources]
        elif not (is_in_refused_file(name, *sources) or _is_same_scalar(name, sources)):
            yield name, None


def _is_same_scalar(name: str, sources: Sequence[Source]) -> bool:
    return all(
        name in source.scalars and same_scalar(source.scalars[name], sources[-1].scalars[name])
        for source in sources
    )


def _draw(path: Path, differences: Sequence[ComparisonResult]) -> None:
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

"""Runs `diff-tensors`: compares what its options name, prints the differences, and returns the exit code.

`compare` does all of it. `find_comparator` returns the comparator that the options ask for. `check_sources` looks for
reasons to doubt the comparison before numerics are blamed: platform, names, shapes, strides, inputs and tolerances.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console

from ...store.vocabulary import plural
from ..build_output.files import BuildOutputError, MissingFileError
from ..cli_options import print_error
from ..errors import UsageError
from ..process.signals import outlive_readers
from ..tensor import DType, TensorView
from . import diff_report
from .diff_cli import COMPARATORS, CompareOptions
from .diff_report import Json, Remark, Severity, TextReport, write_picture
from .judges import (
    AllClose,
    ComparatorVerdict,
    Comparison,
    ComparisonResult,
    Equality,
    Judge,
    RatioAllClose,
    RatioRelDiff,
    TopKPairs,
    ValidRows,
    are_same_finite_values,
    compare_files,
    compare_sources,
    is_in_refused_file,
    require_one_shape,
)
from .numeric_patterns import SPACING
from .sources import (
    Entry,
    Source,
    are_equal_scalars,
    are_single_tensors,
    are_unrelated,
    copy_names,
    open_sources,
)
from .statistics import (
    Behaviour,
    IncomparableError,
    RunsReport,
    Statistics,
    Tolerance,
    compare_runs,
    measure,
)

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2
"""The exit codes of a comparison, as its `--help` lists them."""


def compare(options: CompareOptions) -> int:
    """Compare two sources, or several runs with a reference. Print the differences, and return the exit code.

    Raises:
        UsageError: options exclude each other, or name tensors that do not exist.
    """
    outlive_readers()
    exact = options.rtol is None and options.atol is None
    tolerance = Tolerance(rtol=options.rtol or 0.0, atol=options.atol or 0.0, equal_nan=exact)
    try:
        scores = _parse_topk(options.topk)
        *runs, expected = open_sources(options.paths, options.ignored)
        runs = [copy_names(run, expected) for run in runs]
        judge = find_comparator(options, scores, tolerance, runs[0])
        if judge is not None and len(runs) > 1:
            raise UsageError(
                "expected two paths beside --comparator and --topk: runs are compared by --rtol and --atol"
            )
        _check_records(options.records, [*runs, expected])
        if len(runs) == 1:
            return _compare_two(runs[0], expected, Comparison(tolerance=tolerance, judge=judge), options)
        return _compare_runs(runs, expected, tolerance, options)
    except BuildOutputError as error:
        return print_error(str(error), UNREADABLE, as_json=options.as_json)


def _console() -> Console:
    """Return the console of a report. A terminal breaks lines between words, and nothing else does."""
    return Console(highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def _parse_topk(pairs: Sequence[str]) -> dict[str, str]:
    """Return the scores' names by the indices' names, from texts `INDICES=SCORES`."""
    scores: dict[str, str] = {}
    for pair in pairs:
        indices, _, name = pair.partition("=")
        if not indices or not name:
            raise UsageError(f"expected --topk INDICES=SCORES, two names of tensors, found {pair!r}")
        scores[indices] = name
    return scores


def _check_records(texts: Sequence[str], sources: Sequence[Source]) -> None:
    """Raise `UsageError` for a text of --record that no name has."""
    labels = [f"{source.kernels.get(name, '')} {name}" for source in sources for name in source.names()]
    for text in texts:
        if not any(text in label for label in labels):
            raise UsageError(
                f"--record {text!r}: expected a part of a name, such as {labels[0].strip()!r}"
                if labels
                else f"--record {text!r}: there are no records"
            )


def _is_selected(texts: Sequence[str], label: str) -> bool:
    return not texts or any(text in label for text in texts)


def _compare_two(actual: Source, expected: Source, comparison: Comparison, options: CompareOptions) -> int:
    """Compare two sources, and print the report. Return the exit code."""
    remarks = check_sources(actual, expected, comparison.tolerance)
    in_detail = options.verbose or bool(options.records) or are_single_tensors(actual, expected)
    prints_text = not (options.as_json or options.brief)
    text = TextReport(
        _console(),
        remarks,
        tolerance=comparison.tolerance,
        limit=options.limit,
        in_detail=in_detail,
    )
    if prints_text:
        text.begin()
    lost = "; ".join(f"{side.path}: {side.incomplete}" for side in (actual, expected) if side.incomplete)
    differences: list[ComparisonResult] = []
    for difference in compare_sources(
        actual, expected, comparison, lambda label: _is_selected(options.records, label)
    ):
        differences.append(difference)
        if prints_text:
            text.add(difference)
    if options.brief:
        text.brief(differences, lost=lost)
    elif not options.as_json:
        text.end(differences)
    if options.picture is not None:
        _draw(options.picture, differences)
    if options.as_json:
        _print_json(**diff_report.comparison_json(remarks, differences))
    outcomes = {difference.outcome for difference in differences}
    if Equality.DIFFERENT in outcomes:
        return DIFFERENT
    all_compared = Equality.EQUAL in outcomes and Equality.UNKNOWN not in outcomes and not lost
    return EQUAL if all_compared else UNREADABLE


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
                are_scalars = all(name in source.scalars for source in (*runs, expected))
                raise IncomparableError(
                    "a scalar that differs" if are_scalars else "no whole tensor in every run"
                )
            for entry in entries[:-1]:
                require_one_shape(entry, entries[-1])
            views = [entry.open() for entry in entries]
            reports[name] = compare_runs(views[:-1], views[-1], tolerance)
        except (IncomparableError, BuildOutputError) as error:
            refused[name] = str(error)
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
        show(_console(), reports, refused, options.limit)
    if any(report.behaviour is not Behaviour.ALL_PASS for report in reports.values()):
        return DIFFERENT
    all_compared = not refused and not any(source.incomplete for source in (*runs, expected))
    return EQUAL if reports and all_compared else UNREADABLE


def _same_tensors(runs: Sequence[Source], expected: Source) -> Iterator[tuple[str, Sequence[Entry] | None]]:
    """Yield each name with its tensors in all sources, expected's last; None if a source has no such tensor.

    Sources of one tensor each belong together, whatever the tensors' names. Scalars that are equal in all sources are
    skipped.
    """
    sources = (*runs, expected)
    if are_single_tensors(*sources):
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
        name in source.scalars and are_equal_scalars(source.scalars[name], sources[-1].scalars[name])
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


def find_comparator(
    options: CompareOptions, scores: Mapping[str, str], tolerance: Tolerance, actual: Source
) -> Judge | None:
    """Return the comparator that the options ask for; None if `tolerance` alone decides.

    `scores` gives the names of the scores by the names of the indices that --topk compares.

    Raises:
        UsageError: options exclude each other, or `actual` has no tensor that --topk names.
    """
    ratio = _ratio_comparator(options, tolerance)
    for name in (name for pair in scores.items() for name in pair):
        if name not in actual.tensors:
            raise UsageError(
                f"--topk names {name!r}, but {actual.path} holds {', '.join(actual.tensors) or 'nothing'}"
            )
    if ratio is None and not scores:
        return None

    def judge(name: str, actual_view: TensorView, expected_view: TensorView) -> ComparatorVerdict:
        if name in scores:
            return TopKPairs().judge(actual_view, expected_view, actual.tensors[scores[name]].open())
        return (ratio or AllClose(tolerance)).judge(actual_view, expected_view)

    return judge


def _ratio_comparator(options: CompareOptions, tolerance: Tolerance) -> RatioAllClose | RatioRelDiff | None:
    valid = None
    if options.zero_tail and options.valid_rows is None:
        raise UsageError(
            "expected --valid-rows beside --zero-tail: it asks that all behind those rows is zero"
        )
    if options.valid_rows is not None:
        valid = ValidRows(rows=options.valid_rows, zero_tail=options.zero_tail)
    settings = {"max_error_ratio": options.max_error_ratio, "threshold": options.diff_threshold}
    changes = {name: value for name, value in settings.items() if value is not None}
    if options.comparator == "ratio-reldiff":
        return RatioRelDiff(valid=valid, **changes)
    if options.comparator == "ratio-allclose":
        if "threshold" in changes:
            raise UsageError("--diff-threshold goes with ratio-reldiff")
        return RatioAllClose(rtol=tolerance.rtol, atol=tolerance.atol, valid=valid, **changes)
    if valid is not None or changes:
        raise UsageError(
            f"--max-error-ratio, --diff-threshold and --valid-rows go with {' or '.join(COMPARATORS[1:])}"
        )
    return None


_UNRELATED_COSINE = 0.5
"""Inputs with a cosine up to this one are called unrelated. Slightly changed inputs have one near 1."""
_MOSTLY_UNEQUAL = 0.9
"""Inputs are called unrelated only if more than this share of their elements differs."""


def check_sources(actual: Source, expected: Source, tolerance: Tolerance) -> list[Remark]:
    """Return all remarks on two sources: platform, geometry, inputs, and the tolerance for each type."""
    remarks = list(check_platform(expected.platform, actual.platform))
    remarks += [
        _error(str(side.path), f"the dump is not whole: {side.incomplete}")
        for side in (actual, expected)
        if side.incomplete
    ]
    remarks += [
        _warning(str(side.path), reason) for side in (actual, expected) for reason in side.read_errors
    ]
    remarks += _check_names(actual, expected)
    checked_types: set[DType] = set()
    for name, expected_entry in expected.tensors.items():
        actual_entry = actual.tensors.get(name)
        if actual_entry is None:
            continue
        try:
            dtype = expected_entry.load_layout().dtype
            remarks += _check_tensor(name, actual_entry, expected_entry)
        except (BuildOutputError, MemoryError):
            continue  # the comparison reports it
        if dtype not in checked_types:
            checked_types.add(dtype)
            remarks += check_tolerance(dtype, tolerance)
    return remarks


def check_platform(case: str | None, build: str | None) -> Iterator[Remark]:
    """Check that the build's target is the one that the case is run for. None means that a target is unknown."""
    if case is not None and build is not None and case != build:
        yield _error("platform", f"the case is run for {case}, the build was made for {build}")


def _check_names(actual: Source, expected: Source) -> Iterator[Remark]:
    """Check that names correspond. The names of single tensors do not matter."""
    if actual.renamed:
        new_name, own_name = next(iter(actual.renamed.items()))
        yield _warning(
            str(actual.path),
            f"{plural(len(actual.renamed), 'tensor')} named as in {expected.path} but for what stands before the "
            f"last /, such as {own_name} for {new_name}",
        )
    elif actual.names() and expected.names() and are_unrelated(actual, expected):
        here, there = (next(iter(side.names())) for side in (actual, expected))
        yield _error(
            "names",
            f"expected a name that both have, found {here!r} and the like here, {there!r} there: nothing is compared",
        )


def _check_tensor(name: str, actual: Entry, expected: Entry) -> Iterator[Remark]:
    actual_layout, expected_layout = actual.load_layout(), expected.load_layout()
    if actual_layout.is_contiguous != expected_layout.is_contiguous:
        yield _warning(name, f"strides {actual_layout.strides} against expected {expected_layout.strides}")
    if not expected.is_input:
        return
    try:
        require_one_shape(actual, expected)
    except IncomparableError as error:
        yield _geometry_error(name, error)
    else:
        yield from check_input(name, actual.open(), expected.open())


def check_input(name: str, actual: TensorView, expected: TensorView) -> Iterator[Remark]:
    """Check that an input is finite, and the same on both sides. If not, the golden belongs to another run."""
    if actual.dtype is expected.dtype and are_same_finite_values(actual, expected):
        return
    try:
        statistics = measure(actual, expected, Tolerance())
    except IncomparableError as error:
        yield _geometry_error(name, error)
        return
    yield from _check_finite(name, statistics)
    if statistics.unequal == 0:
        return
    share = statistics.unequal / statistics.numel
    if share > _MOSTLY_UNEQUAL and not abs(statistics.cosine) > _UNRELATED_COSINE:
        yield _error(
            name,
            f"{share:.0%} of the input's elements differ, cosine {statistics.cosine:.3f}: unrelated values, as from "
            "another seed; record the golden anew, or run with --golden-data",
        )
    else:
        yield _error(
            name,
            f"the input differs between the sides in {statistics.unequal} of {plural(statistics.numel, 'element')}",
        )


def _check_finite(name: str, statistics: Statistics) -> Iterator[Remark]:
    for side, elements, what in (
        ("actual", statistics.actual_nan, "NaN"),
        ("actual", statistics.actual_inf, "Inf"),
        ("expected", statistics.expected_nan, "NaN"),
        ("expected", statistics.expected_inf, "Inf"),
    ):
        if elements.count:
            yield _warning(
                name, f"the {side} input holds {elements.count} {what}, the first at {elements.first}"
            )


def check_tolerance(dtype: DType, tolerance: Tolerance) -> Iterator[Remark]:
    """Check that `tolerance` allows one rounding of `dtype`, which is up to half a spacing of a value.

    The spacing of float16, for instance, is 2**-10 of a value at most.
    """
    if not dtype.is_floating or (tolerance.rtol == 0 and tolerance.atol == 0):
        return
    rounding = SPACING[dtype] / 2
    if tolerance.rtol >= rounding:
        return
    size = tolerance.atol / (rounding - tolerance.rtol)
    where = "everywhere" if size == 0 or math.isinf(size) else f"for values over {size:.3g}"
    yield _warning(
        dtype.value,
        f"rtol={tolerance.rtol:g} atol={tolerance.atol:g} is finer than {dtype.value} can hold {where}: one "
        f"rounding is up to {rounding:.2g} of a value",
    )


def _geometry_error(name: str, error: IncomparableError) -> Remark:
    return _error(name, f"inputs of different geometry: {error}; the golden was recorded for another case")


def _error(subject: str, message: str) -> Remark:
    return Remark(severity=Severity.ERROR, subject=subject, message=message)


def _warning(subject: str, message: str) -> Remark:
    return Remark(severity=Severity.WARNING, subject=subject, message=message)

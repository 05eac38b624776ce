"""Shows a comparison of two sources, or of several runs, on a terminal, as JSON, or as a picture.

- `TextReport` prints each difference as it is found, in execution order, one line each. At the end it lists missing
  names, names that were not compared, names equal by tolerance alone, remarks, and counts.
- `show_difference`, `show_all_runs` and similar functions print single results.
- `comparison_json` and similar functions return plain JSON values. JSON has no numbers for NaN and Inf: they become
  null and strings.
- `heat_svg` draws a heat map with axes and a scale. `write_picture` writes a page of them. No tensor's name can inject
  markup into it. `style` returns the style sheet of all pages and pictures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from rich.console import Console
from rich.text import Text

from ...store.vocabulary import plural
from .finding import PatternMatch
from .judges import ComparisonResult, Equality, is_divergent
from .statistics import (
    Behaviour,
    Breakdown,
    Extreme,
    HeatMap,
    Index,
    NonFiniteCount,
    RunsReport,
    Statistics,
    Tolerance,
)


class Severity(Enum):
    """How much a remark weighs. After an `ERROR` the comparison says nothing about numerics."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A reason to doubt the comparison."""

    severity: Severity
    subject: str
    message: str


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MAX_ROWS = 1000
"""The JSON lists at most this many slices over tolerance. It also has their number."""


def comparison_json(remarks: Sequence[Remark], results: Sequence[ComparisonResult]) -> dict[str, Json]:
    """Return a comparison of two sources: the number of each outcome, the first divergent name, and all results."""
    first = next(filter(is_divergent, results), None)
    counts = Counter(each.outcome.value for each in results)
    return {
        "counts": {outcome.value: counts[outcome.value] for outcome in Equality},
        "first_divergent": None if first is None else first.name,
        "preflight": to_json(remarks),
        "tensors": [difference_json(each) for each in results],
    }


def difference_json(result: ComparisonResult) -> Json:
    """Return everything about one name except its heat map."""
    return {
        "name": result.name,
        "kernel": result.kernel or None,
        "only_in": result.only_in or None,
        "is_file": result.is_file,
        "compared_as": result.conversion or None,
        "outcome": result.outcome.value,
        "reason": result.reason,
        "identical": result.identical,
        "statistics": to_json(result.statistics),
        "judgement": to_json(result.verdict),
        "rows": rows_json(result.rows),
        "patterns": to_json(result.patterns),
    }


def rows_json(rows: Breakdown | None) -> Json:
    """Return the slices with elements over tolerance, at most `_MAX_ROWS` of them."""
    if rows is None:
        return None
    over = rows.slices_over()
    return {
        "length": rows.length,
        "step": rows.step,
        "over": len(over),
        "first": [to_json(rows.slice(number)) for number in over[:_MAX_ROWS]],
    }


def runs_json(name: str, report: RunsReport) -> Json:
    """Return a report on several runs of the tensor `name`."""
    return {"name": name, "is_race": report.is_race, **cast(dict[str, Json], to_json(report))}


def to_json(value: object) -> Json:
    """Return a value as JSON: dataclasses as objects, enums by value, NaN as null, and Inf as a string."""
    if isinstance(value, Enum):
        return to_json(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value):
        return {entry.name: to_json(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, object], value).items()
        return {str(key): to_json(item) for key, item in items}
    if isinstance(value, Sequence):
        return [to_json(item) for item in cast(Sequence[object], value)]
    raise TypeError(f"no JSON for a {type(value).__name__}")


SHOWN_ROWS = 10
"""The terminal shows at most this many rows and counts the others, so that a comparison fits on a screen."""
EXACT = Tolerance()
"""The tolerance if none is given."""
_SHADES = "·░▒▓█"
_HEAT_LEGEND = f"{_SHADES[0]} right, {_SHADES[1:]} the more wrong the darker, N NaN or Inf"
_COLOURS = {Equality.EQUAL: "green", Equality.DIFFERENT: "red", Equality.UNKNOWN: "yellow"}


def escape_unprintable(text: str) -> str:
    """Return `text` with control characters escaped. Names come from files, and could control the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def show_remarks(console: Console, remarks: Sequence[Remark]) -> None:
    """Print remarks, one line each."""
    for remark in remarks:
        colour = "red" if remark.severity is Severity.ERROR else "yellow"
        line = Text(f"{remark.severity.value}: ", style=colour)
        console.print(line.append(escape_unprintable(f"{remark.subject}: {remark.message}"), style="default"))


def show_difference(
    console: Console, result: ComparisonResult, *, in_detail: bool, tolerance: Tolerance = EXACT
) -> None:
    """Print one line, or nothing for identical values. With `in_detail`, add statistics, patterns, rows and a map.

    `tolerance` is the one by which the elements were compared.
    """
    if result.identical:
        return
    line = Text(escape_unprintable(result.label), style="bold").append(": ", style="default")
    line.append(result.outcome.value, style=_COLOURS[result.outcome])
    if result.outcome is Equality.EQUAL:
        line.append(" within tolerance, not identical", style="default")
    details = _kind_and_size(result)
    console.print(line.append(f", {escape_unprintable(details)}" if details else "", style="default"))
    if not in_detail or result.outcome is not Equality.DIFFERENT or result.statistics is None:
        return
    console.print(_statistics(result.statistics, tolerance))
    for match in result.patterns:
        pattern = Text(f"  {match.pattern.value} ", style="bold magenta")
        evidence = escape_unprintable(f"(confidence {match.confidence:.2f}): {match.evidence}")
        console.print(pattern.append(evidence, style="default"))
    if not result.patterns:
        console.print("  no known pattern")
    if result.rows is not None:
        console.print(_rows(result.rows, exact=tolerance == EXACT))
    if result.map is not None:
        needed = result.map.share_over.shape[1] + 2
        fits = not console.is_terminal or needed <= console.width
        console.print(
            heat_text(result.map) if fits else "  a map is wider than the terminal: --picture FILE draws it"
        )


def _kind_and_size(result: ComparisonResult) -> str:
    """Return the pattern, the reason, the largest error, and the numbers of NaN and Inf."""
    kind = f"{_pattern_name(result.patterns[0])}: " if result.patterns else ""
    parts = [f"{kind}{result.reason}"] if result.reason else []
    if (statistics := result.statistics) is not None:
        if result.outcome is Equality.DIFFERENT and statistics.max_error.value > 0:
            parts.append(
                f"max error {statistics.max_error.value:.6g} at {_index(statistics.max_error.index)}"
            )
        parts += _non_finite_parts("", statistics.actual_nan, statistics.actual_inf)
        parts += _non_finite_parts("expected has ", statistics.expected_nan, statistics.expected_inf)
    if result.conversion:
        parts.append(f"compared {result.conversion}")
    return ", ".join(parts)


_SURE = 0.9
"""A pattern with less confidence is only likely."""


def _pattern_name(match: PatternMatch) -> str:
    return match.pattern.value if match.confidence >= _SURE else f"perhaps {match.pattern.value}"


def _non_finite_parts(whose: str, nan: NonFiniteCount, inf: NonFiniteCount) -> list[str]:
    counted = ((nan.count, "NaN"), (inf.count, "Inf"))
    return [f"{whose}{count} {what}" for count, what in counted if count]


def show_all_runs(
    console: Console, reports: Mapping[str, RunsReport], refused: Mapping[str, str], limit: int
) -> None:
    """Print the report on each tensor that does not pass alike in all runs, and why others were not compared.

    At most `limit` of either are printed, or all with 0.
    """
    shown = [name for name, report in reports.items() if _is_notable(report)]
    for name in shown[: limit or None]:
        show_runs(console, name, reports[name])
    if limit and len(shown) > limit:
        console.print(f"... {len(shown) - limit} more; --limit 0 prints all")
    for name in list(refused)[: limit or None]:
        console.print(escape_unprintable(f"{name}: not compared, {refused[name]}"), markup=False)
    if limit and len(refused) > limit:
        console.print(f"... {len(refused) - limit} more; --limit 0 prints all")


def show_brief_runs(
    console: Console, reports: Mapping[str, RunsReport], refused: Mapping[str, str], _limit: int
) -> None:
    """Print one line: whether all runs pass, or the first tensor that fails or was not compared."""
    failing = [name for name, report in reports.items() if report.behaviour is not Behaviour.ALL_PASS]
    if failing:
        first = reports[failing[0]]
        line = f"different: {len(failing)} of {len(reports)}, first {failing[0]}: {first.behaviour.value}"
    elif refused:
        first_refused = next(iter(refused))
        count = f"{len(refused)} of {len(reports) + len(refused)}"
        line = f"not compared: {count}, first {first_refused}: {refused[first_refused]}"
    else:
        line = f"all runs pass: {len(reports)} compared, 0 not compared"
    console.print(escape_unprintable(line), markup=False)


def _is_notable(report: RunsReport) -> bool:
    return report.behaviour is not Behaviour.ALL_PASS or report.is_race


def show_runs(console: Console, name: str, report: RunsReport) -> None:
    """Print the report on several runs of one tensor, or nothing if all runs pass alike."""
    if not _is_notable(report):
        return
    console.print(
        Text(escape_unprintable(name), style="bold").append(f": {report.behaviour.value}", style="default")
    )
    counts = ", ".join(map(str, report.wrong_rows))
    console.print(
        f"  {plural(report.runs, 'run')}: in each {counts} wrong rows of {report.rows}; pairs of runs share "
        f"{report.overlap}, p = {report.p_value:.3g} for as many at random places"
    )
    if report.always_wrong:
        shown = ", ".join(map(str, report.always_wrong[:SHOWN_ROWS]))
        more = len(report.always_wrong) - SHOWN_ROWS
        console.print(f"  wrong in every run: row {shown}{f' and {more} more' if more > 0 else ''}")
    if report.bit_identical:
        console.print(
            f"  all runs bit for bit alike; a race that shows in fewer than {report.hidden_rate:.0%} of the runs "
            "is not excluded (95 %)"
        )
    else:
        console.print("  runs on equal inputs differ bit for bit: not deterministic")


def heat_text(heat: HeatMap) -> Text:
    """Return one character a block: a shade for the share of wrong elements, or N if there is NaN or Inf.

    Many neighbouring rows without a wrong element are counted in one line.
    """
    shape = f"{plural(heat.rows, 'row')} x {plural(heat.columns, 'column')}"
    text = Text(f"  {shape}, a block is {heat.row_step} x {heat.column_step}: {_HEAT_LEGEND}\n")
    is_wrong = [
        bool(shares.any() or wild.any()) for shares, wild in zip(heat.share_over, heat.wild, strict=True)
    ]
    for wrong, group in groupby(range(len(is_wrong)), key=is_wrong.__getitem__):
        rows = [*group]
        if not wrong and len(rows) > _MAX_RIGHT_ROWS:
            text.append(f"  {len(rows)} rows of blocks are right\n", style="dim")
            continue
        for i in rows:
            text.append("  ").append(_heat_row(heat, i)).append("\n")
    return text


_MAX_RIGHT_ROWS = 2
"""More neighbouring rows of a map without a wrong element are only counted."""


def _heat_row(heat: HeatMap, row: int) -> Text:
    """Return one row of blocks."""
    text = Text()
    for share, wild in zip(heat.share_over[row].tolist(), heat.wild[row].tolist(), strict=True):
        if wild:
            text.append("N", style="magenta")
        else:
            shade = _SHADES[math.ceil(share * (len(_SHADES) - 1))]
            text.append(shade, style="red" if share else "dim")
    return text


def _cosine(cosine: float) -> str:
    return "none, because one of both is zero or not finite" if math.isnan(cosine) else f"{cosine:.9f}"


def _statistics(statistics: Statistics, tolerance: Tolerance) -> Text:
    shape = "x".join(str(extent) for extent in statistics.shape) or "scalar"
    over = f"{statistics.over} of {statistics.numel} ({statistics.over / max(statistics.numel, 1):.3%})"
    differing = ("differ", f"{over}; no --rtol or --atol is given")
    if tolerance != EXACT:
        limits = f"rtol {tolerance.rtol:g} and atol {tolerance.atol:g}"
        differing = ("over tolerance", f"{over}, of {limits}; {statistics.unequal} differ at all")
    whole = not statistics.dtype.is_floating
    distance = ("max ulp distance", f"{statistics.max_distance} at {_index(statistics.max_distance_index)}")
    lines = [
        ("tensor", f"{shape} {statistics.dtype.value}"),
        differing,
        *_non_finite_lines(statistics),
        ("max abs error", _extreme(statistics.max_error, statistics)),
        ("max rel error", _max_relative_error(statistics)),
        *([] if whole else [distance]),
        (
            "rmse, mean",
            f"{statistics.rmse:.6g}, {statistics.mean_error:.6g} (signed {statistics.mean_difference:+.6g})",
        ),
        ("relative L2, cosine", f"{statistics.relative_l2:.6g}, {_cosine(statistics.cosine)}"),
        ("sums", f"{statistics.sum_actual:.9g} against {statistics.sum_expected:.9g}"),
        ("abs error at", _levels(statistics.error_quantiles, whole=whole)),
        ("rel error at", _levels(statistics.relative_quantiles)),
        ("|expected| at", _levels(statistics.expected_quantiles, whole=whole)),
        (
            "share of errors >",
            "  ".join(f"{level:g}: {share:.3%}" for level, share in statistics.beyond.items()),
        ),
    ]
    return Text("\n".join(f"  {name:<20} {value}" for name, value in lines))


def _non_finite_lines(statistics: Statistics) -> Iterator[tuple[str, str]]:
    """Yield lines on NaN and Inf, and one that says that the figures below leave out their pairs."""
    for side, nan, inf in (
        ("actual", statistics.actual_nan, statistics.actual_inf),
        ("expected", statistics.expected_nan, statistics.expected_inf),
    ):
        if nan.count or inf.count:
            yield f"{side} NaN, Inf", f"{_format_non_finite(nan)}, {_format_non_finite(inf)}"
    if statistics.finite < statistics.numel:
        yield "finite pairs", f"{statistics.finite}; the lines below leave out the others"


def _extreme(largest: Extreme, statistics: Statistics) -> str:
    """Return the largest error with its index. Pairs with NaN or Inf have none."""
    if statistics.finite == 0 and statistics.numel:
        return "none: every pair has NaN or Inf"
    if largest.value == 0 and statistics.finite < statistics.numel:
        return f"none in the {statistics.finite} pairs without NaN or Inf"
    return f"{largest.value:.6g} at {_index(largest.index)}"


def _max_relative_error(statistics: Statistics) -> str:
    """Return the largest finite relative error. If only 0 is expected, a relative error is infinite."""
    largest = statistics.max_relative_error
    if math.inf not in statistics.relative_quantiles.values() or math.isinf(largest.value):
        return _extreme(largest, statistics)
    infinite = "infinite where 0 is expected"
    return f"{_extreme(largest, statistics)}, and {infinite}" if largest.value else infinite


def _rows(rows: Breakdown, *, exact: bool) -> Text:
    over = rows.slices_over()
    text = Text(f"  {len(over)} of {len(rows.over)} rows {'differ' if exact else 'over tolerance'}")
    if rows.step > 1:
        text.append(f", {rows.step} taken together")
    for number in over[:SHOWN_ROWS]:
        part = rows.slice(number)
        place = str(part.start) if part.stop == part.start + 1 else f"{part.start}:{part.stop}"
        text.append(f"\n    {place}: {part.over} of {part.numel} {'differ' if exact else 'over'}")
        if part.max_error > 0 or not part.wild:
            text.append(f", max error {part.max_error:.3g}, relative L2 {part.relative_l2:.3g}")
        if part.wild:
            text.append(f", {part.wild} NaN or Inf")
    if len(over) > SHOWN_ROWS:
        text.append(f"\n    ... {len(over) - SHOWN_ROWS} more")
    return text


def _levels(quantiles: Mapping[float, float], *, whole: bool = False) -> str:
    """Return the quantiles as text, rounded to integers with `whole`."""
    shown = {level: np.rint(value) if whole else value for level, value in quantiles.items()}
    return "  ".join(f"{100 * level:g}%: {value:.3g}" for level, value in shown.items())


def _index(index: Index | None) -> str:
    return "none" if index is None else str(list(index))


def _format_non_finite(elements: NonFiniteCount) -> str:
    return f"{elements.count} (first at {_index(elements.first)})" if elements.count else "0"


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SummaryLines:
    """Prints lines of a summary. Of each list it shows the first entries, or all with `whole`."""

    console: Console
    whole: bool = False

    def __call__(self, text: str, style: str = "") -> None:
        """Print one line in a style."""
        self.console.print(Text(escape_unprintable(text), style=style), soft_wrap=True)

    def first(self, entries: Sequence[T], limit: int) -> Sequence[T]:
        """Return the entries to print: at most `limit`, or all with `whole`."""
        return entries if self.whole else entries[:limit]

    def omitted_count(self, entries: Sequence[object], limit: int) -> int:
        """Return how many entries `first` leaves out."""
        return len(entries) - len(self.first(entries, limit))


class TextReport:
    """Prints differences as they are added. At most `limit` lines of one kind are printed, or all with 0."""

    def __init__(
        self,
        console: Console,
        remarks: Sequence[Remark],
        *,
        tolerance: Tolerance,
        limit: int,
        in_detail: bool,
    ) -> None:
        self._console = console
        self._remarks = remarks
        self._tolerance = tolerance
        self._limit = limit
        self._in_detail = in_detail
        self._divergent = 0

    def begin(self) -> None:
        """Print the remarks that are errors."""
        errors = [remark for remark in self._remarks if remark.severity is Severity.ERROR]
        show_remarks(self._console, errors)

    def add(self, difference: ComparisonResult) -> None:
        """Print the result, if both sources have the name, its values differ, and the limit is not reached."""
        if not is_divergent(difference):
            return
        self._divergent += 1
        if not self._limit or self._divergent <= self._limit:
            show_difference(self._console, difference, in_detail=self._in_detail, tolerance=self._tolerance)

    def end(self, differences: Sequence[ComparisonResult]) -> None:
        """Print everything but the differences that `add` printed. `differences` are all results."""
        self._print_more(self._divergent)
        for place in dict.fromkeys(each.only_in for each in differences if each.only_in):
            self._group(f"only in {place}", [each for each in differences if each.only_in == place])
        unknown = [each for each in differences if each.outcome is Equality.UNKNOWN and not each.only_in]
        for each in unknown[: self._limit or None]:
            show_difference(self._console, each, in_detail=False)
        self._print_more(len(unknown))
        close = [each for each in differences if each.outcome is Equality.EQUAL and not each.identical]
        self._group("equal within tolerance, not identical", close)
        self._group(
            "equal, with NaN in the same places", [each for each in differences if _is_equal_with_nan(each)]
        )
        if self._in_detail:
            self._group("left out", [each for each in differences if each.outcome is Equality.LEFT_OUT])
        show_remarks(
            self._console, [remark for remark in self._remarks if remark.severity is not Severity.ERROR]
        )
        if any(each.is_file for each in unknown):
            self._console.print("a file that need not be compared is left out with --ignore GLOB")
        counts = Counter(each.outcome for each in differences)
        shown = [outcome for outcome in Equality if counts[outcome] or outcome is not Equality.LEFT_OUT]
        line = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in shown)
        self._console.print(line, markup=False)

    def brief(self, differences: Sequence[ComparisonResult], lost: str) -> None:
        """Print one line: whether anything differs, and the first difference. `lost` describes lost records."""
        compared = [each for each in differences if each.outcome is not Equality.LEFT_OUT]
        left_out = len(differences) - len(compared)
        counts = f", {left_out} left out" if left_out else ""
        worst = [each for each in compared if each.outcome is Equality.DIFFERENT]
        worst = worst or [each for each in compared if each.outcome is Equality.UNKNOWN]
        if lost and not worst:
            self._console.print(
                escape_unprintable(f"not compared: {lost}; {len(compared)} equal{counts}"), markup=False
            )
            return
        if not worst:
            nan = sum(map(_is_equal_with_nan, compared))
            counts = f", {nan} with NaN in the same places{counts}" if nan else counts
            self._console.print(f"equal: {len(compared)} of {len(compared)}{counts}")
            return
        first = next(filter(is_divergent, worst), worst[0])
        self._console.print(f"{first.outcome.value}: {len(worst)} of {len(compared)}{counts}, first ", end="")
        show_difference(self._console, first, in_detail=False)

    def _group(self, title: str, group: Sequence[ComparisonResult]) -> None:
        """Print a title, and the names of the group below it. An empty group is not printed."""
        if not group:
            return
        self._console.print(Text(escape_unprintable(f"{title}: {len(group)}"), style="bold"))
        for each in group[: self._limit or None]:
            self._console.print(f"  {escape_unprintable(each.label)}", markup=False)
        self._print_more(len(group), indent="  ")

    def _print_more(self, count: int, *, indent: str = "") -> None:
        if self._limit and count > self._limit:
            self._console.print(f"{indent}... {count - self._limit} more; --limit 0 prints all")


def _is_equal_with_nan(difference: ComparisonResult) -> bool:
    """Return whether both sides are equal and have NaN, which a reader of "equal" may not expect."""
    statistics = difference.statistics
    return difference.outcome is Equality.EQUAL and statistics is not None and statistics.actual_nan.count > 0


_PACKAGE = "precision_bisect.runner.compare"


@cache
def style() -> str:
    """Return the style sheet. A page may add rules of its own after it."""
    return resources.files(_PACKAGE).joinpath("design.css").read_text(encoding="utf-8").strip()


BLOCK = 12
"""The side of a block of the map, in pixels."""
LEFT, TOP = 68, 40
"""The place of the map's corner, in pixels. The axes and their numbers are left of it and above."""

_SCALE_HEIGHT = 52
"""The height of the scale below the map, in pixels."""
_SCALE_STEP = 92
"""The distance between entries of the scale, in pixels, so that their labels do not touch."""
_SCALE = (0.0, 0.25, 1.0)
"""The scale shows these shares of wrong elements: none, a quarter, and all."""
_ROW_GAP, _COLUMN_GAP = 36, 72
"""The least distance between two numbers of an axis, in pixels."""
_FAINTEST = 0.18
"""The least opacity of a wrong block. A block with a single wrong element has to be visible."""


@dataclass(frozen=True, kw_only=True)
class HeatPicture:
    """A picture of where a matrix is wrong, in blocks of `row_step` x `column_step` elements.

    Attributes:
        share: the share of wrong elements (0 to 1) of each block, row by row.
        wild: the number of pairs with NaN or Inf of each block.
        error: the largest error of each block; None if not known.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    share: Sequence[Sequence[float]]
    wild: Sequence[Sequence[int]]
    error: Sequence[Sequence[float]] | None = None

    @property
    def height(self) -> int:
        """Return the number of block rows."""
        return len(self.share)

    @property
    def width(self) -> int:
        """Return the number of block columns."""
        return len(self.share[0]) if self.share else 0

    def ticks(self, *, down: bool) -> list[tuple[int, int]]:
        """Return the numbered blocks along one axis, each with the number of its first row or column."""
        blocks, step = (self.height, self.row_step) if down else (self.width, self.column_step)
        interval = 1
        while interval * BLOCK < (_ROW_GAP if down else _COLUMN_GAP):
            interval *= 2
        return [(block, block * step) for block in range(0, blocks, interval)]


def opacity(share: float) -> float:
    """Return the opacity of a block. The square root keeps a single wrong element visible."""
    return 0.0 if share <= 0 else max(_FAINTEST, min(share, 1.0) ** 0.5)


def heat_svg(name: str, picture: HeatPicture, *, style: str = "") -> str:
    """Return the map as an `svg` element of class `heat`. A wrong block has a tooltip with its place and errors.

    The page's style sheet colours the map. A map without a page contains the style sheet `style`.
    """
    width = max(LEFT + picture.width * BLOCK + BLOCK, LEFT + (len(_SCALE) + 1) * _SCALE_STEP)
    height = TOP + picture.height * BLOCK + _SCALE_HEIGHT
    sheet = f"<style>{escape(style, quote=False)}</style>\n" if style else ""
    paper = f'<rect class="paper" width="{width}" height="{height}"/>\n' if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="heat" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{_text(name)}">\n{sheet}<title>{_text(name)}</title>\n'
        f"{paper}{_axes(picture)}\n{_blocks(picture)}\n{_scale(picture)}\n</svg>"
    )


def _axes(picture: HeatPicture) -> str:
    right, bottom = LEFT + picture.width * BLOCK, TOP + picture.height * BLOCK
    parts = [
        f'<text x="{LEFT}" y="13">column</text>',
        f'<text x="12" y="{TOP}" text-anchor="end" transform="rotate(-90 12 {TOP})">row</text>',
        f'<path class="mark" fill="none" d="M{LEFT - 0.5} {bottom}V{TOP - 0.5}H{right}"/>',
    ]
    for block, number in picture.ticks(down=False):
        x = LEFT + block * BLOCK + BLOCK // 2
        parts.append(f'<path class="mark" d="M{x} {TOP - 4}v4"/>')
        anchor = "start" if block == 0 else "middle"
        parts.append(f'<text x="{x if block else LEFT}" y="{TOP - 7}" text-anchor="{anchor}">{number}</text>')
    for block, number in picture.ticks(down=True):
        y = TOP + block * BLOCK + BLOCK // 2
        parts.append(f'<path class="mark" d="M{LEFT - 4} {y}h4"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4}" text-anchor="end">{number}</text>')
    return "<g>" + "\n".join(parts) + "</g>"


def _blocks(picture: HeatPicture) -> str:
    clean = (
        f'<rect class="clean" x="{LEFT}" y="{TOP}" width="{picture.width * BLOCK}" '
        f'height="{picture.height * BLOCK}"/>'
    )
    cells = [
        _cell(picture, i, j, share=share, wild=wild)
        for i, (shares, wilds) in enumerate(zip(picture.share, picture.wild, strict=False))
        for j, (share, wild) in enumerate(zip(shares, wilds, strict=False))
        if share > 0 or wild > 0
    ]
    return "\n".join(("<g>", clean, *cells, "</g>"))


def _cell(picture: HeatPicture, i: int, j: int, *, share: float, wild: int) -> str:
    top, left = i * picture.row_step, j * picture.column_step
    last_row = min(top + picture.row_step, picture.rows) - 1
    last_column = min(left + picture.column_step, picture.columns) - 1
    words = f"rows {top} to {last_row}, columns {left} to {last_column}: {share:.1%} wrong"
    if picture.error is not None:
        words += f", largest error {picture.error[i][j]:.3g}"
    if wild:
        words += f", {wild} NaN or Inf"
    kind, strength = ("wild", 1.0) if wild else ("wrong", opacity(share))
    return (
        f'<rect class="{kind}" x="{LEFT + j * BLOCK}" y="{TOP + i * BLOCK}" width="{BLOCK - 1}" '
        f'height="{BLOCK - 1}" fill-opacity="{strength:.2f}"><title>{words}</title></rect>'
    )


def _scale(picture: HeatPicture) -> str:
    top = TOP + picture.height * BLOCK + 22
    words = f"share of wrong elements, by {picture.row_step} x {picture.column_step}"
    parts = [f'<text x="{LEFT}" y="{top - 4}">{words}</text>']
    for place, share in enumerate(_SCALE):
        x = LEFT + place * _SCALE_STEP
        parts.append(f'<path class="clean key" d="M{x} {top + 4}h14v14h-14z"/>')
        parts.append(
            f'<path class="wrong key" d="M{x} {top + 4}h14v14h-14z" fill-opacity="{opacity(share):.2f}"/>'
        )
        parts.append(f'<text x="{x + 19}" y="{top + 16}">{share:.0%}</text>')
    x = LEFT + len(_SCALE) * _SCALE_STEP
    parts.append(f'<path class="wild key" d="M{x} {top + 4}h14v14h-14z"/>')
    parts.append(f'<text x="{x + 19}" y="{top + 16}">NaN, Inf</text>')
    return "<g>" + "\n".join(parts) + "</g>"


def _text(name: str) -> str:
    """Return `name` as XML text. XML cannot contain control characters, not even as references."""
    return escape(escape_unprintable(name))


SUFFIXES = (".svg", ".html")


def write_picture(path: Path, maps: Sequence[tuple[str, HeatMap]]) -> None:
    """Write named maps to `path`: all of them on a page if it is .html, the first alone if it is .svg.

    Raises:
        ValueError: `path` has another suffix.
        OSError: the file cannot be written.
    """
    name, first = maps[0]
    if path.suffix == ".html":
        path.write_text(_page(maps, generated=datetime.now(UTC)), encoding="utf-8")
    elif path.suffix == ".svg":
        path.write_text(heat_svg(name, draw_picture(first), style=style()) + "\n", encoding="utf-8")
    else:
        raise ValueError(f"expected a picture named *{', *'.join(SUFFIXES)}, found {path.name}")


def draw_picture(heat: HeatMap) -> HeatPicture:
    """Return the picture of a heat map."""
    return HeatPicture(
        rows=heat.rows,
        columns=heat.columns,
        row_step=heat.row_step,
        column_step=heat.column_step,
        share=heat.share_over.tolist(),
        wild=heat.wild.tolist(),
        error=heat.max_error.tolist(),
    )


def _shape(heat: HeatMap) -> str:
    return f"{plural(heat.rows, 'row')}, {plural(heat.columns, 'column')}"


def _page(maps: Sequence[tuple[str, HeatMap]], *, generated: datetime) -> str:
    parts = "\n".join(
        f'<h2>{escape(escape_unprintable(name))}</h2>\n<p class="soft">{_shape(heat)}</p>\n'
        f'<figure><div class="scroll">{heat_svg(name, draw_picture(heat))}</div></figure>'
        for name, heat in maps
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<title>diff-tensors · precision-bisect</title>\n"
        f"<style>{style()}</style>\n</head>\n<body>\n"
        "<header><strong>precision-bisect</strong> diff-tensors</header>\n"
        f"<main>\n<h1>Where the tensors differ</h1>\n{parts}\n</main>\n"
        f"<footer>Generated {generated:%Y-%m-%d %H:%M} UTC.</footer>\n</body>\n</html>\n"
    )

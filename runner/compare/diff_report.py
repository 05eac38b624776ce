"""Shows a comparison of two sources on a terminal, as JSON, or as a picture: first the answer, then what is behind it.

`TextReport` prints records that differ in execution order, one line each, as they are found. At the end it lists:

1. names that only one side has;
2. names that could not be compared;
3. names that are equal by tolerance alone;
4. doubts about the comparison itself;
5. the counts.

`show_difference` and its neighbours print single differences, and `SummaryLines` the first entries of a list or all of
them. The functions before them turn differences into plain JSON values. JSON has no numbers for NaN and Inf, so they
become null and strings.

Heat maps are drawn as SVG or HTML, without a plotting library, and so that no tensor's name can inject markup.
`heat_svg` draws a map with axes and a scale: for a page of the site, for a picture's page, or alone. `style` returns
the one style sheet of all pages and pictures, with the colours of both modes.
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
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from rich.console import Console
from rich.text import Text

from ...store.vocabulary import plural
from .judges import ComparisonResult, Equality, Remark, Severity, is_divergent
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

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MOST_ROWS = 1000
"""The JSON lists at most this many slices over tolerance. Their number is given beside them."""


def comparison_json(remarks: Sequence[Remark], found: Sequence[ComparisonResult]) -> dict[str, Json]:
    """Return a comparison of two sources: the count of each outcome, the first divergent record, and all records."""
    first = next(filter(is_divergent, found), None)
    counts = Counter(each.outcome.value for each in found)
    return {
        "counts": {outcome.value: counts[outcome.value] for outcome in Equality},
        "first_divergent": None if first is None else first.name,
        "preflight": to_json(remarks),
        "tensors": [difference_json(each) for each in found],
    }


def difference_json(found: ComparisonResult) -> Json:
    """Return everything about one name except its heat map. Of the rows over tolerance the first thousand are kept."""
    return {
        "name": found.name,
        "kernel": found.kernel or None,
        "only_in": found.only_in or None,
        "is_file": found.is_file,
        "compared_as": found.cast or None,
        "outcome": found.outcome.value,
        "reason": found.reason,
        "identical": found.identical,
        "statistics": to_json(found.statistics),
        "judgement": to_json(found.judgement),
        "rows": rows_json(found.rows),
        "patterns": to_json(found.findings),
    }


def rows_json(found: Breakdown | None) -> Json:
    """Return the slices with elements over tolerance."""
    if found is None:
        return None
    over = found.slices_over()
    return {
        "length": found.length,
        "step": found.step,
        "over": len(over),
        "first": [to_json(found.slice(number)) for number in over[:_MOST_ROWS]],
    }


def runs_json(name: str, report: RunsReport) -> Json:
    """Return a report on several runs."""
    return {"name": name, "is_race": report.is_race, **cast(dict[str, Json], to_json(report))}


def to_json(value: object) -> Json:
    """Return dataclasses as objects, enums by value, and sequences as lists."""
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
"""The terminal shows at most this many rows and counts the rest, so that a comparison fits on a screen."""
EXACT = Tolerance()
"""This tolerance holds where none is given."""
_SHADES = "·░▒▓█"
_COLOURS = {Equality.EQUAL: "green", Equality.DIFFERENT: "red", Equality.UNKNOWN: "yellow"}


def printable(text: str) -> str:
    """Return `text` without characters that could steer a terminal, because names come from files."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def show_remarks(console: Console, remarks: Sequence[Remark]) -> None:
    """Print the remarks of the checks before the comparison, one line each."""
    for remark in remarks:
        colour = "red" if remark.severity is Severity.ERROR else "yellow"
        line = Text(f"{remark.severity.value}: ", style=colour)
        console.print(line.append(printable(f"{remark.subject}: {remark.message}"), style="default"))


def show_difference(
    console: Console, found: ComparisonResult, *, in_detail: bool, tolerance: Tolerance = EXACT
) -> None:
    """Print a line for what is not identical. With `in_detail` also print statistics, patterns, rows and a map.

    `tolerance` is the one by which the elements were compared.
    """
    if found.identical:
        return
    line = Text(printable(found.label), style="bold").append(": ", style="default")
    line.append(found.outcome.value, style=_COLOURS[found.outcome])
    if found.outcome is Equality.EQUAL:
        line.append(" within tolerance, not identical", style="default")
    rest = _kind_and_size(found)
    console.print(line.append(f", {printable(rest)}" if rest else "", style="default"))
    if not in_detail or found.outcome is not Equality.DIFFERENT or found.statistics is None:
        return
    console.print(_statistics(found.statistics, tolerance))
    for finding in found.findings:
        console.print(
            Text(f"  {finding.pattern.value} ", style="bold magenta").append(
                printable(f"(confidence {finding.confidence:.2f}): {finding.evidence}"), style="default"
            )
        )
    if not found.findings:
        console.print("  no known pattern")
    if found.rows is not None:
        console.print(_rows(found.rows, exact=tolerance == EXACT))
    if found.map is not None:
        console.print(heat_text(found.map))


def _kind_and_size(found: ComparisonResult) -> str:
    """Return what kind of wrong it is, and how large. NaN and Inf are counted, because they have no error."""
    kind = f"{found.findings[0].pattern.value}: " if found.findings else ""
    parts = [f"{kind}{found.reason}"] if found.reason else []
    if (numbers := found.statistics) is not None:
        if found.outcome is Equality.DIFFERENT and numbers.max_error.value > 0:
            parts.append(f"max error {numbers.max_error.value:.6g} at {_index(numbers.max_error.index)}")
        parts += _non_finite_parts("", numbers.actual_nan, numbers.actual_inf)
        parts += _non_finite_parts("expected has ", numbers.expected_nan, numbers.expected_inf)
    if found.cast:
        parts.append(f"compared {found.cast}")
    return ", ".join(parts)


def _non_finite_parts(whose: str, nan: NonFiniteCount, inf: NonFiniteCount) -> list[str]:
    return [f"{whose}{wild.count} {what}" for wild, what in ((nan, "NaN"), (inf, "Inf")) if wild.count]


def show_all_runs(
    console: Console, reports: Mapping[str, RunsReport], refused: Mapping[str, str], limit: int
) -> None:
    """Print what several runs show of each tensor, and which tensors were not compared."""
    shown = [name for name, report in reports.items() if _is_notable(report)]
    for name in shown[: limit or None]:
        show_runs(console, name, reports[name])
    if limit and len(shown) > limit:
        console.print(f"... {len(shown) - limit} more; --limit 0 prints all")
    for name in list(refused)[: limit or None]:
        console.print(printable(f"{name}: not compared, {refused[name]}"), markup=False)
    if limit and len(refused) > limit:
        console.print(f"... {len(refused) - limit} more; --limit 0 prints all")


def show_brief_runs(
    console: Console, reports: Mapping[str, RunsReport], refused: Mapping[str, str], _limit: int
) -> None:
    """Print in one line whether the runs pass."""
    failing = [name for name, report in reports.items() if report.behaviour is not Behaviour.ALL_PASS]
    if failing:
        first = reports[failing[0]]
        rest = f"different: {len(failing)} of {len(reports)}, first {failing[0]}: {first.behaviour.value}"
    elif refused:
        first_refused = next(iter(refused))
        count = f"{len(refused)} of {len(reports) + len(refused)}"
        rest = f"not compared: {count}, first {first_refused}: {refused[first_refused]}"
    else:
        rest = f"all runs pass: {len(reports)} compared, 0 not compared"
    console.print(printable(rest), markup=False)


def _is_notable(report: RunsReport) -> bool:
    return report.behaviour is not Behaviour.ALL_PASS or report.is_race


def show_runs(console: Console, name: str, report: RunsReport) -> None:
    """Print what several runs of one tensor show; nothing where all pass alike."""
    if not _is_notable(report):
        return
    console.print(Text(printable(name), style="bold").append(f": {report.behaviour.value}", style="default"))
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
    """Return one character a block: shaded by the share of wrong elements, N where there is NaN or Inf."""
    shape = f"{plural(heat.rows, 'row')} x {plural(heat.columns, 'column')}"
    text = Text(f"  {shape}, a block is {heat.row_step} x {heat.column_step}\n")
    for i in range(heat.share_over.shape[0]):
        text.append("  ")
        for j in range(heat.share_over.shape[1]):
            share = float(heat.share_over[i, j])
            if heat.wild[i, j]:
                text.append("N", style="magenta")
            else:
                shade = _SHADES[math.ceil(share * (len(_SHADES) - 1))]
                text.append(shade, style="red" if share else "dim")
        text.append("\n")
    return text


def _cosine(cosine: float) -> str:
    return "none, for one of both is zero or not finite" if math.isnan(cosine) else f"{cosine:.9f}"


def _statistics(found: Statistics, tolerance: Tolerance) -> Text:
    shape = "x".join(str(extent) for extent in found.shape) or "scalar"
    over = f"{found.over} of {found.numel} ({found.over / max(found.numel, 1):.3%})"
    whole = not found.dtype.is_floating
    lines = [
        ("tensor", f"{shape} {found.dtype.value}"),
        ("differ", f"{over}; no --rtol or --atol is given")
        if tolerance == EXACT
        else (
            "over tolerance",
            f"{over}, of rtol {tolerance.rtol:g} and atol {tolerance.atol:g}; {found.unequal} differ at all",
        ),
        *_non_finite(found),
        ("max abs error", _extreme(found.max_error, found)),
        ("max rel error", _relative(found)),
        *(
            []
            if whole
            else [("max ulp distance", f"{found.max_distance} at {_index(found.max_distance_index)}")]
        ),
        ("rmse, mean", f"{found.rmse:.6g}, {found.mean_error:.6g} (signed {found.mean_difference:+.6g})"),
        ("relative L2, cosine", f"{found.relative_l2:.6g}, {_cosine(found.cosine)}"),
        ("sums", f"{found.sum_actual:.9g} against {found.sum_expected:.9g}"),
        ("abs error at", _levels(found.error_quantiles, whole=whole)),
        ("rel error at", _levels(found.relative_quantiles)),
        ("|expected| at", _levels(found.expected_quantiles, whole=whole)),
        ("share beyond", "  ".join(f"{level:g}: {share:.3%}" for level, share in found.beyond.items())),
    ]
    return Text("\n".join(f"  {name:<20} {value}" for name, value in lines))


def _non_finite(found: Statistics) -> Iterator[tuple[str, str]]:
    """Yield where NaN and Inf are, and that no figure below counts their pairs; nothing where there are none."""
    for side, nan, inf in (
        ("actual", found.actual_nan, found.actual_inf),
        ("expected", found.expected_nan, found.expected_inf),
    ):
        if nan.count or inf.count:
            yield f"{side} NaN, Inf", f"{_format_non_finite(nan)}, {_format_non_finite(inf)}"
    if found.finite < found.numel:
        yield "all below", f"of the {found.finite} pairs without NaN or Inf alone"


def _extreme(largest: Extreme, found: Statistics) -> str:
    """Return the largest error. Where every pair has NaN or Inf there is none."""
    if found.finite == 0 and found.numel:
        return "none: every pair has NaN or Inf"
    if largest.value == 0 and found.finite < found.numel:
        return f"none in the {found.finite} pairs without NaN or Inf"
    return f"{largest.value:.6g} at {_index(largest.index)}"


def _relative(found: Statistics) -> str:
    """Return the largest relative error. Where 0 is expected, a relative error is infinite."""
    largest = found.max_relative_error
    if math.inf not in found.relative_quantiles.values() or math.isinf(largest.value):
        return _extreme(largest, found)
    infinite = "infinite where 0 is expected"
    return f"{_extreme(largest, found)}, and {infinite}" if largest.value else infinite


def _rows(found: Breakdown, *, exact: bool) -> Text:
    over = found.slices_over()
    text = Text(f"  {len(over)} of {len(found.over)} rows {'differ' if exact else 'over tolerance'}")
    if found.step > 1:
        text.append(f", {found.step} taken together")
    for number in over[:SHOWN_ROWS]:
        part = found.slice(number)
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
    """Return the quantiles as text. All but the last are near the true ones; with `whole` they become integers."""
    shown = {level: np.rint(value) if whole else value for level, value in quantiles.items()}
    return "  ".join(f"{100 * level:g}%: {value:.3g}" for level, value in shown.items())


def _index(index: Index | None) -> str:
    return "none" if index is None else str(list(index))


def _format_non_finite(wild: NonFiniteCount) -> str:
    return f"{wild.count} from {_index(wild.first)} on" if wild.count else "0"


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SummaryLines:
    """Prints a line in a style. With `whole`, all entries of each list are printed."""

    console: Console
    whole: bool = False

    def __call__(self, text: str, style: str = "") -> None:
        """Print one line."""
        self.console.print(Text(printable(text), style=style), soft_wrap=True)

    def first(self, entries: Sequence[T], most: int) -> Sequence[T]:
        """Return the entries to print: at most `most`, or all with `whole`."""
        return entries if self.whole else entries[:most]

    def omitted_count(self, entries: Sequence[object], most: int) -> int:
        """Return how many entries `first` leaves out."""
        return len(entries) - len(self.first(entries, most))


class TextReport:
    """Prints differences as they are added. `limit` is the most lines of one kind, 0 for all."""

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
        """Print the remarks that make the comparison meaningless."""
        errors = [remark for remark in self._remarks if remark.severity is Severity.ERROR]
        show_remarks(self._console, errors)

    def add(self, difference: ComparisonResult) -> None:
        """Print the line of a record that differs, at once."""
        if not is_divergent(difference):
            return
        self._divergent += 1
        if not self._limit or self._divergent <= self._limit:
            show_difference(self._console, difference, in_detail=self._in_detail, tolerance=self._tolerance)

    def end(self, differences: Sequence[ComparisonResult]) -> None:
        """Print everything else, once all records are known."""
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
            "equal, with NaN in the same places", [each for each in differences if _equal_with_nan(each)]
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
        told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in shown)
        self._console.print(told, markup=False)

    def brief(self, differences: Sequence[ComparisonResult], lost: str) -> None:
        """Print in one line whether they differ, and where first. `lost` says what was never recorded."""
        asked = [each for each in differences if each.outcome is not Equality.LEFT_OUT]
        left_out = len(differences) - len(asked)
        rest = f", {left_out} left out" if left_out else ""
        worst = [each for each in asked if each.outcome is Equality.DIFFERENT]
        worst = worst or [each for each in asked if each.outcome is Equality.UNKNOWN]
        if lost and not worst:
            self._console.print(printable(f"not compared: {lost}; {len(asked)} equal{rest}"), markup=False)
            return
        if not worst:
            nan = sum(map(_equal_with_nan, asked))
            rest = f", {nan} with NaN in the same places{rest}" if nan else rest
            self._console.print(f"equal: {len(asked)} of {len(asked)}{rest}")
            return
        first = next(filter(is_divergent, worst), worst[0])
        self._console.print(f"{first.outcome.value}: {len(worst)} of {len(asked)}{rest}, first ", end="")
        show_difference(self._console, first, in_detail=False)

    def _group(self, title: str, group: Sequence[ComparisonResult]) -> None:
        """Print a title, and the names of the group below it."""
        if not group:
            return
        self._console.print(Text(printable(f"{title}: {len(group)}"), style="bold"))
        for each in group[: self._limit or None]:
            self._console.print(f"  {printable(each.label)}", markup=False)
        self._print_more(len(group), indent="  ")

    def _print_more(self, count: int, *, indent: str = "") -> None:
        if self._limit and count > self._limit:
            self._console.print(f"{indent}... {count - self._limit} more; --limit 0 prints all")


def _equal_with_nan(difference: ComparisonResult) -> bool:
    """Return whether both sides agree and hold NaN, which a reader of "equal" may not expect."""
    statistics = difference.statistics
    return difference.outcome is Equality.EQUAL and statistics is not None and statistics.actual_nan.count > 0


_PACKAGE = "precision_bisect.runner.compare"


@cache
def style() -> str:
    """Return the style sheet. A page may add rules of its own after it."""
    return resources.files(_PACKAGE).joinpath("design.css").read_text(encoding="utf-8").strip()


BLOCK = 12
"""A block of the map has sides of this many pixels."""
LEFT, TOP = 68, 40
"""The map begins at this place, in pixels. The numbers of its axes stand left of it and above."""

_SCALE_HEIGHT = 52
"""The scale below the map takes this height, in pixels."""
_SCALE_STEP = 92
"""The entries of the scale stand this far apart, in pixels, so that their labels do not touch."""
_SCALE = (0.0, 0.25, 1.0)
"""The scale shows these shares of wrong elements: none, a quarter, and all."""
_ROW_GAP, _COLUMN_GAP = 36, 72
"""Two numbers of an axis are at least this far apart, in pixels."""
_FAINTEST = 0.18
"""A wrong block has at least this opacity. A block with a single wrong element has to be visible."""


@dataclass(frozen=True, kw_only=True)
class HeatPicture:
    """Says where a matrix is wrong, by blocks of `row_step` x `column_step` elements.

    `share` and `wild` have one entry a block, row by row. `share` is the share of wrong elements (0 to 1), and `wild`
    the number of pairs that hold NaN or Inf. `error` has the largest errors where they are known.
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
        """Return the blocks that get a number, and the number: of the first row (or column) of the block."""
        blocks, step = (self.height, self.row_step) if down else (self.width, self.column_step)
        every = 1
        while every * BLOCK < (_ROW_GAP if down else _COLUMN_GAP):
            every *= 2
        return [(block, block * step) for block in range(0, blocks, every)]


def opacity(share: float) -> float:
    """Return how strongly a block is painted. The square root keeps a single wrong element visible."""
    return 0.0 if share <= 0 else max(_FAINTEST, min(share, 1.0) ** 0.5)


def heat_svg(name: str, picture: HeatPicture, *, style: str = "") -> str:
    """Return the map as an `svg` element of class `heat`. Every wrong block shows its place and errors when pointed at.

    The page's style sheet colours it. A map that stands alone brings the style sheet as `style`.
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
    """Return `name` as text. XML has no place for control characters, escaped or not."""
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name))


SUFFIXES = (".svg", ".html")


def write_picture(path: Path, maps: Sequence[tuple[str, HeatMap]]) -> None:
    """Write named maps to `path`: a page of all as .html, the first alone as .svg.

    Raises:
        ValueError: another suffix.
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
    """Return a heat map as it is drawn."""
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
        f'<h2>{escape(printable(name))}</h2>\n<p class="soft">{_shape(heat)}</p>\n'
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

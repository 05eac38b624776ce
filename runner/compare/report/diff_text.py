"""Prints remarks, single differences and maps of errors to a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from ....store.words import plural
from ..difference import Difference, Equality
from ..preflight import Remark, Severity
from ..statistics.rows import Breakdown, HeatMap
from ..statistics.runs import Behaviour, RunsReport
from ..statistics.statistics import Extreme, Index, Statistics, Wild

SHOWN_ROWS = 10
_SHADES = "·░▒▓█"
_COLOURS = {Equality.EQUAL: "green", Equality.DIFFERENT: "red", Equality.UNKNOWN: "yellow"}


def printable(text: str) -> str:
    """`text` without characters that could steer a terminal: names come from files."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def show_remarks(console: Console, remarks: Sequence[Remark]) -> None:
    """Preflight, one line a remark."""
    for remark in remarks:
        colour = "red" if remark.severity is Severity.ERROR else "yellow"
        line = Text(f"{remark.severity.value}: ", style=colour)
        console.print(line.append(printable(f"{remark.subject}: {remark.message}"), style="default"))


def show_difference(console: Console, found: Difference, *, in_detail: bool) -> None:
    """A line for what is not identical; with `in_detail` also statistics, patterns, rows and a map."""
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
    console.print(_statistics(found.statistics))
    for finding in found.findings:
        console.print(
            Text(f"  {finding.pattern.value} ", style="bold magenta").append(
                printable(f"(confidence {finding.confidence:.2f}): {finding.evidence}"), style="default"
            )
        )
    if not found.findings:
        console.print("  no known pattern")
    if found.rows is not None:
        console.print(_rows(found.rows))
    if found.map is not None:
        console.print(heat_text(found.map))


def _kind_and_size(found: Difference) -> str:
    """What kind of wrong it is, and how large; NaN and Inf are counted, for no error can be told of them."""
    kind = f"{found.findings[0].pattern.value}: " if found.findings else ""
    parts = [f"{kind}{found.reason}"] if found.reason else []
    if (numbers := found.statistics) is not None:
        if found.outcome is Equality.DIFFERENT and numbers.max_error.value > 0:
            parts.append(f"max error {numbers.max_error.value:.6g} at {_index(numbers.max_error.index)}")
        parts += _wilds("", numbers.actual_nan, numbers.actual_inf)
        parts += _wilds("expected has ", numbers.expected_nan, numbers.expected_inf)
    if found.cast:
        parts.append(f"compared {found.cast}")
    return ", ".join(parts)


def _wilds(whose: str, nan: Wild, inf: Wild) -> list[str]:
    return [f"{whose}{wild.count} {what}" for wild, what in ((nan, "NaN"), (inf, "Inf")) if wild.count]


def show_all_runs(
    console: Console, reports: Mapping[str, RunsReport], refused: Mapping[str, str], limit: int
) -> None:
    """What several runs show of each tensor, and which tensors were not compared."""
    shown = [name for name, report in reports.items() if _is_told(report)]
    for name in shown[: limit or None]:
        show_runs(console, name, reports[name])
    if limit and len(shown) > limit:
        console.print(f"... {len(shown) - limit} more; --limit 0 prints all")
    for name, reason in refused.items():
        console.print(printable(f"{name}: not compared, {reason}"), markup=False)


def show_brief_runs(
    console: Console, reports: Mapping[str, RunsReport], refused: Mapping[str, str], _limit: int
) -> None:
    """Whether the runs pass, in one line."""
    failing = [name for name, report in reports.items() if report.behaviour is not Behaviour.ALL_PASS]
    if failing:
        first = reports[failing[0]]
        rest = f"different: {len(failing)} of {len(reports)}, first {failing[0]}: {first.behaviour.value}"
    else:
        rest = f"all runs pass: {len(reports)} compared, {len(refused)} not compared"
    console.print(printable(rest), markup=False)


def _is_told(report: RunsReport) -> bool:
    return report.behaviour is not Behaviour.ALL_PASS or report.is_race


def show_runs(console: Console, name: str, report: RunsReport) -> None:
    """What several runs of one tensor show; nothing where all pass alike."""
    if not _is_told(report):
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
    """One character a block: shaded by the share of wrong elements, N where there is NaN or Inf."""
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


def _statistics(found: Statistics) -> Text:
    shape = "x".join(str(extent) for extent in found.shape) or "scalar"
    share = found.over / max(found.numel, 1)
    whole = not found.dtype.is_floating
    lines = [
        ("tensor", f"{shape} {found.dtype.value}"),
        ("over tolerance", f"{found.over} of {found.numel} ({share:.3%}), {found.unequal} differ at all"),
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
    """Where NaN and Inf are, and that no figure below counts their pairs; nothing where there are none."""
    for side, nan, inf in (
        ("actual", found.actual_nan, found.actual_inf),
        ("expected", found.expected_nan, found.expected_inf),
    ):
        if nan.count or inf.count:
            yield f"{side} NaN, Inf", f"{_wild(nan)}, {_wild(inf)}"
    if found.finite < found.numel:
        yield "all below", f"of the {found.finite} pairs without NaN or Inf alone"


def _extreme(largest: Extreme, found: Statistics) -> str:
    """The largest error; of elements that are all NaN or Inf on one side there is none."""
    if found.finite == 0 and found.numel:
        return "none: every pair has NaN or Inf"
    if largest.value == 0 and found.finite < found.numel:
        return f"none in the {found.finite} pairs without NaN or Inf"
    return f"{largest.value:.6g} at {_index(largest.index)}"


def _relative(found: Statistics) -> str:
    """The largest relative error; where nothing is expected, an error is infinitely large beside it."""
    largest = found.max_relative_error
    if math.inf not in found.relative_quantiles.values() or math.isinf(largest.value):
        return _extreme(largest, found)
    infinite = "infinite where 0 is expected"
    return f"{_extreme(largest, found)}, and {infinite}" if largest.value else infinite


def _rows(found: Breakdown) -> Text:
    what = "rows" if found.axis is None else f"indices of axis {found.axis}"
    over = found.slices_over()
    text = Text(f"  {len(over)} of {len(found.over)} {what} over tolerance")
    if found.step > 1:
        text.append(f", {found.step} taken together")
    for number in over[:SHOWN_ROWS]:
        part = found.slice(number)
        place = str(part.start) if part.stop == part.start + 1 else f"{part.start}:{part.stop}"
        text.append(f"\n    {place}: {part.over} of {part.numel} over")
        if part.max_error > 0 or not part.wild:
            text.append(f", max error {part.max_error:.3g}, relative L2 {part.relative_l2:.3g}")
        if part.wild:
            text.append(f", {part.wild} NaN or Inf")
    if len(over) > SHOWN_ROWS:
        text.append(f"\n    ... {len(over) - SHOWN_ROWS} more")
    return text


def _levels(quantiles: Mapping[float, float], *, whole: bool = False) -> str:
    """Quantiles, which but for the last are near the true ones: of `whole` numbers the nearest whole ones."""
    shown = {level: np.rint(value) if whole else value for level, value in quantiles.items()}
    return "  ".join(f"{100 * level:g}%: {value:.3g}" for level, value in shown.items())


def _index(index: Index | None) -> str:
    return "none" if index is None else str(list(index))


def _wild(wild: Wild) -> str:
    return f"{wild.count} from {_index(wild.first)} on" if wild.count else "0"

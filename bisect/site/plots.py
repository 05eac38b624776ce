"""Where the marks of a plot lie. This file computes coordinates only; templates draw them and escape all texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ...store.vocabulary import Judgement

WIDTH, HEIGHT = 720, 170
_MARGIN = 10
_TICKS = 96
"""Left of a curve, for the numbers of its scale."""
_MOST_BARS = 180
_VISIBLE = 0.01
_LOG_SPAN = 50.0
"""Values that differ by more are drawn on a logarithmic scale."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One or more neighbouring commits; `probability` is the sum. Lengths are those of the view box."""

    x: float
    y: float
    width: float
    height: float
    probability: float
    first: str
    last: str
    commits: int


def bars(commits: Sequence[tuple[str, float]]) -> tuple[Bar, ...]:
    """Bars over commits from old to new, on a scale from 0 to 1. Neighbours share a bar where there are too many."""
    if not commits:
        return ()
    each = math.ceil(len(commits) / _MOST_BARS)
    groups = [commits[start : start + each] for start in range(0, len(commits), each)]
    step = (WIDTH - 2 * _MARGIN) / len(groups)
    width = min(step * 0.82, 36.0)
    found: list[Bar] = []
    for index, group in enumerate(groups):
        probability = min(1.0, sum(share for _, share in group))
        # What is not impossible stays visible.
        height = max(1.5, probability * (HEIGHT - 2 * _MARGIN))
        found.append(
            Bar(
                x=_rounded(_MARGIN + index * step + (step - width) / 2),
                y=_rounded(HEIGHT - _MARGIN - height),
                width=_rounded(width),
                height=_rounded(height),
                probability=probability,
                first=group[0][0],
                last=group[-1][0],
                commits=len(group),
            )
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of one commit. `index` counts the range's commits from the oldest, 0; `value` is what was measured, which
    may be NaN or infinite."""

    index: int
    commit: str
    judgement: Judgement
    value: float


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point where it is drawn."""

    x: float
    y: float
    point: Point


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measured number over commits. `line` are the coordinates of the commits' medians; `lowest` and `highest` the
    ends of the scale, equal where there is but one value."""

    name: str
    marks: tuple[Mark, ...]
    line: str
    lowest: float
    highest: float
    logarithmic: bool


def curve(name: str, points: Sequence[Point], *, commits: int) -> Curve | None:
    """The curve of the points over `commits` commits. None where there is but one value, or none is finite."""
    finite = [point.value for point in points if math.isfinite(point.value)]
    if not finite or len({point.index for point in points}) < 2:
        return None
    lowest, highest = min(finite), max(finite)
    logarithmic = lowest > 0 and highest / lowest > _LOG_SPAN

    def height(value: float) -> float:
        if math.isnan(value) or value == math.inf:
            return _MARGIN / 2
        if value == -math.inf:
            return HEIGHT - _MARGIN / 2
        low, high, at = (
            (math.log(lowest), math.log(highest), math.log(value))
            if logarithmic
            else (lowest, highest, value)
        )
        share = (at - low) / (high - low) if high - low > 0 else 0.5
        return _rounded(HEIGHT - 2 * _MARGIN - share * (HEIGHT - 4 * _MARGIN))

    step = (WIDTH - _TICKS - _MARGIN) / max(1, commits)

    def across(index: int) -> float:
        return _rounded(_TICKS + (index + 0.5) * step)

    by_index: dict[int, list[float]] = {}
    for point in points:
        if math.isfinite(point.value):
            by_index.setdefault(point.index, []).append(point.value)
    return Curve(
        name=name,
        marks=tuple(Mark(x=across(point.index), y=height(point.value), point=point) for point in points),
        line=" ".join(f"{across(index)},{height(median(by_index[index]))}" for index in sorted(by_index)),
        lowest=lowest,
        highest=highest,
        logarithmic=logarithmic,
    )


def is_telling(bars: Sequence[Bar]) -> bool:
    """Whether a chart of these bars tells anything: more than one of them is high enough to be seen."""
    return sum(bar.probability >= _VISIBLE for bar in bars) > 1


def _rounded(length: float) -> float:
    return round(length, 2)

"""Computes where the marks of a plot lie. It yields coordinates only; templates draw them and escape all texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ...store.vocabulary import Judgement

WIDTH, HEIGHT = 720, 170
"""The view box of a plot has these lengths. A page scales it to its own width."""
_MARGIN = 10
"""A plot leaves this space around its bars and curves, in units of the view box."""
_SCALE_WIDTH = 96
"""A curve leaves this space on its left for the numbers of its scale."""

_MAX_BARS = 180
"""A plot has at most this many bars. At 720 units each then has about 4, and thinner ones cannot be seen."""
_VISIBLE_PROBABILITY = 0.01
"""A bar counts as visible from this probability on. Lower ones are as high as one for almost nothing."""
_LOG_SPAN = 50.0
"""A curve has a logarithmic scale where its highest value is more than this many times its lowest. Lower values would
be flat."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar for one or more neighbouring commits, with the sum of their probabilities.

    Lengths are in units of the view box.
    """

    x: float
    y: float
    width: float
    height: float
    probability: float
    first: str
    last: str
    commits: int


def bars(commits: Sequence[tuple[str, float]]) -> tuple[Bar, ...]:
    """Return bars for commits from old to new, on a scale from 0 to 1. Neighbours share bars where there are many."""
    if not commits:
        return ()
    each = math.ceil(len(commits) / _MAX_BARS)
    groups = [commits[start : start + each] for start in range(0, len(commits), each)]
    step = (WIDTH - 2 * _MARGIN) / len(groups)
    width = min(step * 0.82, 36.0)
    found: list[Bar] = []
    for index, group in enumerate(groups):
        probability = min(1.0, sum(share for _, share in group))
        # A commit that is possible stays visible.
        height = max(1.5, probability * (HEIGHT - 2 * _MARGIN))
        found.append(
            Bar(
                x=_round_length(_MARGIN + index * step + (step - width) / 2),
                y=_round_length(HEIGHT - _MARGIN - height),
                width=_round_length(width),
                height=_round_length(height),
                probability=probability,
                first=group[0][0],
                last=group[-1][0],
                commits=len(group),
            )
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of one commit.

    index: the commit's place in the range, where the oldest is 0.
    value: what was measured; it may be NaN or infinite.
    """

    index: int
    commit: str
    judgement: Judgement
    value: float


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point with the place at which it is drawn."""

    x: float
    y: float
    point: Point


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measured number over commits.

    line: the coordinates of the commits' medians.
    lowest, highest: the ends of the scale, which are equal where there is only one value.
    """

    name: str
    marks: tuple[Mark, ...]
    line: str
    lowest: float
    highest: float
    logarithmic: bool


def curve(name: str, points: Sequence[Point], *, commits: int) -> Curve | None:
    """Return the curve of points over `commits` commits. None where only one commit has points, or none is finite."""
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
        return _round_length(HEIGHT - 2 * _MARGIN - share * (HEIGHT - 4 * _MARGIN))

    step = (WIDTH - _SCALE_WIDTH - _MARGIN) / max(1, commits)

    def x_position(index: int) -> float:
        return _round_length(_SCALE_WIDTH + (index + 0.5) * step)

    by_index: dict[int, list[float]] = {}
    for point in points:
        if math.isfinite(point.value):
            by_index.setdefault(point.index, []).append(point.value)
    return Curve(
        name=name,
        marks=tuple(Mark(x=x_position(point.index), y=height(point.value), point=point) for point in points),
        line=" ".join(f"{x_position(index)},{height(median(by_index[index]))}" for index in sorted(by_index)),
        lowest=lowest,
        highest=highest,
        logarithmic=logarithmic,
    )


def is_informative(bars: Sequence[Bar]) -> bool:
    """Return whether a chart of these bars is worth showing: more than one bar is high enough to be seen."""
    return sum(bar.probability >= _VISIBLE_PROBABILITY for bar in bars) > 1


def _round_length(length: float) -> float:
    return round(length, 2)

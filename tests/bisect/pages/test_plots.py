"""Where the marks of a plot lie: within its box, in the order of the commits, and on the scale that it says."""

import math

from precision_bisect.bisect.pages.render import PLOT_HEIGHT, PLOT_WIDTH, Point, bars, commit_point, curve
from precision_bisect.store.vocabulary import Judgement


def points(*values: float) -> list[Point]:
    return [commit_point(index, str(index), Judgement.BAD, value) for index, value in enumerate(values)]


def test_neighbours_share_a_bar_where_there_are_too_many() -> None:
    drawn = bars([(str(number), 1 / 1000) for number in range(1000)])
    assert len(drawn) < 200
    assert sum(bar.commits for bar in drawn) == 1000
    assert math.isclose(sum(bar.probability for bar in drawn), 1.0)
    assert [bar.x for bar in drawn] == sorted(bar.x for bar in drawn)
    assert all(
        bar.x >= 0 and bar.x + bar.width <= PLOT_WIDTH and bar.y + bar.height <= PLOT_HEIGHT for bar in drawn
    )


def test_no_commits_have_no_bars() -> None:
    assert bars([]) == ()


def test_a_larger_value_is_drawn_higher() -> None:
    drawn = curve("error", points(1.0, 2.0, 4.0), places=3)
    assert drawn is not None
    assert (drawn.lowest, drawn.highest, drawn.logarithmic) == (1.0, 4.0, False)
    heights = [mark.y for mark in drawn.marks]
    assert heights == sorted(heights, reverse=True)


def test_values_far_apart_are_drawn_on_a_logarithmic_scale() -> None:
    drawn = curve("error", points(1e-6, 1e-3, 1.0), places=3)
    assert drawn is not None
    assert drawn.logarithmic
    low, middle, high = (mark.y for mark in drawn.marks)
    assert math.isclose(low - middle, middle - high, abs_tol=0.1)


def test_what_is_not_finite_is_marked_at_the_edge_and_never_alone() -> None:
    drawn = curve("error", points(1.0, math.inf, math.nan), places=3)
    assert drawn is not None
    assert len(drawn.line.split()) == 1
    assert all(0 <= mark.y <= PLOT_HEIGHT for mark in drawn.marks)
    assert curve("error", points(math.inf, math.nan), places=2) is None

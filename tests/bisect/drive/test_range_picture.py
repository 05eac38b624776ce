"""A range as a picture, by what the engine knows."""

from dataclasses import replace

import pytest

from precision_bisect.bisect.drive.progress import RangePicture
from precision_bisect.bisect.engine.runs import WantedProbe, find_target
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import Judgement, Phase, Seeks
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.engine.stepping import about, running, search_of, shown

NAMES = [f"c{place}" for place in range(8)]
LINE = loaded_range(NAMES, CommitGraph([[place - 1] if place else [] for place in range(8)]), "good")


def test_marks_are_what_was_shown_and_what_runs() -> None:
    known = about(LINE)
    assert RangePicture.from_search(search_of(LINE), known).line(60) == "good ........ bad"
    known = shown(known, "c7", Judgement.BAD)
    known = shown(known, "c2", Judgement.GOOD)
    known = shown(known, "c5", Judgement.GOOD, Judgement.BAD)
    known = shown(known, "c3", Judgement.SKIP)
    known = running(known, WantedProbe(target=find_target(LINE, 4), phase=Phase.SEARCH, range=1, node=4))
    assert RangePicture.from_search(search_of(LINE), known).line(60) == "good ..o?*x.x bad"


def test_the_older_end_stands_left_where_a_fix_is_sought() -> None:
    loaded = replace(LINE, range=replace(LINE.range, seeks=Seeks.FIX))
    assert RangePicture.from_search(search_of(loaded), about(loaded)).line(60) == "bad ........ good"


@pytest.mark.parametrize("width", [13, 20, 60, 80, 120])
def test_a_long_range_keeps_to_the_width_and_hides_no_failure(width: int) -> None:
    marks = "." * 400 + "x" + "." * 300 + "o" + "." * 300
    line = RangePicture(ends=("good", "bad"), marks=marks).line(width)
    assert len(line) == width
    drawn = line.removeprefix("good ").removesuffix(" bad")
    assert drawn.count("x") == drawn.count("o") == 1

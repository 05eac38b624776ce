"""Bisections of real ranges as they were recorded, with culprits planted in them."""

import random

import pytest

from benchmarks.search.natural.compare import RANGES
from benchmarks.search.natural.contenders import ours
from benchmarks.search.natural.real_range import RealRange
from benchmarks.search.natural.recorded import RecordedRange


@pytest.mark.parametrize(
    ("name", "candidates", "untestable", "met"),
    [("one-overload", 112, 48, 1), ("stacked", 82, 41, 2), ("missing-format", 137, 90, 1)],
)
def test_culprits_around_walls_are_named_and_hardly_an_untestable_commit_is_met(
    name: str, candidates: int, untestable: int, met: int
) -> None:
    real = RealRange(RecordedRange.read(RANGES / f"{name}.json"))
    assert len(real.loaded.graph) == candidates
    assert len(real.untestable) == untestable
    for culprit in random.Random(name).sample(real.culprits, 5):
        taken = ours(real, culprit)
        assert taken.right, culprit
        assert taken.untestable <= met, culprit


def test_a_record_reads_as_it_was_written() -> None:
    path = RANGES / "stacked.json"
    assert RecordedRange.read(path).to_json() == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["one-overload", "stacked", "missing-format"])
def test_a_wall_that_holds_the_culprit_is_not_tried_to_its_end(name: str) -> None:
    """The walls hold up to 90 commits."""
    real = RealRange(RecordedRange.read(RANGES / f"{name}.json"))
    for culprit in random.Random(name).sample(sorted(real.untestable), 5):
        assert ours(real, culprit).untestable <= 4, culprit

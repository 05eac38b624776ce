"""Of explanations that fit equally well the simplest is named, one for each question."""

import pytest
import torch

from precision_bisect.runner.compare import judges
from precision_bisect.runner.compare.finding import Pattern, PatternMatch, Scene
from precision_bisect.runner.compare.judges import keep_simplest, recognize_patterns
from precision_bisect.runner.compare.statistics import Tolerance
from tests.runner.compare.tensor_makers import view_of


def match(pattern: Pattern, confidence: float) -> PatternMatch:
    return PatternMatch(pattern=pattern, confidence=confidence, evidence="")


def named(actual: torch.Tensor, expected: torch.Tensor, *others: torch.Tensor) -> list[Pattern]:
    views = [view_of(other) for other in others]
    return [
        each.pattern for each in recognize_patterns(view_of(actual), view_of(expected), Tolerance(), views)
    ]


def test_the_first_of_what_fits_equally_well_is_kept() -> None:
    simple, complex_ = match(Pattern.NEVER_WRITTEN, 0.9), match(Pattern.STALE, 0.93)
    assert keep_simplest([simple, complex_]) == [simple]


def test_what_explains_more_is_kept_beside_the_simpler() -> None:
    simple, complex_ = match(Pattern.NEVER_WRITTEN, 0.6), match(Pattern.STALE, 0.93)
    assert keep_simplest([simple, complex_]) == [simple, complex_]


def test_what_stands_there_and_where_are_two_questions() -> None:
    found = [match(Pattern.NON_FINITE_SPREAD, 0.9), match(Pattern.OFFSET, 0.9), match(Pattern.TILE, 0.9)]
    assert keep_simplest(found) == found


def test_zeros_that_another_tensor_holds_too_were_never_written() -> None:
    expected = torch.randn(64, 64)
    actual = expected.clone()
    actual[:16] = 0
    assert named(actual, expected, torch.zeros(64, 64)) == [Pattern.NEVER_WRITTEN, Pattern.TILE]


def test_rows_moved_by_a_constant_distance_are_shifted_not_swapped() -> None:
    expected = torch.randn(64, 64)
    assert named(expected.roll(3, dims=0), expected) == [Pattern.SHIFTED]


def test_a_value_through_bfloat16_is_not_through_float16() -> None:
    """Each bfloat16 number of moderate size is a float16 number: what tells is what was rounded to it."""
    expected = torch.randn(64, 64)
    (found,) = recognize_patterns(view_of(expected.bfloat16().float()), view_of(expected), Tolerance())
    assert found.evidence.endswith("through bfloat16")


def test_flags_that_are_negated_have_no_name() -> None:
    flags = torch.rand(64, 64) < 0.5
    assert named(~flags, flags) == []


def test_moves_are_sought_only_where_values_of_expected_stand_at_wrong_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the rows moved, beside noise in the others, is enough; values that expected does not have are not."""
    torch.manual_seed(5)
    expected, noise = torch.randn(64, 64), torch.randn(64, 64)
    half = expected + 0.1 * noise
    half[:40] = expected[:40].flip(1)
    tried: list[Scene] = []

    def detect(scene: Scene) -> list[PatternMatch]:
        tried.append(scene)
        return []

    monkeypatch.setattr(judges, "DETECTORS", (detect,))
    monkeypatch.setattr(judges, "_MOVE_DETECTORS", {detect})
    for actual, calls in ((half, 1), (expected + noise, 0), (noise, 0), (expected.roll(1), 1)):
        tried.clear()
        assert named(actual, expected) == []
        assert len(tried) == calls

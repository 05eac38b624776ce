"""Of explanations that fit equally well the simplest is named, one for each question."""

import torch

from precision_bisect.runner.compare.patterns.finding import Pattern, PatternMatch
from precision_bisect.runner.compare.patterns.recognize import recognize, simplest
from precision_bisect.runner.compare.statistics.statistics import Tolerance
from tests.runner.compare.tensor_makers import view_of


def match(pattern: Pattern, confidence: float) -> PatternMatch:
    return PatternMatch(pattern=pattern, confidence=confidence, evidence="")


def named(actual: torch.Tensor, expected: torch.Tensor, *others: torch.Tensor) -> list[Pattern]:
    views = [view_of(other) for other in others]
    return [each.pattern for each in recognize(view_of(actual), view_of(expected), Tolerance(), views)]


def test_the_first_of_what_fits_equally_well_is_kept() -> None:
    simple, complex_ = match(Pattern.NEVER_WRITTEN, 0.9), match(Pattern.STALE, 0.93)
    assert simplest([simple, complex_]) == [simple]


def test_what_explains_more_is_kept_beside_the_simpler() -> None:
    simple, complex_ = match(Pattern.NEVER_WRITTEN, 0.6), match(Pattern.STALE, 0.93)
    assert simplest([simple, complex_]) == [simple, complex_]


def test_what_stands_there_and_where_are_two_questions() -> None:
    found = [match(Pattern.NON_FINITE_SPREAD, 0.9), match(Pattern.OFFSET, 0.9), match(Pattern.TILE, 0.9)]
    assert simplest(found) == found


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
    (found,) = recognize(view_of(expected.bfloat16().float()), view_of(expected), Tolerance())
    assert found.evidence.endswith("through bfloat16")


def test_flags_that_are_negated_have_no_name() -> None:
    flags = torch.rand(64, 64) < 0.5
    assert named(~flags, flags) == []

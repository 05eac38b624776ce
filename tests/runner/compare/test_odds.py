"""Posteriors: they grow with evidence, fall with chance and with choice, and stay within 0 and 1."""

import math

from hypothesis import given, strategies

from precision_bisect.runner.compare.finding import (
    agreement_evidence,
    confidence,
    log_ways,
    place_confidence,
    posterior,
)


@given(
    strategies.integers(0, 10**6),
    strategies.integers(0, 10**6),
    strategies.floats(0, 1),
    strategies.floats(0, 100),
)
def test_a_confidence_is_a_probability(hits: int, missed: int, chance: float, cost: float) -> None:
    assert 0.0 <= confidence(hits=hits, total=hits + missed, chance=chance, cost=cost) <= 1.0


def test_cheap_agreement_proves_nothing_however_often_it_is_seen() -> None:
    assert confidence(hits=500, total=1000, chance=0.5) < 0.01
    assert confidence(hits=10**6, total=10**6, chance=1.0) == 0.0


def test_choices_have_to_be_paid_for() -> None:
    assert confidence(hits=6, total=6, chance=0.1) > 0.5 > confidence(hits=6, total=6, chance=0.1, cost=10.0)


def test_evidence_is_counted_in_nats() -> None:
    assert math.isclose(agreement_evidence(10, 10, 0.1), 10 * math.log(10) - 0.5 * math.log(11))
    assert posterior(-math.log(1e-3)) == 0.5


def test_ways_are_binomial() -> None:
    assert math.isclose(log_ways(10, 3), math.log(120))
    assert log_ways(3, 4) == math.inf


def test_a_filled_area_is_believed_and_a_strewn_one_is_not() -> None:
    filled = place_confidence(wrong=(100, 100), sizes=(100, 10_000), null_nats=log_ways(10_000, 100), cost=20)
    half = place_confidence(wrong=(100, 100), sizes=(9_000, 10_000), null_nats=log_ways(10_000, 100), cost=20)
    assert filled > 0.95
    assert half < 0.1

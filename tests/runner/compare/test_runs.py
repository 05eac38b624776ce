"""Reruns: planted deterministic faults and races, and p-values against every placement counted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from precision_bisect.runner.compare.statistics import (
    Behaviour,
    IncomparableError,
    Tolerance,
    compare_runs,
    count_shared_rows,
    overlap_p_value,
)
from tests.runner.compare.tensor_makers import view_of

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-3)
EXPECTED = torch.randn(100, 16, generator=torch.Generator().manual_seed(0))


def spoiled(rows: list[int], by: float = 1.0) -> torch.Tensor:
    run = EXPECTED.clone()
    run[rows] += by
    return run


def judged(*runs: torch.Tensor):
    return compare_runs([view_of(run) for run in runs], view_of(EXPECTED), TOLERANCE)


def test_a_deterministic_bug() -> None:
    report = judged(*[spoiled([3, 14, 15]) for _ in range(4)])
    assert report.behaviour is Behaviour.DETERMINISTIC
    assert not report.is_race
    assert report.p_value <= 0.001
    assert report.wrong_rows == (3, 3, 3, 3)
    assert report.hidden_rate == pytest.approx(1 - 0.05 ** (1 / 3))


def test_a_race_that_moves() -> None:
    rng = np.random.default_rng(1)
    report = judged(*[spoiled(rng.choice(100, 5, replace=False).tolist()) for _ in range(5)])
    assert report.behaviour is Behaviour.MOVING_ROWS
    assert report.is_race
    assert report.p_value > 0.01
    assert math.isnan(report.hidden_rate)


def test_a_race_in_one_place() -> None:
    rng = np.random.default_rng(2)
    report = judged(*[spoiled((40 + rng.choice(8, 5, replace=False)).tolist()) for _ in range(5)])
    assert report.behaviour is Behaviour.RECURRING_ROWS
    assert report.is_race


def test_values_that_vary_at_the_same_rows() -> None:
    report = judged(spoiled([1, 2], 1.0), spoiled([1, 2], 1.5), spoiled([1, 2], 2.0))
    assert report.behaviour is Behaviour.VARYING_VALUES
    assert report.is_race


def test_runs_that_pass() -> None:
    assert judged(EXPECTED, EXPECTED).behaviour is Behaviour.ALL_PASS
    jitter = judged(EXPECTED, EXPECTED + 1e-6)
    assert jitter.behaviour is Behaviour.ALL_PASS
    assert jitter.is_race


def masks(rows: int, *wrong: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros((len(wrong), rows), bool)
    for run, places in enumerate(wrong):
        mask[run, list(places)] = True
    return mask


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (4, 5), (0, 2), (6, 6)])
def test_two_runs_have_an_exact_p_value(first: int, second: int) -> None:
    rows = 6
    fixed = tuple(range(first))
    overlaps = [len(set(fixed) & set(other)) for other in itertools.combinations(range(rows), second)]
    for seen in set(overlaps):
        other = next(
            o for o in itertools.combinations(range(rows), second) if len(set(fixed) & set(o)) == seen
        )
        exact = sum(overlap >= seen for overlap in overlaps) / len(overlaps)
        assert overlap_p_value(masks(rows, fixed, other)) == pytest.approx(exact, rel=1e-9)


def test_three_runs_agree_with_all_placements_counted() -> None:
    rows, sizes = 6, (2, 3, 2)
    placements = list(itertools.product(*(itertools.combinations(range(rows), size) for size in sizes)))
    overlaps = np.array([count_shared_rows(masks(rows, *placed)) for placed in placements])
    for seen in np.unique(overlaps):
        example = masks(rows, *placements[int(np.flatnonzero(overlaps == seen)[0])])
        exact = float(np.mean(overlaps >= seen))
        assert overlap_p_value(example) == pytest.approx(exact, abs=4 * math.sqrt(exact / 9999) + 2e-4)


def test_p_values_of_random_runs_are_no_smaller_than_their_rank() -> None:
    rng = np.random.default_rng(3)
    values = [
        overlap_p_value(masks(50, *(tuple(rng.choice(50, 8, replace=False)) for _ in range(3))))
        for _ in range(200)
    ]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(values) <= level) <= level + 3 * math.sqrt(level / 200)


def test_a_large_tensor_has_a_p_value_too() -> None:
    wrong = np.random.default_rng(4).random((4, 200_000)) < 0.4
    assert 0 < overlap_p_value(wrong) <= 1
    assert overlap_p_value(wrong[:2]) > 0
    assert overlap_p_value(wrong[[0, 0]]) == pytest.approx(0.0, abs=1e-300)


def test_what_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="at least two runs"):
        judged(EXPECTED)
    with pytest.raises(IncomparableError):
        judged(EXPECTED, EXPECTED[:5])

"""The chance of agreement by accident, by values and by small errors."""

import numpy as np
import pytest

from precision_bisect.runner.compare.finding import NullModel, sample_places, ulp_difference
from precision_bisect.runner.tensor import DType


def model_of(found: list[int], wanted: list[int], expected: list[int]) -> NullModel:
    return NullModel.from_wrong_elements(
        DType.UINT8, *(np.array(side, np.uint8) for side in (found, wanted, expected))
    )


def test_a_wrong_flag_can_only_be_the_other_one() -> None:
    flags = model_of([1, 1, 0, 0], [0, 0, 1, 1], [0, 1] * 50)
    assert flags.chance(np.array([1, 1, 0, 0], np.uint8)) == 1.0


def test_rare_values_agree_rarely() -> None:
    chance = model_of([10, 120, 230], [200, 100, 30], list(range(256))).chance(
        np.array([10, 120, 230], np.uint8)
    )
    assert chance < 0.02


def test_errors_of_a_step_agree_as_often_as_others_have_them() -> None:
    wanted = np.arange(100, 200, dtype=np.uint8)
    found = wanted + np.where(np.arange(100) % 2, 1, -1).astype(np.uint8)
    chance = NullModel.from_wrong_elements(DType.UINT8, found, wanted, np.arange(256, dtype=np.uint8)).chance(
        wanted + np.uint8(1)
    )
    assert chance == pytest.approx(0.5, abs=0.02)


def test_steps_count_numbers_of_the_type_across_zero() -> None:
    values = np.array([1.0, -0.0, 2.0**-149], np.float32).view(np.uint32)
    others = np.array([1.0 - 2.0**-24, 0.0, -(2.0**-149)], np.float32).view(np.uint32)
    assert ulp_difference(DType.FLOAT32, values, others).tolist() == [1, 0, 2]


@pytest.mark.parametrize("total", [0, 1, 5000, 10**7])
def test_samples_ascend_without_repeats(total: int) -> None:
    at = sample_places(total)
    assert at.size <= 8192
    assert (np.diff(at) > 0).all()
    assert at.size == 0 or 0 <= at[0] <= at[-1] < total

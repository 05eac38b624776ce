"""Differences that follow no pattern are given none: in at most one draw of a hundred, of every type."""

import pytest

from benchmarks.tensors.null_model import ALLOWED, count_alarms
from precision_bisect.runner.tensor import DType

DRAWS = 500
"""The benchmark makes ten thousand, which takes twenty minutes."""
QUICK_DRAWS = 44
"""One of each kind of values and of differences."""


@pytest.mark.long
def test_few_draws_of_all_types_name_anything() -> None:
    found = [count_alarms(dtype, QUICK_DRAWS, first=100 * number) for number, dtype in enumerate(DType)]
    draws = sum(each.draws for each in found)
    assert sum(each.named for each in found) <= 3 * ALLOWED * draws, [each.causes for each in found]


@pytest.mark.long
@pytest.mark.parametrize("dtype", DType)
def test_all_draws(dtype: DType) -> None:
    found = count_alarms(dtype, DRAWS)
    assert found.named <= ALLOWED * found.draws, found.causes.most_common(5)

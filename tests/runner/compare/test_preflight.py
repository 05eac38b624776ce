"""Preflight remarks for planted mistakes, and none for sound data."""

from __future__ import annotations

import math

import pytest
import torch

from precision_bisect.runner.compare.diff_command import check_input, check_platform, check_tolerance
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import DType
from tests.runner.compare.tensor_makers import FLOATS, each, view_of


def test_sound_data_have_no_remark() -> None:
    x = view_of(torch.randn(4, 5))
    assert list(check_input("x", x, x)) == []
    assert list(check_platform("a2a3sim", "a2a3sim")) == []
    assert list(check_platform("a2a3sim", None)) == []


def test_platform() -> None:
    (remark,) = check_platform("a2a3", "a5sim")
    assert "a2a3" in remark.message
    assert "a5sim" in remark.message


def test_inputs_of_another_seed_or_shape() -> None:
    first, second = (torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    (remark,) = check_input("x", view_of(first), view_of(second))
    assert "another seed" in remark.message
    nearly = first.clone()
    nearly[0, 0] += 1
    (remark,) = check_input("x", view_of(nearly), view_of(first))
    assert "1 of 4096" in remark.message
    (remark,) = check_input("x", view_of(first), view_of(first[:32]))
    assert "another case" in remark.message


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_inputs_that_are_not_finite(value: float) -> None:
    spoiled = torch.zeros(3, 3)
    spoiled[1, 2] = value
    remarks = list(check_input("x", view_of(spoiled), view_of(spoiled)))
    assert len(remarks) == 2
    assert all("(1, 2)" in remark.message for remark in remarks)


@pytest.mark.parametrize("dtype", each(FLOATS))
def test_tolerance_is_too_fine_exactly_where_one_rounding_breaks_it(dtype: DType) -> None:
    spacing = torch.finfo(getattr(torch, dtype.torch_name)).eps
    assert list(check_tolerance(dtype, Tolerance(rtol=spacing / 2))) == []
    (remark,) = check_tolerance(dtype, Tolerance(rtol=spacing / 4))
    assert f"{spacing / 2:.2g}" in remark.message
    assert "everywhere" in remark.message
    (remark,) = check_tolerance(dtype, Tolerance(atol=spacing))
    assert "values over 2:" in remark.message


def test_tolerances_without_a_remark() -> None:
    assert list(check_tolerance(DType.FLOAT16, Tolerance())) == []
    assert list(check_tolerance(DType.INT8, Tolerance(rtol=1e-9))) == []

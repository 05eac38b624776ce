"""A block of element pairs taken apart, against numpy and torch."""

import numpy as np
import pytest
import torch

from precision_bisect.runner.compare.elements import (
    ACTUAL_NAN,
    BLOCK,
    EXPECTED_INF,
    Arithmetic,
    BlockScratch,
    Pair,
    Rule,
    new_block,
)
from precision_bisect.runner.compare.loops import measure_block


def apart(actual: torch.Tensor, expected: torch.Tensor, rule: Rule) -> BlockScratch:
    """The block of two float32 tensors."""
    block = new_block()
    a, e = actual.numpy(), expected.numpy()
    measure_block(Pair(a, e, a.view(np.uint32), e.view(np.uint32)), rule, 0, a.size, block)
    return block


def rule(rtol: float, atol: float, *, equal_nan: bool = False, signed_zeros: bool = False) -> Rule:
    return Rule(int(Arithmetic.FLOAT32), rtol, atol, equal_nan, signed_zeros)


@pytest.mark.parametrize(("rtol", "atol"), [(0.0, 0.0), (1e-3, 0.0), (0.0, 0.01), (1e-5, 1e-5)])
def test_what_is_over_is_what_torch_calls_not_close(rtol: float, atol: float) -> None:
    torch.manual_seed(3)
    expected = torch.randn(BLOCK)
    actual = expected * (1 + torch.randn(BLOCK) * 2 * rtol) + torch.randn(BLOCK) * atol
    block = apart(actual, expected, rule(rtol, atol))
    close = torch.isclose(actual, expected, rtol=rtol, atol=atol).numpy()
    assert np.array_equal(block.over == 0, close)
    difference = np.abs(actual.double().numpy() - expected.double().numpy())
    assert np.array_equal(block.error, difference)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.allclose(block.relative, np.nan_to_num(difference / np.abs(expected.double().numpy())))


def test_neighbouring_numbers_are_one_unit_apart_also_across_zero() -> None:
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    actual = torch.tensor([np.nextafter(np.float32(1), np.float32(2)), tiny, 0.0])
    expected = torch.tensor([1.0, -tiny, -0.0])
    assert apart(actual, expected, rule(0, 0)).distance[:3].tolist() == [1, 2, 0]


def test_nan_and_inf_are_flagged_and_count_as_no_error() -> None:
    actual, expected = torch.tensor([float("nan"), 1.0, 2.0]), torch.tensor([1.0, float("inf"), 2.0])
    block = apart(actual, expected, rule(0, 0))
    assert block.non_finite[:3].tolist() == [ACTUAL_NAN, EXPECTED_INF, 0]
    assert block.error[:3].tolist() == [0, 0, 0]
    assert block.over[:3].tolist() == [1, 1, 0]


def test_a_nan_equals_a_nan_only_where_it_is_asked_for() -> None:
    nan = torch.tensor([float("nan")])
    assert apart(nan, nan, rule(0, 0)).over[0] == 1
    assert apart(nan, nan, rule(0, 0, equal_nan=True)).over[0] == 0


def test_zeros_of_other_signs_are_told_apart_only_where_that_is_asked_for() -> None:
    actual, expected = torch.tensor([-0.0, -0.0, 0.0]), torch.tensor([0.0, -0.0, 0.0])
    assert apart(actual, expected, rule(0, 1)).over[:3].tolist() == [0, 0, 0]
    assert apart(actual, expected, rule(0, 1, signed_zeros=True)).over[:3].tolist() == [1, 0, 0]

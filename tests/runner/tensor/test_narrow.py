"""Numbers of eight and four bits: every code."""

import numpy as np
import pytest
import torch

from precision_bisect.runner.tensor import NarrowFloat

ALL = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize(
    ("narrow", "dtype"),
    [(NarrowFloat.FP8E4M3FN, torch.float8_e4m3fn), (NarrowFloat.FP8E8M0, torch.float8_e8m0fnu)],
)
def test_every_code_of_eight_bits_is_the_number_that_torch_makes_of_it(
    narrow: NarrowFloat, dtype: torch.dtype
) -> None:
    expected = torch.from_numpy(ALL.copy()).view(dtype).to(torch.float32).numpy()
    found = narrow.numbers(ALL)
    assert np.array_equal(found, expected, equal_nan=True)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_all_sixteen_numbers_of_four_bits() -> None:
    """As the OCP Microscaling Formats list them; torch has no conversion."""
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    found = NarrowFloat.FP4E2M1.numbers(np.arange(16, dtype=np.uint8))
    assert found[0::2].tolist() == [*positive, *(-value for value in positive)]
    assert np.signbit(found[16]), "negative zero"
    assert not found[1::2].any(), "the upper half holds the second number"


def test_two_numbers_share_a_byte_the_first_in_its_lower_half() -> None:
    packed = np.array([0x21, 0xF7], np.uint8)
    assert NarrowFloat.FP4E2M1.numbers(packed).tolist() == [0.5, 1.0, 6.0, -6.0]
    assert NarrowFloat.FP4E2M1.shape((3, 2)) == (3, 4)
    assert NarrowFloat.FP4E2M1.shape(()) == (2,)
    assert NarrowFloat.FP8E8M0.shape((3, 2)) == (3, 2)


def test_names_are_read_in_any_case_and_no_others() -> None:
    assert NarrowFloat.parse("DataType::FP8E8M0") is NarrowFloat.FP8E8M0
    assert NarrowFloat.parse("fp4e2m1") is NarrowFloat.FP4E2M1
    assert NarrowFloat.parse("FLOAT32") is None

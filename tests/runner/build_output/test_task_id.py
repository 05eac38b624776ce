import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.runner.build_output import args_dump
from precision_bisect.runner.build_output.args_dump import format_task_id, parse_uint64


def test_examples():
    assert doctest.testmod(args_dump).failed == 0


@given(st.integers(0, 2**64 - 1))
def test_both_spellings_name_the_same_task(number):
    assert parse_uint64(format_task_id(number)) == parse_uint64(str(number)) == parse_uint64(number) == number


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "0x",
        "-1",
        "+1",
        "1_0",
        " 1",
        "1e3",
        "zz",
        "0xgg",
        "0x-1",
        "٣",
        -1,
        2**64,
        "9" * 5000,
        "1" * 20 + "9",
    ],
)
def test_anything_else_is_an_error(spelling):
    with pytest.raises(ValueError, match="64 bits"):
        parse_uint64(spelling)

"""Lines as a terminal would show them."""

import doctest
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.runner.verdict import classify, output_lines
from precision_bisect.runner.verdict.output_lines import MAX_TEXT, plain_texts


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("", []),
        ("  \n", []),
        ("plain", ["plain"]),
        ("  indented\r\n", ["  indented"]),
        ("10%\r20%\rdone", ["10%", "20%", "done"]),
        ("\x1b[1;31merror\x1b[0m: x", ["error: x"]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ end", ["link end"]),
        ("\x1b]0;title\x07text", ["text"]),
        ("bell\x07 null\x00", ["bell\ufffd null\ufffd"]),
        ("tab\tkept", ["tab\tkept"]),
        ("x" * 10_000, ["x" * MAX_TEXT]),
        ("\x1b[31m" * 3 + "y" * 10_000, ["y" * MAX_TEXT]),
    ],
)
def test_plain_texts(line: str, texts: list[str]) -> None:
    assert list(plain_texts(line)) == texts


@given(st.text(st.characters() | st.sampled_from("ab \t\r\x1b[m"), max_size=60))
def test_a_plain_line_is_read_as_one_that_is_drawn_over_with_nothing(line: str) -> None:
    assert list(plain_texts(line)) == list(plain_texts(f"{line}\r"))


@pytest.mark.parametrize("module", [classify, output_lines])
def test_examples(module: ModuleType) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted > 0
    assert results.failed == 0

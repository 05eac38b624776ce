"""What a failed run says beside its errors."""

import pytest

from precision_bisect.runner.verdict.output_lines import FailurePlaces, ReportedTests


def places(*lines: str, after_error: bool = True) -> list[str]:
    reader = FailurePlaces()
    if after_error:
        reader.expect_frame()
    for line in lines:
        reader.feed(line)
    return [*reader.found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)", "\tat a.B.c(B.java:3)"],
            ["a.B.c"],
        ),
        (["\tat a.B.c(B.java:3)", "\tat a.B.main(B.java:9)"], ["a.B.c"]),
        (["    at node:internal/x (node:internal/x:3:4)", "    at total (/w/cart.js:3:9)"], ["total"]),
        (["    at Cart.total [as sum] (/w/cart.js:3:9)"], ["Cart.total [as sum]"]),
        ([">       assert t == 350", "E       assert 155 == 350"], ["assert t == 350"]),
        (["> quoted", "we met at noon (12:00)"], []),
    ],
)
def test_the_innermost_place_of_its_own_code_counts(lines: list[str], expected: list[str]) -> None:
    assert places(*lines) == expected


def test_a_stack_without_an_error_names_no_place() -> None:
    assert places("\tat a.B.c(B.java:3)", after_error=False) == []


def test_many_places_take_bounded_memory() -> None:
    assert len(places(*(f">       assert f({number}) == 1" for number in range(10_000)))) < 100


def test_tests_that_ran_and_were_skipped_are_counted() -> None:
    count = ReportedTests()
    count.feed("3 passed, 2 skipped in 0.1s")
    assert (count.tests, count.skipped) == (3, 2)
    assert ReportedTests().tests is None

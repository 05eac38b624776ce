"""Errors of gcc and clang, as they print them, and lines that only look like one."""

import pytest

from precision_bisect.runner.verdict.classify import Classifier
from precision_bisect.runner.verdict.rules import Ending, compiler_error, compiler_errors


@pytest.mark.parametrize(
    ("line", "path", "number", "missing"),
    [
        (
            "src/codegen/emit.cpp:77:26: error: 'fma' was not declared in this scope",
            "src/codegen/emit.cpp",
            77,
            None,
        ),
        (
            "/w/slot 1/include/pto/a.hpp:35:10: fatal error: pto/cpu/TPut.hpp: No such file or directory",
            "1/include/pto/a.hpp",
            35,
            "pto/cpu/TPut.hpp",
        ),
        ("a.hpp:3:10: fatal error: 'b/c.hpp' file not found", "a.hpp", 3, "b/c.hpp"),
        ("      include/a.h:10: error: unterminated #ifndef", "include/a.h", 10, None),
    ],
)
def test_an_error_names_a_file_a_line_and_what_is_missing(
    line: str, path: str, number: int, missing: str | None
) -> None:
    error = compiler_error(line)
    assert error is not None
    assert (error.path, error.line, error.missing) == (path, number, missing)


@pytest.mark.parametrize(
    "line",
    [
        "a.cpp:3:1: warning: unused variable",
        "a.cpp:3:1: note: candidate",
        "error: linker command failed with exit code 1",
        "In file included from a.hpp:3,",
        "RuntimeError: run failed with code -5",
        "",
    ],
)
def test_other_lines_name_none(line: str) -> None:
    assert compiler_error(line) is None


def test_an_error_that_is_printed_twice_is_one() -> None:
    lines = ["a.cpp:1:1: error: x", "make: *** [a.o] Error 1", "a.cpp:1:1: error: x", "b.cpp:2:1: error: y"]
    assert [error.path for error in compiler_errors(lines)] == ["a.cpp", "b.cpp"]


def test_the_first_errors_of_a_failure_that_nothing_explains_are_kept_however_long_the_output_goes_on() -> (
    None
):
    classifier = Classifier([])
    for line in ["a.cpp:7:1: error: x", "b.cpp:8:1: error: y", *map(str, range(50))]:
        classifier.feed("stderr", line)
    ending = Ending(exit_code=125)
    evidence = classifier.finish(ending, None).evidence
    assert [error.path for error in compiler_errors(each.text for each in evidence)] == ["a.cpp", "b.cpp"]
    assert evidence[-1].text == "49"

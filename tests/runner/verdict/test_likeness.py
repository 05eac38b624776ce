"""Whether a run fails for the reason for which the failing end does."""

import pytest

from precision_bisect.runner.verdict.likeness import (
    SURE_LIKENESS,
    differ_in_code_alone,
    likeness,
    passes_failing_test,
)
from precision_bisect.runner.verdict.symptoms import Symptoms
from tests.runner.verdict.test_symptoms import shown

SAME, UNSURE, OTHER = "same", "unsure", "other"
RAISED = ("Traceback (most recent call last):", '  File "a.py", line 1, in <module>')
ASSERTION = shown(*RAISED, "AssertionError: error 0.5")
TEST = shown("FAILED t/test_x.py::test_y - AssertionError: assert 0.5 < 0.1", "1 failed in 0.1s")
QUIET = shown()


def told(run: Symptoms, end: Symptoms, *passing: Symptoms) -> str:
    alike = likeness(run, [end], passing)
    return SAME if alike >= SURE_LIKENESS else OTHER if alike <= 1 - SURE_LIKENESS else UNSURE


@pytest.mark.parametrize(
    ("run", "end", "expected"),
    [
        (shown(*RAISED, "AssertionError: error 0.75"), ASSERTION, SAME),
        (shown(*RAISED, "ImportError: cannot import name 'x'"), ASSERTION, OTHER),
        (shown(*RAISED, "ValueError: shapes"), ASSERTION, UNSURE),
        (shown(*RAISED, "AssertionError: shapes differ"), ASSERTION, UNSURE),
        (shown("a.cpp:3:1: error: x was not declared", "make: *** [x] Error 1"), ASSERTION, OTHER),
        (shown("CUDA out of memory. Tried to allocate 2 GiB"), ASSERTION, OTHER),
        (shown(code=139), ASSERTION, OTHER),
        (shown("FAILED t/test_x.py::test_y - AssertionError: assert 3 < 2"), TEST, SAME),
        (shown("FAILED t/test_x.py::test_z - AssertionError: assert 3 < 2"), TEST, OTHER),
        (shown("FAILED t/test_x.py::test_y[f32] - AssertionError: assert 3 < 2"), TEST, UNSURE),
        (shown("FAILED t/test_x.py::test_y - ImportError: x"), TEST, OTHER),
        (shown("FAILED t/test_x.py::test_y - ValueError: x"), TEST, UNSURE),
        (shown("ERROR t/test_x.py - ImportError: x", code=2), TEST, OTHER),
        (shown("ERROR: not found: t/test_x.py::test_y", code=4), TEST, OTHER),
        (
            shown(
                "FAILED t/test_x.py::test_y - AssertionError", "FAILED t/test_x.py::test_z - AssertionError"
            ),
            TEST,
            SAME,
        ),
        (QUIET, QUIET, SAME),
        (shown(code=2), QUIET, UNSURE),
        (shown("value 3 is wrong"), shown("value 4 is wrong"), SAME),
        (shown("cannot read input"), shown("value 4 is wrong"), UNSURE),
        (shown("./x.sh: line 3: nosuch: command not found", code=127), shown("value 4 is wrong"), OTHER),
        (shown("make: *** [x] Error 1"), shown("a.cpp:3:1: error: x", "make: *** [x] Error 1"), OTHER),
        (shown("FAILED"), shown(*RAISED, "AssertionError: x", "FAILED"), UNSURE),
        (shown(*RAISED, "ImportError: y", "FAILED"), shown(*RAISED, "AssertionError: x", "FAILED"), OTHER),
        (shown("b.cpp:9:1: error: x is bad"), shown("a.cpp:3:1: error: x is bad"), SAME),
        (shown(*RAISED, "ImportError: y"), shown(*RAISED, "ImportError: y"), SAME),
    ],
)
def test_failures_are_told_by_what_they_show(run: Symptoms, end: Symptoms, expected: str) -> None:
    assert told(run, end) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("\u2716 parse() keeps spaces", "\u2716 parse() refuses tabs", OTHER),
        ("not ok 1 - f(x) is odd", "not ok 2 - f(x) is small", OTHER),
        ("FAIL: test_x (m.Case.test_x) [n=1]", "FAIL: test_x (m.Case.test_x) (n=2)", UNSURE),
        ("FAIL: test_x (m.Case.test_x)", "FAIL: test_x (m.Case.test_x) [n=2]", UNSURE),
    ],
)
def test_parentheses_in_a_name_are_no_parameters(one: str, other: str, expected: str) -> None:
    assert told(shown(one), shown(other)) == expected


def test_a_code_that_counts_failures_makes_two_failures_of_a_test_no_surer() -> None:
    failed = "\u2716 keeps the order of all rows"
    end = shown("checked the order of rows and columns in all files", failed)
    other = "checked the order of rows and columns in the cache"
    assert told(shown(other, failed), end) == UNSURE
    assert told(shown(other, failed, code=2), end) == UNSURE


def test_what_passing_runs_print_too_says_nothing() -> None:
    passing = shown("warning: error: cache is cold", "ok", code=0)
    end = shown("warning: error: cache is cold", "wrong by 3")
    assert told(shown("warning: error: cache is cold", "wrong by 4"), end, passing) == SAME
    assert told(shown("warning: error: cache is cold", "no data"), end, passing) == UNSURE


def test_each_face_of_the_end_counts() -> None:
    faces = [shown(*RAISED, "ValueError: a"), shown(*RAISED, "KeyError: b")]
    assert likeness(shown(*RAISED, "KeyError: b"), faces, ()) >= SURE_LIKENESS


WRITTEN = "see the report in {} for the whole difference"


def test_a_name_that_varies_between_runs_of_the_end_is_no_difference() -> None:
    ends = [shown(WRITTEN.format(name)) for name in ("run-zjwq", "run-bkxr")]
    assert likeness(shown(WRITTEN.format("run-hfbd")), ends, ()) >= SURE_LIKENESS
    assert likeness(shown(WRITTEN.format("run-hfbd")), ends[:1], ()) < SURE_LIKENESS
    other = shown("see the report in run-hfbd for the shapes")
    assert 1 - SURE_LIKENESS < likeness(other, ends, ()) < SURE_LIKENESS


def test_a_word_in_place_of_a_number_is_a_difference() -> None:
    ends = [shown("sum of rows is 4", "seed ab"), shown("sum of rows is 5", "seed cd")]
    assert likeness(shown("sum of rows is missing", "seed ef"), ends, ()) < SURE_LIKENESS


def test_two_faces_of_the_end_make_no_third_one() -> None:
    faces = [shown(*RAISED, "ValueError: a b"), shown(*RAISED, "ValueError: c d")]
    assert likeness(shown(*RAISED, "ValueError: e f"), faces, ()) < SURE_LIKENESS


def test_what_differs_in_its_exit_code_alone_is_known() -> None:
    assert differ_in_code_alone(shown("x", code=2), [shown("x", code=1)])
    assert not differ_in_code_alone(shown("x", code=1), [shown("x", code=1)])
    assert not differ_in_code_alone(shown("y", code=2), [shown("x", code=1)])


def raised_at(source: str, message: str = "TypeError: 'NoneType' object is not subscriptable") -> Symptoms:
    """A run whose last own frame is at a line of source, below one of an installed package."""
    return shown(
        "Traceback (most recent call last):",
        '  File "/w/repo/main.py", line 3, in main',
        f"    {source}",
        '  File "/v/lib/python3.11/site-packages/torch/testing.py", line 9, in check',
        "    raise error",
        message,
    )


def test_one_message_from_two_places_is_unsure() -> None:
    end = raised_at("return city['name']")
    assert told(raised_at("return city['name']"), end) == SAME
    assert told(raised_at("return user['name']"), end) == UNSURE
    java = 'Exception in thread "main" java.lang.NullPointerException: is null'
    internal = "\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)"
    end = shown(java, internal, "\tat Main$Render.title(Main.java:9)", "\tat Main.main(Main.java:30)")
    assert told(shown(java, internal, "\tat Main$Render.title(Main.java:12)"), end) == SAME
    assert told(shown(java, internal, "\tat Main$Store.find(Main.java:9)"), end) == UNSURE
    failed = "FAILED t/test_x.py::test_y - assert 4 == 5"
    end = shown(">       assert width == 5", "E       assert 4 == 5", failed)
    assert told(shown(">       assert width == 6", "E       assert 7 == 6", failed), end) == SAME
    assert told(shown(">       assert depth == 5", "E       assert 4 == 5", failed), end) == UNSURE


def test_an_error_after_less_than_the_end_does_is_unsure() -> None:
    passing = shown("reading", "mean 2.00", "spread 0.1", code=0)
    died = "Illegal division by zero at lib/Stat.pm line 12."
    end = shown("reading", "mean 2.00", died)
    assert told(shown("reading", "mean 3.00", died), end, passing) == SAME
    assert told(shown("reading", died), end, passing) == UNSURE


def test_advice_behind_an_error_does_not_hide_it() -> None:
    advice = [f"hint {letter}: read the manual" for letter in "abcdefghijklm"]
    end = shown("schema: too old for this release", *advice)
    assert told(shown("schema: too old for this release", *advice), end) == SAME
    assert told(shown("quota: the partition would be full", *advice), end) == UNSURE


def test_values_are_numbers_and_texts_without_what_moves() -> None:
    run = shown("checked /w/slot3/x.so in 3.1 s", "max error 14.0 exceeds 0.01 (a.py:12) at 0x7ffe01")
    passing = shown("checked /w/slot1/x.so in 2.9 s", code=0)
    assert [*run.unusual_values([passing]).values()] == ["max error 14.0 exceeds 0.01 (a.py#) at #"]
    failed = shown("FAILED t/test_x.py::test_y - assert 4 == 5", "1 failed in 0.31s")
    assert [*failed.unusual_values([passing]).values()] == ["FAILED t/test_x.py::test_y - assert 4 == 5"]
    assert Symptoms.from_json(run.to_json()) == run
    assert Symptoms.from_json(run.to_json()).values == run.values
    assert Symptoms(exit_code=1).unusual_values([passing]) == {}


OF_THREE = ("FAILED t/test_x.py::test_y - assert 4 == 5", "1 failed, 2 passed in 0.1s")


@pytest.mark.parametrize(
    ("lines", "passes"),
    [
        (("FAILED t/test_x.py::test_z - assert 3 == 2", "1 failed, 2 passed in 0.1s"), True),
        (("FAILED t/test_x.py::test_z - assert 3 == 2", "1 failed, 1 passed in 0.1s"), False),
        (("FAILED t/test_x.py::test_z - assert 3 == 2", "1 failed, 2 passed, 1 skipped in 0.1s"), False),
        (("FAILED t/test_x.py::test_z - assert 4 == 5", "1 failed, 2 passed in 0.1s"), False),  # renamed?
        (
            ("FAILED t/test_x.py::test_y[f32] - assert 3 == 2", "1 failed, 2 passed in 0.1s"),
            False,
        ),  # renamed?
        (("FAILED t/test_x.py::test_z - ImportError: x", "1 failed, 2 passed in 0.1s"), False),
        (("FAILED t/test_x.py::test_y - assert 3 == 2", "1 failed, 2 passed in 0.1s"), False),
        (("AssertionError: 3", "1 failed, 2 passed in 0.1s"), False),
    ],
)
def test_the_end_s_test_passes_where_as_many_ran_and_others_fail(
    lines: tuple[str, ...], passes: bool
) -> None:
    end, good = shown(*OF_THREE), shown("3 passed in 0.1s", code=0)
    assert passes_failing_test(shown(*lines), [end], [good]) is passes
    assert not passes_failing_test(shown(*lines), [end], [shown("2 passed in 0.1s", code=0)])
    assert not passes_failing_test(shown(*lines), [end], [])

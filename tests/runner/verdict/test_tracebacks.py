"""Which exception ended a run, and in which file it was raised, among lines of others."""

import pytest

from precision_bisect.runner.verdict.output_lines import Tracebacks, remove_variable_parts

HEAD = "Traceback (most recent call last):"
FRAMES = (
    '  File "/w/0/case.py", line 7, in main',
    "    golden.run()",
    '  File "/w/0/golden/run.py", line 3, in run',
)


def fed(*lines: str) -> Tracebacks:
    tracebacks = Tracebacks()
    for line in lines:
        tracebacks.feed("stderr", line)
    return tracebacks


def test_the_line_behind_the_frames_is_the_exception() -> None:
    tracebacks = Tracebacks()
    told = [tracebacks.feed("stderr", line) for line in (HEAD, *FRAMES, "pypto.Bad: no", "  more")]
    assert told == [None, None, None, None, "/w/0/golden/run.py", None]
    assert tracebacks.exception == "pypto.Bad: no"


@pytest.mark.parametrize(
    "line",
    ["struct.error: 4 bytes", "re.error", "a.b._Hidden: no", "__main__.f.<locals>.Bad: no", "KeyError"],
)
def test_an_exception_of_a_module_may_have_any_name(line: str) -> None:
    assert fed(HEAD, *FRAMES, line, "Done").exception == line


@pytest.mark.parametrize(
    "line",
    ["[RUN] stage ...", "warning: a.cpp:3: unused", "", "[ERROR] RuntimeError: no", "0.5", "a.cpp:3: unused"],
)
def test_lines_of_others_stand_between(line: str) -> None:
    assert fed(HEAD, line, *FRAMES, line, "KeyError: 'n'", line).exception == "KeyError: 'n'"


def test_the_first_traceback_counts_and_of_a_chain_the_last() -> None:
    one = (HEAD, *FRAMES, "KeyError: 1")
    two = (HEAD, *FRAMES, "ValueError: 2")
    assert fed(*one, *two).exception == "KeyError: 1"
    during = "During handling of the above exception, another exception occurred:"
    assert fed(*one, "", during, "", *two).exception == "ValueError: 2"


def test_a_traceback_may_be_indented_as_pip_shows_it() -> None:
    indented = [f"      {line}" for line in (HEAD, *FRAMES, "ModuleNotFoundError: No module named 'x'")]
    assert fed(*indented, "hint: See above").exception == "ModuleNotFoundError: No module named 'x'"


def test_no_traceback_is_no_exception() -> None:
    assert fed("KeyError: 1", *FRAMES).exception is None
    assert fed(HEAD, *FRAMES).exception is None


def test_an_exception_without_frames_is_raised_nowhere() -> None:
    tracebacks = Tracebacks()
    tracebacks.feed("stderr", HEAD)
    assert tracebacks.feed("stdout", "KeyError: 1") is None
    assert tracebacks.feed("stderr", "KeyError: 1") == ""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("E: /a/b/c.py:7 is wrong", "E: c.py:7 is wrong"),
        ("E: '/a/b/c.py'", "E: 'c.py'"),
        ("E: 3/4 of a/b", "E: 3/4 of a/b"),
        ("E: <X object at 0x7F0a>", "E: <X object at 0x..>"),
        ("E: %12 of %1", "E: %.. of %.."),
        ("E: shape (64, 64)", "E: shape (64, 64)"),
    ],
)
def test_what_moves_is_left_out(text: str, kept: str) -> None:
    assert remove_variable_parts(text) == kept

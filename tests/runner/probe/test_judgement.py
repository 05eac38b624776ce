"""What a predicate command's run is taken for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.runner.probe.judge import JudgingRule, Listener, case_not_reached
from precision_bisect.runner.verdict.classify import Classifier
from precision_bisect.runner.verdict.rules import Ending, VerdictRule
from precision_bisect.store.vocabulary import Judgement, Verdict


def finished(exit_code: int, *lines: str) -> tuple[Verdict, str | None, Judgement]:
    listener = Listener(Classifier([]), JudgingRule(command=True))
    for line in lines:
        listener.feed("stdout", line)
    found, judgement, _ = listener.finish(Ending(exit_code=exit_code), None, kernels={})
    return found.verdict, found.signature, judgement


def test_failures_with_other_compiler_errors_are_told_apart() -> None:
    mine = "include/a.hpp:10:1: error: version control conflict marker in file"
    other = "include/b.hpp:391:18: error: no member named 'format_to' in namespace 'std'"
    assert finished(1, mine, other) == (
        Verdict.MISMATCH,
        "exit code 1: version control conflict marker in file",
        Judgement.BAD,
    )
    assert finished(1, other)[1] == "exit code 1: no member named 'format_to' in namespace 'std'"


@pytest.mark.parametrize(("path", "line"), [("/slots/1/a.hpp", 3), ("/slots/2/a.hpp", 30)])
def test_a_failure_is_the_same_wherever_it_was_compiled(path: str, line: int) -> None:
    assert finished(2, f"{path}:{line}:1: error: x")[1] == "exit code 2: x"


def test_a_failure_without_a_compiler_error_has_its_exit_code() -> None:
    assert finished(1, "FAIL 3 elements")[1] == "exit code 1: FAIL: # elements"
    assert finished(1, "3 elements")[1] == "exit code 1"


@pytest.mark.parametrize(("command", "source"), [(True, "exit_code"), (False, "output")])
def test_only_a_command_is_judged_by_its_exit_code(command: bool, source: str) -> None:
    listener = Listener(Classifier([]), JudgingRule(command=command))
    found, _, _ = listener.finish(Ending(exit_code=1), None, kernels={})
    assert found.source == source


def test_what_a_pass_printed_makes_no_signature() -> None:
    assert finished(0, "a.hpp:3:1: error: x") == (Verdict.PASS, None, Judgement.GOOD)


def test_a_skip_says_what_a_compiler_said() -> None:
    assert finished(125, "3 elements") == (Verdict.UNKNOWN, "exit code 125", Judgement.SKIP)
    assert finished(125, "a.hpp:3:1: error: x") == (Verdict.UNKNOWN, "exit code 125: x", Judgement.SKIP)


def test_the_first_error_is_evidence_where_it_was_printed() -> None:
    listener = Listener(Classifier([]), JudgingRule(command=True))
    for number in range(12):
        listener.feed("stderr", "AssertionError: sums differ" if number == 2 else f"teardown {number}")
    found, _, _ = listener.finish(Ending(exit_code=1), None, kernels={})
    (cause,) = [line for line in found.evidence if line.why == "the first error that it names"]
    assert (cause.stream, cause.line, cause.text) == ("stderr", 3, "AssertionError: sums differ")


def test_an_error_behind_a_time_is_evidence_once() -> None:
    listener = Listener(Classifier([]), JudgingRule(command=True))
    listener.feed("stderr", "[03:00:01] AssertionError: sums differ")
    found, _, _ = listener.finish(Ending(exit_code=1), None, kernels={})
    assert [line.text for line in found.evidence if line.line] == ["[03:00:01] AssertionError: sums differ"]


def test_only_what_is_printed_behind_the_line_before_the_case_counts() -> None:
    rule = VerdictRule(verdict=Verdict.MISMATCH, pattern=re.compile("^WRONG"))
    listener = Listener(Classifier([rule]), JudgingRule.parse("regex:WRONG"), begin_line="here")
    ending = Ending(exit_code=1)
    listener.feed("stdout", "WRONG other")
    listener.feed("stdout", "not here")
    listener.feed("stderr", "WRONG other")
    assert not listener.case_began
    listener.feed("stdout", "here")
    assert listener.case_began
    listener.feed("stderr", "WRONG other")
    listener.feed("stdout", "WRONG own")
    found, judgement, _ = listener.finish(ending, None, kernels={})
    assert (found.verdict, judgement) == (Verdict.MISMATCH, Judgement.BAD)
    printed = [(said.stream, said.line, said.text) for said in found.evidence if said.line]
    assert printed == [("stdout", 6, "WRONG own")]


def test_a_pattern_that_only_others_have_printed_says_nothing_of_the_case() -> None:
    listener = Listener(Classifier([]), JudgingRule.parse("regex:WRONG"), begin_line="here")
    for line in ("WRONG other", "here", "fine"):
        listener.feed("stdout", line)
    ending = Ending(exit_code=0)
    assert listener.finish(ending, None, kernels={})[1] is not Judgement.BAD


@pytest.mark.parametrize(
    ("ending", "how"),
    [
        (Ending(signal=9, timed_out=True), "the time was over"),
        (Ending(signal=11), "signal 11 ended the process"),
        (Ending(exit_code=2), "ended with exit code 2"),
    ],
)
def test_a_case_that_was_not_reached_says_why(ending: Ending, how: str) -> None:
    found = case_not_reached(ending)
    assert (found.verdict, found.signature) == (Verdict.UNKNOWN, "case not reached")
    assert f"{how} before the case began" in found.evidence[0].text


_LINE = st.sampled_from(
    ["", "  ", "plain", "redrawn\rtwice\r", "a.c:3:1: error: x", "\x1b[1merr\x1b[mor: no"]
)


@given(st.lists(st.lists(_LINE, min_size=1, max_size=60), max_size=5))
def test_lines_that_are_taken_at_once_count_as_lines_that_are_taken_one_by_one(
    chunks: list[list[str]],
) -> None:
    ending = Ending(exit_code=1)
    by_one, at_once = (
        Listener(Classifier([]), JudgingRule(command=True)),
        Listener(Classifier([]), JudgingRule(command=True)),
    )
    for chunk in chunks:
        for line in chunk:
            by_one.feed("stdout", line)
        if not at_once.skim("stdout", "".join(f"{line}\n" for line in chunk).encode()):
            for line in chunk:
                at_once.feed("stdout", line)
    assert at_once.finish(ending, None, kernels={}) == by_one.finish(ending, None, kernels={})


def test_lines_are_taken_at_once_only_where_it_is_known_which_may_tell_something() -> None:
    lines = b"a line\n" * 1000
    assert Listener(Classifier([]), JudgingRule(command=True)).skim("stdout", lines)
    rule = VerdictRule(verdict=Verdict.MISMATCH, pattern=re.compile("WRONG|[A-Z]"))
    assert not Listener(Classifier([rule]), JudgingRule(command=True)).skim("stdout", lines)
    rule = VerdictRule(verdict=Verdict.MISMATCH, pattern=re.compile("WRONG"))
    assert Listener(Classifier([rule]), JudgingRule.parse("mismatch")).skim("stdout", lines)
    assert not Listener(Classifier([rule]), JudgingRule.parse("regex:WRONG")).skim("stdout", lines)
    assert not Listener(Classifier([]), JudgingRule(command=True), begin_line="here").skim("stdout", lines)

"""What a predicate command's run is taken for."""

import pytest

from precision_bisect.runner.probe.judgement import Listener
from precision_bisect.runner.verdict.verdict import Classifier, Ending
from precision_bisect.store.vocabulary import Judgement, Verdict


def finished(exit_code: int, *lines: str) -> tuple[Verdict, str | None, Judgement]:
    listener = Listener(Classifier([]), None)
    for line in lines:
        listener.feed("stdout", line)
    found, judgement = listener.finish(
        Ending(exit_code=exit_code, signal=None, timed_out=False, cancelled=False), None, kernels={}
    )
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
    assert finished(1, "FAIL 3 elements")[1] == "exit code 1"


def test_what_a_pass_or_a_skip_printed_makes_no_signature() -> None:
    assert finished(0, "a.hpp:3:1: error: x") == (Verdict.PASS, None, Judgement.GOOD)
    assert finished(125, "a.hpp:3:1: error: x") == (Verdict.UNKNOWN, "exit code 125", Judgement.SKIP)

"""What counts as bad: nothing but what was asked for, and only a validated pass is good."""

import pytest

from precision_bisect.runner.errors import UsageError, UserError
from precision_bisect.runner.probe import judge as judge_module
from precision_bisect.runner.probe.judge import (
    Crash,
    JudgingRule,
    LineMatcher,
    Listener,
    PredicateAbortError,
    distinguishing_condition,
)
from precision_bisect.runner.verdict.classify import Classification, Classifier
from precision_bisect.runner.verdict.rules import Ending
from precision_bisect.runner.verdict.symptoms import Symptoms
from precision_bisect.store.vocabulary import Judgement, Verdict
from tests.runner.verdict.test_symptoms import shown

G, B, S = Judgement.GOOD, Judgement.BAD, Judgement.SKIP


def found(verdict: Verdict, signature: str | None = None) -> Classification:
    return Classification(verdict=verdict, signature=signature, evidence=(), metrics={})


def judge(text: str, classification: Classification, *lines: str) -> Judgement:
    """What a stack's run is that printed some lines."""
    bad_when = JudgingRule.parse(text)
    assert bad_when.bad is not None
    seen = LineMatcher(bad_when.bad.line_pattern)
    for line in lines:
        seen.feed(line)
    return bad_when.judge(
        classification, Symptoms(exit_code=0), bad_matcher=seen, good_matcher=LineMatcher(None)
    )


def run(
    code: int, *lines: str, bad: str | None = None, good: str | None = None, crash: Crash = "skip"
) -> Judgement:
    """What a command is that printed some lines and ended with an exit code, or by a signal."""
    listener = Listener(Classifier([]), JudgingRule.parse(bad, good=good, command=True, crash=crash))
    for line in lines:
        listener.feed("stdout", line)
    killed_by = -code if code < 0 else None
    ending = Ending(exit_code=None if code < 0 else code, signal=killed_by)
    return listener.finish(ending, None, kernels={})[1]


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_bad_pass_is_good_and_the_rest_is_skipped(verdict: Verdict) -> None:
    expected = {Verdict.PASS: G, Verdict.MISMATCH: B}
    assert judge("mismatch", found(verdict)) is expected.get(verdict, S)


def test_a_small_error_is_good_only_if_what_good_when_asks_for_was_shown() -> None:
    rule = JudgingRule.parse("relative_l2:1e-4", good="regex:all checked")
    assert rule.good is not None
    small = Classification(
        verdict=Verdict.MISMATCH, signature=None, evidence=(), metrics={"out": {"relative_l2": 1e-6}}
    )
    for line, expected in (("all checked", G), ("3 left out", S)):
        seen = LineMatcher(rule.good.line_pattern)
        seen.feed(line)
        found = rule.judge(small, Symptoms(exit_code=1), bad_matcher=LineMatcher(None), good_matcher=seen)
        assert found is expected


def test_a_signature_must_be_the_same() -> None:
    text = "signature:out[nan]"
    assert judge(text, found(Verdict.MISMATCH, "out[nan]")) is B
    assert judge(text, found(Verdict.MISMATCH, "out")) is S
    assert judge(text, found(Verdict.CRASH)) is S
    assert judge(text, found(Verdict.PASS)) is G


def test_a_regex_is_bad_where_a_line_matched() -> None:
    text, line = "regex:slow path: \\d+", "\x1b[33m took slow path: 7\x1b[0m"
    assert judge(text, found(Verdict.PASS), line) is B
    assert judge(text, found(Verdict.UNKNOWN), line) is B
    assert judge(text, found(Verdict.UNKNOWN), "took slow path: no") is S
    assert judge(text, found(Verdict.PASS), "took slow path: no") is G


def test_an_error_above_the_size_is_bad_also_where_the_case_passes() -> None:
    def judged(verdict: Verdict, **of_y: float) -> Judgement:
        metrics = {"x": {"relative_l2": 1e-8}, "y": of_y} if of_y else {}
        compared = Classification(verdict=verdict, signature=None, evidence=(), metrics=metrics)
        return judge("relative_l2:1e-4", compared)

    assert judged(Verdict.PASS, relative_l2=9e-4) is B
    assert judged(Verdict.PASS, relative_l2=1e-4) is G
    assert judged(Verdict.MISMATCH, relative_l2=9e-4) is B
    assert judged(Verdict.MISMATCH, relative_l2=1e-5) is G
    assert judged(Verdict.MISMATCH, not_finite=0.5) is B
    assert judged(Verdict.PASS) is S
    assert judged(Verdict.STALL, relative_l2=9e-4) is S
    condition, nothing = JudgingRule.parse("relative_l2:1e-4").bad, LineMatcher(None)
    assert condition.missing_measurement(found(Verdict.PASS), nothing) == "no relative l2 was measured"
    assert condition.missing_measurement(found(Verdict.CRASH), nothing) is None
    assert JudgingRule.parse("mismatch").bad.missing_measurement(found(Verdict.PASS), nothing) is None


@pytest.mark.parametrize("text", ["mismatch", "signature:disk full", "regex:x", "max_diff:0.5"])
def test_a_fault_of_the_machine_is_never_bad(text: str) -> None:
    assert judge(text, found(Verdict.ENVIRONMENT_ERROR, "disk full"), "x") is S


@pytest.mark.parametrize(
    "text",
    ["mismatch", "stall", "build_error", "signature:out", "regex:a:b(c)?d", "relative_l2:0.000123456789"],
)
def test_text_survives_parsing(text: str) -> None:
    assert str(JudgingRule.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mismatches", "expected one of mismatch, "),
        ("", "expected one of"),
        ("pass", "expected one of"),
        ("unknown", "expected one of"),
        ("environment_error", "expected one of"),
        (
            "signature:",
            "expected one of .*, or a verdict, signature:TEXT, an error such as relative_l2:1e-4, regex",
        ),
        ("relative_l2:", "expected a number, 0 or more, after relative_l2:, found ''"),
        ("max_diff:nan", "expected a number, 0 or more, after max_diff:, found 'nan'"),
        ("max_diff:-1", "expected a number, 0 or more, after max_diff:, found '-1'"),
        ("not_finite:1", "expected one of"),
        ("regex:", "expected one of"),
        ("regex:(", "missing \\)"),
        ("not-regex:(", "missing \\)"),
        ("pattern:x", "expected one of"),
        ("exit:x", "expected a number from 0 to 255 after exit:, found 'x'"),
        ("exit:256", "expected a number from 0 to 255"),
        ("log:error", "expected log:/PATTERN/ > NUMBER"),
        ("log:/error/ > 1", r"expected one group around the number, such as \(\\S\+\), found 0"),
        (r"log:/(\S+)/ > big", "expected a number to compare with, found 'big'"),
        (r"log:/(\S+)/ > nan", "expected a number to compare with, found 'nan'"),
    ],
)
def test_other_texts_are_usage_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        JudgingRule.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stall", "--bad-when stall: expected regex:PATTERN, .*exception:AssertionError"),
        ("max_diff:0.002", r"--bad-when 'log:/max_diff: \(\\S\+\)/ > 0.002'"),
        ("regx:foo", r"did you mean regex\?$"),
    ],
)
def test_a_command_has_no_verdicts_of_a_stack(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        JudgingRule.parse(text, command=True)


@pytest.mark.parametrize(
    ("end", "other", "condition"),
    [
        ("FAIL: max error 0.5", "FAIL: layout is wrong", "regex:FAIL: max error"),
        ("ValueError: no scale", "FAIL: layout is wrong", "exception:ValueError"),
        ("FAIL: max error 0.5", "FAIL: max error 0.9 and more", None),
        ("FAIL: 0.5", "FAIL: layout is wrong", None),
        ("FAILED t.py::test_y - ImportError: no x", "FAIL: layout is wrong", "regex:ImportError: no x"),
        ("ERROR: /build/a/x.cpp differs [1]", "FAIL: layout is wrong", "regex:differs \\["),
    ],
)
def test_the_condition_that_is_proposed_holds_for_the_end_alone(
    end: str, other: str, condition: str | None
) -> None:
    assert distinguishing_condition(shown(end), but_not=shown(other)) == condition
    if condition is not None:
        lines = ["Traceback (most recent call last):", end] if condition.startswith("exc") else [end]
        assert run(1, *lines, bad=condition) is B
        assert run(1, other, bad=condition) is S


def test_a_command_s_exit_code_is_read_as_git_reads_it() -> None:
    assert run(0) is G
    assert {run(code) for code in range(1, 125)} == {B}
    assert {run(code) for code in (125, 126, 127)} == {S}


def test_a_crash_is_taken_as_asked() -> None:
    assert run(-11) is run(139) is B, "whether the failing end crashes so is judged later"
    assert run(-9) is run(137) is S, "somebody else may have sent it"
    assert run(-11, bad="regex:x") is S
    assert run(139, bad="exit:139") is B
    assert run(-9, crash="bad") is run(139, bad="regex:x", crash="bad") is B
    assert run(255) is B


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (128, "found 128, which"),
        (255, "found 255, which"),
        (-11, "found that SIGSEGV killed it, which stops the bisection"),
        (139, r"found 139 \(as of a program that SIGSEGV killed\)"),
        (-9, "or leave --crash stop out, and such a run is a skip"),
    ],
)
def test_a_command_can_stop_the_bisection(code: int, told: str) -> None:
    with pytest.raises(PredicateAbortError, match=told):
        run(code, crash="stop")


_RAISED = ("Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "AssertionError: 0.5")
_IMPORT = (*_RAISED[:2], "ImportError: cannot import name 'x'")
_NUMBER = r"log:/error: (\S+)/ > 0.002"


@pytest.mark.parametrize(
    ("bad", "code", "lines", "judgement"),
    [
        ("regex:WRONG", 0, ["WRONG"], B),
        ("regex:WRONG", 0, ["right"], G),
        ("regex:WRONG", 1, ["ImportError"], S),
        ("not-regex:ok", 0, ["ok"], G),
        ("not-regex:ok", 0, ["no"], B),
        ("not-regex:ok", 1, ["no"], S),
        ("not-regex:ok", 1, ["ok"], S),
        ("exception:AssertionError", 1, _RAISED, B),
        ("exception:AssertionError", 1, _IMPORT, S),
        ("exception:AssertionError", 0, [], G),
        ("exit:3", 3, [], B),
        ("exit:3", 1, [], S),
        ("exit:3", 0, [], G),
        ("test:t/test_x.py::test_y", 1, ["FAILED t/test_x.py::test_y - AssertionError: x"], B),
        ("test:t/test_x.py::test_y", 1, ["FAILED t/test_x.py::test_y - ImportError: x"], S),
        ("test:t/test_x.py::test_y", 1, ["FAILED t/test_x.py::test_z - AssertionError: x"], S),
        ("test:t/test_x.py::test_y", 0, ["1 passed"], G),
        (_NUMBER, 0, ["error: 0.5"], B),
        (_NUMBER, 1, ["error: 0.5"], B),
        (_NUMBER, 0, ["error: 0.001"], G),
        (_NUMBER, 1, ["error: 0.001"], S),
        (_NUMBER, 0, ["error: nan"], B),
        (_NUMBER, 0, ["error: none"], S),
        (_NUMBER, 0, [], S),
        (_NUMBER, 1, ["ImportError"], S),
        (_NUMBER, 0, ["error: 0.5", "error: 0.001"], G),
    ],
)
def test_three_outcomes_of_a_command(bad: str, code: int, lines: list[str], judgement: Judgement) -> None:
    assert run(code, *lines, bad=bad) is judgement


@pytest.mark.parametrize(
    ("test", "line", "judgement"),
    [
        ("adds", "not ok 1 - adds", B),
        ("adds", "not ok 1 - adds negative numbers", S),
        ("adds", "FAIL: adds (m.Case.adds) [n=1]", B),
        ("adds (m.Case.adds)", "FAIL: adds (m.Case.adds) [n=1]", B),
        ("adds (m.Case.adds)", "FAIL: adds (m.Other.adds)", S),
    ],
)
def test_a_test_is_asked_for_by_its_whole_name(test: str, line: str, judgement: Judgement) -> None:
    assert run(1, line, bad=f"test:{test}") is judgement


def test_a_pass_is_what_good_when_says() -> None:
    assert run(0, "all fine", good="regex:all fine") is G
    assert run(0, "", good="regex:all fine") is S
    assert run(2, "all fine", good="regex:all fine") is G
    assert run(2, "", good="regex:all fine") is B
    assert run(3, "all fine", bad="regex:WRONG", good="exit:3") is G
    assert run(0, "all fine", bad="regex:WRONG", good="exit:3") is S


@pytest.mark.parametrize("limit", ["< 0.002", "> 0.9"])
def test_nan_is_never_good(limit: str) -> None:
    good = rf"log:/score: (\S+)/ {limit}"
    assert run(0, "score: 0.001" if "<" in limit else "score: 1", good=good) is G
    assert run(0, "score: nan", good=good) is S
    assert run(1, "score: nan", good=good) is B


@pytest.mark.parametrize("text", ["regex:^(a|aa)+$", "not-regex:(a|aa)+$", r"log:/^(\d|\d\d)+$/ > 1"])
def test_a_pattern_that_tries_each_way_to_cut_a_line_ends_the_search(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_MAX_SEARCH_SECONDS", 0.05)
    condition = JudgingRule.parse(text).bad
    assert condition is not None
    line = ("1" if "log:" in text else "a") * 60 + "!\n"
    with pytest.raises(UserError, match="expected a pattern that is searched in one line within"):
        LineMatcher(condition.line_pattern).feed(line)

"""What counts as bad: nothing but what was asked for, and only `pass` is good."""

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.probe.bad_when import BadWhen, PredicateAbortError, judge_exit_code
from precision_bisect.runner.verdict.verdict import Classification
from precision_bisect.store.vocabulary import Judgement, Verdict


def found(verdict: Verdict, signature: str | None = None) -> Classification:
    return Classification(verdict=verdict, signature=signature, evidence=(), metrics={})


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_bad_pass_is_good_and_the_rest_is_skipped(verdict: Verdict) -> None:
    expected = {Verdict.PASS: Judgement.GOOD, Verdict.MISMATCH: Judgement.BAD}
    judged = BadWhen.parse("mismatch").judge(found(verdict), matched_regex=False)
    assert judged is expected.get(verdict, Judgement.SKIP)


def test_a_signature_must_be_the_same() -> None:
    bad_when = BadWhen.parse("signature:out[nan]")
    assert bad_when.judge(found(Verdict.MISMATCH, "out[nan]"), matched_regex=False) is Judgement.BAD
    assert bad_when.judge(found(Verdict.MISMATCH, "out"), matched_regex=False) is Judgement.SKIP
    assert bad_when.judge(found(Verdict.CRASH), matched_regex=False) is Judgement.SKIP
    assert bad_when.judge(found(Verdict.PASS), matched_regex=False) is Judgement.GOOD


def test_a_regex_is_bad_where_a_line_matched() -> None:
    bad_when = BadWhen.parse("regex:slow path: \\d+")
    assert bad_when.matches_line("\x1b[33m took slow path: 7\x1b[0m")
    assert not bad_when.matches_line("took slow path: no")
    assert bad_when.judge(found(Verdict.PASS), matched_regex=True) is Judgement.BAD
    assert bad_when.judge(found(Verdict.UNKNOWN), matched_regex=True) is Judgement.BAD
    assert bad_when.judge(found(Verdict.UNKNOWN), matched_regex=False) is Judgement.SKIP
    assert bad_when.judge(found(Verdict.PASS), matched_regex=False) is Judgement.GOOD


def test_an_error_above_the_size_is_bad_also_where_the_case_passes() -> None:
    bad_when = BadWhen.parse("relative_l2:1e-4")

    def judged(verdict: Verdict, **of_y: float) -> Judgement:
        metrics = {"x": {"relative_l2": 1e-8}, "y": of_y} if of_y else {}
        compared = Classification(verdict=verdict, signature=None, evidence=(), metrics=metrics)
        return bad_when.judge(compared, matched_regex=False)

    assert judged(Verdict.PASS, relative_l2=9e-4) is Judgement.BAD
    assert judged(Verdict.PASS, relative_l2=1e-4) is Judgement.GOOD
    assert judged(Verdict.MISMATCH, relative_l2=9e-4) is Judgement.BAD
    assert judged(Verdict.MISMATCH, relative_l2=1e-5) is Judgement.GOOD
    assert judged(Verdict.MISMATCH, not_finite=0.5) is Judgement.BAD
    assert judged(Verdict.PASS) is Judgement.SKIP
    assert judged(Verdict.STALL, relative_l2=9e-4) is Judgement.SKIP
    unmeasured = found(Verdict.PASS)
    assert bad_when.lacks(unmeasured) == "no relative l2 was measured"
    assert bad_when.lacks(found(Verdict.CRASH)) is None
    assert BadWhen.parse("mismatch").lacks(unmeasured) is None


@pytest.mark.parametrize("text", ["mismatch", "signature:disk full", "regex:x", "max_diff:0.5"])
def test_a_fault_of_the_machine_is_never_bad(text: str) -> None:
    classification = found(Verdict.ENVIRONMENT_ERROR, "disk full")
    assert BadWhen.parse(text).judge(classification, matched_regex=True) is Judgement.SKIP


@pytest.mark.parametrize(
    "text",
    ["mismatch", "stall", "build_error", "signature:out", "regex:a:b(c)?d", "relative_l2:0.000123456789"],
)
def test_text_survives_parsing(text: str) -> None:
    assert str(BadWhen.parse(text)) == text


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
            "expected a verdict, or signature:TEXT, regex:PATTERN, or an error such as relative_l2:1e-4",
        ),
        ("relative_l2:", "expected a number, 0 or more, after relative_l2:, found ''"),
        ("max_diff:nan", "expected a number, 0 or more, after max_diff:, found 'nan'"),
        ("max_diff:-1", "expected a number, 0 or more, after max_diff:, found '-1'"),
        ("not_finite:1", "expected a verdict, or signature"),
        ("regex:", "expected a verdict"),
        ("regex:(", "unterminated"),
        ("pattern:x", "expected a verdict"),
    ],
)
def test_other_texts_are_usage_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        BadWhen.parse(text)


def test_a_predicate_s_exit_code_is_read_as_git_reads_it() -> None:
    assert judge_exit_code(0) is Judgement.GOOD
    assert judge_exit_code(125) is Judgement.SKIP
    assert {judge_exit_code(code) for code in range(1, 125)} == {Judgement.BAD}
    assert {judge_exit_code(code) for code in (126, 127)} == {Judgement.SKIP}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (128, "found 128, which"),
        (255, "found 255, which"),
        (-11, "found that SIGSEGV killed it, which stops the bisection"),
        (139, r"found 139 \(as of a program that SIGSEGV killed\)"),
        (-9, r"have it count as bad: -- sh -c 'COMMAND \|\| exit 1'"),
    ],
)
def test_a_predicate_can_stop_the_bisection(code: int, told: str) -> None:
    with pytest.raises(PredicateAbortError, match=told):
        judge_exit_code(code)

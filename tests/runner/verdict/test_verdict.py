"""The classifier on small rules of its own: what decides, in which order, and within which bounds."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.runner.verdict.classify import (
    EVIDENCE_PER_RULE,
    LAST_LINES,
    MAX_OUTPUTS,
    Classification,
    Classifier,
)
from precision_bisect.runner.verdict.rules import VerdictRule
from precision_bisect.store.vocabulary import Verdict
from tests.runner.verdict.recorded_output import read_ending, search_outcome

ALL_ENDINGS = ("exit", "signal", "timeout")


def rule(verdict: str, pattern: str, **more: object) -> VerdictRule:
    return VerdictRule.model_validate({"verdict": verdict, "pattern": pattern, **more})


RULES = (
    rule("stall", "^gave up", endings=ALL_ENDINGS, signature="stalled"),
    rule(
        "mismatch",
        r"^(?P<output>\w+) differs(?: by (?P<max_diff>\S+))?",
        endings=ALL_ENDINGS,
        details=[r"^  (?P<mismatched>\d+) of (?P<total>\d+)", "^  got (?P<actual>.+)"],
    ),
    rule("device_error", r"^code (?P<code>\d+)", signature="code {code}"),
    rule("not_validated", "^good, unchecked"),
    rule("pass", "^good", requires="^checked", stream="stdout"),
)


def classify(
    *lines: str, ending: str = "exit 0", outcome: tuple[dict[str, object], ...] | None = None
) -> Classification:
    classifier = Classifier(RULES)
    for line in lines:
        classifier.feed("stdout", line)
    return classifier.finish(read_ending(ending), search_outcome(*outcome) if outcome is not None else None)


def call(**changes: object) -> dict[str, object]:
    return {"function": "run", "passed": True, "validated": True, **changes}


# --- Precedence --------------------------------------------------------------------------------------------


def test_the_earlier_rule_wins_wherever_its_line_stands() -> None:
    assert classify("code 7", "out differs", ending="exit 1").verdict is Verdict.MISMATCH
    assert classify("out differs", "code 7", "gave up", ending="exit 1").verdict is Verdict.STALL


def test_a_success_needs_exit_code_zero() -> None:
    assert classify("checked", "good").verdict is Verdict.PASS
    assert classify("checked", "good", ending="exit 1").verdict is Verdict.UNKNOWN
    assert classify("checked", "good", ending="timeout").verdict is Verdict.TIMEOUT
    assert classify("checked", "good", ending="signal SIGSEGV").verdict is Verdict.CRASH


def test_what_a_rule_requires_may_come_on_any_stream_and_after_it() -> None:
    assert classify("good").verdict is Verdict.UNKNOWN
    classifier = Classifier(RULES)
    classifier.feed("stdout", "good")
    classifier.feed("stderr", "checked")
    assert classifier.finish(read_ending("exit 0"), None).verdict is Verdict.PASS


def test_unless_takes_a_rule_out() -> None:
    rules = (rule("crash", "^boom", unless="^recovered"),)
    for lines, verdict in ((["boom"], Verdict.CRASH), (["recovered", "boom"], Verdict.UNKNOWN)):
        classifier = Classifier(rules)
        for line in lines:
            classifier.feed("stderr", line)
        assert classifier.finish(read_ending("exit 1"), None).verdict is verdict


def test_a_success_with_a_line_that_says_mismatch_is_a_mismatch() -> None:
    assert classify("checked", "good", "out differs").verdict is Verdict.MISMATCH


def test_one_unchecked_success_spoils_the_others() -> None:
    assert classify("checked", "good", "good, unchecked").verdict is Verdict.NOT_VALIDATED


def test_rules_decide_only_under_the_endings_they_name() -> None:
    assert classify("code 7", ending="exit 1").verdict is Verdict.DEVICE_ERROR
    assert classify("code 7", ending="exit 0").verdict is Verdict.DEVICE_ERROR
    assert classify("code 7", ending="signal SIGSEGV").verdict is Verdict.CRASH
    assert classify("code 7", ending="timeout").verdict is Verdict.TIMEOUT
    for ending in ("exit 1", "signal SIGSEGV", "timeout"):
        assert classify("gave up", ending=ending).verdict is Verdict.STALL


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_from_outside_is_no_crash(name: str) -> None:
    assert classify(ending=f"signal {name}").verdict is Verdict.ENVIRONMENT_ERROR


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"])
def test_a_crash_has_its_signal_for_a_signature(name: str) -> None:
    found = classify(ending=f"signal {name}")
    assert (found.verdict, found.signature) == (Verdict.CRASH, name)


@given(st.integers(1, 255), st.lists(st.text(max_size=30), max_size=8))
def test_a_generic_failure_is_never_a_mismatch_or_a_pass(code: int, lines: list[str]) -> None:
    noise = [f"#{line}" for line in lines]
    assert classify(*noise, ending=f"exit {code}").verdict is Verdict.UNKNOWN


FAULT_OR_STALL = (
    rule("device_error", "^errorStr: (?P<cause>.*)", chronological=True, signature="{cause}"),
    rule("device_error", "^fault", chronological=True, signature="fault"),
    rule("stall", "^gave up", chronological=True, signature="stalled"),
    rule("mismatch", "^(?P<output>.*) differs"),
)


@pytest.mark.parametrize(
    ("lines", "signature"),
    [
        (["fault", "gave up"], "fault"),
        (["gave up", "fault"], "stalled"),
        (["fault", "gave up", "errorStr: out of bounds"], "out of bounds"),
        (["y differs", "gave up"], "stalled"),
        (["y differs", "fault", "gave up"], "fault"),
    ],
)
def test_of_chronological_rules_the_verdict_of_the_first_line_decides(
    lines: list[str], signature: str
) -> None:
    classifier = Classifier(FAULT_OR_STALL)
    for line in lines:
        classifier.feed("stderr", line)
    assert classifier.finish(read_ending("exit 1"), None).signature == signature


# --- The harness's report ------------------------------------------------------------------------------------


def test_a_success_rests_on_the_report_where_there_is_one() -> None:
    assert classify(outcome=(call(),)).verdict is Verdict.PASS
    assert classify("checked", "good", outcome=(call(validated=False),)).verdict is Verdict.NOT_VALIDATED
    assert classify("good, unchecked", outcome=(call(),)).verdict is Verdict.PASS


@pytest.mark.parametrize("second", [{"passed": False}, {"passed": None}, {"finished": False}])
def test_every_call_must_have_passed(second: dict[str, object]) -> None:
    assert classify("checked", "good", outcome=(call(), call(**second))).verdict is Verdict.UNKNOWN


def test_a_report_without_calls_leaves_the_lines_to_decide() -> None:
    assert classify("checked", "good", outcome=()).verdict is Verdict.PASS


def test_error_texts_go_through_the_rules() -> None:
    error = "y differs by 0.5\n  3 of 4"
    found = classify("out differs", ending="exit 1", outcome=(call(passed=False, error=error),))
    assert (found.verdict, found.signature) == (Verdict.MISMATCH, "y")
    assert found.metrics == {"y": {"max_diff": 0.5, "mismatched": 3, "total": 4, "mismatched_fraction": 0.75}}
    assert {e.stream for e in found.evidence} == {"stdout", "outcome", "ending"}


def test_an_exception_goes_through_the_rules() -> None:
    rules = (rule("device_error", r"^RuntimeError: code (?P<code>\d+)", signature="code {code}"),)
    outcome = search_outcome(call(passed=None, exception={"type": "RuntimeError", "message": "code 7"}))
    found = Classifier(rules).finish(read_ending("exit 1"), outcome)
    assert (found.verdict, found.signature) == (Verdict.DEVICE_ERROR, "code 7")


# --- Signature and metrics -----------------------------------------------------------------------------------


def test_outputs_are_sorted_and_marked() -> None:
    lines = ("z differs", "  got nan", "a differs", "  got 1.5", "k differs by inf", "  got nan")
    found = classify(*lines, ending="exit 1")
    assert found.signature == "a,k[nan,inf],z[nan]"
    assert found.metrics == {"k": {"not_finite": 1.0}, "z": {"not_finite": 1.0}}


def test_details_of_one_stream_do_not_mix_with_another_s() -> None:
    classifier = Classifier(RULES)
    classifier.feed("stdout", "a differs")
    classifier.feed("stderr", "  1 of 2")
    assert classifier.finish(read_ending("exit 1"), None).metrics == {}


def test_the_signature_does_not_depend_on_the_order_of_outputs() -> None:
    names = [f"output_{i}" for i in range(40)]
    signatures: set[str | None] = set()
    for seed in range(5):
        random.Random(seed).shuffle(names)
        signatures.add(classify(*(f"{name} differs" for name in names), ending="exit 1").signature)
    assert len(signatures) == 1


def test_an_exception_without_a_traceback_is_the_harness_s_own() -> None:
    rules = (rule("compile_error", "^CompileError", signature="{exception}"),)
    raised = {"type": "CompileError", "message": "at 0x7f: /w/0/a.py\nmore"}
    found = Classifier(rules).finish(
        read_ending("exit 1"), search_outcome(call(passed=None, exception=raised))
    )
    assert found.signature == "CompileError: at 0x..: a.py"


def test_a_stall_names_the_kernels_of_the_build() -> None:
    details = [r"^(?:(?P<running>R)|(?P<waiting>W)) (?P<kernels>.*)"]
    classifier = Classifier((rule("stall", "^gave up", signature="stalled", details=details),))
    for line in ("W aic:4 aiv0:-1", "R aic:-1 aiv0:3", "gave up"):
        classifier.feed("stderr", line)
    found = classifier.finish(read_ending("exit 1"), None, kernels={3: "softmax", 4: "matmul"})
    assert found.signature == "stalled, running in softmax"


def test_different_long_lists_of_outputs_have_different_signatures() -> None:
    def signature(last: str) -> str | None:
        names = [*(f"output_{i:02}" for i in range(40)), last]
        return classify(*(f"{name} differs" for name in names), ending="exit 1").signature

    assert signature("x") != signature("y")


def test_outputs_that_a_signature_leaves_out_are_counted() -> None:
    lines = [line for i in range(30) for line in (f"output_{i:02} differs by inf", "  got nan")]
    signature = classify(*lines, ending="exit 1").signature or ""
    shown, _, more = signature.partition(",+")
    assert shown == ",".join(f"output_{i:02}[nan,inf]" for i in range(8))
    assert more.startswith("22 #")


# --- Bounds --------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_log() -> None:
    classifier = Classifier(RULES)
    line = "out differs by 1 " + "x" * 100_000
    tracemalloc.start()
    for number in range(1000):
        classifier.feed("stdout", f"output_{number} differs")
        classifier.feed("stderr", line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
    found = classifier.finish(read_ending("exit 1"), None)
    assert len([e for e in found.evidence if e.why == "says mismatch"]) == EVIDENCE_PER_RULE
    assert len(found.signature or "") < 200
    assert found.signature is not None
    assert f"+{MAX_OUTPUTS - 1 - found.signature.count(',output')}" in found.signature


def test_an_unknown_end_shows_the_last_lines() -> None:
    found = classify(*(f"line {i}" for i in range(100)), ending="exit 1")
    last = [e for e in found.evidence if e.stream == "stdout"]
    assert [e.text for e in last] == [f"line {i}" for i in range(100 - LAST_LINES, 100)]
    assert [e.line for e in last] == list(range(101 - LAST_LINES, 101))


def test_what_was_seen_but_does_not_decide_is_kept() -> None:
    found = classify("checked", "good", "gave up")
    assert found.verdict is Verdict.PASS
    assert [e.text for e in found.evidence if "does not decide" in e.why] == ["gave up"]


@given(st.lists(st.text(), max_size=20))
def test_any_text_can_be_fed(lines: list[str]) -> None:
    for evidence in classify(*lines, ending="exit 1").evidence:
        assert "\n" not in evidence.text
        assert "\x1b" not in evidence.text

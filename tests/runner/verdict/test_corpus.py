"""The classifier on recorded outputs, under the rules of the stack files."""

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

import pytest

from precision_bisect import configs
from precision_bisect.runner.verdict.classify import Classification, Classifier
from precision_bisect.runner.verdict.output_lines import MAX_TEXT
from precision_bisect.runner.verdict.rules import VerdictRule
from precision_bisect.store.vocabulary import Stream, Verdict
from tests.runner.verdict.recorded_output import CORPUS, Recorded, read_recorded

RECORDED = [read_recorded(path) for path in sorted(CORPUS.glob("*.txt"))]

STACKS = ("pypto", "simpler")

# What a passing run prints around everything else.
NOISE: list[tuple[Stream, str]] = [
    ("stderr", "[STRACE] v=1 pid=4711 tid=4712 inv=1 hid=9f01 depth=1 name=dispatch ts=1201 dur=88"),
    ("stderr", "[INFO_V9] Thread 1: timeout=3000ms error=0 stall=0 failed=0"),
    ("stdout", "[RUN] some stage ..."),
    ("stdout", ""),
    ("stderr", "\x1b[33mwarning: kernels/aiv/a.cpp:3:1: unused\x1b[0m"),
]


@cache
def rules_of(stack: str) -> tuple[VerdictRule, ...]:
    text = resources.files(configs).joinpath(f"{stack}.toml").read_text("utf-8")
    return tuple(VerdictRule.model_validate(table) for table in tomllib.loads(text)["verdicts"])


def classify(
    recorded: Recorded, lines: Iterable[tuple[Stream, str]], rules: Sequence[VerdictRule]
) -> Classification:
    classifier = Classifier(rules)
    for stream, line in lines:
        classifier.feed(stream, line)
    return classifier.finish(recorded.ending, recorded.outcome)


@pytest.fixture(params=RECORDED, ids=lambda recorded: recorded.name)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return request.param


def test_the_corpus_is_large_and_covers_what_a_run_can_be() -> None:
    assert len(RECORDED) >= 60
    assert {recorded.verdict for recorded in RECORDED} == set(Verdict) - {Verdict.BUILD_ERROR}


def test_demo_reads_its_logs_as_pypto_does() -> None:
    assert rules_of("demo") == rules_of("pypto")


def test_every_rule_is_needed_by_some_recording() -> None:
    needed: set[str] = set()
    for stack in STACKS:
        rules = rules_of(stack)
        for index, rule in enumerate(rules):
            fewer = (*rules[:index], *rules[index + 1 :])
            for recorded in (recorded for recorded in RECORDED if recorded.stack == stack):
                found = classify(recorded, recorded.lines, fewer)
                if (found.verdict, found.signature) != (recorded.verdict, recorded.signature):
                    needed.add(rule.model_dump_json())
    assert {rule.model_dump_json() for stack in STACKS for rule in rules_of(stack)} == needed


def test_verdict_and_signature(recorded: Recorded) -> None:
    found = classify(recorded, recorded.lines, rules_of(recorded.stack))
    assert (found.verdict, found.signature) == (recorded.verdict, recorded.signature)


def test_metrics(recorded: Recorded) -> None:
    found = classify(recorded, recorded.lines, rules_of(recorded.stack)).metrics
    for (output, measure), value in recorded.metrics.items():
        assert found[output][measure] == pytest.approx(value)


def test_evidence_is_in_the_log(recorded: Recorded) -> None:
    found = classify(recorded, recorded.lines, rules_of(recorded.stack))
    assert any(evidence.stream == "ending" for evidence in found.evidence)
    for evidence in found.evidence:
        assert evidence.why
        assert len(evidence.text) <= MAX_TEXT
        assert evidence.text.isprintable() or "\t" in evidence.text
        if evidence.stream in ("stdout", "stderr"):
            stream, line = recorded.lines[evidence.line - 1]
            assert stream == evidence.stream
            if line.isprintable():
                assert line.startswith(evidence.text)
        else:
            assert evidence.line == 0


def test_a_verdict_that_a_line_decided_shows_that_line_first(recorded: Recorded) -> None:
    found = classify(recorded, recorded.lines, rules_of(recorded.stack))
    decided_by_line = [e for e in found.evidence if e.why == f"says {found.verdict}"]
    assert list(found.evidence[: len(decided_by_line)]) == decided_by_line
    if found.verdict is Verdict.MISMATCH:
        assert decided_by_line


def test_noise_changes_nothing(recorded: Recorded) -> None:
    for shift in range(len(NOISE)):
        noisy: list[tuple[Stream, str]] = []
        for number, line in enumerate(recorded.lines):
            noisy += [NOISE[(number + shift) % len(NOISE)], line]
        found = classify(recorded, noisy, rules_of(recorded.stack))
        assert (found.verdict, found.signature) == (recorded.verdict, recorded.signature)


def test_the_order_in_which_the_streams_arrive_changes_nothing(recorded: Recorded) -> None:
    for first in ("stdout", "stderr"):
        reordered = sorted(recorded.lines, key=lambda line: line[0] != first)
        found = classify(recorded, reordered, rules_of(recorded.stack))
        assert (found.verdict, found.signature) == (recorded.verdict, recorded.signature)

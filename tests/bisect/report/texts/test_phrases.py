"""What the reports call an answer, its confidence, and what a pin or a run showed."""

import pytest

from precision_bisect.bisect.report import phrases
from precision_bisect.bisect.report.markdown import render_markdown
from precision_bisect.bisect.report.model.model import UNFINISHED, RunError, SkippedCommit
from precision_bisect.bisect.result import LayerCell, MovedLayers, PinRecord
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Seeks, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, sha


def test_every_outcome_has_its_own_words() -> None:
    every = (*BisectionOutcome, UNFINISHED)
    told = {
        phrases.ended(outcome, seeks=seeks, in_doubt=in_doubt)
        for outcome in every
        for seeks in Seeks
        for in_doubt in (False, True)
    }
    assert len(told) == len(every) + 2  # A fix that is found, and a suspect in doubt.


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("culprit", "culprit found"),
        ("only_skipped", "only skipped commits are left"),
        ("ends_do_not_differ", "the ends do not differ"),
        ("interrupted", "not finished"),
    ],
)
def test_a_report_says_how_it_ended(kind: str, words: str, request: pytest.FixtureRequest) -> None:
    assert phrases.outcome(request.getfixturevalue(kind).report()) == words


def test_runs_that_were_stopped_are_named(culprit: StoredBisection) -> None:
    report = culprit.report()
    assert [run.ordinal for _, run in phrases.runs_in_order(report)] == list(range(1, 14))
    assert phrases.stopped_runs(report) is None
    without = report.probes[1:]
    gone = [run.ordinal for run in report.probes[0].runs]
    said = phrases.stopped_runs(report.model_copy(update={"probes": without}))
    assert said == f"stopped before their end, and count for nothing: {', '.join(map(str, gone))}"


def test_where_a_fix_is_sought_the_words_turn_round(culprit: StoredBisection) -> None:
    report = culprit.report()
    fix = report.model_copy(update={"seeks": Seeks.FIX})
    assert [phrases.named(each) for each in (report, fix)] == ["culprit", "first fixed commit"]
    assert phrases.outcome(fix) == "first fixed commit found"
    assert [phrases.lost(each) for each in (report, fix)] == ["fix", "fault"]
    assert [phrases.earlier(each) for each in (report, fix)] == [
        "failed too, then passed",
        "passed too, then failed",
    ]


def test_the_older_end_comes_first(culprit: StoredBisection) -> None:
    (searched,) = culprit.report().ranges
    assert phrases.ends(searched) == (sha("c0"), sha("c6"))
    assert phrases.ends(searched.model_copy(update={"seeks": Seeks.FIX})) == (sha("c6"), sha("c0"))


def test_that_a_failure_comes_and_goes_is_told_beside_the_scripts(culprit: StoredBisection) -> None:
    report = culprit.report()
    assert phrases.comes_and_goes(report) is None
    bad = report.reproduce.bad
    assert bad is not None
    flaky = bad.model_copy(update={"failures": 1, "runs": (1, 2, 3)})
    told = report.model_copy(update={"reproduce": report.reproduce.model_copy(update={"bad": flaky})})
    words = "The failure comes and goes (bad failed in 1 of 3 runs): run a script more than once."
    assert phrases.comes_and_goes(told) == words
    assert words in render_markdown(told)
    nobody = told.model_copy(update={"outcome": BisectionOutcome.NO_CULPRIT})
    assert phrases.comes_and_goes(nobody) is None, "where the environment moved, more runs say nothing"


def test_a_confidence_is_told_with_what_was_asked(culprit: StoredBisection) -> None:
    (commit,) = culprit.report().culprits
    assert phrases.confidence(commit, 0.99) == "99.93 % (99 % was asked)"
    unstated = commit.model_copy(update={"confidence": None})
    assert phrases.confidence(unstated, 0.999999) == "not stated (99.99 % was asked)"


def test_a_side_tells_its_verdict_and_how_many_of_its_runs_failed(culprit: StoredBisection) -> None:
    found = culprit.report()
    bad = found.reproduce.bad
    assert bad is not None
    assert phrases.side_verdict(found, bad) == "mismatch (out: 3/512 differ), 3 of 3 runs failed"
    once = bad.model_copy(update={"runs": bad.runs[:1], "failures": 1, "signature": None})
    assert phrases.side_verdict(found, once) == "mismatch, 1 of 1 run failed"
    end = once.model_copy(update={"commit": found.good})
    told = (
        "mismatch, 1 of 1 run failed; this is an end of the range, as no run of the culprit's parent shows it"
    )
    assert phrases.side_verdict(found, end) == told


@pytest.mark.parametrize(
    ("searched", "frozen_at", "words"),
    [
        (True, None, "searched"),
        (False, "v0.57", "frozen at v0.57 in every run"),
        (False, None, "frozen, but says nothing at the bad end"),
    ],
)
def test_a_pin_was_searched_or_frozen(searched: bool, frozen_at: str | None, words: str) -> None:
    pin = PinRecord(
        name="ptoas",
        holder="compiler",
        path="toolchain/versions.env",
        value_good="v0.57",
        value_bad="v0.58",
        searched=searched,
        frozen_at=frozen_at,
    )
    assert phrases.pin_state(pin) == words


def test_a_run_tells_its_error_and_each_line_of_evidence_once(culprit: StoredBisection) -> None:
    report = culprit.report()
    assert report.reproduce.bad is not None
    run = phrases.shown_run(report, report.reproduce.bad)
    assert run.ordinal == report.reproduce.bad.shown
    assert phrases.error(run) == ""
    measured = run.model_copy(update={"error": RunError(measure="max_abs", value=0.03125)})
    assert phrases.error(measured) == "max abs 0.031"
    wild = run.model_copy(update={"error": RunError(measure="max_abs", value="NaN")})
    assert phrases.error(wild) == "max abs NaN"
    twice = run.model_copy(update={"evidence": run.evidence * 2})
    assert phrases.evidence_texts(twice) == ["[RUN] mismatch"]


def test_layers_are_told_with_what_was_run() -> None:
    cells = (
        LayerCell(new=("tool", "isa"), judgement=Judgement.SKIP),
        LayerCell(new=("asm",), judgement=Judgement.BAD),
    )
    tested = MovedLayers(
        layers=("tool", "isa", "asm"), cells=cells, least=(("asm",), ("tool", "isa")), proven=True
    )
    told = "it takes asm, or tool and isa, to be new, by 2 combinations of old and new"
    assert phrases.least_layers(tested) == told
    assert phrases.least_layers(tested.model_copy(update={"proven": False})).startswith(f"{told}; ")
    assert phrases.layer_rows(tested) == [["new", "new", "old", "skip"], ["old", "old", "new", "bad"]]


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        (Verdict.UNKNOWN, "exit code 125", "skipped by the command"),
        (Verdict.UNKNOWN, "exit code 125: no header", "skipped by the command"),
        (Verdict.UNKNOWN, "exit code 127: the command was not found at this commit", "unknown"),
        (None, "it pins no commit of a submodule", "not run"),
    ],
)
def test_a_skip_is_told_by_who_skipped(verdict: Verdict | None, reason: str, told: str) -> None:
    commit = SkippedCommit(repository="line", commit=sha("c1"), subject=None, verdict=verdict, reason=reason)
    assert phrases.skip_verdict(commit) == told

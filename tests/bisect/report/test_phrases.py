"""What the reports call an answer, its confidence, and what a pin or a run showed."""

import pytest

from precision_bisect.bisect.engine.answer import LayerCell, MovedLayers
from precision_bisect.bisect.history.questions import PinRecord
from precision_bisect.bisect.report import phrases
from precision_bisect.bisect.report.model import RunError, SkippedCommit
from precision_bisect.bisect.report.report_files import render_markdown
from precision_bisect.runner.commit_diff import CommitDiff, FileStat
from precision_bisect.store.vocabulary import (
    UNFINISHED,
    BisectionOutcome,
    Judgement,
    Seeks,
    Verdict,
    VerdictSource,
    phrase_for_outcome,
)
from tests.bisect.report.stored_bisection import StoredBisection, sha


def test_every_outcome_has_its_own_words() -> None:
    every = (*BisectionOutcome, UNFINISHED)
    told = {
        phrase_for_outcome(outcome, seeks=seeks, in_doubt=in_doubt, has_caveat=has_caveat)
        for outcome in every
        for seeks in Seeks
        for in_doubt in (False, True)
        for has_caveat in (False, True)
    }
    # A fix that is found, a suspect in doubt, and a caveat of a culprit and of a fix.
    assert len(told) == len(every) + 4


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("culprit", "culprit found"),
        ("only_skipped", "the runs do not tell the commits left apart"),
        ("ends_do_not_differ", "the ends do not differ"),
        ("interrupted", "not finished"),
    ],
)
def test_a_report_says_how_it_ended(kind: str, words: str, request: pytest.FixtureRequest) -> None:
    assert phrases.outcome_phrase(request.getfixturevalue(kind).report()) == words


def test_runs_without_a_result_are_named(culprit: StoredBisection) -> None:
    report = culprit.report()
    assert [run.ordinal for _, run in phrases.runs_in_order(report)] == list(range(1, 14))
    assert phrases.missing_runs_note(report) is None
    without = report.model_copy(update={"probes": report.probes[1:]})
    gone = ", ".join(str(run.ordinal) for run in report.probes[0].runs)
    assert phrases.missing_runs_note(without) == f"stopped before their end, and count for nothing: {gone}"
    for outcome in (UNFINISHED, BisectionOutcome.BUDGET):
        running = without.model_copy(update={"outcome": outcome})
        assert phrases.missing_runs_note(running) == f"without a result so far: {gone}"


def test_where_a_fix_is_sought_the_words_turn_round(culprit: StoredBisection) -> None:
    report = culprit.report()
    fix = report.model_copy(update={"seeks": Seeks.FIX})
    assert [phrases.answer_noun(each) for each in (report, fix)] == ["culprit", "first fixed commit"]
    assert phrases.outcome_phrase(fix) == "first fixed commit found"
    assert [phrases.removed_commit_noun(each) for each in (report, fix)] == ["fix", "fault"]
    assert [phrases.earlier_failure_phrase(each) for each in (report, fix)] == [
        "failed too, then passed",
        "passed too, then failed",
    ]


def test_the_older_end_comes_first(culprit: StoredBisection) -> None:
    (searched,) = culprit.report().ranges
    assert phrases.range_ends(searched) == (sha("c0"), sha("c6"))
    assert phrases.range_ends(searched.model_copy(update={"seeks": Seeks.FIX})) == (sha("c6"), sha("c0"))


def test_that_a_failure_comes_and_goes_is_told_beside_the_scripts(culprit: StoredBisection) -> None:
    report = culprit.report()
    assert phrases.flakiness_warning(report) is None
    bad = report.reproduce.bad
    assert bad is not None
    flaky = bad.model_copy(update={"failures": 1, "runs": (1, 2, 3)})
    told = report.model_copy(update={"reproduce": report.reproduce.model_copy(update={"bad": flaky})})
    words = "The failure is flaky (bad failed in 1 of 3 runs): run a script more than once."
    assert phrases.flakiness_warning(told) == words
    assert words in render_markdown(told)
    nobody = told.model_copy(update={"outcome": BisectionOutcome.NO_CULPRIT})
    assert phrases.flakiness_warning(nobody) is None, "where the environment moved, more runs say nothing"


def test_a_confidence_is_told_with_what_was_asked(culprit: StoredBisection) -> None:
    (commit,) = culprit.report().culprits
    assert phrases.confidence_phrase(commit, 0.99) == "99.93 % (99 % was asked)"
    unstated = commit.model_copy(update={"confidence": None})
    assert phrases.confidence_phrase(unstated, 0.999999) == "not stated (99.99 % was asked)"


def test_a_side_tells_its_verdict_and_how_many_of_its_runs_failed(culprit: StoredBisection) -> None:
    found = culprit.report()
    bad = found.reproduce.bad
    assert bad is not None
    assert phrases.side_phrase(found, bad) == "mismatch (out: 3/512 differ) in 3 of 3 runs"
    once = bad.model_copy(update={"runs": bad.runs[:1], "failures": 1, "signature": None})
    assert phrases.side_phrase(found, once) == "mismatch in 1 of 1 run"
    end = once.model_copy(update={"commit": found.good})
    run_as = f"(of {bad.commit[:12]}, which reads the same)"
    told = f"mismatch in 1 of 1 run {run_as}; this is an end of the range, as no run of the culprit's parent shows it"
    assert phrases.side_phrase(found, end) == told


@pytest.mark.parametrize(
    ("bad_when", "verdict", "source", "signature", "bad", "good"),
    [
        (
            None,
            Verdict.MISMATCH,
            VerdictSource.EXIT_CODE,
            "exit code 1",
            "fails (exit code 1) in 3 of 3 runs",
            "passes in 3 of 3 runs",
        ),
        (
            "stall",
            Verdict.STALL,
            VerdictSource.OUTPUT,
            "timeout",
            "stall (timeout) in 3 of 3 runs",
            "pass in 3 of 3 runs",
        ),
        (
            "regex:NaN",
            Verdict.PASS,
            VerdictSource.OUTPUT,
            None,
            "a line matches 'NaN' in 3 of 3 runs; verdict: pass",
            "no line matches 'NaN' in 3 of 3 runs; verdict: pass",
        ),
        (
            "relative_l2:1e-4",
            Verdict.PASS,
            VerdictSource.OUTPUT,
            None,
            "relative l2 above 1e-4 in 3 of 3 runs; verdict: pass",
            "relative l2 not above 1e-4 in 3 of 3 runs; verdict: pass",
        ),
        (
            "signature:y",
            Verdict.MISMATCH,
            VerdictSource.OUTPUT,
            "y",
            "shows signature:y in 3 of 3 runs; verdict: mismatch (y)",
            "does not show signature:y in 3 of 3 runs; verdict: pass",
        ),
        (
            "a person says so",
            Verdict.MISMATCH,
            VerdictSource.PERSON,
            "judged by a person",
            "judged by a person in 3 of 3 runs",
            "pass in 3 of 3 runs",
        ),
    ],
)
def test_a_side_tells_what_was_asked_for(
    culprit: StoredBisection,
    bad_when: str | None,
    verdict: Verdict,
    source: VerdictSource,
    signature: str | None,
    bad: str,
    good: str,
) -> None:
    found = culprit.report().model_copy(update={"bad_when": bad_when})
    assert found.reproduce.bad is not None
    assert found.reproduce.good is not None
    shown = found.reproduce.bad.model_copy(
        update={"verdict": verdict, "verdict_source": source, "signature": signature}
    )
    assert phrases.side_phrase(found, shown) == bad
    assert phrases.side_phrase(found, found.reproduce.good) == good


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
    assert phrases.pin_phrase(pin) == words


def test_a_run_tells_its_error_and_each_line_of_evidence_once(culprit: StoredBisection) -> None:
    report = culprit.report()
    assert report.reproduce.bad is not None
    run = phrases.shown_run(report, report.reproduce.bad)
    assert run.ordinal == report.reproduce.bad.shown
    assert phrases.error_phrase(run) == ""
    measured = run.model_copy(update={"error": RunError(measure="max_abs", value=0.03125)})
    assert phrases.error_phrase(measured) == "max abs 0.031"
    wild = run.model_copy(update={"error": RunError(measure="max_abs", value="NaN")})
    assert phrases.error_phrase(wild) == "max abs NaN"
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
    assert phrases.layers_phrase(tested) == told
    assert phrases.layers_phrase(tested.model_copy(update={"proven": False})).startswith(f"{told}; ")
    assert phrases.layer_rows(tested) == [["new", "new", "old", "skip"], ["old", "old", "new", "bad"]]


@pytest.mark.parametrize(
    ("verdict", "source", "code", "told"),
    [
        (Verdict.UNKNOWN, VerdictSource.EXIT_CODE, 125, "skipped by the command"),
        (Verdict.UNKNOWN, VerdictSource.EXIT_CODE, 127, "unknown"),
        (Verdict.MISMATCH, VerdictSource.EXIT_CODE, 2, "fails otherwise"),
        (Verdict.MISMATCH, VerdictSource.OUTPUT, 1, "mismatch"),
        (Verdict.UNKNOWN, VerdictSource.OUTPUT, 125, "unknown"),
        (None, VerdictSource.OUTPUT, None, "not run"),
    ],
)
def test_a_skip_is_told_by_who_skipped(
    verdict: Verdict | None, source: VerdictSource, code: int | None, told: str
) -> None:
    commit = SkippedCommit(
        repository="line",
        commit=sha("c1"),
        subject=None,
        verdict=verdict,
        reason="exit code 125",  # words decide nothing
        verdict_source=source,
        exit_code=code,
    )
    assert phrases.skip_phrase(commit) == told


def file(path: str, added: int | None, removed: int | None) -> FileStat:
    return FileStat(path=path, added=added, removed=removed)


def diff(*files: FileStat) -> CommitDiff:
    return CommitDiff(
        commit=sha("c"),
        parent=sha("b"),
        files=files,
        changed_files=len(files),
        added=sum(each.added or 0 for each in files),
        removed=sum(each.removed or 0 for each in files),
        hunks=(),
    )


def test_a_diffstat_is_as_git_draws_it() -> None:
    found = diff(file("a.c", 1, 1), file("docs/long.md", 20, 0), file("picture", None, None), file("m", 0, 0))
    assert phrases.diffstat(found, width=60, most=9) == [
        "a.c          |  2 +-",
        "docs/long.md | 20 ++++++++++++++++++++",
        "picture      | binary or large",
        "m            |  0",
        "4 files changed, 21 insertions(+), 1 deletion(-)",
    ]
    assert phrases.diffstat(found, width=60, most=2)[2:] == [
        "... and 2 more files",
        "4 files changed, 21 insertions(+), 1 deletion(-)",
    ]
    assert phrases.diffstat(diff(file("one.c", 2, 0)), width=60, most=4) == ["one.c | 2 ++"]


@pytest.mark.parametrize("width", [30, 60, 100])
def test_a_diffstat_keeps_to_its_width(width: int) -> None:
    """Whatever the paths and counts; what is changed has a sign, however large other files are."""
    found = diff(file("folder/" * 30 + "end.c", 1, 0), file("b", 100_000, 3), file("c\x1b[31m", 7, 90_000))
    lines = phrases.diffstat(found, width=width, most=9)
    assert all(len(line) <= width for line in lines[:-1])
    assert "…" in lines[0]
    assert lines[0].split(" | ")[0].endswith("end.c")
    assert [set("+-") & set(line.rpartition(" ")[2]) for line in lines[:3]] == [{"+"}, {"+", "-"}, {"+", "-"}]
    assert "\x1b" not in "".join(lines)


def test_what_a_diff_is_made_against_is_told(culprit: StoredBisection) -> None:
    (commit,) = culprit.report().culprits
    assert phrases.diff_base_phrase(commit) == "against its parent"
    assert phrases.diff_base_phrase(commit.model_copy(update={"merge": True})) == "against its first parent"
    assert phrases.diff_base_phrase(commit.model_copy(update={"parent": None})) == "it has no parent"

"""Runs by the commit and the reason they were made for; numbers that JSON has not; commits that no run could judge."""

import math
from pathlib import Path
from typing import Any

import pytest

from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.report.model import ProbeReport, SkippedCommit
from precision_bisect.bisect.report.phrases import skip_log
from precision_bisect.bisect.report.report_builder import probe_reports, skipped_commits
from precision_bisect.bisect.report.report_files import render_markdown
from precision_bisect.runner.verdict.classify import EXCEPTION_REASON
from precision_bisect.store.vocabulary import Evidence, Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, pinned_revisions, sha


@pytest.fixture
def pair(tmp_path: Path) -> tuple[StoredBisection, int]:
    """c1 and c2 above the good end c0; c2 pins no submodule."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"))
    candidates = [(described(name, ["c0"]), sha(name)) for name in ("c1", "c2")]
    stage = stored.stage(
        candidates,
        good=sha("c0"),
        bad=sha("c1"),
        revisions=lambda commit: None if commit == sha("c2") else pinned_revisions(commit),
    )
    return stored, stage


def probes_of(stored: StoredBisection) -> tuple[ProbeReport, ...]:
    with stored.sessions() as session:
        return probe_reports(load_rows(session, stored.name))


def skipped_of(stored: StoredBisection) -> dict[str, SkippedCommit]:
    with stored.sessions() as session:
        return {each.commit: each for each in skipped_commits(load_rows(session, stored.name))}


def test_runs_of_one_commit_for_one_reason_are_one_probe(pair: tuple[StoredBisection, int]) -> None:
    stored, stage = pair
    stored.probe(stage, sha("c1"), Verdict.PASS)
    stored.probe(stage, sha("c1"), Verdict.MISMATCH)
    stored.probe(stage, sha("c1"), Verdict.PASS, phase=Phase.CONFIRM)
    stored.start(stage, sha("c1"))
    searched, confirmed = probes_of(stored)
    assert [run.ordinal for run in searched.runs] == [1, 2]
    assert (searched.phase, searched.verdict, searched.seconds) == (Phase.SEARCH, Verdict.MISMATCH, 5.0)
    assert searched.signature == "out: 3/512 differ"
    assert (confirmed.phase, confirmed.verdict, len(confirmed.runs)) == (Phase.CONFIRM, Verdict.PASS, 1)


def test_numbers_that_json_has_not_are_words(pair: tuple[StoredBisection, int]) -> None:
    stored, stage = pair
    metrics = {"out": {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.5}}
    stored.probe(stage, sha("c1"), Verdict.MISMATCH, metrics=metrics)
    (probe,) = probes_of(stored)
    assert probe.runs[0].metrics == {"out": {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 0.5}}


def test_a_commit_that_could_not_be_judged_tells_why(pair: tuple[StoredBisection, int]) -> None:
    stored, stage = pair
    why = [Evidence(stream="stderr", line=3, text="no rule to make target", why="printed")]
    stored.probe(stage, sha("c1"), Verdict.BUILD_ERROR, evidence=why)
    found = skipped_of(stored)
    assert (found[sha("c1")].verdict, found[sha("c1")].reason) == (
        Verdict.BUILD_ERROR,
        "no rule to make target",
    )
    assert (found[sha("c2")].verdict, found[sha("c2")].reason) == (
        None,
        "it has no pin of another repository, or the pinned commit is missing",
    )


def test_a_build_that_only_ended_tells_the_line_that_names_the_cause_and_the_log(
    pair: tuple[StoredBisection, int],
) -> None:
    stored, stage = pair
    why = [
        Evidence(stream="ending", line=0, text="exit code 1", why="how the process ended"),
        Evidence(stream="build", line=62, text="  ModuleNotFoundError: no version", why=EXCEPTION_REASON),
        Evidence(stream="build", line=66, text="error: metadata-generation-failed", why="last"),
    ]
    stored.probe(stage, sha("c1"), Verdict.BUILD_ERROR, evidence=why)
    report = stored.report()
    skipped = {each.commit: each for each in report.skipped}
    assert skipped[sha("c1")].reason == "ModuleNotFoundError: no version"
    assert skip_log(report, skipped[sha("c1")]) == report.probes[0].runs[0].log
    assert skip_log(report, skipped[sha("c2")]) == ""
    assert f"| ModuleNotFoundError: no version | {report.probes[0].runs[0].log} |" in render_markdown(report)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"signature": "cannot link", "evidence": []}, "cannot link"),
        ({"evidence": []}, "no line of its output says why"),
    ],
)
def test_the_signature_comes_before_the_evidence(
    changes: dict[str, Any], reason: str, pair: tuple[StoredBisection, int]
) -> None:
    stored, stage = pair
    stored.probe(stage, sha("c1"), Verdict.BUILD_ERROR, **changes)
    assert skipped_of(stored)[sha("c1")].reason == reason


def test_a_commit_that_one_run_judged_is_not_skipped(pair: tuple[StoredBisection, int]) -> None:
    stored, stage = pair
    stored.probe(stage, sha("c1"), Verdict.BUILD_ERROR)
    stored.probe(stage, sha("c1"), Verdict.PASS)
    assert sha("c1") not in skipped_of(stored)

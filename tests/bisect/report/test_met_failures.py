"""Failures that are not the one that is searched for, with their onset where the runs tell it."""

from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.report.advice import other_failures
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.report.phrases import other_failure_phrase
from precision_bisect.bisect.report.report_files import render_markdown
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, sha

LINE = [f"c{number}" for number in range(1, 9)]


@pytest.fixture(name="stored")
def make_stored(tmp_path: Path) -> StoredBisection:
    """c0 passes and c8 fails, with eight candidates."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c8"))
    stored.journal.commits.add("compiler", [described("c0", [])])
    rows = [described(name, [before]) for before, name in zip(["c0", *LINE], LINE, strict=False)]
    stage = stored.stage([(row, row.sha) for row in rows], good=sha("c0"), bad=sha("c8"))
    stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT)
    stored.probe(stage, sha("c8"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    return stored


def stall(stored: StoredBisection, name: str) -> None:
    stored.probe(1, sha(name), Verdict.STALL, signature="scheduler timeout, waiting in matmul")


def test_the_onset_is_told_where_the_parent_passes(stored: StoredBisection) -> None:
    stored.probe(1, sha("c2"), Verdict.PASS)
    stall(stored, "c5")
    stall(stored, "c3")
    report = stored.report()
    (found,) = report.other_failures
    assert (found.verdict, found.commits, found.counts_as_bad) == (Verdict.STALL, 2, False)
    assert (found.first.commit, found.last.commit) == (sha("c3"), sha("c5"))
    assert found.onset == found.first
    assert found.may_have_begun_at == 0
    told = other_failure_phrase(found)
    assert told.startswith("compiler: stall (scheduler timeout, waiting in matmul) at 2 commits from ")
    assert f", not counted as bad; it came with {sha('c3')[:12]}: " in told
    assert "## Other failures" in render_markdown(report)


def test_what_shows_it_stands_beside_what_shows_the_failing_end(stored: StoredBisection) -> None:
    stall(stored, "c3")
    report = stored.report()
    text = render_markdown(report)
    searched = text.index(
        f"What was searched for, mismatch (out: 3/512 differ) at `{sha('c8')[:12]}`:\n\n```text\n[RUN] mismatch"
    )
    how = f"stall (scheduler timeout, waiting in matmul) at `{sha('c3')[:12]}`"
    assert searched < text.index(f"Beside it, {how}:\n\n```text\n[RUN] stall")


def test_else_the_candidates_that_it_may_have_come_with_are_counted(stored: StoredBisection) -> None:
    stored.probe(1, sha("c1"), Verdict.PASS)
    stored.probe(1, sha("c3"), Verdict.BUILD_ERROR, signature="no rule")
    stall(stored, "c4")
    (found,) = stored.report().other_failures
    assert found.onset is None
    assert found.may_have_begun_at == 3
    assert other_failure_phrase(found).endswith(
        f"at {sha('c4')[:12]}, not counted as bad; it came with one of 3 candidates up to {sha('c4')[:12]}"
    )


def test_a_candidate_with_the_content_of_a_passing_one_is_not_counted(tmp_path: Path) -> None:
    """c2 has the content of c1, which passes; c3 does not build."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c5"))
    represented = {"c2": "c1"}
    candidates = [
        (described(name, [before]), sha(represented.get(name, name)))
        for before, name in zip(["c0", *LINE], LINE[:5], strict=False)
    ]
    stage = stored.stage(candidates, good=sha("c0"), bad=sha("c5"))
    stored.probe(stage, sha("c1"), Verdict.PASS)
    stored.probe(stage, sha("c3"), Verdict.BUILD_ERROR, signature="no rule")
    stall(stored, "c4")
    stored.probe(stage, sha("c5"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    (found,) = stored.report().other_failures
    assert found.may_have_begun_at == 2


def test_a_bad_run_of_another_kind_is_one_too(stored: StoredBisection) -> None:
    stored.probe(1, sha("c4"), Verdict.MISMATCH, signature="other")
    (found,) = stored.report().other_failures
    assert (found.signature, found.counts_as_bad) == ("other", True)


def test_what_one_commit_shows_beside_the_searched_failure_is_its_own(stored: StoredBisection) -> None:
    stored.probe(1, sha("c6"), Verdict.MISMATCH)
    stall(stored, "c6")
    assert stored.report().other_failures == ()


def test_a_failure_that_was_told_apart_is_one_though_a_commit_shows_both(stored: StoredBisection) -> None:
    for name, code in (("c3", 2), ("c5", 2), ("c5", 1), ("c7", 1)):
        stored.probe(1, sha(name), Verdict.MISMATCH, signature=f"exit code {code}", exit_code=code)
    stored.conclude(Conclusion(outcome=BisectionOutcome.NO_CULPRIT, message="", failures=("exit code 1",)))
    with stored.sessions() as session:
        found = {each.signature: each for each in other_failures(load_rows(session, stored.name))}
    assert (found["exit code 2"].first.commit, found["exit code 2"].last.commit) == (sha("c3"), sha("c5"))
    assert "exit code 1" not in found
    runs = [run for probe in stored.report().probes for run in probe.runs]
    counted = {
        (run.signature, run.judgement) for run in runs if run.signature and "exit code" in run.signature
    }
    assert counted == {("exit code 1", Judgement.BAD), ("exit code 2", Judgement.SKIP)}


def test_a_failure_of_the_good_end_is_none_of_the_range(tmp_path: Path) -> None:
    """c1 has the content of the good end, c0, which stalled once."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c2"))
    candidates = [(described("c1", ["c0"]), sha("c0")), (described("c2", ["c1"]), sha("c2"))]
    stage = stored.stage(candidates, good=sha("c0"), bad=sha("c2"))
    stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT)
    stall(stored, "c0")
    stored.probe(stage, sha("c2"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    assert stored.report().other_failures == ()


def test_a_machine_s_fault_or_a_broken_build_is_none(stored: StoredBisection) -> None:
    for name, verdict in zip(
        LINE, (Verdict.ENVIRONMENT_ERROR, Verdict.UNKNOWN, Verdict.BUILD_ERROR), strict=False
    ):
        stored.probe(1, sha(name), verdict, judgement=Judgement.SKIP, signature="x")
    report = stored.report()
    assert report.other_failures == ()
    assert "Other failures" not in render_markdown(report)


def test_the_culprit_says_what_was_searched_for(culprit: StoredBisection) -> None:
    assert culprit.report().other_failures == ()

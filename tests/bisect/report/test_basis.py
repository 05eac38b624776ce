"""What a report says its confidence rests on."""

from dataclasses import replace
from pathlib import Path

from precision_bisect.bisect.report.basis import confidence_basis, load_rows
from precision_bisect.bisect.report.model import RunCount
from precision_bisect.bisect.report.report_files import render_markdown
from precision_bisect.store.vocabulary import Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, sha


def test_the_runs_that_a_confidence_rests_on_are_counted_once_each(culprit: StoredBisection) -> None:
    culprit.probe(1, sha("c1"), Verdict.PASS)
    report = culprit.report()
    basis = report.confidence_basis
    assert basis is not None
    counts = (basis.culprit, basis.parents, basis.others, basis.ends)
    assert [(count.runs, count.failures) for count in counts] == [(3, 3), (3, 0), (1, 0), (6, 3)]
    assert basis.other_commits == 1
    assert not basis.learned
    assert basis.text == (
        "The culprit failed in 3 of 3 runs. Its parent failed in 0 of 3 runs. Counted together with 1 run of 1 other "
        "commit and 6 runs of the ends: commits with the change failed in 6 of 6 runs, commits without it in 0 of 7 "
        "runs. How often the case fails was estimated from these runs. The confidence assumes that one change, or "
        "two, explains the failures, and that nothing but the commits changed between the runs."
    )
    assert basis.with_change == RunCount(runs=6, failures=6)
    assert basis.without_change == RunCount(runs=7, failures=0)
    assert basis.remarks == ()
    assert "| it rests on | The culprit failed in 3 of 3 runs." in render_markdown(report)


def test_every_run_is_counted_on_one_side_of_the_change(merged: StoredBisection) -> None:
    """Of a merge of two lines too: what does not build on the culprit is without its change."""
    basis = merged.report().confidence_basis
    assert basis is not None
    assert basis.with_change == RunCount(runs=2, failures=2)
    assert basis.without_change == RunCount(runs=1, failures=0)


def test_what_builds_on_the_culprit_and_passed_is_told_to_speak_against_it(culprit: StoredBisection) -> None:
    before = culprit.report().confidence_basis
    assert before is not None
    assert before.against == ()
    for _ in range(4):
        culprit.probe(1, sha("c6"), Verdict.PASS)
    basis = culprit.report().confidence_basis
    assert basis is not None
    assert basis.against == (sha("c6"),)
    builds = f" Later commits passed ({sha('c6')[:12]}): the failure is flaky, or one of them undid it."
    assert basis.text.endswith(builds)
    assert basis.remarks == (builds.strip(),)
    words = "The failure may be flaky (a later commit passed too): run a script more than once."
    assert words in render_markdown(culprit.report())


def test_a_culprit_whose_parent_fails_too_is_not_said_to_have_begun_it(culprit: StoredBisection) -> None:
    def told() -> str:
        with culprit.sessions() as session:
            basis = confidence_basis(load_rows(session, culprit.name))
        assert basis is not None
        return basis.text

    worse = " Its parents failed too, in 1 of 4 runs: it fails more often since, and may have begun to fail before."
    assert worse not in told()
    culprit.probe(1, sha("c4"), Verdict.MISMATCH)
    assert told().endswith(worse)


def test_runs_in_a_broken_place_are_not_counted(culprit: StoredBisection) -> None:
    before = culprit.report().confidence_basis
    culprit.probe(1, sha("c4"), Verdict.MISMATCH, slot=2, host="far")
    with culprit.sessions() as session:
        rows = load_rows(session, culprit.name)
        assert rows.conclusion is not None
        broken = rows.conclusion.model_copy(update={"broken_places": ("slot 2 of far",)})
        basis = confidence_basis(replace(rows, conclusion=broken))
    assert before is not None
    assert basis is not None
    assert (basis.culprit, basis.parents) == (before.culprit, before.parents)
    assert basis.text == before.text + " Not counted: 1 run in slot 2 of far, likely broken."


def test_nothing_is_said_of_a_confidence_where_nobody_is_named(only_skipped: StoredBisection) -> None:
    assert only_skipped.report().confidence_basis is None


def test_a_run_of_a_commit_that_reads_the_same_is_counted_once_and_named(merged: StoredBisection) -> None:
    report = merged.report()
    basis = report.confidence_basis
    assert basis is not None
    counts = (basis.culprit, basis.parents, basis.others, basis.ends)
    assert [(count.runs, count.failures) for count in counts] == [(1, 1), (1, 0), (0, 0), (1, 1)]
    assert basis.other_commits == 0
    same = f"The culprit failed in 1 of 1 run (run 3 of {sha('m')[:12]}, which reads the same). Its parent failed in "
    assert basis.text.startswith(same)
    assert [(each.commit, each.same_as) for each in report.collapsed] == [(sha("c1"), sha("m"))]


def test_an_end_is_measured_by_a_run_of_a_commit_that_reads_the_same(tmp_path: Path) -> None:
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c2"))
    candidates = [(described("c1", ["c0"]), sha("c1")), (described("c2", ["c1"]), sha("c1"))]
    stage = stored.stage(candidates, good=sha("c0"), bad=sha("c2"))
    stored.probe(stage, sha("c1"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    rates = [(rate.end, rate.commit, rate.runs, rate.failures) for rate in stored.report().rates]
    assert rates == [("good", sha("c0"), 0, 0), ("bad", sha("c2"), 1, 1)]


def test_commits_of_a_range_that_were_read_are_not_read_again(culprit: StoredBisection) -> None:
    rows = culprit.rows()
    culprit.probe(1, sha("c1"), Verdict.PASS)
    with culprit.sessions() as session:
        session.connection().exec_driver_sql("UPDATE stages SET candidates = NULL")
        again = load_rows(session, culprit.name, earlier=rows)
    assert [[*each] for each in again.ranges] == [[*each] for each in rows.ranges]
    assert len(again.probes) == len(rows.probes) + 1


def test_a_failure_that_does_not_count_is_found_where_the_commit_reads_the_same(
    culprit: StoredBisection,
) -> None:
    """c2 changes docs alone, so that c1 was run in its place."""
    otherwise = culprit.probe(1, sha("c1"), Verdict.MISMATCH)
    rows = culprit.rows()
    assert rows.conclusion is not None
    conclusion = rows.conclusion.model_copy(update={"fail_otherwise": (otherwise,)})
    rows = replace(rows, conclusion=conclusion)
    (searched,) = rows.ranges
    assert [run.ordinal for run in rows.uncounted_runs(searched, [sha("c2")])] == [otherwise]

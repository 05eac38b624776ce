"""What the page of a bisection shows beside its report: its tested commits, likeliest ones, and curves of metrics."""

from dataclasses import replace
from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.pages.render import BisectionView, bisection_address, bisection_view
from precision_bisect.bisect.pages.site import Site
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Verdict
from tests.bisect.report.conftest import (  # noqa: F401
    culprit,
    interrupted,
    merged,
    nothing_run,
    submodule_culprit,
)
from tests.bisect.report.stored_bisection import StoredBisection, described, sha


def view_of(stored: StoredBisection) -> BisectionView:
    with stored.sessions() as session:
        return bisection_view(load_rows(session, stored.name))


def test_tested_commits_stand_in_order_with_all_their_runs(culprit: StoredBisection) -> None:  # noqa: F811
    (searched,) = view_of(culprit).ranges
    assert (searched.repository, searched.old, searched.new) == ("compiler", sha("c0"), sha("c6"))
    assert (searched.commits, searched.candidates) == (6, 5)
    names = ["c0", "c3", "c4", "c5", "c6"]
    assert [each.commit for each in searched.tested] == [sha(name) for name in names]
    assert [len(each.runs) for each in searched.tested] == [3, 1, 3, 3, 3]
    assert searched.max_runs == 3
    assert [each.commit for each in searched.tested if each.named] == [sha("c5")]
    assert {each.subject for each in searched.tested} == {f"Subject of {name}" for name in names}


def test_a_run_stands_once_at_the_commit_that_it_ran(merged: StoredBisection) -> None:  # noqa: F811
    (searched,) = view_of(merged).ranges
    rows = [(each.commit, [run.ordinal for run, _ in each.runs], each.same_as) for each in searched.tested]
    assert rows == [
        (sha("c0"), [1], None),
        (sha("c1"), [], sha("m")),
        (sha("m"), [3], None),
        (sha("c2"), [2], None),
    ]
    with merged.sessions() as session:
        page = Site(session).pages[bisection_address(merged.name)].make().decode()
    assert f"not run itself: it reads the same as {sha('m')[:10]}" in page


def test_the_likeliest_commit_comes_first(culprit: StoredBisection) -> None:  # noqa: F811
    (searched,) = view_of(culprit).ranges
    assert searched.belief is not None
    assert len(searched.likeliest) == 5
    assert searched.likeliest[0][:2] == (sha("c5"), "Subject of c5")
    shares = [share for _, _, share in searched.likeliest]
    assert shares == sorted(shares, reverse=True)
    assert [bar.first for bar in searched.bars] == [sha(name) for name in ("c1", "c3", "c4", "c5", "c6")]


def test_each_range_names_what_its_answer_named(submodule_culprit: StoredBisection) -> None:  # noqa: F811
    outer, inner = view_of(submodule_culprit).ranges
    assert [(each.commit, each.named) for each in outer.tested if each.named] == [
        (sha("c5"), "brought it in")
    ]
    assert [(each.commit, each.named) for each in inner.tested if each.named] == [(sha("r2"), "culprit")]
    rows = submodule_culprit.rows()
    assert rows.conclusion is not None
    (found,), through = rows.conclusion.culprits, rows.conclusion.through
    removed = rows.conclusion.model_copy(update={"culprits": (through,), "through": None, "lost": found})
    outer, inner = bisection_view(replace(rows, conclusion=removed)).ranges
    assert [(each.commit, each.named) for each in outer.tested if each.named] == [(sha("c5"), "culprit")]
    assert [(each.commit, each.named) for each in inner.tested if each.named] == [
        (sha("r2"), "the fix taken away")
    ]


def test_a_search_that_ran_nothing_has_no_range(nothing_run: StoredBisection) -> None:  # noqa: F811
    view = view_of(nothing_run)
    assert (view.ranges, view.divergence, view.task_graph, view.reduced) == ((), None, False, False)


def test_files_beside_the_report_are_told_of(culprit: StoredBisection) -> None:  # noqa: F811
    report = culprit.request.output
    report.mkdir()
    (report / "task_graph.html").write_text("<!doctype html>")
    (report / "divergence.json").write_text('{"failing_build": "bad", "tasks": 5}')
    view = view_of(culprit)
    assert view.divergence is not None
    assert (view.divergence.tasks, view.task_graph, view.reduced) == (5, True, False)


@pytest.fixture
def measured(tmp_path: Path) -> tuple[StoredBisection, int]:
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c2"))
    candidates = [(described("c1", ["c0"]), sha("c1")), (described("c2", ["c1"]), sha("c2"))]
    return stored, stored.stage(candidates, good=sha("c0"), bad=sha("c2"))


def test_what_moved_most_is_drawn_first_and_what_stood_still_is_not(
    measured: tuple[StoredBisection, int],
) -> None:
    stored, stage = measured
    for name, moved, verdict in (("c0", 1.0, Verdict.PASS), ("c2", 4.0, Verdict.MISMATCH)):
        metrics = {"out": {"little": 10 + moved, "much": moved, "still": 7.0}}
        stored.probe(stage, sha(name), verdict, phase=Phase.ENDPOINT, metrics=metrics)
    (searched,) = view_of(stored).ranges
    assert [curve.name for curve in searched.curves] == ["out much", "out little"]


def test_counterfactuals_draw_no_point(measured: tuple[StoredBisection, int]) -> None:
    stored, stage = measured
    stored.probe(stage, sha("c0"), Verdict.PASS, metrics={"out": {"error": 1.0}})
    stored.probe(
        stage, sha("c0"), Verdict.MISMATCH, phase=Phase.COUNTERFACTUAL, metrics={"out": {"error": 2.0}}
    )
    assert [searched.curves for searched in view_of(stored).ranges] == [()]


def test_a_failure_other_than_the_one_asked_for_counts_as_not_judged(
    measured: tuple[StoredBisection, int],
) -> None:
    stored, stage = measured
    for name, code in (("c1", 2), ("c2", 1)):
        stored.probe(stage, sha(name), Verdict.MISMATCH, signature=f"exit code {code}", exit_code=code)
    stored.conclude(Conclusion(outcome=BisectionOutcome.NO_CULPRIT, message="", failures=("exit code 1",)))
    (searched,) = view_of(stored).ranges
    assert [[judgement for _, judgement in each.runs] for each in searched.tested] == [
        [Judgement.SKIP],
        [Judgement.BAD],
    ]


def test_at_most_six_curves_are_drawn(measured: tuple[StoredBisection, int]) -> None:
    stored, stage = measured
    for name, value in (("c0", 1.0), ("c1", 2.0)):
        metrics = {"out": {f"m{number}": value for number in range(8)}}
        stored.probe(stage, sha(name), Verdict.PASS, metrics=metrics)
    (searched,) = view_of(stored).ranges
    assert [curve.name for curve in searched.curves] == [f"out m{number}" for number in range(6)]


def test_a_run_that_has_not_ended_is_not_shown(interrupted: StoredBisection) -> None:  # noqa: F811
    (searched,) = view_of(interrupted).ranges
    assert sha("c5") not in [each.commit for each in searched.tested]
    judged = {judgement for each in searched.tested for _, judgement in each.runs}
    assert judged == {Judgement.GOOD, Judgement.BAD}

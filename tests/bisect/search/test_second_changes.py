"""Hypotheses of two changes: thought of where one change cannot explain the failures, or where an undoing is known."""

import numpy as np

from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph, Window, Windows
from precision_bisect.bisect.search.hypotheses import Groups, SecondChanges, second_changes

LINE = CommitGraph([[commit - 1] if commit else [] for commit in range(12)])
BROKEN_TWICE = {0: "pass", 3: "fail", 6: "pass", 8: "pass", 11: "fail"}
"""Broken by one of 1 to 3, mended by one of 4 to 6, broken again by one of 9 to 11."""


def hypotheses(graph: CommitGraph, runs: dict[int, str], windows: Windows = NO_WINDOWS) -> SecondChanges:
    groups = Groups.start(graph)
    for commit in runs:
        groups = groups.split(graph, commit)
    run, bad, _ = groups.sides(graph)
    fails = np.array([float(runs[commit] == "fail") for commit in run])
    return second_changes(groups, bad, fails, 1 - fails, windows=windows)


def test_where_one_change_explains_each_failure_there_is_no_second() -> None:
    assert len(hypotheses(LINE, {0: "pass", 4: "fail", 6: "pass", 11: "fail"}).culprit) == 0


def test_a_known_undoing_is_an_earlier_fault_beside_the_latest_culprit() -> None:
    found = hypotheses(LINE, BROKEN_TWICE, windows=Windows([Window(2, 5)]))
    assert [result == "fail" for result in BROKEN_TWICE.values()] in found.bad.T.tolist()
    assert (found.log_prior < 0).all()


def test_an_undoing_counts_for_more_where_it_says_so_itself() -> None:
    silent, said = (
        hypotheses(LINE, BROKEN_TWICE, windows=Windows([Window(2, 5, is_declared_revert=reverted)]))
        for reverted in (False, True)
    )
    assert said.log_prior.max() > silent.log_prior.max()


def test_a_pair_of_changes_that_explains_the_runs_as_one_does_is_left_out() -> None:
    """The window holds the only failure beside that of the end; so does what builds on its start."""
    runs = {0: "pass", 4: "fail", 11: "fail"}
    assert len(hypotheses(LINE, runs, windows=Windows([Window(2, 8)])).culprit) == 0
    assert len(hypotheses(LINE, {**runs, 8: "pass"}, windows=Windows([Window(2, 8)])).culprit) > 0


def test_an_undoing_of_what_never_failed_is_no_hypothesis() -> None:
    assert (
        len(
            hypotheses(
                LINE, {0: "pass", 3: "pass", 8: "pass", 11: "fail"}, windows=Windows([Window(2, 5)])
            ).culprit
        )
        == 0
    )


def test_parallel_lines_may_have_the_same_fault() -> None:
    # 0 - 1 and 2 - 3 meet in 4: 1 and 3 fail, and no commit is an ancestor of both.
    graph = CommitGraph([[], [0], [], [2], [1, 3]])
    runs = {0: "pass", 1: "fail", 2: "pass", 3: "fail", 4: "fail"}
    assert [result == "fail" for result in runs.values()] in hypotheses(graph, runs).bad.T.tolist()

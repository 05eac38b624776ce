"""The search for first divergent tasks, run by run, on builds that are simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precision_bisect.reduce.graph.tasks import KernelTask
from precision_bisect.reduce.localize.experiments import DivergentTask
from precision_bisect.reduce.localize.first_divergence import DivergenceSearch, FirstDivergences
from precision_bisect.reduce.localize.reference import ReferenceRuns
from precision_bisect.runner.compare.statistics import Tolerance
from tests.reduce.localize.simulated_build import RIGHT, TASK_BYTES, SimulatedBuild, add, executor_in

EVERYTHING = 2**20


class Search:
    """A search whose experiments are made as they are asked for; `said` is what the user is told."""

    def __init__(self, failing: SimulatedBuild, reference: SimulatedBuild, **fields: Any) -> None:
        self.said: list[str] = []
        self._executor = executor_in(failing.build, self.said.append)
        asked: dict[str, Any] = {"budget": EVERYTHING, "attempts": 3, **fields}
        self._search = DivergenceSearch(
            failing=failing.recorded,
            expected=ReferenceRuns.align(failing.recorded, reference.recorded),
            tolerance=Tolerance(),
            **asked,
        )

    def localize(self) -> FirstDivergences:
        """The first divergences."""
        return self._executor.execute(self._search.first_divergences())

    def by(self, tolerance: Tolerance) -> FirstDivergences:
        """The first divergences by another tolerance, afterwards."""
        return self._executor.execute(replace(self._search, tolerance=tolerance).first_divergences())

    def divergent_below(self) -> tuple[KernelTask, ...]:
        """Tasks below them."""
        return self._search.downstream_divergent

    def show(self, ordinals: list[int]) -> tuple[DivergentTask, ...]:
        """Of `DivergenceSearch`."""
        return self._executor.execute(self._search.show(ordinals))


def search_in(failing: SimulatedBuild, reference: SimulatedBuild, **fields: Any) -> Search:
    return Search(failing, reference, **fields)


@pytest.fixture
def good(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "good")


@pytest.fixture
def bad(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})


def test_a_budget_for_everything_takes_one_run_of_each(bad: SimulatedBuild, good: SimulatedBuild) -> None:
    found = search_in(bad, good).localize()
    assert [each.task.ordinal for each in found.divergent] == [1]
    assert len(bad.dumps) == len(good.dumps) == 1
    assert {ordinal for ordinal, error in found.errors.items() if error} == {1, 2}
    assert found.vanished == found.unvisited == ()


def test_both_builds_dump_the_same_tasks_within_the_budget(bad: SimulatedBuild, good: SimulatedBuild) -> None:
    found = search_in(bad, good, budget=2 * TASK_BYTES).localize()
    assert [each.task.ordinal for each in found.divergent] == [1]
    assert bad.dumps == good.dumps
    assert all(len(results) <= 2 for results, _ in bad.dumps)
    assert bad.dumps[-1] == (set(), {1}), "the last run shows all arguments of the first divergent task"


def test_outputs_that_are_known_spare_a_look_at_them(
    tmp_path: Path, bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    known = (bad.with_outputs(tmp_path / "ours"), good.with_outputs(tmp_path / "theirs"))
    found = search_in(*known, budget=2 * TASK_BYTES).localize()
    assert [each.task.ordinal for each in found.divergent] == [1]
    assert all(not results & {2, 4} for results, _ in known[0].dumps)


def test_what_does_not_diverge_is_tried_as_often_as_is_asked(good: SimulatedBuild) -> None:
    search = search_in(good, good, attempts=3)
    found = search.localize()
    assert found.divergent == ()
    assert len(good.dumps) == 1 + 3
    assert search.said.count("nothing diverged in attempt 2 of 3") == 1


def test_a_task_that_diverges_in_some_runs_only_vanishes(tmp_path: Path, good: SimulatedBuild) -> None:
    """Wrong in the first run that is dumped, and never again."""
    bad = SimulatedBuild.of(tmp_path / "racy")
    bad.kernels = lambda run: {**RIGHT, 1: add(1.5 if run == 1 else 1)}
    found = search_in(bad, good, budget=4 * TASK_BYTES, attempts=1).localize()
    assert found.divergent == ()
    assert [task.ordinal for task in found.vanished] == [2]


def test_a_task_that_is_larger_than_the_budget_is_dumped_alone(
    bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    found = search_in(bad, good, budget=TASK_BYTES - 1).localize()
    assert [each.task.ordinal for each in found.divergent] == [1]
    assert all(len(results) <= 1 for results, _ in bad.dumps)


@pytest.mark.parametrize(
    ("wrong", "runs", "not_shown"),
    [((0, 3), [{0}], [3]), ((1, 3), [{1}, {3}], []), ((0, 1), [{0}], [])],
    ids=["of one kernel", "of two kernels", "one of them below"],
)
def test_first_tasks_are_shown_within_the_budget_one_of_each_kernel(
    tmp_path: Path, good: SimulatedBuild, wrong: tuple[int, ...], runs: list[set[int]], not_shown: list[int]
) -> None:
    """A task and what the one before it left take three times what it leaves."""
    bad = SimulatedBuild.of(tmp_path / "bad", dict.fromkeys(wrong, add(7)))
    found = search_in(bad, good, budget=3 * TASK_BYTES).localize()
    shown = [whole for _, whole in bad.dumps if whole]
    assert shown == runs
    assert [{each.task.ordinal} for each in found.divergent] == runs
    assert [task.ordinal for task in found.not_shown] == not_shown
    assert found.ordinals == {*not_shown, *set[int]().union(*runs)}


def test_values_of_divergent_tasks_are_not_held(bad: SimulatedBuild, good: SimulatedBuild) -> None:
    (each,) = search_in(bad, good).localize().divergent
    first, second = each.actual.after[1], each.actual.after[1]
    assert first.contiguous().tolist() == second.contiguous().tolist()
    assert not np.shares_memory(first.storage, second.storage)


@pytest.mark.parametrize("budget", [EVERYTHING, 4 * TASK_BYTES])
def test_tasks_below_are_shown_in_a_run_of_their_own_where_not_all_were_dumped(
    bad: SimulatedBuild, good: SimulatedBuild, budget: int
) -> None:
    search = search_in(bad, good, budget=budget)
    search.localize()
    made = len(bad.dumps), len(good.dumps)
    assert [task.ordinal for task in search.divergent_below()] == [2]
    (below,) = search.show([2, 3])
    assert below.task.ordinal == 2
    if budget == EVERYTHING:
        assert (len(bad.dumps), len(good.dumps)) == made == (1, 1)
    else:
        assert bad.dumps[-1] == (set(), {2, 3})


def test_a_search_by_another_tolerance_looks_at_the_same_run(
    bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    first = search_in(bad, good)
    first.localize()
    assert [each.task.ordinal for each in first.by(Tolerance(rtol=10.0, atol=10.0)).divergent] == []
    again = search_in(bad, good)
    again.localize()
    assert [each.task.ordinal for each in again.by(Tolerance(rtol=1e-3, atol=1e-3)).divergent] == [1]
    assert len(bad.dumps) == 1 + 2 + 1

"""From outputs to what is wrong in them, on a build that is simulated: what nobody writes, and what passes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from precision_bisect.reduce.localize.causes import (
    EndingInterventions,
    OutputInterventions,
    explain,
    output_judge,
)
from precision_bisect.reduce.localize.changes import Change, ChangedPart
from precision_bisect.reduce.localize.document import case_failure
from precision_bisect.reduce.localize.experiments import Record, Tell
from precision_bisect.reduce.localize.failure import (
    OutputJudge,
    WrongOutput,
    WrongOutputs,
    find_unwritten,
    last_writers,
)
from precision_bisect.reduce.localize.investigate import FailingRun
from precision_bisect.reduce.localize.reference import KnownValues
from precision_bisect.reduce.replay.replay import ReplayError
from precision_bisect.runner.build_output.directory import TensorFolder
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.localize.simulated_build import RIGHT, TASKS, SimulatedBuild, add, executor_in, graph
from tests.reduce.localize.test_investigation import request_of
from tests.reduce.small_builds import BODY, SHIFT, small_build

CLOSE = Tolerance(rtol=1e-5, atol=1e-5)
TWO_KERNELS = [Change(part=ChangedPart.KERNEL, file=f"{name}.cpp", kernel=name) for name in ("one", "other")]


def explained(folder: Path, failing: SimulatedBuild) -> Any:
    expected = KnownValues.from_build(failing.recorded, None)
    request = request_of(failing, folder, CLOSE)
    judge = output_judge(request, failing.recorded, expected)
    run = FailingRun(
        build=failing.recorded,
        judge=judge,
        outputs=failing.outputs,
        orders=None,
        unordered=False,
        schedule=None,
    )
    return executor_in(folder).execute(explain(request, run, expected))


def judge_of(right: SimulatedBuild, folder: Path) -> OutputJudge:
    """What judges outputs by the golden data of a build that passes."""
    expected = KnownValues.from_build(right.recorded, None)
    return output_judge(request_of(right, folder, CLOSE), right.recorded, expected)


def test_wrong_outputs_are_told_by_the_golden_data_alone(tmp_path: Path) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)}).with_outputs(tmp_path / "left")
    found = explained(tmp_path, bad)
    assert set(found.failure.outputs) == {"x1"}
    assert (found.causes, found.unwritten, found.passes) == ((), (), False)
    told = case_failure(found)
    assert told.told
    assert [(output.name, output.wrong) for output in told.outputs] == [("x1", 8)]


def test_a_build_within_the_tolerance_passes(tmp_path: Path) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", {1: add(1 + 1e-6)}).with_outputs(tmp_path / "left")
    assert explained(tmp_path, bad).passes


def wrong_x1() -> WrongOutputs:
    output = WrongOutput(name="x1", shape=(8,), wrong=np.ones(8, np.bool_), worst=math.inf)
    return WrongOutputs({"x1": output})


def test_an_output_that_no_task_writes_is_named_with_who_did(tmp_path: Path) -> None:
    good = SimulatedBuild.of(tmp_path / "good")
    shorter = SimulatedBuild.of(tmp_path / "bad", task_graph=graph(TASKS[:4]))
    writers = last_writers(shorter.recorded, {"x1": np.ones(8, np.bool_)})["x1"]
    assert writers.ordinals == (2,)
    assert not writers.unwritten.any()
    (tmp_path / "left").mkdir()
    for name in ("x1", "x2"):
        torch.save(torch.zeros(8), tmp_path / "left" / f"{name}.pt")
    judge = output_judge(
        request_of(shorter, tmp_path, CLOSE), good.recorded, KnownValues.from_build(good.recorded, None)
    )
    failure = judge.failure(TensorFolder.open(tmp_path / "left"))
    assert find_unwritten(failure, good.recorded, None) == ()
    (found,) = find_unwritten(failure, shorter.recorded, good.recorded)
    assert (found.output, found.rows, found.columns) == ("x2", (range(1),), ())
    assert [task.ordinal for task in found.written_by] == [4]


def test_of_an_output_that_several_tasks_write_the_last_of_each_element_is_told(tmp_path: Path) -> None:
    """Task 4 writes columns 0 to 6 of x1, over what task 2 wrote."""
    whole = graph()
    read, written = whole.tasks[4].arguments
    assert written.region is not None
    x1 = whole.tasks[2].arguments[1].tensor_id
    narrowed = replace(written, tensor_id=x1, region=replace(written.region, shape=(6,)))
    tasks = {**whole.tasks, 4: replace(whole.tasks[4], arguments=(read, narrowed))}
    build = SimulatedBuild.of(tmp_path / "build", task_graph=replace(whole, tasks=tasks)).recorded
    columns = np.arange(8)
    assert last_writers(build, {"x1": columns < 8})["x1"].ordinals == (2, 4)
    assert last_writers(build, {"x1": columns < 6})["x1"].ordinals == (4,)
    assert last_writers(build, {"x1": columns == 7})["x1"].ordinals == (2,)


def test_columns_that_no_task_writes_are_told_where_others_are_written(tmp_path: Path) -> None:
    whole = graph()
    read, written = whole.tasks[4].arguments
    assert written.region is not None
    narrowed = replace(written, region=replace(written.region, shape=(6,)))
    tasks = {**whole.tasks, 4: replace(whole.tasks[4], arguments=(read, narrowed))}
    bad = SimulatedBuild.of(tmp_path / "bad", task_graph=replace(whole, tasks=tasks))
    (tmp_path / "left").mkdir()
    for name in ("x1", "x2"):
        torch.save(torch.zeros(8), tmp_path / "left" / f"{name}.pt")
    judge = output_judge(
        request_of(bad, tmp_path, CLOSE), bad.recorded, KnownValues.from_build(bad.recorded, None)
    )
    (found,) = find_unwritten(judge.failure(TensorFolder.open(tmp_path / "left")), bad.recorded, None)
    assert (found.output, found.rows, found.columns) == ("x2", (range(1),), (range(6, 8),))


def test_an_output_whose_writer_is_ambiguous_is_not_called_unwritten(tmp_path: Path) -> None:
    """In a loop, four submits may have created the task that writes x1. The good build has no loop."""
    good = SimulatedBuild.of(tmp_path / "good")
    loop = f"for (int turn = 0; turn < 1; ++turn) {{{BODY}}}"
    bad = SimulatedBuild(small_build(tmp_path / "bad", SHIFT, body=loop), lambda _run: RIGHT)
    assert find_unwritten(wrong_x1(), bad.recorded, good.recorded) == ()


def test_an_output_with_a_write_beyond_its_end_has_no_known_writers(tmp_path: Path) -> None:
    good = SimulatedBuild.of(tmp_path / "good")
    whole = graph()
    read, written = whole.tasks[2].arguments
    assert written.region is not None
    shifted = replace(written, region=replace(written.region, start_offset=4))
    tasks = {**whole.tasks, 2: replace(whole.tasks[2], arguments=(read, shifted))}
    bad = SimulatedBuild.of(tmp_path / "bad", task_graph=replace(whole, tasks=tasks))
    assert last_writers(bad.recorded, {"x1": np.ones(8, np.bool_)}) == {}
    assert find_unwritten(wrong_x1(), bad.recorded, good.recorded) == ()


def all_changes(*names: str) -> Any:
    return cast("Any", type("Changes", (), {"changes": names})())


def found_by(steps: Any, *answers: Any) -> Any:
    """What steps return when their experiments have these results."""
    left = list(answers)
    try:
        experiment = next(steps)
        while True:
            experiment = steps.send(None if isinstance(experiment, Tell) else left.pop(0))
    except StopIteration as finished:
        return finished.value


def test_changes_that_are_all_that_differs_need_no_run() -> None:
    anything = cast("Any", None)
    interventions = OutputInterventions(
        changes=all_changes("the only one"),
        failing=anything,
        good=anything,
        failure=anything,
        judge=anything,
    )
    only = cast("Any", "the only one")
    (cause,) = found_by(interventions.causes([frozenset({only})]))
    assert (cause.changes, cause.shown, cause.effect) == ((only,), True, 1.0)


@pytest.mark.parametrize(("fails_in", "found"), [(1, "one"), (3, "one"), (4, "other")])
def test_where_a_failure_comes_and_goes_a_change_is_cleared_by_as_many_runs_as_tell(
    tmp_path: Path, fails_in: int, found: str
) -> None:
    right = SimulatedBuild.of(tmp_path / "right").with_outputs(tmp_path / "left")
    wrong = SimulatedBuild.of(tmp_path / "wrong", {1: add(1.5)}).with_outputs(tmp_path / "left-wrong")
    assert right.outputs is not None
    assert wrong.outputs is not None
    judge, changes = judge_of(right, tmp_path), TWO_KERNELS
    interventions = OutputInterventions(
        changes=all_changes(*cast("Any", changes)),
        passes=3,
        failing=wrong.recorded,
        good=right.recorded,
        failure=judge.failure(wrong.outputs),
        judge=judge,
    )
    put_out = [wrong.outputs if run == fails_in else right.outputs for run in range(1, 4)]
    recorded = replace(right, outputs=put_out[0])
    again = [(outputs,) for outputs in put_out[1:fails_in]]
    causes = found_by(
        interventions.causes([frozenset({change}) for change in changes]),
        *(cast("Any", None), recorded, *again),
        *(cast("Any", None), replace(right) if found == "one" else replace(wrong)),
        *([(right.outputs,)] * 2 if found == "one" else ()),
    )
    assert [cause.changes for cause in causes] == [(change,) for change in changes if change.kernel == found]


def test_a_fault_that_another_one_masks_is_a_cause_too(tmp_path: Path) -> None:
    """Either change makes the same outputs wrong, so that each alone gives those of the failing build."""
    right = SimulatedBuild.of(tmp_path / "right").with_outputs(tmp_path / "left")
    wrong = SimulatedBuild.of(tmp_path / "wrong", {1: add(np.nan)}).with_outputs(tmp_path / "left-wrong")
    assert wrong.outputs is not None
    judge, changes = judge_of(right, tmp_path), TWO_KERNELS
    interventions = OutputInterventions(
        changes=all_changes(*cast("Any", changes)),
        failing=wrong.recorded,
        good=right.recorded,
        failure=judge.failure(wrong.outputs),
        judge=judge,
    )
    recorded = replace(wrong.recorded, outputs=wrong.outputs)
    causes = found_by(
        interventions.causes([frozenset({change}) for change in changes]),
        *(cast("Any", None), recorded) * 2,
    )
    assert {cause.changes for cause in causes} == {(change,) for change in changes}
    assert set(interventions.trials) == {frozenset({change}) for change in changes}


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (None, True),
        (ReplayError("it died", Verdict.STALL, found="stall"), True),
        (UserError("no folder"), False),
    ],
)
def test_changes_that_crash_only_together_are_shown_by_runs_of_each_that_end(
    end: Exception | None, shown: bool
) -> None:
    changes = [Change(part=ChangedPart.KERNEL, file=f"{name}.cpp", kernel=name) for name in ("one", "other")]
    interventions = EndingInterventions(changes=all_changes(*cast("Any", changes)), verdict=Verdict.CRASH)
    steps = interventions.causes([frozenset({change}) for change in changes])
    experiment, done = next(steps), None
    while done is None:
        try:
            if isinstance(experiment, Record) and end is not None:
                experiment = steps.throw(end)
            else:
                experiment = steps.send(cast("Any", SimpleNamespace(outputs=None)))
        except StopIteration as finished:
            done = finished.value
    (cause,) = done
    assert (cause.changes, cause.shown, len(interventions.trials)) == ((*changes,), shown, 2)


def test_a_build_that_crashes_is_told_by_how_others_end() -> None:
    first, second = (
        Change(part=ChangedPart.KERNEL, file=f"{name}.cpp", kernel=name) for name in ("right", "wrong")
    )
    interventions = EndingInterventions(
        changes=all_changes(cast("Any", first), cast("Any", second)), verdict=Verdict.CRASH
    )

    steps = interventions.causes([frozenset({first}), frozenset({second})])
    experiment, done = next(steps), None
    while done is None:
        try:
            if isinstance(experiment, Record):
                made = [*interventions.trials]
                # The first that is asked for is the good build with `right`, which does not crash.
                experiment = (
                    steps.send(cast("Any", SimpleNamespace(outputs=None)))
                    if not made
                    else steps.throw(ReplayError("it died", Verdict.CRASH, found="crash"))
                )
            else:
                experiment = steps.send(None)
        except StopIteration as finished:
            done = finished.value
    (cause,) = done
    assert (cause.changes, cause.subject, cause.shown) == ((second,), None, True)

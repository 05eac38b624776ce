"""What asks for experiments is sent their results, or has their errors raised where it asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from precision_bisect.reduce.localize import experiments
from precision_bisect.reduce.localize.experiments import (
    Dump,
    DumpEverything,
    Experiment,
    RunAlone,
    Steps,
    Tell,
)
from precision_bisect.reduce.localize.reference import ReferenceRuns
from precision_bisect.reduce.replay.replay import IncompleteDumpError, TaskValues
from precision_bisect.reduce.replay.task_replay import Fill, IsolatedTask, PreparedTask
from precision_bisect.runner.errors import UserError
from tests.reduce.localize.simulated_build import SimulatedBuild, SimulatedTask, add, executor_in, view


@pytest.fixture
def bad(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})


@pytest.fixture
def expected(bad: SimulatedBuild, tmp_path: Path) -> ReferenceRuns:
    return ReferenceRuns.align(bad.recorded, SimulatedBuild.of(tmp_path / "good").recorded)


def test_what_is_told_comes_in_its_order(tmp_path: Path) -> None:
    said: list[str] = []

    def steps() -> Steps[str]:
        yield from Tell("first")
        yield from Tell("second")
        return "result"

    assert executor_in(tmp_path, said.append).execute(steps()) == "result"
    assert said == ["first", "second"]


def test_an_error_is_raised_where_the_experiment_was_asked_for(
    tmp_path: Path, bad: SimulatedBuild, expected: ReferenceRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_fields: object) -> None:
        raise UserError("it stalls")

    monkeypatch.setattr(bad, "dump", fail)

    def steps() -> Steps[str]:
        try:
            yield from Dump(failing=bad.recorded, expected=expected, results={1})
        except UserError as error:
            return f"caught: {error}"
        return "nothing was raised"

    assert executor_in(tmp_path).execute(steps()) == "caught: it stalls"

    def careless() -> Steps[None]:
        yield from Dump(failing=bad.recorded, expected=expected, results={1})

    with pytest.raises(UserError, match="it stalls"):
        executor_in(tmp_path).execute(careless())


def test_what_the_reference_has_dumped_is_not_dumped_again(
    tmp_path: Path, bad: SimulatedBuild, expected: ReferenceRuns
) -> None:
    def steps() -> Steps[None]:
        dumped = yield from DumpEverything(failing=bad.recorded, expected=expected)
        again = yield from DumpEverything(failing=bad.recorded, expected=expected, known=dumped.expected)
        assert again.expected is dumped.expected
        some = yield from Dump(failing=bad.recorded, expected=expected, results={1})
        with pytest.raises(IncompleteDumpError):
            some.expected.results_of(2)

    executor_in(tmp_path).execute(steps())
    assert (bad.replayer.runs, expected.runs) == (1 + 3, 1 + 2)


def test_runs_of_one_task_share_a_copy_of_its_build(
    tmp_path: Path, bad: SimulatedBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    class NotedTask(SimulatedTask):
        """Notes where a task is run."""

        def __init__(self, tasks: Sequence[IsolatedTask], *, folder: Path) -> None:
            super().__init__(tasks, folder=folder)
            folders.append(folder)

    monkeypatch.setattr(experiments, "TaskReplayer", NotedTask)
    before, after = bad.values()
    like = TaskValues({0: view("a", before[1])}, {1: view("b", after[1])}, {})

    def steps() -> Steps[None]:
        task = bad.tasks.tasks[1]
        first, second = (IsolatedTask.from_build(bad.recorded, task, like) for _ in range(2))
        for alone in (first, first, second):
            (left,) = yield from RunAlone(tasks=(PreparedTask.prepare(alone, like.before, Fill.LOW),))
            assert np.array_equal(left.results[1].contiguous(), after[1])

    executor_in(tmp_path).execute(steps())
    assert [folder.name for folder in folders] == ["001-task-1", "002-task-1"]


def test_an_experiment_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    def steps() -> Steps[None]:
        yield from Experiment[None]()

    with pytest.raises(TypeError, match="known here"):
        executor_in(tmp_path).execute(steps())

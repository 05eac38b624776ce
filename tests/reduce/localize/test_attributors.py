"""The verdict on a divergent task, on tasks that are simulated: which build's kernel, on which inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from precision_bisect.reduce.localize import experiments
from precision_bisect.reduce.localize.attribute import (
    Attribution,
    Attributor,
    DivergentTask,
    KnownInputsAttributor,
    TaskClass,
    TwoBuildAttributor,
    perturb_by_one_ulp,
)
from precision_bisect.reduce.localize.experiments import DumpPair
from precision_bisect.reduce.localize.reference import ReferenceRuns
from precision_bisect.reduce.replay.replay import TaskValues
from precision_bisect.runner.build_output.args_dump import ArgsDump
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.tensor import TensorView
from tests.reduce.localize.simulated_build import (
    X0,
    Array,
    SimulatedBuild,
    SimulatedDump,
    SimulatedTask,
    add,
    double,
    executor_in,
    view,
)


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "TaskReplayer", SimulatedTask)
    monkeypatch.setattr(SimulatedTask, "runs", 0)


@pytest.fixture
def good(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "good")


@pytest.fixture
def bad(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})


@dataclass(frozen=True)
class Known:
    """What the one task that is looked at should read and leave; `right` are its inputs where all are known."""

    values: TaskValues
    right: Mapping[int, TensorView] | None

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """What it should leave."""
        return self.values.after

    def values_of(self, ordinal: int) -> TaskValues:
        """What it should read too."""
        return self.values

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView] | None:
        """All that it should read."""
        return self.right


def divergent(
    bad: SimulatedBuild, good: SimulatedBuild, ordinal: int, right: Mapping[int, TensorView] | None = None
) -> DivergentTask:
    (actual, left), (expected, should) = bad.values(), good.values()
    known = Known(TaskValues({0: view("x", expected[ordinal])}, {1: view("y", should[ordinal])}, {}), right)
    return DivergentTask(
        task=bad.tasks.tasks[ordinal],
        counterpart=good.tasks.tasks[ordinal],
        dumped=DumpPair(actual=cast("ArgsDump", SimulatedDump(actual, left)), expected=known),
        exceeds_case_tolerance=True,
    )


class Verdicts:
    """Verdicts whose tasks are run as they are asked for."""

    def __init__(self, attributor: Attributor, folder: Path) -> None:
        self._attributor, self._executor = attributor, executor_in(folder)

    def attribute(self, task: DivergentTask, *, inputs_diverge: bool = False) -> Attribution:
        """Of one task."""
        return self._executor.execute(self._attributor.attribute(task, inputs_diverge=inputs_diverge))

    def attribute_all(self, tasks: Sequence[DivergentTask]) -> tuple[Attribution, ...]:
        """Of several."""
        return self._executor.execute(self._attributor.attribute_all(tasks))


def twins(bad: SimulatedBuild, good: SimulatedBuild, folder: Path) -> Verdicts:
    attributor = ReferenceRuns.align(bad.recorded, good.recorded).attributor(Tolerance())
    assert isinstance(attributor, TwoBuildAttributor)
    return Verdicts(attributor, folder)


def test_a_kernel_that_is_wrong_on_right_inputs(
    tmp_path: Path, bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    verdict = twins(bad, good, tmp_path).attribute(divergent(bad, good, 1))
    assert verdict.task_class is TaskClass.INTRODUCED
    assert verdict.distances is not None
    assert verdict.distances.inputs == 0
    assert verdict.exceeds_floor
    assert SimulatedTask.runs == 4


def test_an_error_that_came_with_the_inputs(
    tmp_path: Path, bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    verdict = twins(bad, good, tmp_path).attribute(divergent(bad, good, 2), inputs_diverge=True)
    assert verdict.task_class is TaskClass.INHERITED
    assert SimulatedTask.runs == 4


def test_wrong_inputs_after_right_tasks_are_an_interaction(
    tmp_path: Path, bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    verdict = twins(bad, good, tmp_path).attribute(divergent(bad, good, 2))
    assert verdict.task_class is TaskClass.INTERACTION
    assert "not what the tasks before it left" in verdict.reason


def test_of_several_tasks_that_are_alike_the_first_speaks(tmp_path: Path, good: SimulatedBuild) -> None:
    bad = SimulatedBuild.of(tmp_path / "both", {0: lambda x: 2 * x + 3, 3: lambda x: 2 * x + 3})
    first, other = twins(bad, good, tmp_path).attribute_all([divergent(bad, good, i) for i in (0, 3)])
    assert (first.task_class, other.task_class) == (TaskClass.INTRODUCED, TaskClass.INTRODUCED)
    assert other.distances is None
    assert other.reason.startswith("as task 0 of the same kernel: ")
    assert SimulatedTask.runs == 4


def test_of_a_kernel_two_tasks_that_go_wrong_otherwise_are_each_run_alone(
    tmp_path: Path, good: SimulatedBuild
) -> None:
    """The first gets the sign wrong, the other nothing itself: its input is."""
    bad = SimulatedBuild.of(tmp_path / "both", {0: lambda values: -2 * values})
    found = [divergent(bad, good, i) for i in (0, 2)]
    first, other = twins(bad, good, tmp_path).attribute_all(found)
    assert (first.task_class, other.task_class) == (TaskClass.INTRODUCED, TaskClass.INTERACTION)
    assert not other.reason.startswith("as task")


def test_a_reference_that_misses_its_own_result_tells_nothing(
    tmp_path: Path, bad: SimulatedBuild, good: SimulatedBuild
) -> None:
    found = divergent(bad, good, 1)
    good.kernels = lambda _run: {1: double}
    verdict = twins(bad, good, tmp_path).attribute(found)
    assert (verdict.task_class, verdict.exceeds_floor) == (TaskClass.UNKNOWN, None)


def test_a_task_that_cannot_be_run_alone_is_unknown(
    tmp_path: Path, bad: SimulatedBuild, good: SimulatedBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_fields: object) -> None:
        raise UserError("it stalls alone")

    monkeypatch.setattr(SimulatedTask, "run", fail)
    verdict = twins(bad, good, tmp_path).attribute(divergent(bad, good, 1))
    assert (verdict.task_class, verdict.reason) == (TaskClass.UNKNOWN, "it stalls alone")


@pytest.mark.parametrize(
    ("wrong", "known", "expected", "runs"),
    [
        ({1: add(1.5)}, True, TaskClass.INTRODUCED, 2),
        ({0: add(1)}, True, TaskClass.INHERITED, 2),
        ({}, True, TaskClass.INTERACTION, 2),
        ({1: add(1.5)}, False, TaskClass.UNKNOWN, 0),
    ],
)
def test_with_known_values_the_failing_kernel_alone_is_run(
    tmp_path: Path,
    good: SimulatedBuild,
    wrong: dict[int, object],
    known: bool,
    expected: TaskClass,
    runs: int,
) -> None:
    bad = SimulatedBuild.of(tmp_path / "bad", wrong)  # pyright: ignore[reportArgumentType]
    attributor = KnownInputsAttributor(failing=bad.recorded, tolerance=Tolerance(rtol=1e-5, atol=1e-5))
    right = {0: view("a", 2 * X0)} if known else None
    (verdict,) = Verdicts(attributor, tmp_path).attribute_all([divergent(bad, good, 1, right)])
    assert (verdict.task_class, verdict.distances) == (expected, None)
    assert SimulatedTask.runs == runs


def reciprocal(values: Array) -> Array:
    """A kernel to which the sign of a zero matters."""
    with np.errstate(divide="ignore"):
        return 1 / values


def double_but_negative_zero(values: Array) -> Array:
    """`double`, but for -0.0 in place of 0.0."""
    return np.where(values == 0, np.float32(-0.0), 2 * values)


@pytest.mark.parametrize("known", [False, True])
def test_the_sign_of_a_zero_that_a_task_reads_makes_its_error(tmp_path: Path, known: bool) -> None:
    good = SimulatedBuild.of(tmp_path / "divided", {1: reciprocal})
    bad = SimulatedBuild.of(tmp_path / "negative", {0: double_but_negative_zero, 1: reciprocal})
    if known:
        verdicts = Verdicts(KnownInputsAttributor(failing=bad.recorded, tolerance=Tolerance()), tmp_path)
    else:
        verdicts = twins(bad, good, tmp_path)
    verdict = verdicts.attribute(divergent(bad, good, 1, {0: view("a", 2 * X0)}))
    assert verdict.by_sign_of_zero
    assert verdict.task_class is (TaskClass.INHERITED if known else TaskClass.AMPLIFIED)


@pytest.mark.parametrize("known", [False, True])
def test_the_task_that_leaves_negative_zeros_introduces_them_where_they_count(
    tmp_path: Path, good: SimulatedBuild, known: bool
) -> None:
    bad = SimulatedBuild.of(tmp_path / "negative", {0: double_but_negative_zero})
    counting = Tolerance(signed_zeros=True)
    if known:
        attributor = KnownInputsAttributor(failing=bad.recorded, tolerance=counting)
    else:
        attributor = ReferenceRuns.align(bad.recorded, good.recorded).attributor(counting)
    verdict = Verdicts(attributor, tmp_path).attribute(divergent(bad, good, 0, {0: view("x0", X0)}))
    assert verdict.task_class is TaskClass.INTRODUCED
    assert "off by the sign of zeros alone" in verdict.reason or known
    assert not verdict.by_sign_of_zero


def test_one_unit_in_the_last_place_moves_finite_numbers_alone() -> None:
    values = np.array([0.0, 1.0, -2.5, np.inf, np.nan, np.finfo(np.float32).max, 1e-45, 7.0], np.float32)
    moved = np.asarray(perturb_by_one_ulp(view("x", values)).contiguous())
    still = [0, 3, 4, 5]
    assert np.array_equal(moved[still], values[still], equal_nan=True)
    others = [1, 2, 6, 7]
    assert np.all(moved[others] != values[others])
    neighbours = [np.nextafter(values[others], np.float32(end)) for end in (-np.inf, np.inf)]
    assert np.all((moved[others] == neighbours[0]) | (moved[others] == neighbours[1]))

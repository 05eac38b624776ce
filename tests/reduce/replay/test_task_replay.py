"""One task alone: its entry arguments are made of recorded values, and the copy's orchestration submits it only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from precision_bisect.reduce.replay import task_replay
from precision_bisect.reduce.replay.replay import TaskValues, WorkingCopy
from precision_bisect.reduce.replay.task_replay import (
    Fill,
    IsolatedTask,
    LayoutError,
    LoneResult,
    OverlappingTensorsError,
    Placement,
    PreparedTask,
    SingleTaskError,
    TaskReplayer,
)
from precision_bisect.runner.build_output.directory import Direction
from precision_bisect.runner.build_output.task_graph import Region
from precision_bisect.runner.case.preflight import EntryTensor
from precision_bisect.runner.tensor import DType, TensorView
from tests.reduce.localize.simulated_build import (
    ELEMENTS,
    X0,
    SimulatedBuild,
    SimulatedDump,
    Spent,
    graph,
    view,
)

SHAPE = (ELEMENTS,)


@dataclass
class ComputedRuns:
    """Stands in for a `Replayer`: notes what it is given, and adds 1 to the first tensor."""

    copy: WorkingCopy
    toolchain: Any
    folder: Path
    timeout: float
    objects: Any = None
    runs: int = 0
    given: list[Sequence[EntryTensor]] = field(default_factory=list[Sequence[EntryTensor]])
    data: list[Path] = field(default_factory=list[Path])
    made: ClassVar[list[ComputedRuns]] = []

    def __post_init__(self) -> None:
        self.made.append(self)

    def run(self, arguments: Sequence[EntryTensor], *, data: Path, **_asked: Any) -> Any:
        self.runs += 1
        self.given.append(arguments)
        self.data.append(data)
        read = (
            torch.load(data / "in" / f"{arguments[0].name}.pt", weights_only=True).numpy().ravel()[:ELEMENTS]
        )
        dump = SimulatedDump({0: read}, {0: read + 1})
        return SimpleNamespace(dump=dump, graph=graph(((1, "a", "b"),)), outputs=None)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedBuild:
    monkeypatch.setattr(task_replay, "Replayer", ComputedRuns)
    monkeypatch.setattr(ComputedRuns, "made", [])
    return SimulatedBuild.of(tmp_path / "build", replayer=Spent(toolchain="the toolchain", timeout=7))


def recorded(build: SimulatedBuild, ordinal: int) -> TaskValues:
    before, after = build.values()
    return TaskValues({0: view("x", before[ordinal])}, {1: view("y", after[ordinal])}, {})


def alone(build: SimulatedBuild, ordinal: int, **changes: Any) -> IsolatedTask:
    task = build.tasks.tasks[ordinal]
    changed = replace(task, task=replace(task.task, **changes))
    return IsolatedTask.from_build(build.recorded, changed, recorded(build, ordinal))


def run(task: IsolatedTask, given: dict[int, TensorView], folder: Path, fill: Fill = Fill.LOW) -> LoneResult:
    contents = PreparedTask.prepare(task, given, fill).contents
    (result,) = TaskReplayer([task], folder=folder).run([contents])
    return result


def values(tensor: TensorView) -> list[float]:
    return np.asarray(tensor.contiguous()).tolist()


def saved(index: int, kind: str = "in") -> Any:
    (data,) = ComputedRuns.made[-1].data
    return torch.load(data / kind / f"alone_{index}.pt", weights_only=True)


def test_its_entry_is_the_task_s_own_buffers_with_recorded_values_and_poison(
    build: SimulatedBuild, tmp_path: Path
) -> None:
    like = recorded(build, 1)
    result = run(alone(build, 1), dict(like.before), tmp_path / "alone")
    assert {index: values(each) for index, each in result.results.items()} == {1: (2 * X0 + 1).tolist()}
    (replayer,) = ComputedRuns.made
    assert (replayer.toolchain, replayer.timeout) == ("the toolchain", 7)
    shape = (ELEMENTS + 1024,)
    assert replayer.given[0] == [
        EntryTensor(name=f"alone_{index}", dtype="float32", shape=shape, is_output=True, has_input=True)
        for index in (0, 1)
    ]
    poison = np.full(4, 0x3A, np.uint8).view(np.float32)[0]
    assert saved(0)[:ELEMENTS].tolist() == (2 * X0).tolist()
    assert (saved(0)[ELEMENTS:] == poison).all()
    assert (saved(1) == poison).all()


def test_its_copy_submits_the_task_and_no_other(build: SimulatedBuild, tmp_path: Path) -> None:
    original = build.orchestration.source
    TaskReplayer([alone(build, 1)], folder=tmp_path / "alone")
    parts = ComputedRuns.made[0].copy.build()
    orchestration = parts.orchestration()
    (submit,) = orchestration.submits
    assert [each.func_id for each in submit.kernels if each.func_id != -1] == [1]
    assert [argument.text for argument in submit.arguments] == ["argument_0", "argument_1"]
    assert orchestration.expected_arg_count is not None
    assert orchestration.expected_arg_count.value == 2
    assert parts.kernel_config().orchestration.signature == (Direction.INOUT, Direction.INOUT)
    assert SimulatedBuild(build.build, build.kernels).orchestration.source == original


def test_its_copy_has_the_kernel_of_the_task_alone(build: SimulatedBuild, tmp_path: Path) -> None:
    TaskReplayer([alone(build, 1)], folder=tmp_path / "alone")
    parts = ComputedRuns.made[0].copy.build()
    (kernel,) = parts.kernel_config().kernels.values()
    assert kernel.func_id == 1
    assert [file.stem for file in (tmp_path / "alone").rglob("kernels/*/*.cpp")] == [kernel.name]
    assert len(build.config.kernels) == 2


def test_a_kernel_list_that_cannot_be_made_shorter_stays_whole(build: SimulatedBuild, tmp_path: Path) -> None:
    config = build.build / "kernel_config.py"
    config.write_text(config.read_text().replace("KERNELS = ", "ALL = ") + "\nKERNELS = ALL\n")
    TaskReplayer([alone(build, 1)], folder=tmp_path / "alone")
    assert len(ComputedRuns.made[0].copy.build().kernel_config().kernels) == 2


def test_what_it_is_given_is_converted_to_the_type_of_its_buffer(
    build: SimulatedBuild, tmp_path: Path
) -> None:
    wide = TensorView.from_contiguous("wide", DType.FLOAT64, SHAPE, np.full(ELEMENTS, 3.0))
    result = run(alone(build, 1), {0: wide}, tmp_path / "alone", Fill.ZERO)
    assert values(result.results[1]) == [4.0] * ELEMENTS
    assert saved(0).dtype == torch.float32
    assert saved(1).count_nonzero() == 0


def test_a_tensor_lies_where_the_run_had_it(build: SimulatedBuild, tmp_path: Path) -> None:
    """Rows of 2 in a buffer of rows of 4: what lies between them is poison."""
    region = Region(dtype=DType.FLOAT32, shape=(4, 2), strides=(4, 1), start_offset=5)
    first, second = build.tasks.tasks[1].task.arguments
    build.task_graph.tensors[first.tensor_id or 0].__dict__["buffer_numel"] = 24
    task = alone(build, 1, arguments=(replace(first, region=region), second))
    run(task, dict(recorded(build, 1).before), tmp_path / "alone", Fill.ZERO)
    rows = saved(0).reshape(-1, 4)[:6]
    assert rows[1:5, 1:3].flatten().tolist() == (2 * X0).tolist()
    assert rows.sum() == 2 * X0.sum()
    source = ComputedRuns.made[0].copy.build().orchestration().source.decode()
    assert "argument_0_shapes[2] = {4, 2}" in source
    assert "argument_0_offsets[2] = {1, 1}" in source


@pytest.mark.parametrize(
    ("start", "length", "fits"), [(8, 0, True), (4, 4, True), (8, 1, False), (9, 0, True)]
)
def test_a_region_at_the_end_of_its_buffer(start: int, length: int, fits: bool) -> None:
    region = Region(dtype=DType.FLOAT32, shape=(length,), strides=(1,), start_offset=start)
    if fits:
        assert task_replay.view_of(region, (8,)).shape == (length,)
    else:
        with pytest.raises(LayoutError, match="expected a box of a buffer"):
            task_replay.view_of(region, (8,))


def test_two_tensors_of_one_buffer_share_it(build: SimulatedBuild, tmp_path: Path) -> None:
    first, second = build.tasks.tasks[1].task.arguments
    task = alone(build, 1, arguments=(first, replace(second, tensor_id=first.tensor_id)))
    assert len(task.placement.buffers) == 1
    assert [placed.buffer_index for placed in task.placement.tensors.values()] == [0, 0]
    same = {0: view("x", X0), 1: view("y", X0)}
    assert len(PreparedTask.prepare(task, same, Fill.LOW).contents) == 1
    with pytest.raises(OverlappingTensorsError, match="argument 0 of"):
        PreparedTask.prepare(task, same | {1: view("y", X0 + 1)}, Fill.LOW)


def test_with_a_guard_before_it_a_tensor_only_moves(build: SimulatedBuild) -> None:
    exact = Placement.from_task(build.tasks, build.tasks.tasks[1], recorded(build, 1))
    moved = exact.with_front_guard()
    assert [buffer.start for buffer in moved.buffers] == [1024, 1024]
    assert [placed.region.start_offset for placed in moved.tensors.values()] == [1024, 1024]
    assert moved.buffers[0].elements == ELEMENTS + 2 * 1024


def test_a_layout_that_no_view_makes_is_packed_and_said(build: SimulatedBuild) -> None:
    region = Region(dtype=DType.FLOAT32, shape=(2, 4), strides=(6, 4), start_offset=0)
    first, second = build.tasks.tasks[1].task.arguments
    task = alone(build, 1, arguments=(replace(first, region=region), second))
    assert task.placement.inexact_reason.startswith("expected regions of one row-major buffer")
    assert task.placement.tensors[0].region.strides == (4, 1)


def test_buffers_that_are_too_large_together_are_not_made_anew(
    build: SimulatedBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = alone(build, 1).placement.bytes
    monkeypatch.setattr(task_replay, "_MAX_BUFFER_BYTES", both)
    assert not alone(build, 1).placement.inexact_reason
    monkeypatch.setattr(task_replay, "_MAX_BUFFER_BYTES", both - 1)
    assert alone(build, 1).placement.inexact_reason == (
        f"expected buffers of up to {both - 1} bytes, found {both} bytes of them"
    )


def test_several_tasks_are_submitted_in_turn(build: SimulatedBuild, tmp_path: Path) -> None:
    TaskReplayer([alone(build, 1), alone(build, 1)], folder=tmp_path / "both")
    orchestration = ComputedRuns.made[0].copy.build().orchestration()
    assert len(orchestration.submits) == 2
    assert orchestration.expected_arg_count is not None
    assert orchestration.expected_arg_count.value == 4
    assert orchestration.source.decode().count("set_dependencies") == 1


def test_a_task_that_several_submits_may_have_made_is_refused(build: SimulatedBuild) -> None:
    """In a loop the order of the submits says nothing; kernel 1 has one, kernel 0 has four."""
    source = build.build / "orchestration" / "main.cpp"
    text = source.read_text().replace("PTO2_SCOPE() {", "for (int i = 0; i < 1; ++i) { PTO2_SCOPE() {")
    source.write_text(text.replace("rt_submit_aiv_task(0, p4);\n}", "rt_submit_aiv_task(0, p4);\n}}"))
    looped = SimulatedBuild(build.build, build.kernels, replayer=build.replayer)
    alone(looped, 1)
    with pytest.raises(SingleTaskError, match="expected one way to submit scale alone, found 4"):
        alone(looped, 0)

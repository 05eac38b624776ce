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
from precision_bisect.reduce.replay.comparison import TaskValues
from precision_bisect.reduce.replay.task_replay import TaskAlone, TaskReplayer
from precision_bisect.reduce.replay.working_copy import WorkingCopy
from precision_bisect.reduce.rewrite.single_task import SingleTaskError
from precision_bisect.runner.build_output.graph.model import ArgumentType
from precision_bisect.runner.build_output.kernel_config import Direction
from precision_bisect.runner.case.entry_arguments import EntryTensor
from precision_bisect.runner.tensor.view import DType, TensorView
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
        read = torch.load(data / "in" / f"{arguments[0].name}.pt", weights_only=True).numpy()
        return SimpleNamespace(dump=SimulatedDump({0: read}, {0: read + 1}), graph=graph(((1, "a", "b"),)))


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedBuild:
    monkeypatch.setattr(task_replay, "Replayer", ComputedRuns)
    monkeypatch.setattr(ComputedRuns, "made", [])
    return SimulatedBuild.of(tmp_path / "build", replayer=Spent(toolchain="the toolchain", timeout=7))


def recorded(build: SimulatedBuild, ordinal: int) -> TaskValues:
    before, after = build.values()
    return TaskValues({0: view("x", before[ordinal])}, {1: view("y", after[ordinal])}, {})


def alone(build: SimulatedBuild, ordinal: int, folder: Path, **changes: Any) -> TaskReplayer:
    task = build.tasks.tasks[ordinal]
    changed = replace(task, task=replace(task.task, **changes))
    return TaskReplayer(TaskAlone.of(build.recorded, changed, scalars={}), folder=folder)


def values(tensor: TensorView) -> list[float]:
    return np.asarray(tensor.contiguous()).tolist()


def test_its_entry_is_the_task_s_own_tensors_with_recorded_values(
    build: SimulatedBuild, tmp_path: Path
) -> None:
    like = recorded(build, 1)
    task = alone(build, 1, tmp_path / "alone")
    results = task.run(like.before, like)
    assert {index: values(each) for index, each in results.items()} == {1: (2 * X0 + 1).tolist()}
    (replayer,) = ComputedRuns.made
    assert (replayer.toolchain, replayer.timeout) == ("the toolchain", 7)
    first, second = replayer.given[0]
    assert first == EntryTensor(name="alone_0", dtype="float32", shape=SHAPE, is_output=False, has_input=True)
    assert second == EntryTensor(
        name="alone_1", dtype="float32", shape=SHAPE, is_output=True, has_input=False
    )
    (data,) = replayer.data
    assert {str(file.relative_to(data)) for file in data.rglob("*.pt")} == {
        "in/alone_0.pt",
        "out/alone_1.pt",
    }
    assert torch.load(data / "in/alone_0.pt", weights_only=True).tolist() == (2 * X0).tolist()
    assert torch.load(data / "out/alone_1.pt", weights_only=True).tolist() == (2 * X0 + 1).tolist()


def test_its_copy_submits_the_task_and_no_other(build: SimulatedBuild, tmp_path: Path) -> None:
    original = build.orchestration.source
    alone(build, 1, tmp_path / "alone")
    parts = ComputedRuns.made[0].copy.build()
    orchestration = parts.orchestration()
    (submit,) = orchestration.submits
    assert [each.func_id for each in submit.kernels if each.func_id != -1] == [1]
    assert [argument.text for argument in submit.arguments] == ["alone_0", "alone_1"]
    assert orchestration.expected_arg_count is not None
    assert orchestration.expected_arg_count.value == 2
    assert parts.kernel_config().orchestration.signature == (Direction.IN, Direction.OUT)
    assert SimulatedBuild(build.build, build.kernels).orchestration.source == original


def test_every_run_has_data_of_its_own_in_the_type_of_the_recorded_ones(
    build: SimulatedBuild, tmp_path: Path
) -> None:
    like = recorded(build, 1)
    task = alone(build, 1, tmp_path / "alone")
    task.run(like.before, like)
    wide = TensorView.of_contiguous("wide", DType.FLOAT64, SHAPE, np.full(ELEMENTS, 3.0))
    results = task.run({0: wide}, like)
    assert values(results[1]) == [4.0] * ELEMENTS
    before, after = ComputedRuns.made[0].data
    assert before != after
    assert torch.load(before / "in/alone_0.pt", weights_only=True).tolist() == (2 * X0).tolist()
    assert torch.load(after / "in/alone_0.pt", weights_only=True).dtype == torch.float32


def test_a_task_that_accumulates_starts_from_what_it_was_given(build: SimulatedBuild, tmp_path: Path) -> None:
    source = build.build / "orchestration" / "main.cpp"
    source.write_text(source.read_text().replace("p1.add_output(b)", "p1.add_inout(b)"))
    build = SimulatedBuild(build.build, build.kernels, replayer=build.replayer)
    first, second = build.tasks.tasks[1].task.arguments
    arguments = (first, replace(second, type=ArgumentType.INOUT))
    task = alone(build, 1, tmp_path / "alone", arguments=arguments)
    like = recorded(build, 1)
    task.run({**like.before, 1: view("b", 5 + X0)}, like)
    (replayer,) = ComputedRuns.made
    config = replayer.copy.build().kernel_config()
    assert config.orchestration.signature == (Direction.IN, Direction.INOUT)
    assert [(each.is_output, each.has_input) for each in replayer.given[0]] == [(False, True), (True, True)]
    assert torch.load(replayer.data[0] / "in/alone_1.pt", weights_only=True).tolist() == (5 + X0).tolist()


def test_a_task_that_several_submits_may_have_made_is_refused(build: SimulatedBuild, tmp_path: Path) -> None:
    """In a loop the order of the submits says nothing; kernel 1 has one, kernel 0 has four."""
    source = build.build / "orchestration" / "main.cpp"
    text = source.read_text().replace("PTO2_SCOPE() {", "for (int i = 0; i < 1; ++i) { PTO2_SCOPE() {")
    source.write_text(text.replace("rt_submit_aiv_task(0, p4);\n}", "rt_submit_aiv_task(0, p4);\n}}"))
    looped = SimulatedBuild(build.build, build.kernels, replayer=build.replayer)
    alone(looped, 1, tmp_path / "one")
    with pytest.raises(SingleTaskError, match="expected one way to submit scale alone, found 4"):
        alone(looped, 0, tmp_path / "four")
    assert not (tmp_path / "four").exists()

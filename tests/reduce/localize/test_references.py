"""Each reference alone: what it says of itself, and what it tells of a failing build, without a run of either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from precision_bisect.reduce.localize import experiments
from precision_bisect.reduce.localize.reference import (
    GoldenOutputs,
    GoodBuild,
    KnownValues,
    RecordedValues,
    Reference,
    ReferenceRuns,
    SameBuild,
    output_evidence,
)
from precision_bisect.reduce.replay.replay import IncompleteDumpError, RecordedBuild
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from tests.reduce.localize.simulated_build import TASKS, X0, SimulatedBuild, add, executor_in, graph

CLOSE = Tolerance(rtol=1e-5, atol=1e-5)


class FakeToolchain:
    """What a reference says of the toolchain that runs it."""

    platform = "a5sim"


@pytest.fixture
def failing(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "bad", {1: add(1.5)})


@pytest.fixture
def good(tmp_path: Path) -> SimulatedBuild:
    return SimulatedBuild.of(tmp_path / "good")


@pytest.mark.parametrize(
    ("make", "kind", "platform", "runs"),
    [
        (lambda path: GoodBuild(path=path, toolchain=_toolchain()), "good build", "a5sim", True),
        (
            lambda path: SameBuild(path=path, toolchain=_toolchain(), schedule="serial"),
            "other schedule",
            "a5sim",
            True,
        ),
        (lambda path: RecordedValues(folder=path), "recorded values", "a2a3sim", False),
        (lambda path: GoldenOutputs(folder=path), "golden data", "a2a3sim", False),
    ],
)
def test_a_reference_says_what_it_is(
    tmp_path: Path, make: Callable[[Path], Reference], kind: str, platform: str, runs: bool
) -> None:
    reference = make(tmp_path)
    used = reference.summarize("a2a3sim")
    assert (used.kind, used.platform, used.path) == (kind, platform, str(tmp_path))
    assert used.schedule == ("serial" if kind == "other schedule" else None)
    assert (reference.build is not None) is runs
    assert reference.folders == (() if kind == "golden data" else (tmp_path,))


def _toolchain() -> Any:
    return FakeToolchain()


def test_a_build_is_recorded_on_the_data_of_the_failing_one(
    tmp_path: Path, failing: SimulatedBuild, good: SimulatedBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def record(build: Path, **fields: Any) -> RecordedBuild:
        asked.update(fields, build=build)
        return good.recorded

    monkeypatch.setattr(experiments.RecordedBuild, "open", record)
    reference = GoodBuild(path=good.build, toolchain=_toolchain())
    values = executor_in(tmp_path).execute(reference.open(failing.recorded))
    assert values.reference is good.recorded
    assert (asked["build"], asked["data"], asked["timeout"]) == (good.build, tmp_path / "data", 9)


def test_runs_of_a_reference_tell_of_every_task(failing: SimulatedBuild, good: SimulatedBuild) -> None:
    values = ReferenceRuns.align(failing.recorded, good.recorded)
    assert values.compared == (0, 1, 2, 3, 4)
    assert values.dag.predecessors == ((), (0,), (1,), (), (3,))
    assert values.complete
    assert values.unknown_above({2}) == ()
    expected = values.dump(results={1}, whole={2})
    assert good.dumps == [({1}, {2})]
    assert np.array_equal(expected.results_of(1)[1].contiguous(), 2 * X0 + 1)
    assert np.array_equal(expected.values_of(2).before[0].contiguous(), 2 * X0 + 1)
    with pytest.raises(IncompleteDumpError):
        expected.results_of(0)


def test_a_task_of_one_build_alone_is_not_compared(tmp_path: Path, good: SimulatedBuild) -> None:
    shorter = SimulatedBuild.of(tmp_path / "shorter", task_graph=graph(TASKS[:4]))
    values = ReferenceRuns.align(good.recorded, shorter.recorded)
    assert values.compared == (0, 1, 2, 3)
    assert [task.ordinal for task in values.unaligned] == [4]
    assert ReferenceRuns.align(shorter.recorded, good.recorded).unaligned_reference == values.unaligned


def test_builds_without_a_task_in_common_are_refused(tmp_path: Path, good: SimulatedBuild) -> None:
    other = SimulatedBuild.of(tmp_path / "other", task_graph=graph(()))
    with pytest.raises(UserError, match="of the same case"):
        ReferenceRuns.align(good.recorded, other.recorded)


def test_the_order_is_told_by_another_build_alone(tmp_path: Path, good: SimulatedBuild) -> None:
    # The graphs have no edges: task 1 reads what task 0 writes, and waits for nothing.
    failing = SimulatedBuild.of(tmp_path / "failing")
    apart = ReferenceRuns.align(failing.recorded, good.recorded)
    assert apart.orders(0, 1) is False
    assert apart.orders(0, 3) is True
    assert apart.orders(0, 99) is None
    assert ReferenceRuns.align(good.recorded, good.recorded).orders(0, 1) is None


def test_outputs_of_both_runs_tell_which_tasks_diverge(
    tmp_path: Path, failing: SimulatedBuild, good: SimulatedBuild
) -> None:
    ours, theirs = failing.with_outputs(tmp_path / "ours"), good.with_outputs(tmp_path / "theirs")
    assert output_evidence(ours.recorded, theirs.recorded, Tolerance()) == {2: True, 4: False}
    assert output_evidence(ours.recorded, good.recorded, Tolerance()) == {}


def test_golden_outputs_tell_of_the_tasks_that_write_them(failing: SimulatedBuild) -> None:
    reference = GoldenOutputs(folder=failing.data)
    values = executor_in(failing.build).execute(reference.open(failing.recorded))
    assert values.compared == (2, 4)
    assert values.dag.predecessors == ((), ())
    assert not values.complete
    assert values.known_divergent(CLOSE) == {}
    assert (values.runs, values.orders(0, 1), values.counterpart_of(2)) == (0, None, None)
    assert values.dump(results={2}, whole=set()) is values
    assert np.array_equal(values.results_of(2)[1].contiguous(), 2 * (2 * X0 + 1))
    assert values.values_of(2).before == {}
    assert [task.ordinal for task in values.unknown_above({2})] == [0, 1]


def test_recorded_values_count_beside_the_golden_outputs(tmp_path: Path, failing: SimulatedBuild) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    for name, value in {"a": 2 * X0, "b": X0[:3], "nowhere": X0}.items():
        torch.save(torch.from_numpy(value.copy()), folder / f"{name}.pt")
    values = executor_in(tmp_path).execute(RecordedValues(folder=folder).open(failing.recorded))
    assert values.compared == (0, 2, 4)
    assert values.dag.predecessors == ((), (0,), ()), "task 1, of which nothing is known, is passed over"
    assert [text.partition(":")[0] for text in values.not_compared] == ["b", "nowhere"]
    known = values.inputs_of(1)
    assert known is not None
    assert np.array_equal(known[0].contiguous(), 2 * X0)
    assert values.inputs_of(2) is None
    assert values.inputs_of(0) is not None, "what the case itself is given is known"


def test_values_that_say_nothing_are_refused(tmp_path: Path, failing: SimulatedBuild) -> None:
    torch.save(torch.zeros(8), tmp_path / "nowhere.pt")
    with pytest.raises(UserError, match="nowhere: no task"):
        executor_in(tmp_path).execute(RecordedValues(folder=tmp_path).open(failing.recorded))
    outputs = failing.data / "out"
    (outputs / "x1.pt").rename(outputs / "of_another_case.pt")
    (outputs / "x2.pt").unlink()
    with pytest.raises(UserError, match="use --reference"):
        KnownValues.from_build(failing.recorded, None)

"""What makes a race: one order that fails and another that passes, again and again; a flake is none."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from precision_bisect.reduce.localize import experiments
from precision_bisect.reduce.localize.failure import OutputJudge
from precision_bisect.reduce.localize.investigate import FailingRun, failing_run
from precision_bisect.reduce.localize.orders import (
    DETECTABLE_RATE,
    REPEATS_TO_CONFIRM,
    UNDER_LOAD,
    OrderTrials,
    passes_for_rate,
)
from precision_bisect.reduce.localize.reference import ExpectedValues
from precision_bisect.reduce.replay.replay import RecordedBuild, ReplayError
from precision_bisect.runner.build_output.directory import TensorFolder
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.localization import OrderConfirmation, OrderTrial
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.localize.simulated_build import executor_in
from tests.support.quick import quick_first

ORDERS = ("serial", "reverse")
FAILURES, PASSES = 3, 5
"""Runs of a build that always fails, and of one that never does, that tell them apart."""


@dataclass
class FakeBuild:
    """Fails by the order it is run in, as `fails` says; what it puts out lies in a real folder."""

    folder: Path
    fails: Callable[[str | None], bool | None]
    runs: Counter[str | None] = field(default_factory=Counter[str | None])

    def restore(self) -> None:
        pass

    def run(self, *, schedule: str | None) -> FakeBuild:
        self.runs[schedule] += 1
        self._failed = self.fails(schedule)
        if self._failed is None:
            raise ReplayError("stalled", Verdict.STALL, found="stall")
        return self

    @property
    def outputs(self) -> TensorFolder:
        return saved(self.folder, 2.0 if self._failed else 1.0)


def saved(folder: Path, value: float) -> TensorFolder:
    place = folder / f"{value}"
    place.mkdir(exist_ok=True)
    torch.save(torch.full((4,), value), place / "y.pt")
    return TensorFolder.open(place)


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "keep_processors_busy", nullcontext)


class Trials:
    """Trials of a build whose runs are made as they are asked for."""

    def __init__(self, folder: Path, fails: Callable[[str | None], bool | None]) -> None:
        self.build = FakeBuild(folder, fails)
        self._executor = executor_in(folder)
        self._trials = OrderTrials(
            failing=cast("RecordedBuild", self.build),
            schedules={name: {} for name in ORDERS},
            expected=saved(folder, 1.0),
            tolerance=Tolerance(),
        )

    def provoke(self, good: FakeBuild | None = None) -> OrderTrial | None:
        """Of `OrderTrials`."""
        return self._executor.execute(self._trials.find_failing_schedule(cast("RecordedBuild | None", good)))

    def as_it_is(self, good: FakeBuild) -> OrderTrial:
        """Of `OrderTrials`."""
        return self._executor.execute(self._trials.compare_without_schedule(cast("RecordedBuild", good)))

    def try_schedules(self, good: FakeBuild | None) -> tuple[OrderTrial, ...]:
        """Of `OrderTrials`."""
        return self._executor.execute(self._trials.try_schedules(cast("RecordedBuild | None", good)))

    def try_all(self) -> tuple[OrderTrial, ...]:
        """Of `OrderTrials`."""
        return self._executor.execute(self._trials.try_all())

    def confirm(self, trials: tuple[OrderTrial, ...]) -> OrderConfirmation | None:
        """Of `OrderTrials`."""
        return self._executor.execute(self._trials.confirm(trials))


class NanBuild(FakeBuild):
    """Puts out NaN in each order."""

    @property
    def outputs(self) -> TensorFolder:
        return saved(self.folder, math.nan)


def test_an_expected_nan_fails_in_no_order(tmp_path: Path) -> None:
    trials = OrderTrials(
        failing=cast("RecordedBuild", NanBuild(tmp_path, lambda _: False)),
        schedules={name: {} for name in ORDERS},
        expected=saved(tmp_path, math.nan),
        tolerance=Tolerance(rtol=1e-5, atol=1e-5, equal_nan=False),
    )
    tried = executor_in(tmp_path).execute(trials.try_all())
    assert [trial.failed for trial in tried] == [0] * len(tried)


def order_trials(folder: Path, fails: Callable[[str | None], bool | None]) -> tuple[Trials, FakeBuild]:
    trials = Trials(folder, fails)
    return trials, trials.build


def test_an_order_that_decides_is_a_race(tmp_path: Path) -> None:
    found, build = order_trials(tmp_path, lambda order: order != "serial")
    trials = found.try_all()
    assert [trial.schedule for trial in trials] == ["as it is", UNDER_LOAD, *ORDERS]
    confirmation = found.confirm(trials)
    assert confirmation is not None
    assert confirmation.holds
    assert (confirmation.passing.schedule, confirmation.passing.runs) == ("serial", REPEATS_TO_CONFIRM)
    assert build.runs["serial"] == 1 + REPEATS_TO_CONFIRM


def test_a_failure_in_every_order_is_none(tmp_path: Path) -> None:
    found, _ = order_trials(tmp_path, lambda _order: True)
    assert found.confirm(found.try_all()) is None


def test_a_run_without_outputs_is_neither_a_failure_nor_a_pass(tmp_path: Path) -> None:
    found, _ = order_trials(tmp_path, lambda order: None if order == "serial" else order is None)
    trials = found.try_all()
    assert {trial.schedule: (trial.failed, trial.stopped, trial.passed_runs) for trial in trials} == {
        "as it is": (3, 0, 0),
        UNDER_LOAD: (3, 0, 0),
        "serial": (0, 1, 0),
        "reverse": (0, 0, 1),
    }


@pytest.mark.parametrize("rate", quick_first([0.2, 0.5, 0.8]))
def test_a_flake_is_hardly_ever_taken_for_a_race(tmp_path: Path, rate: float) -> None:
    rng = random.Random(7)
    confirmed = 0
    for _ in range(60):
        found, _build = order_trials(tmp_path, lambda _order: rng.random() < rate)
        confirmation = found.confirm(found.try_all())
        confirmed += confirmation is not None and confirmation.holds
    assert confirmed <= 2


def test_an_order_that_fails_is_provoked_where_another_passes(tmp_path: Path) -> None:
    found, build = order_trials(tmp_path, lambda order: order == "reverse")
    provoked = found.provoke()
    assert provoked is not None
    assert provoked.schedule == "reverse"
    found.try_all()
    assert build.runs == {None: 6, "serial": 1, "reverse": 1}, "no order is run twice"


@pytest.mark.parametrize(("fails", "runs"), [(True, 1), (None, 1), (False, PASSES)])
def test_what_fails_in_an_order_is_asked_of_the_good_build_too(
    tmp_path: Path, fails: bool | None, runs: int
) -> None:
    found, build = order_trials(tmp_path, lambda order: order == "reverse")
    good = FakeBuild(tmp_path, lambda _order: fails)
    serial, reverse = found.try_schedules(good)
    assert (serial.passed_runs, serial.reference_runs, serial.reference_fails) == (1, 0, None)
    assert (reverse.reference_runs, reverse.reference_fails) == (runs, fails)
    assert (reverse.runs, reverse.failed) == (build.runs["reverse"], build.runs["reverse"])
    assert good.runs == {"reverse": runs}


def test_one_order_in_which_the_good_build_is_right_is_enough(tmp_path: Path) -> None:
    found, _ = order_trials(tmp_path, lambda _order: True)
    good = FakeBuild(tmp_path, lambda _order: False)
    found.try_schedules(good)
    assert good.runs == {"serial": PASSES}


def test_without_a_good_build_nothing_is_said_of_it(tmp_path: Path) -> None:
    found, _ = order_trials(tmp_path, lambda order: order == "reverse")
    assert [(trial.reference_runs, trial.reference_fails) for trial in found.try_schedules(None)] == [
        (0, None),
        (0, None),
    ]


@pytest.mark.parametrize("rate", quick_first([0.5, 0.1, 0.3, 0.8, 0.95]))
def test_a_good_build_that_fails_as_often_is_hardly_ever_taken_for_right(tmp_path: Path, rate: float) -> None:
    rng = random.Random(11)
    taken = 0
    for _ in range(60):
        found, _build = order_trials(tmp_path, lambda _order: rng.random() < rate)
        trials = found.try_schedules(FakeBuild(tmp_path, lambda _order: rng.random() < rate))
        taken += any(trial.reference_fails is False for trial in trials)
    assert taken <= 2


def test_a_failure_too_rare_to_be_asked_of_the_good_build_is_not_settled(tmp_path: Path) -> None:
    found, build = order_trials(tmp_path, lambda _order: build.runs["serial"] == 1)
    good = FakeBuild(tmp_path, lambda _order: False)
    serial, _ = found.try_schedules(good)
    assert (serial.failed, serial.reference_fails) == (1, None)
    assert (serial.runs, serial.reference_runs) == (build.runs["serial"], good.runs["serial"])


@pytest.mark.parametrize("outcome", [True, False, None])
def test_orders_that_are_all_alike_provoke_nothing(tmp_path: Path, outcome: bool | None) -> None:
    found, _ = order_trials(tmp_path, lambda _order: outcome)
    assert found.provoke() is None


def test_an_order_in_which_the_good_build_fails_too_is_not_provoked(tmp_path: Path) -> None:
    found, _ = order_trials(tmp_path, lambda order: order != "reverse")
    assert found.provoke(FakeBuild(tmp_path, lambda _order: True)) is None
    provoked = found.provoke(FakeBuild(tmp_path, lambda _order: False))
    assert provoked is not None
    assert (provoked.schedule, provoked.reference_runs) == ("serial", PASSES)


@pytest.mark.parametrize(
    ("good_fails", "runs", "good_runs", "told"),
    [((), FAILURES, PASSES, False), ((2,), 1, 2, True), ((4,), 3, 4, True)],
)
def test_a_failure_as_it_is_is_asked_of_the_good_build(
    tmp_path: Path, good_fails: tuple[int, ...], runs: int, good_runs: int, told: bool
) -> None:
    """The runs that recorded the graphs are the first ones."""
    found, build = order_trials(tmp_path, lambda _order: True)
    good = FakeBuild(tmp_path, lambda _order: 1 + good.runs[None] in good_fails)
    trial = found.as_it_is(good)
    assert (trial.runs, trial.failed) == (runs, runs)
    assert (trial.reference_runs, trial.reference_fails) == (good_runs, told)
    assert trial.reference_may_fail == told
    assert (build.runs[None], good.runs[None]) == (runs - 1, good_runs - 1)


def test_a_failure_that_is_rare_as_it_is_cannot_be_told_from_the_good_build(tmp_path: Path) -> None:
    found, _ = order_trials(tmp_path, lambda _order: False)
    trial = found.as_it_is(FakeBuild(tmp_path, lambda _order: False))
    assert trial.reference_fails is None
    assert trial.reference_may_fail


def unordered_run(build: FakeBuild, folder: Path, good: FakeBuild | None, *, waits: bool) -> FailingRun:
    """What is looked into of a build that passed when it was recorded; in the reference its tasks wait."""
    stack = SimpleNamespace(schedules={name: SimpleNamespace(variables={}) for name in ORDERS})
    task = SimpleNamespace(ordinal=0)
    recorded = SimpleNamespace(
        outputs=saved(folder, 1.0),
        missing_edges=() if waits else (SimpleNamespace(before=task, after=task),),
        replayer=SimpleNamespace(toolchain=SimpleNamespace(stack=stack)),
        restore=build.restore,
        run=build.run,
    )
    expected = SimpleNamespace(good=good, orders=lambda _before, _after: True)
    judge = OutputJudge(expected=saved(folder, 1.0), tolerance=Tolerance(), is_case_tolerance=True)
    steps = failing_run(
        cast("RecordedBuild", recorded), cast("ExpectedValues", expected), judge, run_good=True
    )
    return executor_in(folder).execute(steps)


def test_a_build_that_passes_though_tasks_do_not_wait_is_run_until_it_fails(tmp_path: Path) -> None:
    """The fifth run as it is fails, and all behind it; in an order that is held fast none does."""
    build = FakeBuild(tmp_path, lambda order: order is None and build.runs[None] >= 5)
    good = FakeBuild(tmp_path, lambda _order: False)
    run = unordered_run(build, tmp_path, good, waits=False)
    assert run.outputs is not None
    assert run.judge.failure(run.outputs)
    assert [(trial.schedule, trial.runs, trial.failed) for trial in run.tried][-1] == ("as it is", 5, 1)
    assert run.in_turns is not None
    assert (run.in_turns.reference_fails, run.in_turns.reference_runs) == (False, good.runs[None])
    assert (run.in_turns.runs, run.in_turns.failed) == (build.runs[None], build.runs[None] - 4)
    assert not run.hides_a_failure


@pytest.mark.parametrize(("waits", "runs"), [(False, passes_for_rate(DETECTABLE_RATE)), (True, 0)])
def test_a_build_that_never_fails_is_run_as_often_as_a_failure_would_take_to_show(
    tmp_path: Path, waits: bool, runs: int
) -> None:
    build = FakeBuild(tmp_path, lambda _order: False)
    run = unordered_run(build, tmp_path, None, waits=waits)
    assert run.outputs is not None
    assert not run.judge.failure(run.outputs)
    assert build.runs[None] == runs
    assert run.in_turns is None

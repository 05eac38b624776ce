"""The run of a build that is looked into: what it puts out, in an order of its tasks in which it fails."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.build_output.golden_data import TensorFolder
from ....runner.localization.orders import OrderTrial
from ...replay.recorded_build import RecordedBuild
from ..causes.failure import OutputJudge
from ..experiments.experiment import Steps
from ..references.reference import ExpectedValues
from .orders import OrderTrials


@dataclass(frozen=True, kw_only=True)
class FailingRun:
    """`outputs` are None where no harness tells them. `unordered` says that tasks do not wait for each other, which do
    in the reference; `schedule` is the one of the stack file under which it fails for that, None: as it is. `tried`
    are runs under each schedule, of a build that passes as it is."""

    build: RecordedBuild
    judge: OutputJudge
    outputs: TensorFolder | None
    orders: OrderTrials | None
    unordered: bool
    schedule: str | None
    tried: tuple[OrderTrial, ...] = ()

    @property
    def hides_a_failure(self) -> bool:
        """Whether it passes as it is, and fails under a schedule under which no reference does."""
        return self.schedule is not None and bool(self.tried)


def failing_run(build: RecordedBuild, expected: ExpectedValues, judge: OutputJudge) -> Steps[FailingRun]:
    """The recorded run. Where tasks do not wait for each other, or where it passes, one under a schedule that lets it
    fail."""
    unordered = any(
        expected.orders(edge.before.ordinal, edge.after.ordinal) is not False for edge in build.missing_edges
    )
    orders = OrderTrials.of(build, judge.expected, judge.tolerance)
    schedule: str | None = None
    tried: tuple[OrderTrial, ...] = ()
    if orders is not None and build.outputs is not None and not judge.failure(build.outputs):
        tried = yield from orders.try_schedules(expected.good)
        schedule = next((trial.schedule for trial in tried if _fails_alone(trial, expected.good)), None)
    elif orders is not None and unordered:
        schedule = yield from orders.provoke()
    provoked = orders.outputs_under(schedule) if orders is not None and schedule is not None else None
    return FailingRun(
        build=build,
        judge=judge,
        outputs=provoked or build.outputs,
        orders=orders,
        unordered=unordered,
        schedule=schedule,
        tried=tried,
    )


def _fails_alone(trial: OrderTrial, good: RecordedBuild | None) -> bool:
    """Whether it fails in an order in which a good build, where there is one, was shown to be right."""
    return trial.failed > 0 and (good is None or trial.reference_fails is False)

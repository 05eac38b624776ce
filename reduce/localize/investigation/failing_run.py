"""The run of a build that is looked into: what it puts out, in an order of its tasks in which it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....runner.build_output.golden_data import TensorFolder
from ....runner.localization.orders import Race
from ...replay.recorded_build import RecordedBuild
from ..causes.failure import OutputJudge
from ..experiments.experiment import Steps
from ..references.reference import ExpectedValues
from .orders import OrderTrials


@dataclass(frozen=True, kw_only=True)
class FailingRun:
    """`outputs` are None where no harness tells them. `unordered` says that tasks do not wait for each other, which do
    in the reference; `schedule` is the one of the stack file under which it fails for that, None: as it is."""

    build: RecordedBuild
    judge: OutputJudge
    outputs: TensorFolder | None
    orders: OrderTrials | None
    unordered: bool
    schedule: str | None

    def under_failing_order(self, race: Race | None) -> FailingRun | None:
        """The first run under a schedule of the stack file in which it failed; None where there is none."""
        if race is None or self.orders is None:
            return None
        for trial in race.trials:
            outputs = self.orders.outputs_under(trial.schedule) if trial.failed else None
            if outputs is not None:
                return replace(self, outputs=outputs, schedule=trial.schedule)
        return None


def failing_run(build: RecordedBuild, expected: ExpectedValues, judge: OutputJudge) -> Steps[FailingRun]:
    """The recorded run; where tasks do not wait for each other, one under a schedule that lets it fail."""
    unordered = any(
        expected.orders(edge.before.ordinal, edge.after.ordinal) is not False for edge in build.missing_edges
    )
    orders = OrderTrials.of(build, judge.expected, judge.tolerance)
    schedule = (yield from orders.provoke()) if orders is not None and unordered else None
    provoked = orders.outputs_under(schedule) if orders is not None and schedule is not None else None
    return FailingRun(
        build=build,
        judge=judge,
        outputs=provoked or build.outputs,
        orders=orders,
        unordered=unordered,
        schedule=schedule,
    )

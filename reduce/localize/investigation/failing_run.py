"""The run of a build that is looked into: what it puts out, in an order of its tasks in which it fails."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.build_output.golden_data import TensorFolder
from ....runner.localization.orders import AS_IT_IS, OrderTrial
from ...replay.recorded_build import RecordedBuild
from ..causes.failure import OutputJudge
from ..experiments.experiment import Steps
from ..references.reference import ExpectedValues
from .orders import OrderTrials
from .rates import passes_that_tell


@dataclass(frozen=True, kw_only=True)
class FailingRun:
    """`outputs` are None where no harness tells them. `unordered` says that tasks do not wait for each other, which do
    in the reference; `schedule` is the one of the stack file under which it fails for that, None: as it is. `tried`
    are runs of a build that passes as it is: under each schedule, then more as it is where `unordered`."""

    build: RecordedBuild
    judge: OutputJudge
    outputs: TensorFolder | None
    orders: OrderTrials | None
    unordered: bool
    schedule: str | None
    tried: tuple[OrderTrial, ...] = ()
    in_turns: OrderTrial | None = None
    """Of a build that fails in this order: runs of it and of the good one, as far as there is one."""

    @property
    def hides_a_failure(self) -> bool:
        """Whether it passes as it is, and fails under a schedule under which no reference does."""
        return self.schedule is not None and bool(self.tried)

    @property
    def may_be_of_both(self) -> bool:
        """Whether the good build fails in this order too, or was not shown not to."""
        return self.in_turns is not None and self.in_turns.may_be_of_both

    @property
    def passes_that_tell(self) -> int:
        """How often a build with some of the changes has to pass until it is taken for one without the failure: once,
        where the failing build always failed."""
        trial = self.in_turns
        return (
            1 if trial is None or not trial.passed else passes_that_tell(failed=trial.failed, runs=trial.runs)
        )


def failing_run(
    build: RecordedBuild, expected: ExpectedValues, judge: OutputJudge, *, asks_good: bool
) -> Steps[FailingRun]:
    """The recorded run. Where tasks do not wait for each other, where it passes, or where the failure comes and goes,
    one under a schedule that lets it fail; where none does and tasks do not wait, a further one that fails as it is.
    `asks_good` has the good build, where its recorded run is right, run as often as it takes to tell that it does not
    fail in that order."""
    unordered = any(
        expected.orders(edge.before.ordinal, edge.after.ordinal) is not False for edge in build.missing_edges
    )
    orders = OrderTrials.of(build, judge.expected, judge.tolerance)
    schedule: str | None = None
    outputs = build.outputs
    tried: tuple[OrderTrial, ...] = ()
    in_turns: OrderTrial | None = None
    if orders is not None and build.outputs is not None and not judge.failure(build.outputs):
        tried = yield from orders.try_schedules(expected.good)
        schedule = next((trial.schedule for trial in tried if _fails_alone(trial, expected.good)), None)
        if schedule is None and unordered:
            again, wrong = yield from orders.repeat()
            tried = (*tried, again)
            outputs = wrong or outputs
            if wrong is not None and expected.good is not None and asks_good:
                in_turns = yield from orders.beside(expected.good, again)
    elif orders is not None:
        good = expected.good if asks_good and _passes(expected.good, judge) else None
        in_turns = yield from _order_that_fails(orders, good, unordered=unordered)
        if in_turns is not None and in_turns.schedule != AS_IT_IS:
            schedule = in_turns.schedule
    provoked = orders.outputs_under(schedule) if orders is not None and schedule is not None else None
    return FailingRun(
        build=build,
        judge=judge,
        outputs=provoked or outputs,
        orders=orders,
        unordered=unordered,
        schedule=schedule,
        tried=tried,
        in_turns=in_turns,
    )


def _order_that_fails(
    orders: OrderTrials, good: RecordedBuild | None, *, unordered: bool
) -> Steps[OrderTrial | None]:
    """Runs in an order in which a build fails that fails as it is: under a schedule where its tasks do not wait for
    each other, or where what it does as it is does not tell it from the good build."""
    provoked = (yield from orders.provoke(good)) if unordered else None
    if provoked is not None or good is None:
        return provoked
    trial = yield from orders.as_it_is(good)
    if unordered or (trial.failed == trial.runs and trial.reference_fails is False):
        return trial
    return (yield from orders.provoke(good)) or trial


def _passes(good: RecordedBuild | None, judge: OutputJudge) -> bool:
    """Whether the recorded run of a good build is right. On frozen data that are not its own it may never be."""
    return good is not None and good.outputs is not None and not judge.failure(good.outputs)


def _fails_alone(trial: OrderTrial, good: RecordedBuild | None) -> bool:
    """Whether it fails in an order in which a good build, where there is one, was shown to be right."""
    return trial.failed > 0 and (good is None or trial.reference_fails is False)

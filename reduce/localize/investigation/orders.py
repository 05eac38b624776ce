"""Under which schedules of the runtime the outputs go wrong: a failure that comes and goes with the order is a race."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.golden_data import TensorFolder
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.localization.orders import AS_IT_IS, OrderConfirmation, OrderTrial, Race
from ...replay.comparison import differs
from ...replay.recorded_build import RecordedBuild
from ..experiments.experiment import RunInOrder, Steps, Tell
from .rates import RATE_THAT_SHOWS, failing_is_next, passes_that_show, told_apart

UNDER_LOAD = "under load"
_REPEATS = 3
REPEATS_TO_CONFIRM = 4
"""A failure of chance p, whatever the order, shows k failures under one order and k passes under another with
probability (p (1 - p))^k, at most 4^-k: 0.4 % for 4 runs each."""
_MOST_BESIDE = 30
"""Runs of each build, in turns under one schedule, after which it cannot be told whether the good one fails too: they
settle it for a failing build that fails in one run of five."""
_NO_RUNS = {"runs": 0, "failed": 0, "stopped": 0}


@dataclass(frozen=True, kw_only=True)
class OrderTrials:
    """Asks for runs of the failing build in many orders on the same data, and compares its outputs with the
    reference's. `schedules` are those of the stack file by name, with their variables."""

    failing: RecordedBuild
    schedules: Mapping[str, Mapping[str, str]]
    expected: TensorFolder
    tolerance: Tolerance
    _first: dict[str, OrderTrial] = field(default_factory=dict[str, OrderTrial])
    """The first run under each schedule of the stack file."""
    _outputs: dict[str, TensorFolder] = field(default_factory=dict[str, TensorFolder])
    """What that run put out."""

    @classmethod
    def of(
        cls, failing: RecordedBuild, expected: TensorFolder | None, tolerance: Tolerance
    ) -> OrderTrials | None:
        """None where it is not told what a run puts out, or should."""
        if failing.outputs is None or expected is None:
            return None
        schedules = failing.replayer.toolchain.stack.schedules
        return cls(
            failing=failing,
            schedules={name: schedule.variables for name, schedule in schedules.items()},
            expected=expected,
            tolerance=tolerance,
        )

    def provoke(self, good: RecordedBuild | None) -> Steps[OrderTrial | None]:
        """The first schedule of the stack file under which the outputs are wrong and those of a good build are not,
        where there is one under which they are right: there, a failure that comes and goes can be looked at. None
        where there are no two such."""
        wrong: list[OrderTrial] = []
        right = False
        for name in self.schedules:
            trial = yield from self._once(name)
            right = right or trial.passed > 0
            wrong += [trial] if trial.failed else []
            while right and wrong:
                found = wrong.pop(0)
                if good is None:
                    return found
                found = yield from self.beside(good, found)
                if found.reference_fails is False:
                    return found
        return None

    def as_it_is(self, good: RecordedBuild) -> Steps[OrderTrial]:
        """Runs of both builds in turns, in no order of ours: whether the good one fails too, as far as these tell. The
        runs that recorded their graphs, of which the failing build's was wrong and the other right, are the first."""
        recorded = OrderTrial(schedule=AS_IT_IS, variables={}, runs=1, failed=1, stopped=0, reference_runs=1)
        return (yield from self._in_turns(good, recorded))

    def try_schedules(self, good: RecordedBuild | None) -> Steps[tuple[OrderTrial, ...]]:
        """One run under each schedule of the stack file. Where it fails, runs of a good build too, until there is an
        order in which that is right."""
        trials: list[OrderTrial] = []
        for name in self.schedules:
            trial = yield from self._once(name)
            settled = any(earlier.reference_fails is False for earlier in trials)
            if trial.failed and good is not None and not settled:
                trial = yield from self.beside(good, trial)
            trials.append(trial)
        return tuple(trials)

    def repeat(self) -> Steps[tuple[OrderTrial, TensorFolder | None]]:
        """Runs as it is of a build that passes though tasks do not wait for each other, until one fails or so many
        passed that a failure of `RATE_THAT_SHOWS` would have shown; what the one that fails puts out. No schedule that
        holds the order fast shows tasks that run at once."""
        yield from Tell("tasks do not wait for each other: running the failing build again as it is")
        trial = OrderTrial(schedule=AS_IT_IS, variables={}, runs=0, failed=0, stopped=0)
        outputs: tuple[TensorFolder | None, ...] = (None,)
        while trial.passed == trial.runs < passes_that_show(RATE_THAT_SHOWS):
            outputs = yield from self._run(AS_IT_IS, 1)
            trial = _sum(trial, self._judged(AS_IT_IS, outputs))
        return trial, outputs[0] if trial.failed else None

    def beside(self, good: RecordedBuild, trial: OrderTrial) -> Steps[OrderTrial]:
        """A trial of an order that was chosen because the failing build is wrong in it, and fresh runs of both."""
        fresh = yield from self._in_turns(good, trial.model_copy(update=_NO_RUNS))
        return _sum(trial, fresh)

    def _in_turns(self, good: RecordedBuild, so_far: OrderTrial) -> Steps[OrderTrial]:
        """Further runs of both builds in one order, until the good one fails too, or would hardly have passed in all of
        its runs if it failed as often as the failing one."""
        name = so_far.schedule
        order = "as they are" if name == AS_IT_IS else f"under schedule {name}"
        yield from Tell(f"running the good build and the failing one in turns {order}")
        while so_far.reference_runs < _MOST_BESIDE:
            if failing_is_next(failed=so_far.failed, runs=so_far.runs, passes=so_far.reference_runs):
                so_far = _sum(so_far, (yield from self._trial(name, 1)))
            else:
                (outputs,) = yield from RunInOrder(build=good, schedule=_schedule_of(name), runs=1)
                fails = None if outputs is None else self._fails(outputs)
                so_far = so_far.model_copy(update={"reference_runs": so_far.reference_runs + 1})
                if fails is not False:
                    return so_far.model_copy(update={"reference_fails": fails})
            if told_apart(failed=so_far.failed, runs=so_far.runs, passes=so_far.reference_runs):
                return so_far.model_copy(update={"reference_fails": False})
        return so_far

    def outputs_under(self, schedule: str) -> TensorFolder | None:
        """What the first run under a schedule put out; None where there was none, or it did not tell."""
        return self._outputs.get(schedule)

    def look_for_race(self) -> Steps[Race]:
        """What became of the failing build under each schedule, and whether the order decides."""
        trials = yield from self.try_all()
        confirmation = yield from self.confirm(trials)
        confirmed = confirmation is not None and confirmation.holds
        return Race(confirmed=confirmed, trials=trials, confirmation=confirmation)

    def try_all(self) -> Steps[tuple[OrderTrial, ...]]:
        """As the caller's variables have it, repeatedly, alone and under load; then under each schedule of the stack
        file, with the variables of all others cleared."""
        yield from Tell("running the failing build as it is")
        trials = [(yield from self._trial(AS_IT_IS, _REPEATS))]
        yield from Tell("running the failing build under load")
        trials += [(yield from self._trial(UNDER_LOAD, _REPEATS))]
        for name in self.schedules:
            trials += [(yield from self._once(name))]
        return tuple(trials)

    def confirm(self, trials: tuple[OrderTrial, ...]) -> Steps[OrderConfirmation | None]:
        """Whether the order decides: one that failed against one that passed, in fresh runs; schedules of the stack
        file first, which hold the order fast. None where no order failed in all its runs, or none passed in all."""
        orders = [trial for trial in trials if trial.schedule != UNDER_LOAD]
        failing = [trial for trial in orders if trial.failed == trial.runs]
        passing = [trial for trial in orders if trial.passed == trial.runs]
        if not failing or not passing:
            return None
        bad, good = (min(alike, key=lambda trial: trial.schedule == AS_IT_IS) for alike in (failing, passing))
        yield from Tell(f"running {bad.schedule} and {good.schedule} in turns")
        bad, good = bad.model_copy(update=_NO_RUNS), good.model_copy(update=_NO_RUNS)
        while bad.runs < REPEATS_TO_CONFIRM:
            bad = _sum(bad, (yield from self._trial(bad.schedule, 1)))
            good = _sum(good, (yield from self._trial(good.schedule, 1)))
            if bad.failed < bad.runs or good.passed < good.runs:
                break
        return OrderConfirmation(failing=bad, passing=good)

    def _once(self, name: str) -> Steps[OrderTrial]:
        if name not in self._first:
            yield from Tell(f"running the failing build under schedule {name}")
            self._first[name] = yield from self._trial(name, 1)
        return self._first[name]

    def _trial(self, name: str, runs: int) -> Steps[OrderTrial]:
        return self._judged(name, (yield from self._run(name, runs)))

    def _run(self, name: str, runs: int) -> Steps[tuple[TensorFolder | None, ...]]:
        """What runs of the failing build put out."""
        return (
            yield from RunInOrder(
                build=self.failing, schedule=_schedule_of(name), runs=runs, under_load=name == UNDER_LOAD
            )
        )

    def _judged(self, name: str, outputs: tuple[TensorFolder | None, ...]) -> OrderTrial:
        schedule = _schedule_of(name)
        if schedule is not None and outputs and outputs[0] is not None:
            self._outputs.setdefault(schedule, outputs[0])
        outcomes = [None if each is None else self._fails(each) for each in outputs]
        return OrderTrial(
            schedule=name,
            variables=self.schedules[schedule] if schedule else {},
            runs=len(outputs),
            failed=outcomes.count(True),
            stopped=outcomes.count(None),
        )

    def _fails(self, outputs: TensorFolder) -> bool | None:
        """Whether they are not what they should be; None where they cannot be read."""
        try:
            return any(
                name not in outputs.names
                or differs(outputs.tensor(name), self.expected.tensor(name), self.tolerance)
                for name in self.expected.names
            )
        except BuildOutputError:
            return None


def _schedule_of(name: str) -> str | None:
    """The schedule of the stack file that a trial is named by; None where it asks nothing of the runtime."""
    return None if name in (AS_IT_IS, UNDER_LOAD) else name


def _sum(first: OrderTrial, second: OrderTrial) -> OrderTrial:
    return OrderTrial(
        schedule=first.schedule,
        variables=first.variables,
        runs=first.runs + second.runs,
        failed=first.failed + second.failed,
        stopped=first.stopped + second.stopped,
        reference_runs=first.reference_runs + second.reference_runs,
        reference_fails=second.reference_fails,
    )

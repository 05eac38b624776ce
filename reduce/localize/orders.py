"""Finds the orders of tasks in which a build fails. A failure that depends on the order is a race.

`OrderTrials` asks for runs under the schedules of the stack file. `is_separated` and `passes_for_rate` say how many
passes show that a build does not fail.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.compare.statistics import Tolerance
from ...runner.localization import DEFAULT_SCHEDULE, OrderConfirmation, OrderTrial, Race
from ..replay.replay import RecordedBuild, differs
from .experiments import RunInOrder, Steps, Tell

UNDER_LOAD = "under load"


_REPEATS = 3
"""A build runs this many times without a schedule and under load."""
REPEATS_TO_CONFIRM = 4
"""This many new runs under each of two orders confirm that the order decides.

Suppose a failure has chance p in any order. Then k failures under one order and k passes under the other have chance
(p (1 - p))^k. That is at most 4^-k, which is 0.4 % for 4 runs each.
"""
_MAX_RUNS_IN_TURNS = 30
"""The good build has at most this many runs in turns. They separate it from a build that fails in one run of five."""
_NO_RUNS = {"runs": 0, "failed": 0, "stopped": 0}


@dataclass(frozen=True, kw_only=True)
class OrderTrials:
    """Asks for runs of the failing build in different orders, and compares their outputs with the expected ones.

    `schedules` has the variables of each schedule of the stack file, by name.
    """

    failing: RecordedBuild
    schedules: Mapping[str, Mapping[str, str]]
    expected: TensorFolder
    tolerance: Tolerance
    _first: dict[str, OrderTrial] = field(default_factory=dict[str, OrderTrial])
    """The first run under each schedule of the stack file."""
    _outputs: dict[str, TensorFolder] = field(default_factory=dict[str, TensorFolder])
    """The outputs of these runs."""

    @classmethod
    def from_build(
        cls, failing: RecordedBuild, expected: TensorFolder | None, tolerance: Tolerance
    ) -> OrderTrials | None:
        """Return the trials of a build, or None if its outputs or the expected ones are not known."""
        if failing.outputs is None or expected is None:
            return None
        schedules = failing.replayer.toolchain.stack.schedules
        return cls(
            failing=failing,
            schedules={name: schedule.variables for name, schedule in schedules.items()},
            expected=expected,
            tolerance=tolerance,
        )

    def find_failing_schedule(self, good: RecordedBuild | None) -> Steps[OrderTrial | None]:
        """Find the first schedule under which the build fails and the good build, if given, passes.

        The order only matters if the build passes under another schedule. Returns None if there are no two such
        schedules.
        """
        failing: list[OrderTrial] = []
        has_passed = False
        for name in self.schedules:
            trial = yield from self._first_trial(name)
            has_passed = has_passed or trial.passed_runs > 0
            if trial.failed:
                failing.append(trial)
            while has_passed and failing:
                candidate = failing.pop(0)
                if good is None:
                    return candidate
                candidate = yield from self.add_runs_in_turns(good, candidate)
                if candidate.reference_fails is False:
                    return candidate
        return None

    def compare_without_schedule(self, good: RecordedBuild) -> Steps[OrderTrial]:
        """Run both builds in turns without a schedule, to see whether the good build fails too.

        The result includes the runs that recorded the graphs: a failure of the failing build, and a pass of the good
        one.
        """
        recorded = OrderTrial(
            schedule=DEFAULT_SCHEDULE, variables={}, runs=1, failed=1, stopped=0, reference_runs=1
        )
        return (yield from self._run_in_turns(good, recorded))

    def try_schedules(self, good: RecordedBuild | None) -> Steps[tuple[OrderTrial, ...]]:
        """Run the build once under each schedule.

        If it fails, the good build runs too, until it is known to pass under one such schedule.
        """
        trials: list[OrderTrial] = []
        for name in self.schedules:
            trial = yield from self._first_trial(name)
            good_has_passed = any(earlier.reference_fails is False for earlier in trials)
            if trial.failed and good is not None and not good_has_passed:
                trial = yield from self.add_runs_in_turns(good, trial)
            trials.append(trial)
        return tuple(trials)

    def repeat(self) -> Steps[tuple[OrderTrial, TensorFolder | None]]:
        """Run a passing build with unordered tasks again without a schedule, until it fails.

        It stops after as many passes as show a failure rate below `DETECTABLE_RATE`. Also returns the outputs of the
        run that failed. Schedules may not show such a failure, because they fix the order.
        """
        yield from Tell("tasks do not wait for each other: running the failing build again as it is")
        trial = OrderTrial(schedule=DEFAULT_SCHEDULE, variables={}, runs=0, failed=0, stopped=0)
        outputs: tuple[TensorFolder | None, ...] = (None,)
        while trial.passed_runs == trial.runs < passes_for_rate(DETECTABLE_RATE):
            outputs = yield from self._run(DEFAULT_SCHEDULE, 1)
            trial = _sum(trial, self._judge_trial(DEFAULT_SCHEDULE, outputs))
        return trial, outputs[0] if trial.failed else None

    def add_runs_in_turns(self, good: RecordedBuild, trial: OrderTrial) -> Steps[OrderTrial]:
        """Add new runs of both builds, in turns, to the trial of an order in which the failing build failed.

        The earlier runs do not count for the separation of the builds, because they were the reason for the choice of
        the order.
        """
        fresh = yield from self._run_in_turns(good, trial.model_copy(update=_NO_RUNS))
        return _sum(trial, fresh)

    def _run_in_turns(self, good: RecordedBuild, trial: OrderTrial) -> Steps[OrderTrial]:
        """Continue a trial by runs of both builds in turns, until the good build fails or the two are separated."""
        name = trial.schedule
        order = "as they are" if name == DEFAULT_SCHEDULE else f"under schedule {name}"
        yield from Tell(f"running the good build and the failing one in turns {order}")
        while trial.reference_runs < _MAX_RUNS_IN_TURNS:
            if is_failing_next(failed=trial.failed, runs=trial.runs, passes=trial.reference_runs):
                trial = _sum(trial, (yield from self._trial(name, 1)))
            else:
                (outputs,) = yield from RunInOrder(build=good, schedule=_schedule_of(name), runs=1)
                fails = None if outputs is None else self._fails(outputs)
                trial = trial.model_copy(update={"reference_runs": trial.reference_runs + 1})
                if fails is not False:
                    return trial.model_copy(update={"reference_fails": fails})
            if is_separated(failed=trial.failed, runs=trial.runs, passes=trial.reference_runs):
                return trial.model_copy(update={"reference_fails": False})
        return trial

    def outputs_under(self, schedule: str) -> TensorFolder | None:
        """Return the outputs of the first run under a schedule, or None if there are none."""
        return self._outputs.get(schedule)

    def look_for_race(self) -> Steps[Race]:
        """Run the failing build in many orders, and find out whether the order decides."""
        trials = yield from self.try_all()
        confirmation = yield from self.confirm(trials)
        confirmed = confirmation is not None and confirmation.holds
        return Race(confirmed=confirmed, trials=trials, confirmation=confirmation)

    def try_all(self) -> Steps[tuple[OrderTrial, ...]]:
        """Run the build repeatedly without a schedule, alone and under load, and then under each schedule."""
        yield from Tell("running the failing build as it is")
        trials = [(yield from self._trial(DEFAULT_SCHEDULE, _REPEATS))]
        yield from Tell("running the failing build under load")
        trials += [(yield from self._trial(UNDER_LOAD, _REPEATS))]
        for name in self.schedules:
            trials += [(yield from self._first_trial(name))]
        return tuple(trials)

    def confirm(self, trials: tuple[OrderTrial, ...]) -> Steps[OrderConfirmation | None]:
        """Run an order that always failed and an order that always passed again, in turns.

        A schedule of the stack file is preferred, because it fixes the order. Returns None if there are no two such
        orders.
        """
        orders = [trial for trial in trials if trial.schedule != UNDER_LOAD]
        # The sort is stable, and puts the runs without a schedule last.
        orders.sort(key=lambda trial: trial.schedule == DEFAULT_SCHEDULE)
        failing = next((trial for trial in orders if trial.failed == trial.runs), None)
        passing = next((trial for trial in orders if trial.passed_runs == trial.runs), None)
        if failing is None or passing is None:
            return None
        yield from Tell(f"running {failing.schedule} and {passing.schedule} in turns")
        failing, passing = failing.model_copy(update=_NO_RUNS), passing.model_copy(update=_NO_RUNS)
        while failing.runs < REPEATS_TO_CONFIRM:
            failing = _sum(failing, (yield from self._trial(failing.schedule, 1)))
            passing = _sum(passing, (yield from self._trial(passing.schedule, 1)))
            if failing.failed < failing.runs or passing.passed_runs < passing.runs:
                break
        return OrderConfirmation(failing=failing, passing=passing)

    def _first_trial(self, name: str) -> Steps[OrderTrial]:
        if name not in self._first:
            yield from Tell(f"running the failing build under schedule {name}")
            self._first[name] = yield from self._trial(name, 1)
        return self._first[name]

    def _trial(self, name: str, runs: int) -> Steps[OrderTrial]:
        return self._judge_trial(name, (yield from self._run(name, runs)))

    def _run(self, name: str, runs: int) -> Steps[tuple[TensorFolder | None, ...]]:
        """Return the outputs of some runs of the failing build."""
        experiment = RunInOrder(
            build=self.failing, schedule=_schedule_of(name), runs=runs, under_load=name == UNDER_LOAD
        )
        return (yield from experiment)

    def _judge_trial(self, name: str, outputs: tuple[TensorFolder | None, ...]) -> OrderTrial:
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
        """Return whether some outputs are wrong, or None if they cannot be read.

        Two NaN are close, as to `OutputJudge`.
        """
        tolerance = replace(self.tolerance, equal_nan=True)
        try:
            return any(
                name not in outputs.names
                or differs(outputs.tensor(name), self.expected.tensor(name), tolerance)
                for name in self.expected.names
            )
        except BuildOutputError:
            return None


def _schedule_of(name: str) -> str | None:
    """Return the schedule of the stack file in the name of a trial. None for a trial without a schedule."""
    return None if name in (DEFAULT_SCHEDULE, UNDER_LOAD) else name


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


MAX_CHANCE_OF_LUCK = 0.01
"""Passes show that a build does not fail if luck explains them with at most this chance."""


DETECTABLE_RATE = 0.25
"""A passing build with unordered tasks runs often enough to show a failure in this share of its runs."""


_ENOUGH_FAILURES = 3
"""A build that failed in all of this many runs does not run again. A run of the good build shows as much."""


def chance_of_passing(*, failed: int, runs: int, passes: int) -> float:
    """Return the chance that a build passes `passes` times in a row if it fails at the rate of another build.

    The other build failed in `failed` of `runs`. Its rate is not known: the chance is the mean over the posterior of a
    uniform prior.

    >>> round(chance_of_passing(failed=4, runs=4, passes=4), 4), chance_of_passing(failed=0, runs=0, passes=1)
    (0.0079, 0.5)
    """
    passed = runs - failed
    return math.prod((passed + turn) / (runs + 1 + turn) for turn in range(1, passes + 1))


def passes_needed(*, failed: int, runs: int) -> int:
    """Return the number of passes, at least 1, that separate a build from one that failed in `failed` of `runs`.

    >>> passes_needed(failed=4, runs=4), passes_needed(failed=3, runs=6)
    (4, 12)
    """
    return next(
        passes for passes in itertools.count(1) if is_separated(failed=failed, runs=runs, passes=passes)
    )


def is_failing_next(*, failed: int, runs: int, passes: int) -> bool:
    """Return whether the failing build has the next run, for two builds that run in turns until they are separated.

    The failing build failed in `failed` of `runs`. The good one passed in all its `passes` runs.

    >>> [is_failing_next(failed=runs, runs=runs, passes=passes) for runs, passes in ((1, 1), (1, 2), (3, 4))]
    [False, True, False]
    """
    return runs < max(passes, 1) and not failed == runs >= _ENOUGH_FAILURES


def is_separated(*, failed: int, runs: int, passes: int) -> bool:
    """Return whether `passes` runs show that a good build does not fail at the failing build's rate.

    The failing build failed in `failed` of `runs`.

    >>> is_separated(failed=3, runs=3, passes=4), is_separated(failed=3, runs=3, passes=5)
    (False, True)
    """
    return chance_of_passing(failed=failed, runs=runs, passes=passes) <= MAX_CHANCE_OF_LUCK


def passes_for_rate(rate: float) -> int:
    """Return the number of passes which show that a build does not fail in this share of its runs.

    It is the least n for which (1 - rate)^n is at most `MAX_CHANCE_OF_LUCK`.

    >>> passes_for_rate(0.25), passes_for_rate(0.5)
    (17, 7)
    """
    return math.ceil(math.log(MAX_CHANCE_OF_LUCK) / math.log1p(-rate))

"""Under which schedules of the runtime the outputs go wrong: a failure that depends on the order of tasks is a race.

`OrderTrials` asks for the runs. The first functions say how many runs it takes to separate a build that never fails
from one that fails as often as another build.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.compare.statistics import Tolerance
from ...runner.localization import DEFAULT_SCHEDULE, OrderConfirmation, OrderTrial, Race
from ..replay.replay import RecordedBuild, differs
from .experiments import RunInOrder, Steps, Tell

MAX_CHANCE_OF_LUCK = 0.01
"""A build that fails as often as the failing one has at most this chance to pass in all of its runs.

If the chance is no larger, passes are not taken for luck.
"""
DETECTABLE_RATE = 0.25
"""A failure in at least this share of the runs has to show.

A passing build whose tasks do not wait for each other is run often enough for that.
"""
_ENOUGH_FAILURES = 3
"""A build that failed in all of this many runs is not run again: a run of the other build tells as much."""


def chance_of_passing(*, failed: int, runs: int, passes: int) -> float:
    """The chance that a build passes `passes` times in a row though it fails as often as another one.

    The other build failed in `failed` of `runs`. The chance is taken over all rates that these runs leave possible,
    each as likely as any other before them.

    >>> round(chance_of_passing(failed=4, runs=4, passes=4), 4), chance_of_passing(failed=0, runs=0, passes=1)
    (0.0079, 0.5)
    """
    passed = runs - failed
    return math.prod((passed + turn) / (runs + 1 + turn) for turn in range(1, passes + 1))


def passes_needed(*, failed: int, runs: int) -> int:
    """Return how many times a build has to pass to be separated from one that failed in `failed` of `runs`, at least
    once.

    >>> passes_needed(failed=4, runs=4), passes_needed(failed=3, runs=6)
    (4, 12)
    """
    return next(
        passes
        for passes in itertools.count(1)
        if chance_of_passing(failed=failed, runs=runs, passes=passes) <= MAX_CHANCE_OF_LUCK
    )


def is_failing_next(*, failed: int, runs: int, passes: int) -> bool:
    """Return whether the next run is the failing build's, for two builds that run in turns until they are separated.

    The failing build failed in `failed` of `runs`, and the good one was right in all its `passes`. A build that always
    fails needs few runs.

    >>> [is_failing_next(failed=runs, runs=runs, passes=passes) for runs, passes in ((1, 1), (1, 2), (3, 4))]
    [False, True, False]
    """
    return runs < max(passes, 1) and not failed == runs >= _ENOUGH_FAILURES


def is_separated(*, failed: int, runs: int, passes: int) -> bool:
    """Return whether the good build would have shown a failure if it failed as often as the failing one.

    >>> is_separated(failed=3, runs=3, passes=4), is_separated(failed=3, runs=3, passes=5)
    (False, True)
    """
    return chance_of_passing(failed=failed, runs=runs, passes=passes) <= MAX_CHANCE_OF_LUCK


def passes_for_rate(rate: float) -> int:
    """Return how many times a build has to pass to show that it does not fail in this share of its runs.

    That is the least n for which (1 - rate)^n is at most `MAX_CHANCE_OF_LUCK`.

    >>> passes_for_rate(0.25), passes_for_rate(0.5)
    (17, 7)
    """
    return math.ceil(math.log(MAX_CHANCE_OF_LUCK) / math.log1p(-rate))


UNDER_LOAD = "under load"
_REPEATS = 3
"""Each order is run this many times at first. Only those that look decisive are run again to confirm them."""
REPEATS_TO_CONFIRM = 4
"""This many fresh runs under each of two orders confirm that the order decides.

A failure of chance p, whatever the order, shows k failures under one order and k passes under another with probability
(p (1 - p))^k. That is at most 4^-k: 0.4 % for 4 runs each.
"""
_MAX_RUNS_IN_TURNS = 30
"""Each build is run at most this often, in turns under one schedule.

After that it cannot be told whether the good build fails too. So many runs settle it for a failing build that fails in
one run of five.
"""
_NO_RUNS = {"runs": 0, "failed": 0, "stopped": 0}


@dataclass(frozen=True, kw_only=True)
class OrderTrials:
    """Asks for runs of the failing build in many orders on the same data.

    Its outputs are compared with the reference's. `schedules` are those of the stack file by name, with their
    variables.
    """

    failing: RecordedBuild
    schedules: Mapping[str, Mapping[str, str]]
    expected: TensorFolder
    tolerance: Tolerance
    _first: dict[str, OrderTrial] = field(default_factory=dict[str, OrderTrial])
    """The first run under each schedule of the stack file."""
    _outputs: dict[str, TensorFolder] = field(default_factory=dict[str, TensorFolder])
    """What that run put out."""

    @classmethod
    def from_build(
        cls, failing: RecordedBuild, expected: TensorFolder | None, tolerance: Tolerance
    ) -> OrderTrials | None:
        """None where it is not known what a run puts out, or should put out."""
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
        """Find the first schedule of the stack file under which the build fails and a good build does not.

        There must also be a schedule under which the failing build is right. Under the schedule that is found, a flaky
        failure can be examined. None where there are no two such schedules.
        """
        wrong: list[OrderTrial] = []
        right = False
        for name in self.schedules:
            trial = yield from self._first_trial(name)
            right = right or trial.passed_runs > 0
            wrong += [trial] if trial.failed else []
            while right and wrong:
                found = wrong.pop(0)
                if good is None:
                    return found
                found = yield from self.add_runs_in_turns(good, found)
                if found.reference_fails is False:
                    return found
        return None

    def compare_without_schedule(self, good: RecordedBuild) -> Steps[OrderTrial]:
        """Run both builds in turns without a schedule, to see whether the good one fails too.

        The runs that recorded their graphs are counted first: the failing build's was wrong, and the good one's right.
        """
        recorded = OrderTrial(
            schedule=DEFAULT_SCHEDULE, variables={}, runs=1, failed=1, stopped=0, reference_runs=1
        )
        return (yield from self._run_in_turns(good, recorded))

    def try_schedules(self, good: RecordedBuild | None) -> Steps[tuple[OrderTrial, ...]]:
        """Run the build once under each schedule of the stack file.

        Where it fails, run a good build too, until there is an order in which that is right.
        """
        trials: list[OrderTrial] = []
        for name in self.schedules:
            trial = yield from self._first_trial(name)
            settled = any(earlier.reference_fails is False for earlier in trials)
            if trial.failed and good is not None and not settled:
                trial = yield from self.add_runs_in_turns(good, trial)
            trials.append(trial)
        return tuple(trials)

    def repeat(self) -> Steps[tuple[OrderTrial, TensorFolder | None]]:
        """Run a passing build again without a schedule, until it fails or has passed often enough.

        This is for a build whose tasks do not wait for each other. Often enough means that a failure rate of
        `DETECTABLE_RATE` would have shown. Also returns what the failing run put out. A schedule that fixes the order
        cannot show tasks that run at once.
        """
        yield from Tell("tasks do not wait for each other: running the failing build again as it is")
        trial = OrderTrial(schedule=DEFAULT_SCHEDULE, variables={}, runs=0, failed=0, stopped=0)
        outputs: tuple[TensorFolder | None, ...] = (None,)
        while trial.passed_runs == trial.runs < passes_for_rate(DETECTABLE_RATE):
            outputs = yield from self._run(DEFAULT_SCHEDULE, 1)
            trial = _sum(trial, self._judge_trial(DEFAULT_SCHEDULE, outputs))
        return trial, outputs[0] if trial.failed else None

    def add_runs_in_turns(self, good: RecordedBuild, trial: OrderTrial) -> Steps[OrderTrial]:
        """Add fresh runs of both builds to the trial of an order.

        The order was chosen because the failing build is wrong in it.
        """
        fresh = yield from self._run_in_turns(good, trial.model_copy(update=_NO_RUNS))
        return _sum(trial, fresh)

    def _run_in_turns(self, good: RecordedBuild, so_far: OrderTrial) -> Steps[OrderTrial]:
        """Run both builds further in one order, in turns.

        It ends when the good build fails too. It also ends when the good build would hardly have passed in all of its
        runs if it failed as often as the failing one.
        """
        name = so_far.schedule
        order = "as they are" if name == DEFAULT_SCHEDULE else f"under schedule {name}"
        yield from Tell(f"running the good build and the failing one in turns {order}")
        while so_far.reference_runs < _MAX_RUNS_IN_TURNS:
            if is_failing_next(failed=so_far.failed, runs=so_far.runs, passes=so_far.reference_runs):
                so_far = _sum(so_far, (yield from self._trial(name, 1)))
            else:
                (outputs,) = yield from RunInOrder(build=good, schedule=_schedule_of(name), runs=1)
                fails = None if outputs is None else self._fails(outputs)
                so_far = so_far.model_copy(update={"reference_runs": so_far.reference_runs + 1})
                if fails is not False:
                    return so_far.model_copy(update={"reference_fails": fails})
            if is_separated(failed=so_far.failed, runs=so_far.runs, passes=so_far.reference_runs):
                return so_far.model_copy(update={"reference_fails": False})
        return so_far

    def outputs_under(self, schedule: str) -> TensorFolder | None:
        """Return what the first run under a schedule put out; None where there was no run, or it did not report
        outputs."""
        return self._outputs.get(schedule)

    def look_for_race(self) -> Steps[Race]:
        """Return what happened to the failing build under each schedule, and whether the order decides."""
        trials = yield from self.try_all()
        confirmation = yield from self.confirm(trials)
        confirmed = confirmation is not None and confirmation.holds
        return Race(confirmed=confirmed, trials=trials, confirmation=confirmation)

    def try_all(self) -> Steps[tuple[OrderTrial, ...]]:
        """Run the build repeatedly with the caller's variables, alone and under load, and then under each schedule.

        Under a schedule of the stack file, the variables of all other schedules are cleared.
        """
        yield from Tell("running the failing build as it is")
        trials = [(yield from self._trial(DEFAULT_SCHEDULE, _REPEATS))]
        yield from Tell("running the failing build under load")
        trials += [(yield from self._trial(UNDER_LOAD, _REPEATS))]
        for name in self.schedules:
            trials += [(yield from self._first_trial(name))]
        return tuple(trials)

    def confirm(self, trials: tuple[OrderTrial, ...]) -> Steps[OrderConfirmation | None]:
        """Decide whether the order matters: fresh runs of an order that failed against one that passed.

        Schedules of the stack file are preferred, because they fix the order. None where no order failed in all its
        runs, or no order passed in all.
        """
        orders = [trial for trial in trials if trial.schedule != UNDER_LOAD]
        failing = [trial for trial in orders if trial.failed == trial.runs]
        passing = [trial for trial in orders if trial.passed_runs == trial.runs]
        if not failing or not passing:
            return None
        bad, good = (
            min(alike, key=lambda trial: trial.schedule == DEFAULT_SCHEDULE) for alike in (failing, passing)
        )
        yield from Tell(f"running {bad.schedule} and {good.schedule} in turns")
        bad, good = bad.model_copy(update=_NO_RUNS), good.model_copy(update=_NO_RUNS)
        while bad.runs < REPEATS_TO_CONFIRM:
            bad = _sum(bad, (yield from self._trial(bad.schedule, 1)))
            good = _sum(good, (yield from self._trial(good.schedule, 1)))
            if bad.failed < bad.runs or good.passed_runs < good.runs:
                break
        return OrderConfirmation(failing=bad, passing=good)

    def _first_trial(self, name: str) -> Steps[OrderTrial]:
        if name not in self._first:
            yield from Tell(f"running the failing build under schedule {name}")
            self._first[name] = yield from self._trial(name, 1)
        return self._first[name]

    def _trial(self, name: str, runs: int) -> Steps[OrderTrial]:
        return self._judge_trial(name, (yield from self._run(name, runs)))

    def _run(self, name: str, runs: int) -> Steps[tuple[TensorFolder | None, ...]]:
        """Return what runs of the failing build put out."""
        return (
            yield from RunInOrder(
                build=self.failing, schedule=_schedule_of(name), runs=runs, under_load=name == UNDER_LOAD
            )
        )

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
        """Return whether the outputs are not what they should be; None where they cannot be read."""
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

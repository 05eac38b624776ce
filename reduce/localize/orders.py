"""Under which schedules of the runtime the outputs go wrong: a failure that comes and goes with the order is a race."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...runner.build_output.files.errors import BuildOutputError
from ...runner.build_output.golden_data import TensorFolder
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.localization.orders import OrderConfirmation, OrderTrial, Race
from ..replay.comparison import differs
from ..replay.load import busy
from ..replay.recorded_build import RecordedBuild
from ..replay.replay import ReplayError

AS_IT_IS, UNDER_LOAD = "as it is", "under load"
_REPEATS = 3
REPEATS_TO_CONFIRM = 4
"""A failure of chance p, whatever the order, shows k failures under one order and k passes under another with
probability (p (1 - p))^k, at most 4^-k: 0.4 % for 4 runs each."""


@dataclass(frozen=True, kw_only=True)
class OrderTrials:
    """Runs the failing build in many orders on the same data, and compares its outputs with the reference's."""

    failing: RecordedBuild
    expected: TensorFolder
    tolerance: Tolerance
    on_progress: Callable[[str], None]
    _first: dict[str, OrderTrial] = field(default_factory=dict[str, OrderTrial])
    """The first run under each schedule of the stack file."""

    def provoke(self) -> str | None:
        """The first schedule of the stack file under which the outputs are wrong, where there is one under which they
        are right: there, a failure that comes and goes can be looked at. None where there are no two such."""
        self.failing.restore()
        wrong = right = None
        for name in self._known:
            trial = self._once(name)
            wrong = wrong or (name if trial.failed else None)
            right = right or (name if trial.passed else None)
            if wrong and right:
                return wrong
        return None

    def try_all(self) -> tuple[OrderTrial, ...]:
        """As the caller's variables have it, repeatedly, alone and under load; then under each schedule of the stack
        file, with the variables of all others cleared."""
        self.failing.restore()
        self.on_progress("running the failing build as it is")
        trials = [self._trial(AS_IT_IS, _REPEATS)]
        self.on_progress("running the failing build under load")
        with busy():
            trials.append(self._trial(AS_IT_IS, _REPEATS).model_copy(update={"schedule": UNDER_LOAD}))
        return (*trials, *map(self._once, self._known))

    def look_for_race(self) -> Race:
        """What became of the failing build under each schedule, and whether the order decides."""
        trials = self.try_all()
        confirmation = self.confirm(trials)
        confirmed = confirmation is not None and confirmation.holds
        return Race(confirmed=confirmed, trials=trials, confirmation=confirmation)

    def confirm(self, trials: tuple[OrderTrial, ...]) -> OrderConfirmation | None:
        """Whether the order decides: one that failed against one that passed, in fresh runs; schedules of the stack
        file first, which hold the order fast. None where no order failed in all its runs, or none passed in all."""
        orders = [trial for trial in trials if trial.schedule != UNDER_LOAD]
        failing = [trial for trial in orders if trial.failed == trial.runs]
        passing = [trial for trial in orders if trial.passed == trial.runs]
        if not failing or not passing:
            return None
        bad, good = (min(found, key=lambda trial: trial.schedule == AS_IT_IS) for found in (failing, passing))
        self.on_progress(f"running {bad.schedule} and {good.schedule} in turns")
        empty = {"runs": 0, "failed": 0, "stopped": 0}
        bad, good = bad.model_copy(update=empty), good.model_copy(update=empty)
        while bad.runs < REPEATS_TO_CONFIRM:
            bad = _sum(bad, self._trial(bad.schedule, 1))
            good = _sum(good, self._trial(good.schedule, 1))
            if bad.failed < bad.runs or good.passed < good.runs:
                break
        return OrderConfirmation(failing=bad, passing=good)

    @property
    def _known(self) -> Mapping[str, Mapping[str, str]]:
        stack = self.failing.replayer.toolchain.stack
        return {name: schedule.variables for name, schedule in stack.schedules.items()}

    def _once(self, name: str) -> OrderTrial:
        if name not in self._first:
            self.on_progress(f"running the failing build under schedule {name}")
            self._first[name] = self._trial(name, 1)
        return self._first[name]

    def _trial(self, name: str, runs: int) -> OrderTrial:
        schedule = None if name == AS_IT_IS else name
        outcomes = [self._fails(schedule) for _ in range(runs)]
        return OrderTrial(
            schedule=name,
            variables=self._known[schedule] if schedule else {},
            runs=runs,
            failed=outcomes.count(True),
            stopped=outcomes.count(None),
        )

    def _fails(self, schedule: str | None) -> bool | None:
        try:
            outputs = self.failing.run(schedule=schedule).outputs
            if outputs is None:
                return None
            return any(
                name not in outputs.names
                or differs(outputs.tensor(name), self.expected.tensor(name), self.tolerance)
                for name in self.expected.names
            )
        except (ReplayError, BuildOutputError):
            return None


def _sum(first: OrderTrial, second: OrderTrial) -> OrderTrial:
    return OrderTrial(
        schedule=first.schedule,
        variables=first.variables,
        runs=first.runs + second.runs,
        failed=first.failed + second.failed,
        stopped=first.stopped + second.stopped,
    )

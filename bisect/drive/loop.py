"""The loop that drives bisections.

`Loop` asks each bisection what it needs, and lets the one with the highest expected gain for its cost go on. It drives
one bisection, or all of a night, in one thread. A pool of workers runs the probes.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...runner.errors import UserError
from ...runner.probe.pool import Activity, Event, ProbeDelay, ProbeDone, ProbeLost, ProbeRestart
from ...runner.probe.probe import RUN_ACTIVITY, ProbeRequest, ProbeResult
from ...runner.process.signals import check_interrupt, defer_interrupt
from ...store.vocabulary import BuildSource
from ..engine.answer import Conclusion
from ..engine.bisection import Bisection
from ..engine.estimate import next_build
from ..engine.range_search import (
    Context,
    ExpectedGain,
    Suspicion,
    Timings,
    probe_costs,
)
from ..engine.runs import (
    Needs,
    RunningProbe,
    WantedProbe,
)
from ..history.range import Target


class BudgetSpentError(Exception):
    """No further probe may start. The message says why, and how to continue."""


MAX_OPEN = 12
"""At most this many bisections are open at once. Each holds a lock, and on PostgreSQL a connection."""


class Workers(Protocol):
    """Runs probes."""

    @property
    def jobs(self) -> int:
        """Return the number of workers, which is how many probes can run at once."""
        ...

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to the next free worker, whose `Prober.probe` makes it. Return its number in events."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a probe. It causes no further events."""
        ...

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait for the next event. Return None after `timeout` seconds. Raises `UserError` where no probe can run."""
        ...


class BackgroundBuilder(Protocol):
    """Builds a commit in advance while cases run. Each method raises `UserError` where it cannot build."""

    def begin(self, request: ProbeRequest) -> None:
        """Begin a build. It replaces the previous one."""
        ...

    def stop(self) -> None:
        """Stop the build that is under way, if any. What it has built so far is kept."""
        ...

    def catch_up(self) -> None:
        """Handle the events since the last call."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProbeInFlight:
    """A probe that is recorded as started, and the request that a worker gets for it."""

    running: RunningProbe
    request: ProbeRequest


class Drivable(Protocol):
    """A bisection that records and shows what happens. The caller runs its probes."""

    @property
    def bisection(self) -> Bisection:
        """Return the current state of the bisection."""
        ...

    def settle(self, context: Context) -> Needs | Conclusion:
        """Go on until probes have to be started, cancelled or awaited, or until the conclusion. Raises `UserError`."""
        ...

    def record_start(self, wanted: WantedProbe) -> ProbeInFlight:
        """Record that a probe starts, and return it with the request for a worker."""
        ...

    def record_round(self, bisection: Bisection, needs: Needs, started: Sequence[ProbeInFlight]) -> None:
        """Show a round, and keep its notices: the bisection before it, its needs, and the probes started for them."""
        ...

    def build_request(self, probe: ProbeInFlight, target: Target) -> ProbeRequest:
        """Return a request to build a target in advance. It is based on the request of `probe`."""
        ...

    def notice(self, text: str) -> None:
        """Show a sentence, and keep it for the report."""
        ...

    def show_wait(self, why: str) -> None:
        """Show why a probe cannot begin."""
        ...

    def record_restart(self, probe: ProbeInFlight, why: str) -> None:
        """Record that a probe is started again."""
        ...

    def finish(self, probe: ProbeInFlight, result: ProbeResult) -> None:
        """Record the result of a probe."""
        ...

    def cancel(self, probe: ProbeInFlight) -> None:
        """Record that a probe was stopped because its result is no longer needed. The probe does not count as a run."""
        ...

    def show_activity(self, probe: ProbeInFlight, place: str, text: str) -> None:
        """Show what the worker of a probe is doing."""
        ...


class BisectionTask(Protocol):
    """A bisection to be driven."""

    @property
    def timings(self) -> Timings | None:
        """Return how long probes are expected to take before this bisection has timed any."""
        ...

    @property
    def deadline(self) -> float | None:
        """Return the time of `time.monotonic` at which the budget is spent. Return None without a budget."""
        ...

    def open(self, resources: ExitStack) -> Drivable | None:
        """Begin the bisection, or resume it. Return None where there is nothing to drive. Raises `UserError`.

        The loop closes `resources`, such as a lock, at the end of the bisection.
        """
        ...

    def check_budget(self) -> None:
        """Raise `BudgetSpentError` if no further probe may start. The loop calls this before each probe."""
        ...

    def conclude(self, conclusion: Conclusion) -> None:
        """Store the conclusion. The loop calls this when the bisection ends or its budget is spent."""
        ...

    def fail(self, error: UserError) -> None:
        """Handle an error that ends the bisection."""
        ...


@dataclass(eq=False)
class _OpenBisection:
    """A bisection that is being driven."""

    task: BisectionTask
    driven: Drivable
    resources: ExitStack
    due: bool = True
    """Whether something has happened since the bisection was last asked what it needs."""
    probes: dict[int, ProbeInFlight] = field(default_factory=dict[int, ProbeInFlight])
    """The probes in flight, by the number that `Workers.begin` returned."""
    gains: dict[str, ExpectedGain] = field(default_factory=dict[str, ExpectedGain])
    """The last gain in each repository that the bisection has searched so far. It has the suspects there."""


class Loop:
    """Drives bisections on one pool of workers."""

    def __init__(
        self,
        workers: Workers,
        *,
        built: Collection[str] = (),
        known_culprits: Iterable[tuple[str, str]] = (),
        share_build_cost: bool = False,
        background_builder: BackgroundBuilder | None = None,
    ) -> None:
        """Make a loop that drives no bisection yet.

        `built` are contents that were built before. `known_culprits` are pairs of a repository and a commit. With
        `share_build_cost`, bisections that need the same build split its cost. `background_builder` builds the next
        commit while only cases run.
        """
        self._workers = workers
        self._background_builder = background_builder
        self._cases_begun: set[int] = set()
        """The numbers of the probes whose cases have begun."""
        self._built = {*built}
        self._known_culprits = [(repository, {sha: 1.0}) for repository, sha in known_culprits]
        self._share_build_cost = share_build_cost
        self._open: list[_OpenBisection] = []
        self._earlier_suspicions: list[tuple[str, Suspicion]] = []
        """What each concluded bisection suspected in each repository."""

    def run(self, tasks: Iterable[BisectionTask]) -> None:
        """Drive all bisections to their ends. At most `MAX_OPEN` are open at once; the others wait in order."""
        waiting = deque(tasks)
        try:
            while waiting or self._open:
                while waiting and len(self._open) < MAX_OPEN:
                    self._begin(waiting.popleft())
                self._stop_overdue()
                if self._open and not self._serve_best():
                    self._wait()
        finally:
            # The caller ends the workers, and thereby the probes in flight, which do not count as runs.
            for opened in self._open:
                opened.resources.close()

    def _begin(self, task: BisectionTask) -> None:
        with ExitStack() as resources:
            try:
                driven = task.open(resources)
            except UserError as error:
                task.fail(error)
                return
            if driven is not None:
                self._open.append(_OpenBisection(task, driven, resources.pop_all()))

    def _free_workers(self) -> int:
        """Return the number of workers without a probe."""
        return self._workers.jobs - sum(len(opened.probes) for opened in self._open)

    def _serve_best(self) -> bool:
        """Let the bisection with the highest expected gain for its cost go on. Return whether there was one."""
        if self._free_workers() <= 0:
            return False
        gains: dict[_OpenBisection, ExpectedGain] = {}
        for opened in self._open:
            if not opened.due:
                continue
            try:
                gain = opened.driven.bisection.expected_gain(self._context(opened))
            except UserError as error:
                self._fail(opened, error)
                return True
            if gain is None:
                self._serve(opened, cost_sharers=None)
                return True
            if gain.ends_differ:
                opened.gains[gain.repository] = gain
            gains[opened] = gain
        if not gains:
            return False
        best = max(gains, key=lambda opened: self._rate(opened, gains))
        self._serve(best, cost_sharers=_other_gains(best, gains))
        return True

    def _rate(self, opened: _OpenBisection, gains: dict[_OpenBisection, ExpectedGain]) -> float:
        if len(gains) == 1:
            return 0.0  # the only candidate wins anyway
        gain = gains[opened]
        return gain.rate(probe_costs(gain, _other_gains(opened, gains)))

    def _serve(self, opened: _OpenBisection, *, cost_sharers: Sequence[ExpectedGain] | None) -> None:
        """Cancel and start the probes that one bisection asks for, or conclude it."""
        opened.due = False
        context = self._context(opened, cost_sharers=cost_sharers)
        try:
            while True:
                needs = opened.driven.settle(context)
                if isinstance(needs, Conclusion):
                    self._conclude(opened, needs)
                    return
                worker_numbers = {probe.running.number: number for number, probe in opened.probes.items()}
                for run in needs.cancel:
                    self._cancel(opened, worker_numbers[run])
                self._start(opened, needs)
                if needs.start or not needs.cancel:
                    break
                # After cancelling only, ask again: the freed workers may change what is needed.
        except BudgetSpentError as error:
            self._stop_for_budget(opened, str(error))
        except UserError as error:
            self._fail(opened, error)

    def _start(self, opened: _OpenBisection, needs: Needs) -> None:
        """Start the probes of a round, and then show it. The estimate on screen takes time, so workers do not wait."""
        bisection, started = opened.driven.bisection, list[ProbeInFlight]()
        if self._background_builder is not None and needs.start:
            # A probe waits for its build, so that build gets the whole machine.
            self._background_builder.stop()
        try:
            for wanted in needs.start:
                check_interrupt()
                opened.task.check_budget()
                with defer_interrupt():
                    probe = opened.driven.record_start(wanted)
                opened.probes[self._workers.begin(probe.request)] = probe
                started.append(probe)
        finally:
            opened.driven.record_round(bisection, needs, started)

    def _context(
        self, opened: _OpenBisection, *, cost_sharers: Sequence[ExpectedGain] | None = None
    ) -> Context:
        suspicions: dict[str, list[Suspicion]] = {}
        others = [each for other in self._open if other is not opened for each in self._suspicions(other)]
        for repository, suspicion in [*self._known_culprits, *self._earlier_suspicions, *others]:
            suspicions.setdefault(repository, []).append(suspicion)
        return Context(
            workers=len(opened.probes) + max(1, self._free_workers()),
            timings=opened.task.timings,
            built=self._built,
            suspicions=suspicions,
            cost_sharers=cost_sharers if self._share_build_cost else None,
        )

    def _suspicions(self, opened: _OpenBisection) -> list[tuple[str, Suspicion]]:
        """Return what a bisection suspects in each repository. Empty until both of its ends were run."""
        suspicions = ((repository, gain.suspects) for repository, gain in opened.gains.items())
        return [(repository, suspicion) for repository, suspicion in suspicions if suspicion]

    def _wait(self) -> None:
        """Wait for an event of a probe, or until the first deadline."""
        deadlines = [opened.task.deadline for opened in self._open if opened.task.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        try:
            event = self._workers.next_event(timeout=timeout)
        except UserError as error:
            # The error does not name a probe, so every bisection with a probe in flight fails.
            for opened in [opened for opened in self._open if opened.probes]:
                self._fail(opened, error)
            return
        if event is None:
            return
        # An interrupt within a transaction could leave the store locked for this process.
        with defer_interrupt():
            self._handle_event(next(opened for opened in self._open if event.number in opened.probes), event)

    def _handle_event(self, opened: _OpenBisection, event: Event) -> None:
        """Handle an event of a probe of this bisection."""
        check_interrupt()
        match event:
            case Activity(number=number, place=place, text=text):
                opened.driven.show_activity(opened.probes[number], place, text)
                if text == RUN_ACTIVITY:
                    self._cases_begun.add(number)
                self._build_ahead(opened)
            case ProbeDone(number=number, result=result):
                assert result is not None
                probe = opened.probes.pop(number)
                opened.driven.finish(probe, result)
                if result.build_source is not BuildSource.NONE:
                    self._built.add(probe.running.wanted.target.content)
                opened.due = True
            case ProbeLost(number=number):
                probe = opened.probes.pop(number)
                opened.driven.record_restart(probe, f"a worker was killed in run {probe.running.number}")
                opened.probes[self._workers.begin(probe.request)] = probe
            case ProbeRestart(number=number, why=why):
                probe = opened.probes[number]
                self._cases_begun.discard(number)
                opened.driven.record_restart(probe, f"run {probe.running.number}: {why}")
            case ProbeDelay(why=why):
                opened.driven.show_wait(why)

    def _build_ahead(self, opened: _OpenBisection) -> None:
        """Begin the build that is probably needed next, if all probes run cases and one bisection is open."""
        if self._background_builder is None:
            return
        try:
            self._background_builder.catch_up()
            if not self._cases_begun.issuperset(opened.probes) or len(self._open) > 1:
                return
            # All workers will be free once these cases have ended.
            context = replace(self._context(opened), workers=self._workers.jobs)
            target = next_build(opened.driven.bisection, context)
            if target is not None:
                self._background_builder.begin(
                    opened.driven.build_request(next(iter(opened.probes.values())), target)
                )
        except UserError as error:
            self._background_builder = None
            opened.driven.notice(f"no longer building ahead: {error}")

    def _cancel(self, opened: _OpenBisection, number: int) -> None:
        probe = opened.probes.pop(number)
        self._workers.cancel(number)
        opened.driven.cancel(probe)

    def _stop_overdue(self) -> None:
        now = time.monotonic()
        for opened in [*self._open]:
            if opened.task.deadline is not None and now >= opened.task.deadline:
                self._stop_for_budget(opened, "the budget is spent; continue with --resume")

    def _stop_for_budget(self, opened: _OpenBisection, why: str) -> None:
        """Cancel the probes of a bisection that may start no further one, and conclude from the runs so far."""
        for number in [*opened.probes]:
            self._cancel(opened, number)
        context = self._context(opened)
        try:
            # The runs so far may already be enough for an answer.
            needs = opened.driven.settle(context)
        except UserError as error:
            self._fail(opened, error)
            return
        if isinstance(needs, Needs):
            opened.driven.record_round(opened.driven.bisection, needs, ())
            needs = opened.driven.bisection.conclude_on_budget(why, context)
        self._conclude(opened, needs)

    def _conclude(self, opened: _OpenBisection, conclusion: Conclusion) -> None:
        self._earlier_suspicions += self._suspicions(opened)
        with opened.resources:
            self._open.remove(opened)
            opened.task.conclude(conclusion)

    def _fail(self, opened: _OpenBisection, error: UserError) -> None:
        with opened.resources:
            self._open.remove(opened)
            for number in opened.probes:
                self._workers.cancel(number)
            opened.task.fail(error)


def _other_gains(opened: _OpenBisection, gains: dict[_OpenBisection, ExpectedGain]) -> list[ExpectedGain]:
    """Return the expected gains of the other bisections, which may need the same builds."""
    return [gain for other, gain in gains.items() if other is not opened]

"""The one loop that owns effects: it asks bisections what they need, and serves the one that promises most.

It drives one bisection, or all of a night. A pool of workers makes the probes. All bisections are in one thread.
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
from ...runner.process.signals import check_interrupt
from ...store.vocabulary import BuildSource
from ..engine.answer import Conclusion
from ..engine.bisection import Bisection
from ..engine.range_search import Context, ExpectedGain, Suspicion, Timings, probe_costs
from ..engine.runs import Needs, RunningProbe, WantedProbe
from ..history.range import Target
from .progress import next_build


class BudgetSpentError(Exception):
    """No probe may start any more. The text says why, and how to go on."""


MAX_OPEN = 12
"""At most this many bisections are open at once, because each holds a lock, and a connection on PostgreSQL."""


class Workers(Protocol):
    """Makes probes."""

    @property
    def jobs(self) -> int:
        """Return the number of probes that are made at once."""
        ...

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to the next free worker. Return the number by which events refer to it."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a probe. No more events come from it."""
        ...

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait for news. Raises `UserError` where probes cannot be made."""
        ...


class BuildsAhead(Protocol):
    """Builds while cases run. Each method raises `UserError` where no build can be made."""

    def begin(self, request: ProbeRequest) -> None:
        """Begin a build, in place of the previous one."""
        ...

    def stop(self) -> None:
        """Stop the build that is under way, if any. What it has made so far is kept."""
        ...

    def catch_up(self) -> None:
        """Handle the events since the last call."""
        ...


@dataclass(frozen=True, kw_only=True)
class PlannedProbe:
    """A probe that counts as started, and the request to a worker for it."""

    running: RunningProbe
    request: ProbeRequest


class Drivable(Protocol):
    """A bisection with its effects, whose probes are run by the caller."""

    @property
    def bisection(self) -> Bisection:
        """Return the bisection in its present state."""
        ...

    def settle(self, context: Context) -> Needs | Conclusion:
        """Go on until probes have to be started, cancelled or awaited, or until the conclusion. Raises `UserError`."""
        ...

    def plan(self, wanted: WantedProbe) -> PlannedProbe:
        """Record that a probe starts."""
        ...

    def build_request(self, planned: PlannedProbe, target: Target) -> ProbeRequest:
        """Return the request to build a target ahead of its run, modelled on the request of another probe."""
        ...

    def notice(self, text: str) -> None:
        """Keep a sentence for the report, and show it."""
        ...

    def show_wait(self, why: str) -> None:
        """Show why a probe cannot begin."""
        ...

    def record_restart(self, planned: PlannedProbe, why: str) -> None:
        """Record that a probe is started anew."""
        ...

    def finish(self, planned: PlannedProbe, result: ProbeResult) -> None:
        """Record the result of a probe."""
        ...

    def cancel(self, planned: PlannedProbe) -> None:
        """Record that a probe was stopped because its result is no longer needed. It never counts."""
        ...

    def show_activity(self, planned: PlannedProbe, where: str, text: str) -> None:
        """Show what a worker does for a probe."""
        ...


class Task(Protocol):
    """A bisection to be driven."""

    @property
    def timings(self) -> Timings | None:
        """Return the times that probes are expected to take, before any of this bisection was timed."""
        ...

    @property
    def deadline(self) -> float | None:
        """Return the time of `time.monotonic` after which no probe starts or goes on."""
        ...

    def open(self, held: ExitStack) -> Drivable | None:
        """Begin the bisection, or resume it. Raises `UserError`.

        What it holds until its end, a lock for instance, is entered in `held`. Return None where there is nothing to
        drive.
        """
        ...

    def permit(self) -> None:
        """Called before each probe. Raises `BudgetSpentError`."""
        ...

    def conclude(self, conclusion: Conclusion) -> None:
        """Called when the bisection, or its budget, has come to its end."""
        ...

    def fail(self, error: UserError) -> None:
        """Called when the bisection cannot go on."""
        ...


@dataclass(eq=False)
class _Open:
    """A bisection that is being driven.

    `due` says whether something has happened since the bisection was last asked what it needs.
    """

    task: Task
    driven: Drivable
    held: ExitStack
    due: bool = True
    probes: dict[int, PlannedProbe] = field(default_factory=dict[int, PlannedProbe])
    """The probes in flight, by the workers' number."""
    suspects: dict[str, Suspicion] = field(default_factory=dict[str, Suspicion])
    """The commits that it suspects in the ranges that it has searched, by repository."""


class Loop:
    """Drives bisections on one pool of workers."""

    def __init__(
        self,
        workers: Workers,
        *,
        built: Collection[str] = (),
        known_culprits: Iterable[tuple[str, str]] = (),
        together: bool = False,
        ahead: BuildsAhead | None = None,
    ) -> None:
        """`built` are contents that were built before. `known_culprits` are repository and commit of known culprits.

        `together` says that several bisections may share the cost of a build. With `ahead`, the next build begins while
        only cases run.
        """
        self._workers = workers
        self._ahead = ahead
        self._at_case: set[int] = set()
        """The numbers of the probes whose cases have begun."""
        self._built = {*built}
        self._known = [(repository, {sha: 1.0}) for repository, sha in known_culprits]
        self._together = together
        self._open: list[_Open] = []
        self._suspected: list[tuple[str, Suspicion]] = []
        """The commits that concluded bisections suspected, by repository."""

    def run(self, tasks: Iterable[Task]) -> None:
        """Drive all bisections to their ends. The first few run at once, and others begin as these end."""
        waiting = deque(tasks)
        try:
            while waiting or self._open:
                while waiting and len(self._open) < MAX_OPEN:
                    self._begin(waiting.popleft())
                self._stop_overdue()
                if self._open and not self._serve_best():
                    self._wait()
        finally:
            # Probes in flight end with the workers, and never count.
            for each in self._open:
                each.held.close()

    def _begin(self, task: Task) -> None:
        with ExitStack() as held:
            try:
                driven = task.open(held)
            except UserError as error:
                task.fail(error)
                return
            if driven is not None:
                self._open.append(_Open(task, driven, held.pop_all()))

    def _free_workers(self) -> int:
        """Return the number of workers without a probe."""
        return self._workers.jobs - sum(len(each.probes) for each in self._open)

    def _serve_best(self) -> bool:
        """Serve the bisection with the highest expected gain for its cost. Return whether any was served."""
        if self._free_workers() <= 0:
            return False
        promises: dict[_Open, ExpectedGain] = {}
        for each in self._open:
            if not each.due:
                continue
            try:
                promise = each.driven.bisection.expected_gain(self._context(each))
            except UserError as error:
                self._fail(each, error)
                return True
            if promise is None:
                self._serve(each, rivals=None)
                return True
            if promise.ends_differ:
                each.suspects[promise.repository] = promise.suspects
            promises[each] = promise
        if not promises:
            return False
        best = max(promises, key=lambda each: self._rate(each, promises))
        self._serve(best, rivals=_rivals(best, promises))
        return True

    def _rate(self, each: _Open, promises: dict[_Open, ExpectedGain]) -> float:
        if len(promises) == 1:
            return 0.0
        promise = promises[each]
        return promise.rate(probe_costs(promise, _rivals(each, promises)))

    def _serve(self, each: _Open, *, rivals: Sequence[ExpectedGain] | None) -> None:
        """Let one bisection go on: its probes are cancelled and started, or it ends."""
        each.due = False
        context = self._context(each, rivals=rivals)
        try:
            while True:
                needs = each.driven.settle(context)
                if isinstance(needs, Conclusion):
                    self._conclude(each, needs)
                    return
                ordinals = {planned.running.number: number for number, planned in each.probes.items()}
                for ordinal in needs.cancel:
                    self._cancel(each, ordinals[ordinal])
                if needs.start or not needs.cancel:
                    break
            if self._ahead is not None and needs.start:
                # The build for a probe has the machine for itself, because the probe waits for it.
                self._ahead.stop()
            for wanted in needs.start:
                check_interrupt()
                each.task.permit()
                planned = each.driven.plan(wanted)
                each.probes[self._workers.begin(planned.request)] = planned
        except BudgetSpentError as error:
            self._stop_for_budget(each, str(error))
        except UserError as error:
            self._fail(each, error)

    def _context(self, each: _Open, *, rivals: Sequence[ExpectedGain] | None = None) -> Context:
        suspicions: dict[str, list[Suspicion]] = {}
        for repository, suspicion in self._known:
            suspicions.setdefault(repository, []).append(suspicion)
        others = [row for other in self._open if other is not each for row in self._suspicions(other)]
        for repository, suspicion in [*self._suspected, *others]:
            suspicions.setdefault(repository, []).append(suspicion)
        return Context(
            workers=len(each.probes) + max(1, self._free_workers()),
            timings=each.task.timings,
            built=self._built,
            suspicions=suspicions,
            rivals=rivals if self._together else None,
        )

    def _suspicions(self, each: _Open) -> list[tuple[str, Suspicion]]:
        """Return the commits that a bisection suspects, by repository. Empty as long as its ends were not measured."""
        return [(repository, suspicion) for repository, suspicion in each.suspects.items() if suspicion]

    def _wait(self) -> None:
        """Wait for news of a probe, or until a bisection has to stop."""
        deadlines = [each.task.deadline for each in self._open if each.task.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        try:
            event = self._workers.next_event(timeout=timeout)
        except UserError as error:
            # The error does not say whose probe it was.
            for each in [each for each in self._open if each.probes]:
                self._fail(each, error)
            return
        if event is not None:
            self._handle_event(next(each for each in self._open if event.number in each.probes), event)

    def _handle_event(self, each: _Open, event: Event) -> None:
        """Handle an event of one of a bisection's probes."""
        check_interrupt()
        match event:
            case Activity(number=number, where=where, text=text):
                each.driven.show_activity(each.probes[number], where, text)
                if text == RUN_ACTIVITY:
                    self._at_case.add(number)
                self._look_ahead(each)
            case ProbeDone(number=number, result=result):
                assert result is not None
                planned = each.probes.pop(number)
                each.driven.finish(planned, result)
                if result.build_source is not BuildSource.NONE:
                    self._built.add(planned.running.wanted.target.content)
                each.due = True
            case ProbeLost(number=number):
                planned = each.probes.pop(number)
                each.driven.record_restart(planned, f"a worker was killed in run {planned.running.number}")
                each.probes[self._workers.begin(planned.request)] = planned
            case ProbeRestart(number=number, why=why):
                planned = each.probes[number]
                self._at_case.discard(number)
                each.driven.record_restart(planned, f"run {planned.running.number}: {why}")
            case ProbeDelay(why=why):
                each.driven.show_wait(why)

    def _look_ahead(self, each: _Open) -> None:
        """Begin the build that is probably needed next, if nothing but cases runs."""
        if self._ahead is None:
            return
        try:
            self._ahead.catch_up()
            if not self._at_case.issuperset(each.probes) or len(self._open) > 1:
                return
            # The context will be this one once these cases have ended.
            context = replace(self._context(each), workers=self._workers.jobs)
            target = next_build(each.driven.bisection, context)
            if target is not None:
                self._ahead.begin(each.driven.build_request(next(iter(each.probes.values())), target))
        except UserError as error:
            self._ahead = None
            each.driven.notice(f"builds are not begun ahead any more: {error}")

    def _cancel(self, each: _Open, number: int) -> None:
        planned = each.probes.pop(number)
        self._workers.cancel(number)
        each.driven.cancel(planned)

    def _stop_overdue(self) -> None:
        now = time.monotonic()
        for each in [*self._open]:
            if each.task.deadline is not None and now >= each.task.deadline:
                self._stop_for_budget(each, "its budget is spent; --resume goes on")

    def _stop_for_budget(self, each: _Open, why: str) -> None:
        """Conclude a bisection for which no probe may start any more.

        Probes in flight are cancelled, and what is known becomes the conclusion.
        """
        for number in [*each.probes]:
            self._cancel(each, number)
        context = self._context(each)
        try:
            # The probes so far may be enough for an answer. Otherwise the conclusion is what they show.
            needs = each.driven.settle(context)
        except UserError as error:
            self._fail(each, error)
            return
        spent = each.driven.bisection.conclude_on_budget(why, context)
        self._conclude(each, needs if isinstance(needs, Conclusion) else spent)

    def _conclude(self, each: _Open, conclusion: Conclusion) -> None:
        self._suspected += self._suspicions(each)
        with each.held:
            self._open.remove(each)
            each.task.conclude(conclusion)

    def _fail(self, each: _Open, error: UserError) -> None:
        with each.held:
            self._open.remove(each)
            for number in each.probes:
                self._workers.cancel(number)
            each.task.fail(error)


def _rivals(best: _Open, promises: dict[_Open, ExpectedGain]) -> list[ExpectedGain]:
    return [promise for each, promise in promises.items() if each is not best]

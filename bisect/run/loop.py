"""The one loop that owns effects: it asks bisections what they need, and serves the one that promises most.

It drives one bisection, or all of a night. Probes are made by a pool of workers; all bisections are in one thread.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...runner.errors import UserError
from ...runner.probe.probe import RUNNING
from ...runner.probe.records import ProbeRequest, ProbeResult
from ...runner.probe.workers.pool import Event, Lost, MadeAgain, Waits
from ...runner.probe.workers.worker import Activity, Done
from ...store.vocabulary import BuildSource
from ..engine.bisection import Bisection
from ..engine.needs import Needs
from ..engine.priority.circumstances import Circumstances, Suspicion
from ..engine.priority.costs import Timings, costs_beside
from ..engine.priority.promise import Promise
from ..engine.probes import RunningProbe, Target, WantedProbe
from ..result import Conclusion
from .budget import BudgetSpentError
from .view.estimate import next_build

MOST_OPEN = 12
"""Bisections at once: each holds a lock, on PostgreSQL a connection too."""


class Workers(Protocol):
    """Who makes probes."""

    @property
    def jobs(self) -> int:
        """How many probes are made at once."""
        ...

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to the next free worker; the number by which events speak of it."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a probe. Nothing more is heard of it."""
        ...

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait for news. Raises `UserError` where probes cannot be made."""
        ...


class BuildsAhead(Protocol):
    """Who builds while cases run. Each method raises `UserError` where no build can be made."""

    def begin(self, request: ProbeRequest) -> None:
        """Begin a build, in place of the one before."""
        ...

    def stop(self) -> None:
        """Stop the build that is under way, if any: what it has made so far is kept."""
        ...

    def catch_up(self) -> None:
        """Take note of what has happened."""
        ...


@dataclass(frozen=True, kw_only=True)
class PlannedProbe:
    """A probe that counts as started, and what a worker is asked for it."""

    running: RunningProbe
    request: ProbeRequest


class Driven(Protocol):
    """A bisection beside its effects, but for its probes."""

    @property
    def bisection(self) -> Bisection:
        """As far as it has come."""
        ...

    def settle(self, around: Circumstances) -> Needs | Conclusion:
        """Go on until probes have to be started or cancelled, or awaited, or to the conclusion. Raises `UserError`."""
        ...

    def plan(self, wanted: WantedProbe) -> PlannedProbe:
        """Note that a probe starts."""
        ...

    def ahead(self, planned: PlannedProbe, target: Target) -> ProbeRequest:
        """What a worker is asked who builds a target ahead of its run, as it is asked for another probe."""
        ...

    def notice(self, text: str) -> None:
        """Keep a sentence for the report, and show it."""
        ...

    def waits(self, why: str) -> None:
        """Show why a probe cannot begin."""
        ...

    def again(self, planned: PlannedProbe, why: str) -> None:
        """Note that a probe is started anew."""
        ...

    def finish(self, planned: PlannedProbe, result: ProbeResult) -> None:
        """Note what came of a probe."""
        ...

    def cancel(self, planned: PlannedProbe) -> None:
        """Note that a probe was stopped, for it had lost its value. It never counts."""
        ...

    def activity(self, planned: PlannedProbe, where: str, text: str) -> None:
        """Show what a worker does for a probe."""
        ...


class Task(Protocol):
    """A bisection to be driven."""

    @property
    def timings(self) -> Timings | None:
        """What probes are expected to take before any of its own was timed."""
        ...

    @property
    def deadline(self) -> float | None:
        """The time of `time.monotonic` after which no probe starts or goes on."""
        ...

    def open(self, held: ExitStack) -> Driven | None:
        """Begin, or go on. What it holds until its end, a lock for instance, is entered in `held`. None where there is
        nothing to drive. Raises `UserError`."""
        ...

    def permit(self) -> None:
        """Asked before each probe. Raises `BudgetSpentError`."""
        ...

    def concluded(self, conclusion: Conclusion) -> None:
        """It has come to its end, or to that of its budget."""
        ...

    def failed(self, error: UserError) -> None:
        """It cannot go on."""
        ...


@dataclass(eq=False)
class _Open:
    """A bisection that is being driven. `due`: whether something has happened since it was last asked."""

    task: Task
    driven: Driven
    held: ExitStack
    due: bool = True
    probes: dict[int, PlannedProbe] = field(default_factory=dict[int, PlannedProbe])
    """The probes in flight, by the workers' number."""
    suspects: dict[str, Suspicion] = field(default_factory=dict[str, Suspicion])
    """Whom it suspects in the ranges that it has searched, by repository."""


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
        """`built` are contents that were built before, `known_culprits` repository and commit of culprits that are
        known, `together` tells that several bisections may pay for a build together. With `ahead` the next build is
        begun while nothing but cases runs."""
        self._workers = workers
        self._ahead = ahead
        self._at_case: set[int] = set()
        """The probes whose cases run now."""
        self._built = {*built}
        self._known = [(repository, {sha: 1.0}) for repository, sha in known_culprits]
        self._together = together
        self._open: list[_Open] = []
        self._suspected: list[tuple[str, Suspicion]] = []
        """Whom the bisections suspected that have come to their ends."""

    def run(self, tasks: Iterable[Task]) -> None:
        """Drive all bisections to their ends, the first few at once and others as these end."""
        waiting = deque(tasks)
        try:
            while waiting or self._open:
                while waiting and len(self._open) < MOST_OPEN:
                    self._begin(waiting.popleft())
                self._stop_overdue()
                if self._open and not self._serve_best():
                    self._wait()
        finally:
            # What is in flight ends with the workers, and never counts.
            for each in self._open:
                each.held.close()

    def _begin(self, task: Task) -> None:
        with ExitStack() as held:
            try:
                driven = task.open(held)
            except UserError as error:
                task.failed(error)
                return
            if driven is not None:
                self._open.append(_Open(task, driven, held.pop_all()))

    def _free(self) -> int:
        """Workers without a probe."""
        return self._workers.jobs - sum(len(each.probes) for each in self._open)

    def _serve_best(self) -> bool:
        """Ask the bisection that promises most for its cost what it needs; whether any was asked."""
        if self._free() <= 0:
            return False
        promises: dict[_Open, Promise] = {}
        for each in self._open:
            if not each.due:
                continue
            try:
                promise = each.driven.bisection.promise(self._around(each))
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
        self._serve(best, rivals=_others(best, promises))
        return True

    def _rate(self, each: _Open, promises: dict[_Open, Promise]) -> float:
        if len(promises) == 1:
            return 0.0
        promise = promises[each]
        return promise.rate(costs_beside(promise, _others(each, promises)))

    def _serve(self, each: _Open, *, rivals: Sequence[Promise] | None) -> None:
        """Have one bisection go on: probes are cancelled and started, or it ends."""
        each.due = False
        around = self._around(each, rivals=rivals)
        try:
            while True:
                needs = each.driven.settle(around)
                if isinstance(needs, Conclusion):
                    self._conclude(each, needs)
                    return
                ordinals = {planned.running.number: number for number, planned in each.probes.items()}
                for ordinal in needs.cancel:
                    self._cancel(each, ordinals[ordinal])
                if needs.start or not needs.cancel:
                    break
            if self._ahead is not None and needs.start:
                # What is built now is waited for: it has the machine alone.
                self._ahead.stop()
            for wanted in needs.start:
                each.task.permit()
                planned = each.driven.plan(wanted)
                each.probes[self._workers.begin(planned.request)] = planned
        except BudgetSpentError as error:
            self._spend(each, str(error))
        except UserError as error:
            self._fail(each, error)

    def _around(self, each: _Open, *, rivals: Sequence[Promise] | None = None) -> Circumstances:
        suspicions: dict[str, list[Suspicion]] = {}
        for repository, suspicion in self._known:
            suspicions.setdefault(repository, []).append(suspicion)
        others = [row for other in self._open if other is not each for row in self._suspected_by(other)]
        for repository, suspicion in [*self._suspected, *others]:
            suspicions.setdefault(repository, []).append(suspicion)
        return Circumstances(
            workers=len(each.probes) + max(1, self._free()),
            timings=each.task.timings,
            built=self._built,
            suspicions=suspicions,
            rivals=rivals if self._together else None,
        )

    def _suspected_by(self, each: _Open) -> list[tuple[str, Suspicion]]:
        """Whom a bisection suspects, by repository; nobody as long as its ends were not measured."""
        return [(repository, suspicion) for repository, suspicion in each.suspects.items() if suspicion]

    def _wait(self) -> None:
        """Wait for news of a probe, or until a bisection has to stop."""
        deadlines = [each.task.deadline for each in self._open if each.task.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        try:
            event = self._workers.next_event(timeout=timeout)
        except UserError as error:
            # Whose probe it was is not said.
            for each in [each for each in self._open if each.probes]:
                self._fail(each, error)
            return
        if event is not None:
            self._hear(next(each for each in self._open if event.number in each.probes), event)

    def _hear(self, each: _Open, event: Event) -> None:
        """Take note of news of one of its probes."""
        match event:
            case Activity(number=number, where=where, text=text):
                each.driven.activity(each.probes[number], where, text)
                if text == RUNNING:
                    self._at_case.add(number)
                self._look_ahead(each)
            case Done(number=number, result=result):
                assert result is not None
                planned = each.probes.pop(number)
                each.driven.finish(planned, result)
                if result.build_source is not BuildSource.NONE:
                    self._built.add(planned.running.wanted.target.content)
                each.due = True
            case Lost(number=number):
                planned = each.probes.pop(number)
                each.driven.again(planned, f"a worker was killed in run {planned.running.number}")
                each.probes[self._workers.begin(planned.request)] = planned
            case MadeAgain(number=number, why=why):
                planned = each.probes[number]
                each.driven.again(planned, f"run {planned.running.number}: {why}")
            case Waits(why=why):
                each.driven.waits(why)

    def _look_ahead(self, each: _Open) -> None:
        """Begin the build that is probably needed next, where cases are all that runs."""
        if self._ahead is None:
            return
        try:
            self._ahead.catch_up()
            if not self._at_case.issuperset(each.probes) or len(self._open) > 1:
                return
            # As it will be asked once these cases have ended.
            around = replace(self._around(each), workers=self._workers.jobs)
            target = next_build(each.driven.bisection, around)
            if target is not None:
                self._ahead.begin(each.driven.ahead(next(iter(each.probes.values())), target))
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
                self._spend(each, "its budget is spent; --resume goes on")

    def _spend(self, each: _Open, why: str) -> None:
        """No probe may start any more: what is in flight is cancelled, and what is known is the conclusion."""
        for number in [*each.probes]:
            self._cancel(each, number)
        around = self._around(each)
        try:
            # What earlier starts have probed may be enough for an answer, and is at least what is known.
            needs = each.driven.settle(around)
        except UserError as error:
            self._fail(each, error)
            return
        spent = each.driven.bisection.budget_spent(why, around)
        self._conclude(each, needs if isinstance(needs, Conclusion) else spent)

    def _conclude(self, each: _Open, conclusion: Conclusion) -> None:
        self._suspected += self._suspected_by(each)
        with each.held:
            self._open.remove(each)
            each.task.concluded(conclusion)

    def _fail(self, each: _Open, error: UserError) -> None:
        with each.held:
            self._open.remove(each)
            for number in each.probes:
                self._workers.cancel(number)
            each.task.failed(error)


def _others(best: _Open, promises: dict[_Open, Promise]) -> list[Promise]:
    return [promise for each, promise in promises.items() if each is not best]

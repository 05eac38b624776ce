"""Several bisections beside each other on one crew: whoever promises most for what it costs goes next.

Each bisection is driven as it is alone, in a greenlet of its own, which stands still where it waits for its turn or
for a run. So all of them are in one thread, and only one moves at a time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from greenlet import greenlet

from ...runner.errors import UserError
from ...runner.probe.records import ProbeRequest
from ...runner.probe.workers.pool import Event
from ...runner.probe.workers.worker import Activity
from ..run.company import Outlook, Workers
from ..run.costs import Timings
from ..search.evidence.sharing import shared_costs, shared_rates
from ..search.graph.graph import Floats

MOST_OPEN = 12
"""Bisections at once: each holds a lock, on PostgreSQL a connection too."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A bisection to be driven.

    drive: drives it to its end. permit: raises `BudgetSpentError` where it may not start a run. timings: what is
    expected before it has built and run anything itself.
    """

    drive: Callable[["Seat"], None]
    permit: Callable[[], None]
    timings: Timings | None


class Seat:
    """One bisection's company and its workers."""

    def __init__(self, table: "Table", task: Task) -> None:
        self._table = table
        self.permit = task.permit
        self.timings = task.timings
        self.events: deque[Event] = deque()
        self.look: Callable[[], Outlook] | None = None
        """Where it waits for its turn: what it promises now."""
        self.suspects: dict[str, Mapping[str, float]] = {}
        """Of the ranges that it has searched, by repository."""

    @property
    def jobs(self) -> int:
        """All workers that are free, and those that work for it."""
        return self._table.in_flight(self) + max(1, self._table.free)

    def begin(self, request: ProbeRequest) -> int:
        return self._table.begin(self, request)

    def cancel(self, number: int) -> None:
        self._table.cancel(number)

    def next_event(self, *, timeout: float | None) -> Event | None:
        """News of its own runs; there are no deadlines here, so `timeout` is None."""
        while not self.events:
            self._table.leave_to_others()
        return self.events.popleft()

    @property
    def built(self) -> set[str]:
        return self._table.built

    def turn(self, look: Callable[[], Outlook]) -> bool:
        outlook = look()
        if outlook.begun:
            self.suspects[outlook.repository] = outlook.suspects
        self.look = look
        try:
            return self._table.leave_to_others()
        finally:
            self.look = None

    def costs(self, outlook: Outlook) -> Floats:
        return self._table.costs(self, outlook)

    def suspicions(self, repository: str) -> Sequence[Mapping[str, float]]:
        return self._table.suspicions(self, repository)


class Table:
    """All bisections of a night."""

    def __init__(self, crew: Workers, *, built: set[str], known: Sequence[tuple[str, str]]) -> None:
        """`built` are contents that were built before, `known` the repository and commit of culprits that are."""
        self._crew = crew
        self.built = built
        self._known = [(repository, {sha: 1.0}) for repository, sha in known]
        self._seats: list[Seat] = []
        self._strands: dict[Seat, greenlet] = {}
        """Of the bisections that have not ended."""
        self._owners: dict[int, Seat] = {}
        """Of the runs in flight."""

    def drive(self, tasks: Iterable[Task]) -> None:
        """Drive bisections to their ends, the first few at once and others as these end."""
        waiting = deque(tasks)
        try:
            while waiting or self._strands:
                while waiting and len(self._strands) < MOST_OPEN:
                    task = waiting.popleft()
                    seat = Seat(self, task)
                    self._seats.append(seat)
                    self._strands[seat] = greenlet(task.drive)
                    self._resume(seat, seat)
                if self._strands:
                    self._step()
        finally:
            for strand in self._strands.values():
                if not strand.dead:
                    strand.throw()

    def _step(self) -> None:
        """Let the best one start a run; where no worker is free, or nobody waits, wait for a run."""
        ready = self._outlooks()
        if ready and self.free > 0:
            rates = {seat: outlook.rate(_costs(seat, ready)) for seat, outlook in ready.items()}
            self._resume(max(ready, key=rates.__getitem__), True)
            return
        try:
            event = self._crew.next_event(timeout=None)
        except UserError as error:
            # Whose run it was is not said.
            for seat in {*self._owners.values()}:
                self._resume(seat, error)
            return
        if event is None:
            return
        seat = self._owners[event.number]
        seat.events.append(event)
        if not isinstance(event, Activity):
            del self._owners[event.number]
        elif seat.look is not None:
            return
        self._resume(seat, False)

    def _resume(self, seat: Seat, word: "Seat | bool | UserError") -> None:
        """Let one move on to its next stop, or its end."""
        strand = self._strands[seat]
        if isinstance(word, UserError):
            strand.throw(word)
        else:
            strand.switch(word)
        if strand.dead:
            del self._strands[seat]
            for number in [number for number, owner in self._owners.items() if owner is seat]:
                self.cancel(number)

    def leave_to_others(self) -> bool:
        """Stand still until it is one's turn (True) or a run of one's own has news (False)."""
        parent = greenlet.getcurrent().parent
        assert parent is not None
        return bool(parent.switch())

    @property
    def free(self) -> int:
        """Workers without a run."""
        return self._crew.jobs - len(self._owners)

    def in_flight(self, seat: Seat) -> int:
        """Runs of a bisection that are not finished."""
        return sum(owner is seat for owner in self._owners.values())

    def begin(self, seat: Seat, request: ProbeRequest) -> int:
        """As of `WorkerPool`, for one of the bisections."""
        number = self._crew.begin(request)
        self._owners[number] = seat
        return number

    def cancel(self, number: int) -> None:
        """As of `WorkerPool`."""
        del self._owners[number]
        self._crew.cancel(number)

    def costs(self, seat: Seat, outlook: Outlook) -> Floats:
        """What each run costs a bisection where all that wait for their turn share the builds."""
        return _costs(seat, {**self._outlooks(), seat: outlook})

    def _outlooks(self) -> dict[Seat, Outlook]:
        """What those that wait for their turn promise."""
        return {seat: seat.look() for seat in self._strands if seat.look is not None}

    def suspicions(self, seat: Seat, repository: str) -> Sequence[Mapping[str, float]]:
        """Whom the others suspect, and culprits that are known."""
        known = [suspects for of, suspects in self._known if of == repository]
        others = (other.suspects.get(repository) for other in self._seats if other is not seat)
        return [*known, *filter(None, others)]


def _costs(seat: Seat, outlooks: Mapping[Seat, Outlook]) -> Floats:
    outlook = outlooks[seat]
    bits = np.array(
        [
            [each.bits_by_content.get(content or "", 0.0) for content in outlook.contents]
            for each in outlooks.values()
        ]
    )
    runs = np.array([[each.runs] * len(outlook.contents) for each in outlooks.values()])
    place = [*outlooks].index(seat)
    rates = shared_rates(outlook.builds, bits, runs)
    return shared_costs(rates, bits[place], runs[place], outlook.builds)

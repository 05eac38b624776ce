"""Asks for runs and is told their outcomes, in any order; the caller owns processes and budgets."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from .memory import Memory
from .outcome import Candidate, Outcome, Run
from .state import State

MOST_STATES = 64  # looked at for each run asked for
LEAST_CHANCE = 0.01  # of being needed, for a run to be worth making


class Minimizer:
    """Walks a chain of states.

    The walk depends on the answers only: neither on how many runs are asked for at once nor on the order in which
    they return. Stop at any time; `best` is interesting.

    >>> from .graph import Graph
    >>> from .schedule import minimize
    >>> minimizer = Minimizer(minimize(Graph.free(16)))
    >>> while runs := minimizer.ask(1):
    ...     interesting = {3, 12} <= runs[0].candidate
    ...     minimizer.tell(runs[0], Outcome.INTERESTING if interesting else Outcome.NOT)
    >>> sorted(minimizer.best)
    [3, 12]
    """

    def __init__(self, start: State, memory: Memory | None = None) -> None:
        self.memory = Memory() if memory is None else memory
        self._pending: set[Run] = set()
        self._state = start
        self._walk()

    @property
    def best(self) -> Candidate:
        """The smallest candidate found interesting."""
        return self._state.best

    @property
    def done(self) -> bool:
        """Nothing is left to ask; what is under way has lost its value."""
        return self._state.query is None

    def ask(self, most: int) -> list[Run]:
        """Up to `most` further runs, likeliest to be needed first; none at the end, or if nothing but what is under
        way is worth a run. Each is under way until it is told."""
        asked: list[Run] = []
        order = count()
        # Least chance to be needed last; a state, what was answered to it, and which of its query's runs is next.
        queue: list[tuple[float, int, State, Outcome | None, int]] = [
            (-1.0, next(order), self._state, None, 0)
        ]

        def push(needed: float, state: State, answer: Outcome | None, number: int = 0) -> None:
            heappush(queue, (needed, next(order), state, answer, number))

        for _ in range(MOST_STATES * most):
            if not queue or len(asked) >= most or -queue[0][0] < LEAST_CHANCE:
                break
            needed, _, state, answer, number = heappop(queue)
            state = state if answer is None else state.after(answer)
            query = state.query
            if query is None:
                continue
            known = self.memory.answer(query)
            if known is not None:
                push(needed, state, known)
                continue
            while (run := Run(query.candidate, number)) in self.memory:
                number += 1
            if number >= query.runs:  # all that is missing is under way
                push(needed, state, Outcome.NOT)
                continue
            if run not in self._pending:
                asked.append(run)
                self._pending.add(run)
            fails = state.chance / query.runs
            push(needed * fails, state, Outcome.INTERESTING)
            if number + 1 < query.runs:
                push(needed * (1 - fails), state, None, number + 1)
            else:
                push(needed * (1 - fails), state, Outcome.NOT)
        return asked

    def tell(self, run: Run, outcome: Outcome) -> None:
        """The outcome of a run that was asked for.

        Raises:
            ValueError: it was not asked for, or told before.
        """
        if run not in self._pending:
            raise ValueError(
                f"expected a run that was asked for, found run {run.number} of {len(run.candidate)} elements"
            )
        self._pending.discard(run)
        self.memory.record(run, outcome)
        self._walk()

    def _walk(self) -> None:
        while (query := self._state.query) is not None and (answer := self.memory.answer(query)) is not None:
            self._state = self._state.after(answer)

"""Asks for runs and is told what they showed, in any order; the caller owns processes and budgets."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Generic

from .answer import Answer, C, Trial
from .memory import Memory
from .state import MinimizerState

MOST_STATES = 64  # looked at for each run asked for
LEAST_CHANCE = 0.01  # of being needed, for a run to be worth making


class Minimizer(Generic[C]):
    """Walks a chain of states.

    The walk depends on the answers only: neither on how many runs are asked for at once nor on the order in which
    they return. Stop at any time; `best` is interesting.

    >>> from .graph import DependencyGraph
    >>> from .phases import minimize
    >>> minimizer = Minimizer(minimize(DependencyGraph.free(16)))
    >>> while runs := minimizer.ask(1):
    ...     interesting = {3, 12} <= runs[0].candidate
    ...     minimizer.tell(runs[0], Answer.INTERESTING if interesting else Answer.NOT)
    >>> sorted(minimizer.best)
    [3, 12]
    """

    def __init__(self, start: MinimizerState[C], memory: Memory[C] | None = None) -> None:
        self.memory = Memory[C]() if memory is None else memory
        self._pending: set[Trial[C]] = set()
        self._state = start
        self._walk()

    @property
    def best(self) -> C:
        """The smallest candidate found interesting."""
        return self._state.best

    @property
    def done(self) -> bool:
        """Nothing is left to ask; what is under way has lost its value."""
        return self._state.query is None

    def ask(self, most: int) -> list[Trial[C]]:
        """Up to `most` further runs, likeliest to be needed first; none at the end, or if nothing but what is under
        way is worth a run. Each is under way until it is told."""
        asked: list[Trial[C]] = []
        order = count()
        # Least chance to be needed last; a state, what was answered to it, and which of its query's runs is next.
        queue: list[tuple[float, int, MinimizerState[C], Answer | None, int]] = [
            (-1.0, next(order), self._state, None, 0)
        ]

        def push(needed: float, state: MinimizerState[C], answer: Answer | None, number: int = 0) -> None:
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
            while (run := Trial(query.candidate, number)) in self.memory:
                number += 1
            if number >= query.runs:  # all that is missing is under way
                push(needed, state, Answer.NOT)
                continue
            if run not in self._pending:
                asked.append(run)
                self._pending.add(run)
            fails = state.chance / query.runs
            push(needed * fails, state, Answer.INTERESTING)
            if number + 1 < query.runs:
                push(needed * (1 - fails), state, None, number + 1)
            else:
                push(needed * (1 - fails), state, Answer.NOT)
        return asked

    def tell(self, run: Trial[C], answer: Answer) -> None:
        """The answer of a run that was asked for.

        Raises:
            ValueError: it was not asked for, or told before.
        """
        if run not in self._pending:
            raise ValueError(f"expected a run that was asked for, found run {run.number} of {run.candidate}")
        self._pending.discard(run)
        self.memory.record(run, answer)
        self._walk()

    def _walk(self) -> None:
        while (query := self._state.query) is not None and (answer := self.memory.answer(query)) is not None:
            self._state = self._state.after(answer)

"""What all runs made so far showed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic

from .answer import Answer, C, Query, Trial


class Memory(Generic[C]):
    """Answers by candidate and number of the run. A subset without elements is not interesting: it is never asked.

    Feed the runs of an earlier session to it, and the search repeats none of them.
    """

    def __init__(self, runs: Iterable[tuple[Trial[C], Answer]] = ()) -> None:
        self._runs: dict[C, dict[int, Answer]] = {}
        for run, answer in runs:
            self.record(run, answer)

    def __iter__(self) -> Iterator[tuple[Trial[C], Answer]]:
        for candidate, answers in self._runs.items():
            for number, answer in answers.items():
                yield Trial(candidate, number), answer

    def __contains__(self, run: Trial[C]) -> bool:
        return run.number in self._runs.get(run.candidate, {})

    def record(self, run: Trial[C], answer: Answer) -> None:
        """Notes what a run showed.

        Raises:
            ValueError: this run is known already.
        """
        if run in self:
            raise ValueError(f"expected a new run, found run {run.number} of {run.candidate} again")
        self._runs.setdefault(run.candidate, {})[run.number] = answer

    def answer(self, query: Query[C]) -> Answer | None:
        """None while runs are missing. The answer depends on the runs' numbers, not on the order they came in.

        One interesting run is enough. Whether a candidate is valid is told by its first run.
        """
        if not query.candidate:
            return Answer.NOT
        runs = self._runs.get(query.candidate, {})
        if 0 not in runs:
            return None
        if runs[0] is Answer.INVALID:
            return Answer.INVALID
        answers = [runs.get(number) for number in range(query.runs)]
        if Answer.INTERESTING in answers:
            return Answer.INTERESTING
        if None in answers:
            return None
        return Answer.SLIPPED if Answer.SLIPPED in answers else Answer.NOT

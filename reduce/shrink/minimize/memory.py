"""All runs made so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .outcome import Candidate, Outcome, Query, Run


class Memory:
    """Outcomes by candidate and number of the run. The empty candidate is not interesting: it is never asked.

    Feed the runs of an earlier session to it, and the search repeats none of them.
    """

    def __init__(self, runs: Iterable[tuple[Run, Outcome]] = ()) -> None:
        self._runs: dict[Candidate, dict[int, Outcome]] = {}
        for run, outcome in runs:
            self.record(run, outcome)

    def __iter__(self) -> Iterator[tuple[Run, Outcome]]:
        for candidate, outcomes in self._runs.items():
            for number, outcome in outcomes.items():
                yield Run(candidate, number), outcome

    def __contains__(self, run: Run) -> bool:
        return run.number in self._runs.get(run.candidate, {})

    def record(self, run: Run, outcome: Outcome) -> None:
        """Note a run.

        Raises:
            ValueError: this run is known already.
        """
        if run in self:
            raise ValueError(
                f"expected a new run, found run {run.number} of {len(run.candidate)} elements again"
            )
        self._runs.setdefault(run.candidate, {})[run.number] = outcome

    def answer(self, query: Query) -> Outcome | None:
        """None while runs are missing. The answer depends on the runs' numbers, not on the order they came in.

        One interesting run is enough. Whether a candidate is valid is told by its first run.
        """
        if not query.candidate:
            return Outcome.NOT
        runs = self._runs.get(query.candidate, {})
        if 0 not in runs:
            return None
        if runs[0] is Outcome.INVALID:
            return Outcome.INVALID
        outcomes = [runs.get(number) for number in range(query.runs)]
        if Outcome.INTERESTING in outcomes:
            return Outcome.INTERESTING
        if None in outcomes:
            return None
        return Outcome.SLIPPED if Outcome.SLIPPED in outcomes else Outcome.NOT

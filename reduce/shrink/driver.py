"""Runs the edits one after the other: asks for candidates, has them judged in parallel, keeps the best on disk."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib  # pyright: ignore[reportMissingTypeStubs]

from ...runner.errors import UserError
from .edits.edit import Edit
from .journal import Key, TestJournal
from .minimize.answer import Answer, Subset, Trial
from .minimize.memory import Memory
from .minimize.minimizer import Minimizer
from .minimize.patience import cautious_rate, passes_to_reject
from .oracle.oracle import Oracle
from .program.candidate import Candidate

FIRST_RUNS, MOST_RUNS = 2, 8


@dataclass(kw_only=True)
class Driver:
    """`budget` is seconds; `most_tests` bounds the runs of this call. Both None: to the end."""

    oracle: Oracle
    journal: TestJournal
    folder: Path
    jobs: int
    budget: float | None
    most_tests: int | None
    on_progress: Callable[[str], None]
    on_better: Callable[[Candidate], None]
    calls: int = 0
    cached: int = 0
    rate: float = 1.0
    best: Candidate = field(default_factory=lambda: Candidate(()))
    _began: float = field(default_factory=time.monotonic)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def stopped(self) -> bool:
        """Whether the budget is used up."""
        return self.seconds_left == 0 or (self.most_tests is not None and self.calls >= self.most_tests)

    @property
    def seconds_left(self) -> float | None:
        """Of the budget."""
        return None if self.budget is None else max(0.0, self.budget - (time.monotonic() - self._began))

    def baseline(self, whole: Candidate) -> tuple[int, int]:
        """Runs of the whole program and failures among them; more than the first few where not all fail.

        Raises:
            UserError: it never fails.
        """
        outcomes: list[Answer] = []
        while len(outcomes) < FIRST_RUNS or (
            len(outcomes) < MOST_RUNS and set(outcomes) != {Answer.INTERESTING}
        ):
            first = len(outcomes)
            last = FIRST_RUNS if first < FIRST_RUNS else first + self.jobs
            outcomes += self._judge([(whole, number) for number in range(first, last)])
        failures = outcomes.count(Answer.INTERESTING)
        if not failures:
            found = ", ".join(sorted({one.value for one in outcomes}))
            raise UserError(
                f"expected the build to fail and its reference to pass when all {len(whole.tasks)} tasks are "
                f"submitted one after the other, found {len(outcomes)} runs: {found}"
            )
        self.rate = cautious_rate(failures, len(outcomes))
        self._improve(whole)
        return len(outcomes), failures

    def is_interesting(self, candidate: Candidate) -> bool:
        """One run of a candidate that is not to be kept."""
        return self._judge([(candidate, 0)]) == [Answer.INTERESTING]

    def guess(self, candidates: Sequence[Candidate]) -> None:
        """Take the first of the candidates that is interesting, if one is."""
        found = next(filter(self.shows, candidates), None)
        if found is not None:
            self.take(found)

    def shows(self, candidate: Candidate) -> bool:
        """Whether one of as many runs as the rate asks for is interesting."""
        for number in range(passes_to_reject(self.rate, 0.01)):
            if self.stopped:
                return False
            (outcome,) = self._judge([(candidate, number)])
            if outcome is Answer.INTERESTING:
                return True
            if outcome is Answer.INVALID:  # the first run tells, however rare the failure is
                return False
        return False

    def run(self, edit: Edit) -> None:
        """Search with one kind of edit, from the best so far."""
        start = self.best
        state = edit.start(start, self.rate)
        minimizer = Minimizer(state, Memory())
        while not self.stopped and (runs := minimizer.ask(self.jobs)):
            outcomes = self._judge([(edit.apply(start, run.candidate), run.number) for run in runs])
            self._tell(minimizer, runs, outcomes)
            self.take(edit.apply(start, minimizer.best))
            self.on_progress(self._line(edit.name, minimizer.best))
        self.take(edit.apply(start, minimizer.best))

    def _tell(
        self, minimizer: Minimizer[Subset], runs: Sequence[Trial[Subset]], outcomes: Sequence[Answer]
    ) -> None:
        for run, outcome in zip(runs, outcomes, strict=True):
            minimizer.tell(run, outcome)

    def take(self, reduction: Candidate) -> None:
        """Makes it the best so far, which is written down."""
        if reduction != self.best:
            self._improve(reduction)

    def _improve(self, reduction: Candidate) -> None:
        self.best = reduction
        self.on_better(reduction)

    def _judge(self, wanted: Sequence[tuple[Candidate, int]]) -> list[Answer]:
        """Outcomes of runs, those in the journal from there, the others at once."""
        keys: list[Key] = [(reduction.key, number) for reduction, number in wanted]
        known = {key: self.journal.outcomes[key] for key in keys if key in self.journal.outcomes}
        self.cached += len(known)
        new = [(key, reduction) for key, (reduction, _) in zip(keys, wanted, strict=True) if key not in known]
        self.calls += len(new)
        parallel: Any = joblib.Parallel(n_jobs=self.jobs, prefer="threads", return_as="generator_unordered")
        library: Any = joblib
        delayed = library.delayed(self._one)
        judged: Iterator[tuple[Key, Answer]] = parallel(delayed(key, reduction) for key, reduction in new)
        for key, outcome in judged:
            self.journal.record(key, outcome)
            known[key] = outcome
        return [known[key] for key in keys]

    def _one(self, key: Key, reduction: Candidate) -> tuple[Key, Answer]:
        return key, self.oracle.judge(reduction, self.folder / f"candidate-{next(self._numbers)}")

    def _line(self, phase: str, best: Subset) -> str:
        outcomes = list(self.journal.outcomes.values())
        left = ""
        if self.budget is not None:
            left = f", {self.seconds_left:.0f} s left"
        return (
            f"{phase}: {len(best)} left; {self.calls} tests, {self.cached} cached, "
            f"{outcomes.count(Answer.INVALID)} invalid, {outcomes.count(Answer.SLIPPED)} other failure{left}"
        )

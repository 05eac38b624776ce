"""The loop of a reduction. It has the only effects: it runs candidates in parallel, and writes down what they showed.

`Gate` is the one place that decides what becomes the best program.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib  # pyright: ignore[reportMissingTypeStubs]

from ...runner.errors import UserError
from ...store.vocabulary import plural
from .edits import EditKind, EditSchedule
from .minimize import Answer, Memory, Minimizer, MinimizerState, Query, Trial, cautious_rate
from .oracle import Key, Oracle, TrialJournal
from .program import Candidate, CandidateOrder


@dataclass(kw_only=True)
class Gate:
    """Decides what becomes the best program. `on_better` is called with each new best.

    A candidate takes these steps:

    1. It is made canonical.
    2. It is skipped unless it is smaller than the best.
    3. The memory is asked, and then the oracle, by the user of the gate.
    4. It is accepted if it is interesting.
    """

    order: CandidateOrder
    best: Candidate
    on_better: Callable[[Candidate], None]

    def screen(self, search: MinimizerState[Candidate]) -> ScreenedSearch:
        """The search, with only those candidates left in it that are worth a test."""
        return ScreenedSearch.from_search(self.order, search)

    def accept(self, candidate: Candidate) -> bool:
        """Make an interesting canonical candidate the best, if it is smaller. Return whether it was."""
        if not self.order.is_smaller(candidate, self.best):
            return False
        self.best = candidate
        self.on_better(candidate)
        return True


@dataclass(frozen=True, kw_only=True)
class ScreenedSearch:
    """A search whose candidates are all canonical.

    Candidates that are not smaller than its best are answered with NOT at once. So are candidates without tasks,
    because a build without tasks has no failure of its own.
    """

    order: CandidateOrder
    search: MinimizerState[Candidate]
    best: Candidate
    query: Query[Candidate] | None

    @staticmethod
    def from_search(order: CandidateOrder, search: MinimizerState[Candidate]) -> ScreenedSearch:
        """The search, moved on to its first candidate that needs a test."""
        while True:
            best, query = order.canonical(search.best), search.query
            if query is not None:
                query = Query(order.canonical(query.candidate), query.runs)
                if not query.candidate.tasks or not order.is_smaller(query.candidate, best):
                    search = search.next_state(Answer.NOT)
                    continue
            return ScreenedSearch(order=order, search=search, best=best, query=query)

    @property
    def chance(self) -> float:
        """Return the chance that the search estimates."""
        return self.search.chance

    def next_state(self, answer: Answer) -> ScreenedSearch:
        """The search, moved on to its next candidate that needs a test."""
        return ScreenedSearch.from_search(self.order, self.search.next_state(answer))


FIRST_RUNS, MOST_RUNS = 2, 8
"""The whole program runs the first number of times, and up to the second one where it does not always fail. More runs
would measure its rate more exactly than a search needs."""
_COUNTERS = (
    "a test is one run of a smaller program: cached, where its outcome was known; invalid, where it could not be built "
    "or judged; another failure, where it fails, but not as the whole build"
)


@dataclass(kw_only=True)
class Shrinker:
    """Makes the best candidate of a gate smaller, until nothing makes it smaller or a budget is used up.

    folder: the folder for the builds of candidates, which are all removed.
    jobs: how many runs are made at once.
    budget: seconds. Without one, the search goes on to the end.
    calls: the runs made by this call. `cached` counts runs known from an earlier one.
    rate: how often an interesting candidate fails.
    stages: the best after each search that found something.
    """

    oracle: Oracle
    journal: TrialJournal
    gate: Gate
    folder: Path
    jobs: int
    budget: float | None
    on_progress: Callable[[str], None]
    calls: int = 0
    cached: int = 0
    rate: float = 1.0
    stages: list[Candidate] = field(default_factory=list[Candidate])
    memory: Memory[Candidate] = field(default_factory=Memory[Candidate])
    _began: float = field(default_factory=time.monotonic)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def best(self) -> Candidate:
        """Return the smallest candidate accepted so far."""
        return self.gate.best

    @property
    def budget_spent(self) -> bool:
        """Return whether the budget is used up."""
        return self.seconds_left == 0

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds left of the budget. None without a budget."""
        return None if self.budget is None else max(0.0, self.budget - (time.monotonic() - self._began))

    def baseline(self) -> tuple[int, int]:
        """Run the best candidate unchanged. Return the numbers of runs and of failures. There are more than the first
        few runs if not all fail.

        Raises:
            UserError: it never fails.
        """
        whole = self.best
        answers: list[Answer] = []
        while len(answers) < FIRST_RUNS or (
            len(answers) < MOST_RUNS and set(answers) != {Answer.INTERESTING}
        ):
            first = len(answers)
            last = FIRST_RUNS if first < FIRST_RUNS else first + self.jobs
            trials = [Trial(whole, number) for number in range(first, last)]
            for trial, answer in zip(trials, self._judge(trials), strict=True):
                self.memory.record(trial, answer)
                answers.append(answer)
        failures = answers.count(Answer.INTERESTING)
        if not failures:
            showed = ", ".join(sorted({answer.value for answer in answers}))
            raise UserError(
                f"expected the build to fail and its reference to pass when all {len(whole.tasks)} tasks are "
                f"submitted one after the other, found {len(answers)} runs: {showed}"
            )
        self.rate = cautious_rate(failures, len(answers))
        return len(answers), failures

    def fails(self, candidate: Candidate) -> bool:
        """Return whether one run of a candidate is interesting. The candidate does not become the best."""
        return self._judge([Trial(candidate, 0)]) == [Answer.INTERESTING]

    def shrink(self, kinds: Sequence[EditKind]) -> None:
        """Let all kinds search until none finds anything, or the budget is used up.

        Raises:
            UserError: the oracle cannot judge.
        """
        self.on_progress(_COUNTERS)
        schedule = EditSchedule(len(kinds))
        while not schedule.is_done and not self.budget_spent:
            before, kind = self.best, kinds[schedule.kind]
            state = kind.search(before, rate=self.rate, again=schedule.is_repeat)
            self._search(kind.name, self.gate.screen(state))
            better = self.best != before
            schedule = schedule.next_turn(better=better)
            self.stages += [self.best] if better else []

    def _search(self, name: str, search: MinimizerState[Candidate]) -> None:
        def improve(best: Candidate) -> None:
            self.gate.accept(best)
            self.on_progress(self._progress_line(name))

        self.gate.accept(self._ask(search, improve))

    def _ask(self, search: MinimizerState[Candidate], on_round: Callable[[Candidate], None]) -> Candidate:
        """Make the runs that a search asks for, and return its best. `on_round` gets the best after each round of
        runs."""
        minimizer = Minimizer(search, self.memory)
        while not self.budget_spent and (trials := minimizer.ask(self.jobs)):
            for trial, answer in zip(trials, self._judge(trials), strict=True):
                minimizer.tell(trial, answer)
            on_round(minimizer.best)
        return minimizer.best

    def _judge(self, trials: Sequence[Trial[Candidate]]) -> list[Answer]:
        """The answers of some runs. Runs in the journal are read from it, and all others are made in parallel."""
        keys: list[Key] = [(trial.candidate.key, trial.number) for trial in trials]
        known = {key: self.journal.answers[key] for key in keys if key in self.journal.answers}
        self.cached += len(known)
        new = [(key, trial.candidate) for key, trial in zip(keys, trials, strict=True) if key not in known]
        self.calls += len(new)
        parallel: Any = joblib.Parallel(n_jobs=self.jobs, prefer="threads", return_as="generator_unordered")
        library: Any = joblib
        delayed = library.delayed(self._run)
        judged: Iterator[tuple[Key, Answer]] = parallel(delayed(key, candidate) for key, candidate in new)
        for key, answer in judged:
            self.journal.record(key, answer)
            known[key] = answer
        return [known[key] for key in keys]

    def _run(self, key: Key, candidate: Candidate) -> tuple[Key, Answer]:
        return key, self.oracle.judge(candidate, self.folder / f"candidate-{next(self._numbers)}")

    def _progress_line(self, name: str) -> str:
        answers = list(self.journal.answers.values())
        left = "" if self.budget is None else f", {self.seconds_left:.0f} s left"
        return (
            f"{name}: {plural(len(self.best.tasks), 'task')} left; {plural(self.calls, 'test')}, {self.cached} cached, "
            f"{answers.count(Answer.INVALID)} invalid, {plural(answers.count(Answer.SLIPPED), 'other failure')}{left}"
        )

"""The loop of a reduction.

`Shrinker` lets the kinds of edits search in turn. It runs their candidates in parallel, and writes each answer to the
`TrialJournal` before it is used. `Gate` is the one place that decides what becomes the best program.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import joblib  # pyright: ignore[reportMissingTypeStubs]

from ...runner.errors import UserError
from ...store.durable_files import Document, DocumentError, read_document
from ...store.vocabulary import plural
from .edits import EditKind, EditSchedule
from .minimize import Answer, Memory, Minimizer, MinimizerState, Query, Trial, cautious_rate
from .oracle import Oracle
from .program import Candidate, CandidateOrder

_MIN_RUNS = 2
"""The whole program runs at least this often."""
MAX_RUNS = 8
"""The whole program runs at most about this often if some runs do not fail. Its rate need not be known better."""
_WITHOUT_FAILURE = {
    Answer.PASSED: "passed",
    Answer.SLIPPED: "failed in another way",
    Answer.INVALID: "could not be judged",
}
"""What a run without the failure showed, for the user."""
_COUNTER_NOTE = (
    "a test is one run of a smaller program: cached, where its outcome was known; invalid, where it could not be built "
    "or judged; another failure, where it fails, but not as the whole build"
)


@dataclass(kw_only=True)
class Shrinker:
    """Makes the best candidate of a gate smaller, until nothing makes it smaller or the budget is spent.

    Attributes:
        folder: where the builds of candidates are made. They are all removed.
        jobs: the number of runs at once.
        budget: seconds, or None for no limit.
        calls: the runs that this process has made.
        cached: the runs whose answers an earlier process left in the journal.
        rate: how often an interesting candidate fails.
        stages: the best candidate after each search that found a better one.
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
        """Return whether no time is left."""
        return self.seconds_left == 0

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds left of the budget, or None without a budget."""
        return None if self.budget is None else max(0.0, self.budget - (time.monotonic() - self._began))

    def baseline(self) -> tuple[int, int]:
        """Measure how often the whole program fails. Returns the number of runs, and how many of them failed.

        Raises:
            UserError: no run fails.
        """
        whole = self.best
        answers: list[Answer] = []
        while len(answers) < _MIN_RUNS or (len(answers) < MAX_RUNS and set(answers) != {Answer.INTERESTING}):
            first = len(answers)
            last = _MIN_RUNS if first < _MIN_RUNS else first + self.jobs
            trials = [Trial(whole, number) for number in range(first, last)]
            for trial, answer in zip(trials, self._judge(trials), strict=True):
                self.memory.record(trial, answer)
                answers.append(answer)
        failures = answers.count(Answer.INTERESTING)
        if not failures:
            showed = ", ".join(sorted({_WITHOUT_FAILURE[answer] for answer in answers}))
            raise UserError(
                f"expected the build to fail and its reference to pass when all {len(whole.tasks)} tasks are "
                f"submitted one after the other, found {len(answers)} runs: {showed}"
            )
        self.rate = cautious_rate(failures, len(answers))
        return len(answers), failures

    def fails(self, candidate: Candidate) -> bool:
        """Return whether one run of a candidate is interesting. Leaves the best candidate as it is."""
        return self._judge([Trial(candidate, 0)]) == [Answer.INTERESTING]

    def shrink(self, kinds: Sequence[EditKind]) -> None:
        """Let all kinds search until none finds anything, or the budget is spent.

        Raises:
            UserError: the oracle cannot judge.
        """
        self.on_progress(_COUNTER_NOTE)
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
        """Make the runs that a search asks for, and return its best. Each round of runs calls `on_round`."""
        minimizer = Minimizer(search, self.memory)
        while not self.budget_spent and (trials := minimizer.ask(self.jobs)):
            for trial, answer in zip(trials, self._judge(trials), strict=True):
                minimizer.tell(trial, answer)
            on_round(minimizer.best)
        return minimizer.best

    def _judge(self, trials: Sequence[Trial[Candidate]]) -> list[Answer]:
        """Return the answers of some runs, from the journal where it has them. Makes all others in parallel."""
        keys: list[Key] = [(trial.candidate.key, trial.number) for trial in trials]
        known = {key: self.journal.answers[key] for key in keys if key in self.journal.answers}
        self.cached += len(known)
        new = [(key, trial.candidate) for key, trial in zip(keys, trials, strict=True) if key not in known]
        self.calls += len(new)
        library: Any = joblib
        parallel = library.Parallel(n_jobs=self.jobs, prefer="threads", return_as="generator_unordered")
        run = library.delayed(self._run)
        answered: Iterator[tuple[Key, Answer]] = parallel(run(key, candidate) for key, candidate in new)
        for key, answer in answered:
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


@dataclass(kw_only=True)
class Gate:
    """Decides what becomes the best program. Calls `on_better` with each new best."""

    order: CandidateOrder
    best: Candidate
    on_better: Callable[[Candidate], None]

    def screen(self, search: MinimizerState[Candidate]) -> ScreenedSearch:
        """Return the same search without the candidates that cannot become the best."""
        return ScreenedSearch.from_search(self.order, search)

    def accept(self, candidate: Candidate) -> bool:
        """Make an interesting canonical candidate the best if it is smaller. Returns whether it became the best."""
        if not self.order.is_smaller(candidate, self.best):
            return False
        self.best = candidate
        self.on_better(candidate)
        return True


@dataclass(frozen=True, kw_only=True)
class ScreenedSearch:
    """A search whose candidates are all canonical and smaller than its best.

    All other candidates get the answer PASSED without a test. So do candidates without tasks, because a build without
    tasks has no failure of its own.
    """

    order: CandidateOrder
    search: MinimizerState[Candidate]
    best: Candidate
    query: Query[Candidate] | None

    @staticmethod
    def from_search(order: CandidateOrder, search: MinimizerState[Candidate]) -> ScreenedSearch:
        """Move a search on to its first candidate that needs a test."""
        while True:
            best, query = order.canonical(search.best), search.query
            if query is not None:
                query = Query(order.canonical(query.candidate), query.runs)
                if not query.candidate.tasks or not order.is_smaller(query.candidate, best):
                    search = search.next_state(Answer.PASSED)
                    continue
            return ScreenedSearch(order=order, search=search, best=best, query=query)

    @property
    def chance(self) -> float:
        """Return the chance that the search estimates."""
        return self.search.chance

    def next_state(self, answer: Answer) -> ScreenedSearch:
        """Return the state at the next candidate that needs a test."""
        return ScreenedSearch.from_search(self.order, self.search.next_state(answer))


Key = tuple[str, int]
"""A key of a run is a candidate's `key` and the number of the run of this candidate, from 0."""


class JournaledRun(Document):
    """One run of a candidate, as a line of the journal. `candidate` and `run` are the parts of its `Key`."""

    schema_version: Literal[1] = 1
    candidate: str
    run: int
    outcome: Answer


@dataclass
class TrialJournal:
    """The journal of all runs, so that a resumed reduction repeats none. Each line of `path` is a `JournaledRun`."""

    path: Path
    answers: dict[Key, Answer] = field(default_factory=dict[Key, Answer])

    @classmethod
    def open(cls, path: Path) -> TrialJournal:
        """Open the journal of an earlier process, or a new one. Removes a last line that a kill left incomplete.

        Raises:
            UserError: this version of the tool cannot read a line.
        """
        journal = cls(path)
        text = path.read_bytes() if path.exists() else b""
        complete = text[: text.rfind(b"\n") + 1]
        for line in complete.splitlines():
            try:
                run = read_document(JournaledRun, json.loads(line))
            except (DocumentError, ValueError) as error:
                raise UserError(f"{path}: {error}") from error
            journal.answers[run.candidate, run.run] = run.outcome
        if complete != text:
            os.truncate(path, len(complete))
        return journal

    def record(self, key: Key, answer: Answer) -> None:
        """Record one run, and wait until it is on disk."""
        run = JournaledRun(candidate=key[0], run=key[1], outcome=answer)
        with self.path.open("ab") as file:
            file.write(f"{run.model_dump_json()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        self.answers[key] = answer

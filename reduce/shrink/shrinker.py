"""The loop of a reduction, and its only effects: runs candidates in parallel, and writes down what they showed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib  # pyright: ignore[reportMissingTypeStubs]

from ...runner.errors import UserError
from ...store.words import plural
from .edits.choices import Choices
from .edits.kind import EditKind
from .edits.schedule import EditSchedule
from .external.reducer import CandidateJudge
from .gate import Gate
from .minimize.answer import Answer, Trial
from .minimize.memory import Memory
from .minimize.minimizer import Minimizer
from .minimize.patience import cautious_rate
from .minimize.state import MinimizerState
from .oracle.journal import Key, TrialJournal
from .oracle.oracle import Oracle
from .program.candidate import Candidate

FIRST_RUNS, MOST_RUNS = 2, 8
_COUNTERS = (
    "a test is one run of a smaller program: cached, where its outcome was known; invalid, where it could not be built "
    "or judged; another failure, where it fails, but not as the whole build"
)


@dataclass(kw_only=True)
class Shrinker:
    """Makes the best candidate of a gate smaller, until nothing makes it smaller or a budget is used up.

    folder: for the candidates that are made; nothing of them stays.
    jobs: how many run at once.
    budget: seconds; `most_tests` bounds the runs of this call. Both None: to the end.
    calls: runs made by this call; `cached` were known from an earlier one.
    rate: how often an interesting candidate fails.
    stages: the best after each search that found something.
    """

    oracle: Oracle
    journal: TrialJournal
    gate: Gate
    folder: Path
    jobs: int
    budget: float | None
    most_tests: int | None
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
        """The smallest candidate accepted so far."""
        return self.gate.best

    @property
    def stopped(self) -> bool:
        """Whether the budget of time or of tests is used up."""
        return self.seconds_left == 0 or (self.most_tests is not None and self.calls >= self.most_tests)

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget; None without one."""
        return None if self.budget is None else max(0.0, self.budget - (time.monotonic() - self._began))

    def baseline(self) -> tuple[int, int]:
        """Runs of the best as it stands and failures among them; more than the first few where not all fail.

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
        """Whether one run of a candidate that is not to be kept is interesting."""
        return self._judge([Trial(candidate, 0)]) == [Answer.INTERESTING]

    def shrink(
        self, kinds: Sequence[EditKind], external: Callable[[CandidateJudge], None] | None = None
    ) -> None:
        """Has all kinds search until none finds anything, or the budget is used up. `external` is the last kind, one
        that has its candidates judged itself.

        Raises:
            UserError: the oracle cannot judge.
        """
        self.on_progress(_COUNTERS)
        schedule = EditSchedule(len(kinds) + (external is not None))
        while not schedule.done and not self.stopped:
            before = self.best
            if schedule.kind < len(kinds):
                kind = kinds[schedule.kind]
                state = kind.search(before, rate=self.rate, again=schedule.again)
                self._search(kind.name, self.gate.screen(state))
            elif external is not None:
                external(self)
            better = self.best != before
            schedule = schedule.after(better=better)
            self.stages += [self.best] if better else []

    def consider(self, candidate: Candidate) -> bool:
        """Whether a candidate is interesting, by as many runs as the rate asks for; accepted if it is smaller, too."""
        candidate = self.gate.order.canonical(candidate)
        question = Choices.search(self.best, [lambda _best: [candidate]], rate=self.rate)
        if self._ask(question, lambda _best: None) != candidate:
            return False
        self.gate.accept(candidate)
        return True

    def _search(self, name: str, search: MinimizerState[Candidate]) -> None:
        def improve(best: Candidate) -> None:
            self.gate.accept(best)
            self.on_progress(self._line(name))

        self.gate.accept(self._ask(search, improve))

    def _ask(self, search: MinimizerState[Candidate], on_round: Callable[[Candidate], None]) -> Candidate:
        """Makes the runs that a search asks for; its best. `on_round` is given the best after each round of them."""
        minimizer = Minimizer(search, self.memory)
        while not self.stopped and (trials := minimizer.ask(self.jobs)):
            for trial, answer in zip(trials, self._judge(trials), strict=True):
                minimizer.tell(trial, answer)
            on_round(minimizer.best)
        return minimizer.best

    def _judge(self, trials: Sequence[Trial[Candidate]]) -> list[Answer]:
        """What runs show: those in the journal from there, the others are made at once."""
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

    def _line(self, name: str) -> str:
        answers = list(self.journal.answers.values())
        left = "" if self.budget is None else f", {self.seconds_left:.0f} s left"
        return (
            f"{name}: {plural(len(self.best.tasks), 'task')} left; {plural(self.calls, 'test')}, {self.cached} cached, "
            f"{answers.count(Answer.INVALID)} invalid, {plural(answers.count(Answer.SLIPPED), 'other failure')}{left}"
        )

"""A person as the judge: the pool builds, and a person says what the case does there."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import IO

from ...runner.errors import UsageError
from ...runner.probe.by_hand import LeftToPerson
from ...runner.probe.judgement import BY_PERSON
from ...runner.probe.records import ProbeRequest, ProbeResult
from ...runner.probe.workers.backends import Backend
from ...runner.probe.workers.pool import Event
from ...runner.probe.workers.worker import Done
from ...runner.stack.stack import Stack
from ...runner.verdict.verdict import Classification
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Evidence, Judgement, Verdict
from ..plan.predicate import NOTHING_TO_RUN
from .loop import Workers

_VERDICTS = {
    Judgement.GOOD: Verdict.PASS,
    Judgement.BAD: Verdict.MISMATCH,
    Judgement.SKIP: Verdict.UNKNOWN,
}


class PersonAnswer(StrEnum):
    """What a person may answer; any first letters will do."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    RETRY = "retry"
    SHELL = "shell"
    QUIT = "quit"

    @classmethod
    def read(cls, text: str) -> "PersonAnswer | None":
        """The answer that a line begins; None where it could be none, or several.

        >>> PersonAnswer.read("g"), PersonAnswer.read("s"), PersonAnswer.read("sk")
        (<PersonAnswer.GOOD: 'good'>, None, <PersonAnswer.SKIP: 'skip'>)
        """
        meant = [answer for answer in cls if text.strip() and answer.value.startswith(text.strip().lower())]
        return meant[0] if len(meant) == 1 else None


_JUDGEMENTS = {
    PersonAnswer.GOOD: Judgement.GOOD,
    PersonAnswer.BAD: Judgement.BAD,
    PersonAnswer.SKIP: Judgement.SKIP,
}


def check_person(*, jobs: int, backend: Backend) -> None:
    """Raises `UsageError` where no person can be asked, several at once would have to be, or builds are elsewhere."""
    if backend != "loky":
        raise UsageError(
            f"--interactive: expected workers of this machine, found --backend {backend}: "
            "a person runs what is built here"
        )
    if jobs > 1:
        raise UsageError(
            f"--interactive: expected --jobs 1, found {jobs}: a person judges one commit at a time"
        )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "--interactive: expected a terminal to ask at, found none; leave it out, or run it in one"
        )


class PersonWorkers:
    """Workers whose builds a person judges. What was judged once, as `judged` says of earlier starts, is not asked
    again: its answer stands. What was skipped in an earlier start is: if it is run again, its answer is needed."""

    def __init__(
        self,
        workers: Workers,
        ask: "Callable[[LeftToPerson], PersonAnswer]",
        *,
        judged: Iterable[ProbeRow] = (),
    ) -> None:
        self._workers = workers
        self._ask = ask
        self._requests: dict[int, ProbeRequest] = {}
        self._numbers: dict[int, int] = {}
        """By what number the loop knows a probe that was begun anew."""
        self._answers = {
            frozenset(probe.revisions.items()): probe.judgement
            for probe in judged
            if probe.signature == BY_PERSON and probe.judgement in (Judgement.GOOD, Judgement.BAD)
        }

    @property
    def jobs(self) -> int:
        """How many probes are made at once."""
        return self._workers.jobs

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to a worker, which builds it."""
        number = self._workers.begin(request)
        self._requests[number] = request
        return number

    def cancel(self, number: int) -> None:
        """Stop a probe."""
        self._workers.cancel(next((new for new, old in self._numbers.items() if old == number), number))

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait for news; where a build is ready, until a person has judged it. Raises `KeyboardInterrupt` where they
        quit, and `UserError` where probes cannot be made."""
        event = self._workers.next_event(timeout=timeout)
        if event is None:
            return None
        number = self._numbers.get(event.number, event.number)
        if isinstance(event, Done) and event.result is not None and event.result.left is not None:
            return self._judged(number, event.result, event.result.left)
        return replace(event, number=number)

    def _judged(self, number: int, result: ProbeResult, left: LeftToPerson) -> Event | None:
        revisions = frozenset(self._requests[number].revisions.items())
        known = self._answers.get(revisions)
        if known is not None:
            return Done(number, _with_judgement(result, known, "as it was judged before"))
        answer = self._ask(left)
        if answer is PersonAnswer.QUIT:
            raise KeyboardInterrupt
        if answer is PersonAnswer.RETRY:
            self._numbers[self._workers.begin(self._requests[number])] = number
            return None
        self._answers[revisions] = _JUDGEMENTS[answer]
        return Done(number, _with_judgement(result, _JUDGEMENTS[answer], "as a person judged it"))


def _with_judgement(result: ProbeResult, judgement: Judgement, why: str) -> ProbeResult:
    evidence = Evidence(
        stream="ending", line=0, text=f"{judgement.value}, {why}", why="a person is the judge"
    )
    classification = Classification(
        verdict=_VERDICTS[judgement], signature=BY_PERSON, evidence=(evidence,), metrics={}
    )
    return replace(result, classification=classification, judgement=judgement)


_HELP = """\
good, bad: what the case does here; skip: it cannot be told. retry builds it anew; shell opens one here.
quit stops, and --resume goes on. Any first letters will do.
"""


def ask_at_terminal(left: LeftToPerson, stack: Stack, *, answers: IO[str], out: IO[str]) -> PersonAnswer:
    """Say what is there and how to run it, and read answers until one of them judges it. The end of input quits."""
    print(f"{'built' if stack.steps else 'checked out'} in {left.directory}", file=out)
    if stack.case.command != NOTHING_TO_RUN:
        print(f"run it with: sh {left.script}", file=out)
    while True:
        print(f"{', '.join(PersonAnswer)}? ", end="", flush=True, file=out)
        line = answers.readline()
        answer = PersonAnswer.read(line) if line else PersonAnswer.QUIT
        if answer is PersonAnswer.SHELL:
            subprocess.run(["sh", str(left.script), os.environ.get("SHELL") or "sh"], check=False)
        elif answer is not None:
            return answer
        else:
            print(_HELP, end="", file=out)

"""A person who judges what the pool builds (`--interactive`).

`PersonWorkers` wraps the workers of a bisection: where a build is ready, it asks the person, and its answer becomes the
result of the run. `ask_at_terminal` asks and reads the answer. `check_person` says whether a person can be asked here.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import IO

from ...runner.errors import UsageError
from ...runner.probe.judge import VERDICT_BY_JUDGEMENT
from ...runner.probe.pool import Backend, Event, ProbeDone
from ...runner.probe.probe import ManualRun, ProbeRequest, ProbeResult
from ...runner.stack import PLACEHOLDER_COMMAND, Stack
from ...runner.verdict.classify import Classification
from ...store.tables import ProbeRow
from ...store.vocabulary import Evidence, Judgement, VerdictSource
from .loop import Workers


class PersonAnswer(StrEnum):
    """Lists what a person may answer. The first letters are enough where no other answer has them."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    RETRY = "retry"
    SHELL = "shell"
    QUIT = "quit"

    @classmethod
    def read(cls, text: str) -> "PersonAnswer | None":
        """Return the answer that a line abbreviates. Return None where it abbreviates none, or several.

        >>> PersonAnswer.read("g"), PersonAnswer.read("s"), PersonAnswer.read("sk")
        (<PersonAnswer.GOOD: 'good'>, None, <PersonAnswer.SKIP: 'skip'>)
        """
        typed = text.strip().lower()
        meant = [answer for answer in cls if typed and answer.value.startswith(typed)]
        return meant[0] if len(meant) == 1 else None


_JUDGEMENTS = {
    PersonAnswer.GOOD: Judgement.GOOD,
    PersonAnswer.BAD: Judgement.BAD,
    PersonAnswer.SKIP: Judgement.SKIP,
}


def check_person(*, jobs: int, backend: Backend) -> None:
    """Check that a person can judge here. Raises `UsageError`.

    That takes a terminal, one job at a time, and builds on this machine.
    """
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
    """Workers whose builds a person judges. Equal revisions are judged only once."""

    def __init__(
        self,
        workers: Workers,
        ask: "Callable[[ManualRun], PersonAnswer]",
        *,
        judged: Iterable[ProbeRow] = (),
    ) -> None:
        """`ask` asks the person. `judged` are the probes of earlier starts.

        An earlier skip is asked again, because a bisection that runs it again needs an answer.
        """
        self._workers = workers
        self._ask = ask
        self._requests: dict[int, ProbeRequest] = {}
        self._numbers: dict[int, int] = {}
        """The number by which the loop knows each probe that was begun anew."""
        self._answers = {
            frozenset(probe.revisions.items()): probe.judgement
            for probe in judged
            if probe.verdict_source is VerdictSource.PERSON
            and probe.judgement in (Judgement.GOOD, Judgement.BAD)
        }

    @property
    def jobs(self) -> int:
        """Return the number of workers."""
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
        """Wait for the next event. Where a build is ready, ask the person to judge it.

        Raises `KeyboardInterrupt` where the person quits, and `UserError` where no probe can run.
        """
        event = self._workers.next_event(timeout=timeout)
        if event is None:
            return None
        number = self._numbers.get(event.number, event.number)
        if isinstance(event, ProbeDone):
            self._numbers.pop(event.number, None)
        if isinstance(event, ProbeDone) and event.result is not None and event.result.manual_run is not None:
            return self._judge(number, event.result, event.result.manual_run)
        return replace(event, number=number)

    def _judge(self, number: int, result: ProbeResult, left: ManualRun) -> Event | None:
        revisions = frozenset(self._requests[number].revisions.items())
        known = self._answers.get(revisions)
        if known is not None:
            return ProbeDone(number, _set_judgement(result, known, "as it was judged before"))
        answer = self._ask(left)
        if answer is PersonAnswer.QUIT:
            raise KeyboardInterrupt
        if answer is PersonAnswer.RETRY:
            self._numbers[self._workers.begin(self._requests[number])] = number
            return None
        self._answers[revisions] = _JUDGEMENTS[answer]
        return ProbeDone(number, _set_judgement(result, _JUDGEMENTS[answer], "as a person judged it"))


def _set_judgement(result: ProbeResult, judgement: Judgement, why: str) -> ProbeResult:
    evidence = Evidence(
        stream="ending", line=0, text=f"{judgement.value}, {why}", why="a person is the judge"
    )
    classification = Classification(
        verdict=VERDICT_BY_JUDGEMENT[judgement],
        signature="judged by a person",
        evidence=(evidence,),
        metrics={},
        source=VerdictSource.PERSON,
    )
    return replace(result, classification=classification, judgement=judgement)


_HELP = """\
good, bad: what the case does here; skip: it cannot be told. retry builds it anew; shell opens one here.
quit stops, and --resume goes on. The first letters will do where no other answer has them.
"""


def ask_at_terminal(left: ManualRun, stack: Stack, *, answers: IO[str], out: IO[str]) -> PersonAnswer:
    """Print what was built and how to run it. Read answers up to one that decides. The end of input quits."""
    print(f"{'built' if stack.steps else 'checked out'} in {left.directory}", file=out)
    if stack.case.command != PLACEHOLDER_COMMAND:
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

"""A bisection in the store: begun, driven by one process, and resumed after a stop.

`StoredBisection` is the central class. `PersonWorkers` lets a person judge what the pool builds. `attach_diffs` reads
from git what each culprit changes when a bisection ends, because reports are made from the store alone.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session as DatabaseSession
from sqlalchemy.orm import sessionmaker

from ...runner.case.preflight import freeze_runtime_dir
from ...runner.commit_diff import CommitDiff, read_diff
from ...runner.errors import EndsError, UsageError, UserError
from ...runner.farm.dask import DaskEngine
from ...runner.farm.farm import Farm
from ...runner.farm.ray import RayEngine
from ...runner.git import GitRepository
from ...runner.probe.pool import AheadBuilder, Backend, Event, ProbeDone, Setup, WorkerPool, cluster_address
from ...runner.probe.probe import ManualRun, ProbeRequest, ProbeResult
from ...runner.settings import checkout_root
from ...runner.stack import Stack
from ...runner.verdict.classify import Classification
from ...runner.workspace.environment import EnvironmentReader
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace, sole_holder
from ...store.bisections import BisectionJournal, EarlierRunJournal
from ...store.database import StoreError, open_store
from ...store.durable_files import make_folder, read_document, write_document
from ...store.tables import ProbeRow
from ...store.vocabulary import (
    BisectionOutcome,
    DriveEnd,
    Evidence,
    Judgement,
    Verdict,
    VerdictSource,
)
from ..ask.earlier_runs import (
    ReusableBisections,
    describe_earlier_runs,
    earlier_runs,
    find_reusable_bisections,
)
from ..ask.ends import Plan
from ..ask.predicate import PLACEHOLDER_COMMAND
from ..ask.question import BisectRequest
from ..engine.answer import Conclusion, NamedCommit
from ..engine.range_search import Timings
from ..history.loader import merge_base_finding, undecidable_merge_base
from ..history.range import LoadedRange
from .driven import DrivenBisection
from .loop import Loop, Workers
from .progress import Progress

_MAX_EVIDENCE_LINES = 100
"""Names are searched for in at most this many lines of evidence. The first lines are those that decided the verdict."""


def attach_diffs(conclusion: Conclusion, request: BisectRequest, probes: Iterable[ProbeRow]) -> Conclusion:
    """Return the conclusion with what its culprits change. A culprit that git cannot read gets no diff."""
    if not conclusion.culprits:
        return conclusion
    names = failure_names(request, probes)
    diffs = (_read_culprit_diff(named, request, names) for named in conclusion.culprits)
    return conclusion.model_copy(update={"diffs": tuple(filter(None, diffs))})


def failure_names(request: BisectRequest, probes: Iterable[ProbeRow]) -> Sequence[str]:
    """Return texts that name what fails: the case, what counts as bad, and what failing runs printed."""
    lines = (line.text for probe in probes if probe.judgement is Judgement.BAD for line in probe.evidence)
    printed = islice(dict.fromkeys(lines), _MAX_EVIDENCE_LINES)
    return [request.case_text, request.bad_when or "", *printed]


def _read_culprit_diff(named: NamedCommit, request: BisectRequest, names: Sequence[str]) -> CommitDiff | None:
    if named.version is not None:
        return None  # a release has no history of its own, because this tool makes its commits
    repository = GitRepository(request.stack.repositories[named.repository].path)
    try:
        return read_diff(repository, named.commit, named.parent, names)
    except UserError:
        return None


_VERDICTS = {
    Judgement.GOOD: Verdict.PASS,
    Judgement.BAD: Verdict.MISMATCH,
    Judgement.SKIP: Verdict.UNKNOWN,
}


class PersonAnswer(StrEnum):
    """What a person may answer. The first letters are enough where they are unique."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    RETRY = "retry"
    SHELL = "shell"
    QUIT = "quit"

    @classmethod
    def read(cls, text: str) -> "PersonAnswer | None":
        """Return the answer that the line abbreviates. None where it abbreviates none, or several.

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
    """Raises `UsageError` where no person can judge.

    That is without a terminal, with several jobs at once, or where builds are made elsewhere.
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
    """Workers whose builds a person judges.

    A revision is judged only once: `judged` has the answers of earlier starts. A skip of an earlier start is asked
    again, because a bisection that runs it again needs the answer.
    """

    def __init__(
        self,
        workers: Workers,
        ask: "Callable[[ManualRun], PersonAnswer]",
        *,
        judged: Iterable[ProbeRow] = (),
    ) -> None:
        self._workers = workers
        self._ask = ask
        self._requests: dict[int, ProbeRequest] = {}
        self._numbers: dict[int, int] = {}
        """The loop's number of each probe that was begun anew."""
        self._answers = {
            frozenset(probe.revisions.items()): probe.judgement
            for probe in judged
            if probe.verdict_source is VerdictSource.PERSON
            and probe.judgement in (Judgement.GOOD, Judgement.BAD)
        }

    @property
    def jobs(self) -> int:
        """Return the number of probes that are made at once."""
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
        """Wait for news. Where a build is ready, wait until a person has judged it.

        Raises `KeyboardInterrupt` where the person quits, and `UserError` where probes cannot be made.
        """
        event = self._workers.next_event(timeout=timeout)
        if event is None:
            return None
        number = self._numbers.get(event.number, event.number)
        if isinstance(event, ProbeDone) and event.result is not None and event.result.left is not None:
            return self._judge(number, event.result, event.result.left)
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
        verdict=_VERDICTS[judgement],
        signature="judged by a person",
        evidence=(evidence,),
        metrics={},
        source=VerdictSource.PERSON,
    )
    return replace(result, classification=classification, judgement=judgement)


_HELP = """\
good, bad: what the case does here; skip: it cannot be told. retry builds it anew; shell opens one here.
quit stops, and --resume goes on. Any first letters will do.
"""


def ask_at_terminal(left: ManualRun, stack: Stack, *, answers: IO[str], out: IO[str]) -> PersonAnswer:
    """Print what was built and how to run it, and read answers until one of them judges it. The end of input quits."""
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


_RESUMABLE = (None, BisectionOutcome.BUDGET)
"""A bisection with one of these outcomes can be resumed."""


@dataclass(frozen=True, kw_only=True)
class DriveOptions:
    """Says who works on a bisection in this start, and how much.

    `deadline` is a time of `time.monotonic`. `build_store` has shared builds.
    """

    jobs: int = 1
    backend: Backend = "loky"
    build_store: str | None = None
    deadline: float | None = None


class UnstoredConclusionError(Exception):
    """A bisection has come to its end, but the store did not take the conclusion."""

    def __init__(self, conclusion: Conclusion, why: SQLAlchemyError) -> None:
        super().__init__(conclusion.message)
        self.conclusion = conclusion
        self.why = why


class StoredBisection:
    """A bisection in the store that only this process may drive."""

    def __init__(
        self, journal: BisectionJournal, name: str, home: Home, *, planned: LoadedRange | None = None
    ) -> None:
        self.journal = journal
        self.name = name
        self.directory = home.bisections / name
        self._home = home
        self._planned = planned
        self._drive = 0
        """The number of this start, once the bisection is driven."""
        self._end = DriveEnd.INTERRUPTED
        self._failure: str | None = None
        self._has_time = False
        """Whether the time of this start was recorded for its report."""
        self.conclusion: Conclusion | None = None
        """The conclusion, if the bisection ended in this start."""

    @classmethod
    def begin(
        cls, plan: Plan, *, sessions: sessionmaker[DatabaseSession], home: Home, reuse: bool = False
    ) -> "StoredBisection":
        """Store a new bisection, with what the store knows of its case.

        With `reuse`, runs of bisections that asked the same count in it. Raises `UserError` where its name is taken.
        """
        if (other := BisectionJournal.find(sessions, plan.name)) is not None:
            may_go_on = other.row().outcome in _RESUMABLE
            hint = f"go on with that: --resume {plan.name}" if may_go_on else f"see that: report {plan.name}"
            raise UserError(
                f"--name {plan.name}: expected a name of its own, found a bisection of that name in the store; take "
                f"another one, or {hint}"
            )
        known, before = EarlierRunJournal(sessions), ReusableBisections()
        if reuse and plan.range is not None:
            before = find_reusable_bisections(plan.request, plan.range, known, golden_store=home.golden)
        request = plan.request.model_copy(update={"reuses": before.names})
        earlier = earlier_runs(request, known)
        request = request.model_copy(update={"earlier_runs": earlier})
        journal = BisectionJournal.begin(
            sessions,
            name=plan.name,
            repository=request.repository,
            good=request.good,
            bad=request.bad,
            request=write_document(request),
        )
        if before.golden is not None:
            journal.set_golden(before.golden)
        for notice in (*plan.notices, *([] if earlier is None else [describe_earlier_runs(earlier)])):
            journal.add_notice(notice)
        return cls(journal, plan.name, home, planned=plan.range)

    @classmethod
    def find(cls, name: str, *, sessions: sessionmaker[DatabaseSession], home: Home) -> "StoredBisection":
        """Return the bisection of this name, to resume it. Raises `UserError`."""
        journal = BisectionJournal.find(sessions, name)
        if journal is None:
            raise UserError(
                f"--resume {name}: expected a bisection in the store, found none; see bisect-precision history"
            )
        row = journal.row()
        if row.outcome not in _RESUMABLE:
            ended = (row.outcome or "").replace("_", " ")
            raise UserError(
                f"--resume {row.name}: expected an unfinished bisection, found one that ended ({ended}); "
                f"see bisect-precision report {row.name}"
            )
        return cls(journal, row.name, home)

    @classmethod
    def newest_of(
        cls, folder: Path, *, sessions: sessionmaker[DatabaseSession], home: Home
    ) -> "StoredBisection":
        """Return the newest unfinished bisection of the checkout around a folder. Raises `UserError`."""
        checkout = checkout_root(folder.resolve())
        unfinished = [
            cls(each, each.row().name, home) for each in BisectionJournal.unfinished_bisections(sessions)
        ]
        for bisection in unfinished:
            if bisection.request.belongs_to(checkout):
                return bisection
        others = ", ".join(each.name for each in unfinished)
        found = f"only of other checkouts: name one of {others}" if others else "none"
        raise UserError(
            f"--resume: expected a bisection of {checkout} that is unfinished, found {found}; see "
            "bisect-precision history"
        )

    @property
    def request(self) -> BisectRequest:
        """Return the question of the bisection."""
        return read_document(BisectRequest, self.journal.row().request)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Held while driving. Raises `UserError` where another process drives this bisection."""
        self._home.make()
        make_folder(self.directory)
        with ExitStack() as held:
            if not (
                held.enter_context(sole_holder(self.directory / "driver.lock", self.directory))
                and held.enter_context(self.journal.sole_driver())
            ):
                raise UserError(
                    f"bisection {self.name}: expected to be its only driver, found another process at it; wait for "
                    "that one"
                )
            yield

    @contextmanager
    def record_drive(self, *, seconds: float = 0.0) -> Generator[None]:
        """Holds the lock, and records the drive in the store.

        The record says since when it has run and how it ended. The command began `seconds` before the drive.
        """
        with self.lock():
            self._has_time = False
            self._drive = self.journal.begin_drive(host=platform.node(), process=os.getpid(), seconds=seconds)
            try:
                yield
            except Exception as error:
                self.note_failure(str(error) or repr(error))
                raise
            finally:
                # A failure of the store must not cost the answer.
                with suppress(SQLAlchemyError):
                    if not self._has_time:
                        self.note_time()
                    self.journal.end_drive(self._drive, self._end, self._failure)

    def note_failure(self, message: str) -> None:
        """Make the record say that this start ends with an error."""
        self._end, self._failure = DriveEnd.FAILED, message

    def note_time(self) -> None:
        """Record how long this start has taken so far. The report is made next, so its time stays the store's."""
        self.journal.note_alive(self._drive)
        self._has_time = True

    def drive(self, progress: Progress, options: DriveOptions) -> Conclusion:
        """Run the bisection to its end, or to that of its budget. The caller holds the lock.

        Raises `UserError`, and `UnstoredConclusionError`.
        """
        alone = _SoleTask(self, progress, options.deadline)
        with open_workers(
            self.request.stack,
            self._home,
            jobs=options.jobs,
            backend=options.backend,
            build_store=options.build_store,
        ) as workers:
            try:
                with open_ahead_builder(self.request, self._home, options) as ahead:
                    Loop(self._judging_workers(workers), ahead=ahead).run([alone])
            except EndsError as error:
                finding = merge_base_finding(self.request, self.journal.probes.finished_probes())
                if finding is None:
                    raise
                raise finding from error
            except UserError as error:
                untold = undecidable_merge_base(self.request, self.journal.probes.finished_probes())
                if untold is None:
                    raise
                raise untold from error
            except SQLAlchemyError as error:
                if alone.conclusion is None:
                    raise
                raise UnstoredConclusionError(alone.conclusion, error) from error
        assert alone.conclusion is not None
        return alone.conclusion

    def _judging_workers(self, workers: Workers) -> Workers:
        """Return the workers, wrapped for a person's judgement where a person judges."""
        if not self.request.interactive:
            return workers
        ask = partial(ask_at_terminal, stack=self.request.stack, answers=sys.stdin, out=sys.stderr)
        return PersonWorkers(workers, ask, judged=self.journal.probes.finished_probes())

    def open_for_driving(self, progress: Progress, held: ExitStack) -> DrivenBisection:
        """Return the bisection as a loop drives it. The caller holds the lock, and closes `held` at the end.

        Raises `UserError`.
        """
        request = self.request
        if request.runtime_dir is not None:
            assert request.frozen_runtime_dir is not None
            freeze_runtime_dir(
                request.runtime_dir,
                request.frozen_runtime_dir,
                replayed_on=request.golden_data if request.replays else None,
            )
        return DrivenBisection(
            request=request,
            journal=self.journal,
            workspace=Workspace(request.stack, self._home),
            home=self._home,
            directory=self.directory,
            progress=progress,
            held=held,
            planned=self._planned,
        )

    def conclude(self, conclusion: Conclusion) -> None:
        """Store the conclusion, with what its culprits change."""
        kept = attach_diffs(conclusion, self.request, self.journal.probes.finished_probes())
        self.journal.conclude(conclusion.outcome, write_document(kept))
        self.conclusion, self._end = kept, DriveEnd.CONCLUDED


class _SoleTask:
    """A task that has all workers for itself."""

    timings: Timings | None = None

    def __init__(self, bisection: StoredBisection, progress: Progress, deadline: float | None) -> None:
        self.deadline = deadline
        self.conclusion: Conclusion | None = None
        self._bisection = bisection
        self._progress = progress

    def open(self, held: ExitStack) -> DrivenBisection:
        return self._bisection.open_for_driving(self._progress, held)

    def check_budget(self) -> None:
        """Raise nothing: only the deadline limits this bisection."""

    def conclude(self, conclusion: Conclusion) -> None:
        self.conclusion = conclusion
        self._bisection.conclude(conclusion)

    def fail(self, error: UserError) -> None:
        raise error


def open_workers(
    stack: Stack, home: Home, *, jobs: int, backend: Backend, build_store: str | None = None
) -> WorkerPool | Farm:
    """Return the workers of a stack, to be entered. Workers of this machine share its cores."""
    if backend != "loky":
        open_engine = partial(DaskEngine if backend == "dask" else RayEngine, cluster_address(backend))
        return Farm(stack, home, jobs=jobs, open_engine=open_engine, build_store=build_store)
    setup = Setup(
        stack=stack,
        home=home,
        variables=dict(os.environ),
        max_probes=jobs,
        build_store=build_store,
    )
    return WorkerPool(setup, jobs=jobs)


def open_ahead_builder(
    request: BisectRequest, home: Home, options: DriveOptions
) -> AbstractContextManager[AheadBuilder | None]:
    """Return a builder that builds on this machine while the case runs, to be entered.

    Return None where that would disturb the case. Return None also where no tool keeps what is compiled: a stopped
    build of one slot would then be lost for the other.
    """
    stack = request.stack
    undisturbed = stack.platforms[request.platform].undisturbed
    if options.backend != "loky" or undisturbed or not EnvironmentReader(stack).keeps_objects():
        return nullcontext()
    setup = Setup(stack=stack, home=home, variables=dict(os.environ), max_probes=options.jobs)
    return AheadBuilder(lambda: WorkerPool(setup, jobs=1))


def open_sessions(url: str) -> sessionmaker[DatabaseSession]:
    """Open the store. Raises `UserError`."""
    try:
        return open_store(url)
    except (StoreError, SQLAlchemyError) as error:
        raise UserError(str(error)) from error

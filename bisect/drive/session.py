"""A bisection in the store: begun, driven by one process, and resumed after a stop.

`StoredBisection` is the central class. `attach_diffs` reads what each culprit changes, because reports are made from
the store alone.
"""

import os
import platform
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session as DatabaseSession
from sqlalchemy.orm import sessionmaker

from ...runner.case.preflight import freeze_runtime_dir
from ...runner.commit_diff import CommitDiff, read_diff
from ...runner.errors import EndsError, UserError
from ...runner.git import GitRepository
from ...runner.probe.pool import AheadBuilder, Backend, Setup, WorkerPool, cluster_address
from ...runner.process.signals import check_interrupt, defer_interrupt
from ...runner.settings import checkout_root
from ...runner.stack import Stack
from ...runner.workspace.environment import EnvironmentReader
from ...runner.workspace.home import Home, sole_holder
from ...runner.workspace.slot import Workspace
from ...store.bisections import BisectionJournal, EarlierRunJournal
from ...store.database import database_message, open_store
from ...store.durable_files import DocumentError, make_folder, read_document, write_document
from ...store.tables import ProbeRow
from ...store.vocabulary import (
    BisectionOutcome,
    DriveEnd,
    StoreError,
    phrase_for_outcome,
)
from ..ask.earlier_runs import (
    ReusableBisections,
    describe_earlier_runs,
    earlier_runs,
    failure_names,
    find_reusable_bisections,
    merge_base_finding,
    undecidable_merge_base,
)
from ..ask.question import BisectRequest, Plan
from ..engine.answer import Conclusion, NamedCommit
from ..engine.range_search import Timings
from ..history.range import LoadedRange
from ..report.basis import suggest_bisection
from .driven import DrivenBisection
from .loop import Loop, Workers
from .person import PersonWorkers, ask_at_terminal
from .progress import Progress

if TYPE_CHECKING:
    from ...runner.farm.farm import Farm

_RESUMABLE = (None, BisectionOutcome.BUDGET)
"""A bisection with one of these outcomes can be resumed."""


@dataclass(frozen=True, kw_only=True)
class DriveOptions:
    """The workers of a bisection in this start, and its time."""

    jobs: int = 1
    backend: Backend = "loky"
    build_store: str | None = None
    """Where shared builds are."""
    deadline: float | None = None
    """The time of `time.monotonic` at which the budget is spent. None without a budget."""


class UnstoredConclusionError(Exception):
    """A bisection has ended, but the store did not take its conclusion."""

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
        self.reuse_notices: tuple[str, ...] = ()
        """Why the runs of a bisection that asked the same do not count, if it began in this start."""

    @classmethod
    def begin(
        cls, plan: Plan, *, sessions: sessionmaker[DatabaseSession], home: Home, reuse: bool = False
    ) -> "StoredBisection":
        """Store a new bisection, with what the store knows of its case.

        With `reuse`, it counts the runs of bisections that asked the same. Raises `UserError` where its name is taken.
        """
        _check_name_is_free(plan.name, sessions)
        remembered, reused = EarlierRunJournal(sessions), ReusableBisections()
        if reuse and plan.range is not None:
            reused = find_reusable_bisections(plan.request, plan.range, remembered, golden_store=home.golden)
        request = plan.request.model_copy(update={"reuses": reused.names})
        earlier = earlier_runs(request, remembered)
        request = request.model_copy(update={"earlier_runs": earlier})
        try:
            journal = BisectionJournal.begin(
                sessions,
                name=plan.name,
                repository=request.repository,
                good=request.good,
                bad=request.bad,
                request=write_document(request),
            )
        except IntegrityError:
            _check_name_is_free(plan.name, sessions)  # Another process may just have taken it.
            raise
        if reused.golden is not None:
            journal.set_golden(reused.golden)
        for notice in (*plan.notices, *reused.notices):
            journal.add_notice(notice)
        if earlier is not None:
            journal.add_notice(describe_earlier_runs(earlier))
        begun = cls(journal, plan.name, home, planned=plan.range)
        begun.reuse_notices = reused.notices
        return begun

    @classmethod
    def find(cls, name: str, *, sessions: sessionmaker[DatabaseSession], home: Home) -> "StoredBisection":
        """Return the bisection of this name, to resume it. Raises `UserError`."""
        journal = BisectionJournal.find(sessions, name)
        if journal is None:
            with sessions() as session:
                hint = suggest_bisection(session, name)
            raise UserError(f"--resume {name}: expected a bisection in the store, found none{hint}")
        found, outcome = cls(journal, name, home), journal.row().outcome
        if outcome not in _RESUMABLE:
            seeks = found.request.seeks
            ended = phrase_for_outcome(outcome or "", seeks=seeks, in_doubt=False, has_caveat=False)
            raise UserError(
                f"--resume {name}: expected an unfinished bisection, found one that ended ({ended}); "
                f"see bisect-precision report {name}"
            )
        return found

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
            # A record that a later version of this tool wrote stands in the way of no other one.
            with suppress(UserError):
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
        """Return the question of the bisection. Raises `UserError` where a later version of this tool wrote it."""
        try:
            return read_document(BisectRequest, self.journal.row().request)
        except DocumentError as error:
            raise UserError(f"bisection {self.name}: {error}") from error

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the bisection for this process. Raises `UserError` where another process drives it."""
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
        """Hold the lock, and record in the store when this start began and how it ended.

        The command began `seconds` before.
        """
        with self.lock(), ExitStack() as held:
            self._has_time = False
            with defer_interrupt():
                self._drive = self.journal.begin_drive(
                    host=platform.node(), process=os.getpid(), seconds=seconds
                )
                held.callback(self._record_end)
            try:
                yield
            except Exception as error:
                check_interrupt()
                self.note_failure(database_message(error) or str(error) or repr(error))
                raise

    def _record_end(self) -> None:
        """Record how this start ended. A failure of the store must not cost the answer."""
        with defer_interrupt(), suppress(SQLAlchemyError):
            if not self._has_time:
                self.note_time()
            self.journal.end_drive(self._drive, self._end, self._failure)

    def note_failure(self, message: str) -> None:
        """Note that this start ends with an error, for its record."""
        self._end, self._failure = DriveEnd.FAILED, message

    def note_time(self) -> None:
        """Record how long this start has taken so far. A report that is made next shows the same time as the store."""
        self.journal.note_alive(self._drive)
        self._has_time = True

    def drive(self, progress: Progress, options: DriveOptions) -> Conclusion:
        """Run the bisection until it ends or its budget is spent. The caller holds the lock.

        Raises `UserError`, and `UnstoredConclusionError`.
        """
        task = _SoleTask(self, progress, options.deadline)
        with open_workers(
            self.request.stack,
            self._home,
            jobs=options.jobs,
            backend=options.backend,
            build_store=options.build_store,
        ) as workers:
            try:
                with open_background_builder(self.request, self._home, options) as builder:
                    Loop(self._judging_workers(workers), background_builder=builder).run([task])
            except EndsError as error:
                finding = merge_base_finding(self.request, self.journal.probes.finished_probes())
                if finding is None:
                    raise
                raise finding from error
            except UserError as error:
                undecided = undecidable_merge_base(self.request, self.journal.probes.finished_probes())
                if undecided is None:
                    raise
                raise undecided from error
            except SQLAlchemyError as error:
                if task.conclusion is None:
                    raise
                raise UnstoredConclusionError(task.conclusion, error) from error
        assert task.conclusion is not None
        return task.conclusion

    def _judging_workers(self, workers: Workers) -> Workers:
        """Return the workers, or where a person judges, workers that ask the person."""
        if not self.request.interactive:
            return workers
        ask = partial(ask_at_terminal, stack=self.request.stack, answers=sys.stdin, out=sys.stderr)
        return PersonWorkers(workers, ask, judged=self.journal.probes.finished_probes())

    def open_for_driving(self, progress: Progress, resources: ExitStack) -> DrivenBisection:
        """Return the bisection as a loop drives it. The caller holds the lock, and closes `resources` at the end.

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
        planned, self._planned = self._planned, None
        return DrivenBisection.open(
            request=request,
            journal=self.journal,
            workspace=Workspace(request.stack, self._home),
            home=self._home,
            directory=self.directory,
            progress=progress,
            resources=resources,
            planned=planned,
        )

    def conclude(self, conclusion: Conclusion) -> None:
        """Store the conclusion, with the diffs of its culprits."""
        complete = attach_diffs(conclusion, self.request, self.journal.probes.finished_probes())
        with defer_interrupt():
            self.journal.conclude(conclusion.outcome, write_document(complete))
        self.conclusion, self._end = complete, DriveEnd.CONCLUDED


def _check_name_is_free(name: str, sessions: sessionmaker[DatabaseSession]) -> None:
    """Raise `UserError` if the store has a bisection of this name."""
    other = BisectionJournal.find(sessions, name)
    if other is None:
        return
    is_resumable = other.row().outcome in _RESUMABLE
    hint = f"go on with that: --resume {name}" if is_resumable else f"see that: report {name}"
    raise UserError(
        f"--name {name}: expected a name of its own, found a bisection of that name in the store; take another one, "
        f"or {hint}"
    )


class _SoleTask:
    """A bisection that has all workers for itself."""

    timings: Timings | None = None

    def __init__(self, bisection: StoredBisection, progress: Progress, deadline: float | None) -> None:
        self.deadline = deadline
        self.conclusion: Conclusion | None = None
        self._bisection = bisection
        self._progress = progress

    def open(self, resources: ExitStack) -> DrivenBisection:
        return self._bisection.open_for_driving(self._progress, resources)

    def check_budget(self) -> None:
        """Do nothing, because only the deadline limits this bisection."""

    def conclude(self, conclusion: Conclusion) -> None:
        self.conclusion = conclusion
        self._bisection.conclude(conclusion)

    def fail(self, error: UserError) -> None:
        raise error


def open_workers(
    stack: Stack, home: Home, *, jobs: int, backend: Backend, build_store: str | None = None
) -> "WorkerPool | Farm":
    """Return the workers of a stack, as a context manager. Workers of this machine share its cores."""
    if backend != "loky":
        from ...runner.farm.dask import DaskEngine
        from ...runner.farm.farm import Farm
        from ...runner.farm.ray import RayEngine

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


def open_background_builder(
    request: BisectRequest, home: Home, options: DriveOptions
) -> AbstractContextManager[AheadBuilder | None]:
    """Return a context manager of a builder that builds on this machine while the case runs.

    It gives None where a build would disturb the case. It gives None also where no tool keeps what is compiled, because
    another slot could not use a stopped build.
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
        raise UserError(database_message(error) or str(error)) from error


def attach_diffs(conclusion: Conclusion, request: BisectRequest, probes: Iterable[ProbeRow]) -> Conclusion:
    """Return the conclusion with the diffs of its culprits. A culprit that git cannot read gets none."""
    if not conclusion.culprits:
        return conclusion
    names = failure_names(request, probes)
    diffs = (_read_culprit_diff(named, request, names) for named in conclusion.culprits)
    return conclusion.model_copy(update={"diffs": tuple(filter(None, diffs))})


def _read_culprit_diff(named: NamedCommit, request: BisectRequest, names: Sequence[str]) -> CommitDiff | None:
    if named.version is not None:
        return None  # a release has no history of its own, because this tool makes its commits
    repository = GitRepository(request.stack.repositories[named.repository].path)
    try:
        return read_diff(repository, named.commit, named.parent, names)
    except UserError:
        return None

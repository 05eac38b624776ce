"""A bisection in the store: begun, driven by one process, and taken up again after a stop."""

import os
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session as DatabaseSession
from sqlalchemy.orm import sessionmaker

from ...runner.case.runtime_dir import freeze_runtime_dir
from ...runner.errors import EndsError, UserError
from ...runner.probe.farm.engines.dask_engine import DaskEngine
from ...runner.probe.farm.engines.ray_engine import RayEngine
from ...runner.probe.farm.farm import Farm
from ...runner.probe.workers.ahead import AheadBuilder
from ...runner.probe.workers.backends import Backend, cluster_address
from ...runner.probe.workers.pool import WorkerPool
from ...runner.probe.workers.worker import Setup
from ...runner.stack.checkout import checkout_root
from ...runner.stack.stack import Stack
from ...runner.workspace.environment import EnvironmentReader
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.database import StoreError, open_store
from ...store.documents.document import read_document, write_document
from ...store.journals.bisections import BisectionJournal
from ...store.journals.earlier_runs import EarlierRunJournal
from ...store.vocabulary import BisectionOutcome
from ...store.words import plural
from ..engine.priority.costs import Timings
from ..plan.earlier_runs import earlier_runs, told
from ..plan.question import Plan
from ..plan.request import BisectRequest
from ..result import Conclusion
from .budget import BudgetSpentError
from .driven import DrivenBisection
from .loop import Loop, Workers
from .merge_base import merge_base_finding, untold_by_merge_base
from .person import PersonWorkers, ask_at_terminal
from .view.progress import Progress

_GOES_ON = (None, BisectionOutcome.BUDGET)
"""Outcomes of a bisection that can be resumed."""


@dataclass(frozen=True, kw_only=True)
class DriveOptions:
    """Who works on a bisection this time, with which shared builds, until when (of `time.monotonic`), and for how many
    runs at most."""

    jobs: int = 1
    backend: Backend = "loky"
    build_store: str | None = None
    deadline: float | None = None
    budget_runs: int | None = None


class UnstoredConclusionError(Exception):
    """A bisection has come to its end, which the store did not take."""

    def __init__(self, conclusion: Conclusion, why: SQLAlchemyError) -> None:
        super().__init__(conclusion.message)
        self.conclusion = conclusion
        self.why = why


class StoredBisection:
    """A bisection in the store that this process, and no other, may drive."""

    def __init__(self, journal: BisectionJournal, name: str, home: Home) -> None:
        self.journal = journal
        self.name = name
        self.directory = home.bisections / name
        self._home = home

    @classmethod
    def begin(cls, plan: Plan, *, sessions: sessionmaker[DatabaseSession], home: Home) -> "StoredBisection":
        """Note a new one, with what the store knows of its case. Raises `UserError` where its name is taken."""
        if (other := BisectionJournal.find(sessions, plan.name)) is not None:
            may_go_on = other.row().outcome in _GOES_ON
            hint = f"go on with that: --resume {plan.name}" if may_go_on else f"see that: report {plan.name}"
            raise UserError(
                f"--name {plan.name}: expected a name of its own, found a bisection of that name in the store; take "
                f"another one, or {hint}"
            )
        earlier = earlier_runs(plan.request, EarlierRunJournal(sessions))
        request = plan.request.model_copy(update={"earlier_runs": earlier})
        journal = BisectionJournal.begin(
            sessions,
            name=plan.name,
            repository=request.repository,
            good=request.good,
            bad=request.bad,
            request=write_document(request),
        )
        for notice in (*plan.notices, *([] if earlier is None else [told(earlier)])):
            journal.add_notice(notice)
        return cls(journal, plan.name, home)

    @classmethod
    def find(cls, name: str, *, sessions: sessionmaker[DatabaseSession], home: Home) -> "StoredBisection":
        """The one of this name, to go on with. Raises `UserError`."""
        journal = BisectionJournal.find(sessions, name)
        if journal is None:
            raise UserError(
                f"--resume {name}: expected a bisection in the store, found none; see bisect-precision history"
            )
        row = journal.row()
        if row.outcome not in _GOES_ON:
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
        """The newest that is not finished, of the checkout around a folder. Raises `UserError`."""
        checkout = checkout_root(folder.resolve())
        unfinished = [cls(each, each.row().name, home) for each in BisectionJournal.unfinished(sessions)]
        for bisection in unfinished:
            if bisection.request.is_of(checkout):
                return bisection
        others = ", ".join(each.name for each in unfinished)
        found = f"only of other checkouts: name one of {others}" if others else "none"
        raise UserError(
            f"--resume: expected a bisection of {checkout} that is unfinished, found {found}; see "
            "bisect-precision history"
        )

    @property
    def request(self) -> BisectRequest:
        """What was asked."""
        return read_document(BisectRequest, self.journal.row().request)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Held while driving. Raises `UserError` where another process drives this bisection."""
        self._home.make()
        self.directory.mkdir(parents=True, exist_ok=True)
        busy = UserError(
            f"bisection {self.name}: expected to be its only driver, found another process at it; wait for that one"
        )
        with ExitStack() as held:
            try:
                held.enter_context(FileLock(self.directory / "driver.lock", blocking=False))
            except Timeout as error:
                raise busy from error
            if not held.enter_context(self.journal.sole_driver()):
                raise busy
            yield

    def drive(self, progress: Progress, options: DriveOptions) -> Conclusion:
        """Run it to its end, or to that of its budget. The caller holds the lock.

        Raises `UserError`, and `UnstoredConclusionError`.
        """
        alone = _Alone(self, progress, options.deadline, most_runs=options.budget_runs)
        with open_workers(
            self.request.stack,
            self._home,
            jobs=options.jobs,
            backend=options.backend,
            build_store=options.build_store,
        ) as workers:
            try:
                with builds_ahead(self.request, self._home, options) as ahead:
                    Loop(self._judges(workers), ahead=ahead).run([alone])
            except EndsError as error:
                finding = merge_base_finding(self.request, self.journal.probes.finished())
                if finding is None:
                    raise
                raise finding from error
            except UserError as error:
                untold = untold_by_merge_base(self.request, self.journal.probes.finished())
                if untold is None:
                    raise
                raise untold from error
            except SQLAlchemyError as error:
                if alone.conclusion is None:
                    raise
                raise UnstoredConclusionError(alone.conclusion, error) from error
        assert alone.conclusion is not None
        return alone.conclusion

    def _judges(self, workers: Workers) -> Workers:
        """The workers, beside a person where one is to judge."""
        if not self.request.interactive:
            return workers
        ask = partial(ask_at_terminal, stack=self.request.stack, answers=sys.stdin, out=sys.stderr)
        return PersonWorkers(workers, ask, judged=self.journal.probes.finished())

    def opened(self, progress: Progress, held: ExitStack) -> DrivenBisection:
        """As it is driven beside others, or alone. The caller holds the lock, and closes `held` at the end.

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
        )

    def conclude(self, conclusion: Conclusion) -> None:
        """Keep how it ended."""
        self.journal.conclude(conclusion.outcome, write_document(conclusion))


class _Alone:
    """A bisection with all workers for itself."""

    timings: Timings | None = None

    def __init__(
        self,
        bisection: StoredBisection,
        progress: Progress,
        deadline: float | None,
        *,
        most_runs: int | None,
    ) -> None:
        self.deadline = deadline
        self._most_runs = most_runs
        self._runs = 0
        self.conclusion: Conclusion | None = None
        self._bisection = bisection
        self._progress = progress

    def open(self, held: ExitStack) -> DrivenBisection:
        return self._bisection.opened(self._progress, held)

    def permit(self) -> None:
        if self._runs == self._most_runs:
            raise BudgetSpentError(f"its budget of {plural(self._runs, 'run')} is spent")
        self._runs += 1

    def concluded(self, conclusion: Conclusion) -> None:
        self.conclusion = conclusion
        self._bisection.conclude(conclusion)

    def failed(self, error: UserError) -> None:
        raise error


def open_workers(
    stack: Stack, home: Home, *, jobs: int, backend: Backend, build_store: str | None = None
) -> WorkerPool | Farm:
    """Workers of a stack, to be entered. Here they share the cores of one machine."""
    if backend != "loky":
        open_engine = partial(DaskEngine if backend == "dask" else RayEngine, cluster_address(backend))
        return Farm(stack, home, jobs=jobs, open_engine=open_engine, build_store=build_store)
    setup = Setup(
        stack=stack,
        home=home,
        variables=dict(os.environ),
        share=jobs,
        build_store=build_store,
    )
    return WorkerPool(setup, jobs=jobs)


def builds_ahead(
    request: BisectRequest, home: Home, options: DriveOptions
) -> AbstractContextManager[AheadBuilder | None]:
    """Who builds on this machine while the case runs, to be entered. None where that would disturb the case, or where
    no tool keeps what is compiled: what is built in one slot, and stopped, would then be lost for the other."""
    stack = request.stack
    undisturbed = stack.platforms[request.platform].undisturbed
    if options.backend != "loky" or undisturbed or not EnvironmentReader(stack).keeps_objects():
        return nullcontext()
    setup = Setup(stack=stack, home=home, variables=dict(os.environ), share=options.jobs)
    return AheadBuilder(lambda: WorkerPool(setup, jobs=1))


def open_sessions(url: str) -> sessionmaker[DatabaseSession]:
    """The store. Raises `UserError`."""
    try:
        return open_store(url)
    except (StoreError, SQLAlchemyError) as error:
        raise UserError(str(error)) from error

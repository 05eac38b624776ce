"""Follows regressions from night to night: bisections, incidents, and recovery.

`bisect_regressions` bisects each open regression for its culprit, and each recovered one for its fix. The bisections of
a night run together (`drive.loop`): a build of one is cheap for all, and a commit that one suspects is tested early by
all others. Regressions with one culprit form an incident, which is localized once and closed when all of them have
recovered. `judge_recovery` decides by statistics, because one pass proves nothing where a failure is flaky.
`report_incidents` calls the job's hook once for each incident that opens or closes in a night.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from filelock import FileLock
from rich.console import Console
from rich.text import Text
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import EndsError, UserError
from ...runner.stack import Stack
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.durable_files import make_folder, read_document, write_document
from ...store.nights import JobJournal
from ...store.tables import CellRow, IncidentRow, NightRow, RegressionRow
from ...store.vocabulary import BisectionOutcome, Judgement, Seeks, plural
from ..ask.prepare import prepare
from ..ask.question import BisectRequest, Question
from ..drive.driven import DrivenBisection
from ..drive.hand_over import call_hook, localize_culprit, record_builds
from ..drive.loop import Loop
from ..drive.session import StoredBisection, open_workers
from ..engine.answer import Conclusion
from ..engine.failures import judge_target, passes_needed
from ..engine.range_search import Timings
from ..engine.runs import FinishedProbe, ProbeLog
from ..history.range import Target
from ..report.basis import Rows, load_rows
from ..report.report_files import record_report
from ..search.rates import Rates, fit
from .matrix import Limits, NightlyConfig, OutOfTimeError, probe_times, question_case
from .night_report import HookReport, IncidentReport, NamedProgress, SharedOutput, incident_report, say


@dataclass(frozen=True, kw_only=True)
class NightContext:
    """A night of a job, with everything that the work on its regressions shares."""

    config: NightlyConfig
    stack: Stack
    sessions: sessionmaker[Session]
    journal: JobJournal
    home: Home
    night: NightRow
    limits: Limits
    workspace: Workspace
    progress: Console

    def bisection(self, identity: int) -> StoredBisection:
        """Return a bisection of the store."""
        journal = self.journal.bisection(identity)
        return StoredBisection(journal, journal.row().name, self.home)


@dataclass(frozen=True, kw_only=True)
class QueuedBisection:
    """A bisection that is left to the queue: its name and question, and the board on which it runs.

    board: the platform of the board; None where it needs no board.
    device: the number of the board.
    """

    bisection: str
    question: tuple[str, ...]
    """The words of its command line, for people only, because the bisection is in the store already."""
    board: str | None
    device: int


def bisect_regressions(context: NightContext, *, jobs: int) -> list[str]:
    """Find the culprit of every open regression without one, and the fix of every recovered one.

    `jobs` runs are made at once. Returns one sentence for each thing that could not be done.
    """
    problems = list[str]()
    tasks = _open_tasks(context, problems)
    if tasks:
        known = _known_culprits(context, context.journal.incidents.all(open_only=True))
        with open_workers(context.stack, context.home, jobs=jobs, backend="loky") as workers:
            loop = Loop(
                workers, built=context.journal.built_contents(), known_culprits=known, share_build_cost=True
            )
            loop.run(tasks)
    return problems


def submit_regressions(context: NightContext, submit: Callable[[QueuedBisection], None]) -> list[str]:
    """Leave the bisections of `bisect_regressions` to the queue, and store results of those that have ended there.

    Returns one sentence for each thing that could not be done.
    """
    problems = list[str]()
    for task in _open_tasks(context, problems):
        try:
            task.hand_over(submit)
        except UserError as error:
            task.fail(error)
    return problems


def store_ended_bisections(context: NightContext) -> list[str]:
    """Store the results of bisections that were left to the queue and have ended.

    Returns one sentence for each thing that could not be done.
    """
    problems = list[str]()
    for task in _open_tasks(context, problems):
        task.store_result()
    return problems


def _open_tasks(context: NightContext, problems: list[str]) -> list["RegressionTask"]:
    """Return the bisections of a night. `problems` collects one sentence for each thing that cannot be done."""
    output, journal = SharedOutput(context.progress), context.journal
    culprits = [
        FindCulprit(context, regression, output=output, problems=problems)
        for regression in journal.regressions.all_open()
        if regression.incident_id is None and regression.problem is None
    ]
    fixes = [
        FindFix(context, regression, output=output, problems=problems)
        for regression in journal.regressions.find_unfixed()
    ]
    return [*culprits, *fixes]


def cell_label(cell: CellRow) -> str:
    """Return the name of a cell for people."""
    return f"{cell.case} on {cell.platform}"


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """The ends of a bisection, and the folder of its report."""

    good: str
    bad: str
    seeks: Seeks
    folder: str


class RegressionTask(ABC):
    """A bisection of one regression, which runs together with those of other regressions.

    A bisection that the end of a night interrupts goes on in the next night.
    """

    purpose: ClassVar[str]
    """The noun for what the bisection looks for."""
    deadline: float | None = None

    def __init__(
        self, context: NightContext, regression: RegressionRow, *, output: SharedOutput, problems: list[str]
    ) -> None:
        """`problems` collects one sentence for each thing that could not be done tonight."""
        self.context = context
        self.regression = regression
        self.timings = _expected_timings(context, regression)
        self._output = output
        self._problems = problems
        self._bisection: StoredBisection | None = None

    @abstractmethod
    def ends(self) -> _Ends:
        """Return the commits between which the bisection searches."""

    @abstractmethod
    def linked_bisection_id(self) -> int | None:
        """Return the id of the bisection that was begun for this task, if any."""

    @abstractmethod
    def remember(self, bisection: int | None) -> None:
        """Store which bisection was begun for this task. None: a new one will be begun."""

    @abstractmethod
    def note_named_commit(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        """Store the commit that the bisection names."""

    @abstractmethod
    def note_no_commit(self, why: str) -> None:
        """Store that the bisection names no commit, and that the search is over."""

    @abstractmethod
    def note_no_blame(self, why: str) -> None:
        """Store that no commit is to blame.

        The ends do not differ, no range lies between them, or no commit of the range explains the runs.
        """

    def open(self, resources: ExitStack) -> DrivenBisection | None:
        """Begin the bisection, or go on with it.

        None where no run may start, where another process drives it, or where it has ended already. Raises `UserError`.
        """
        try:
            self.context.limits.check()
        except OutOfTimeError as error:
            self.note_problem(f"the search for its {self.purpose} was not begun: {error}")
            return None
        bisection = self._bisection = self._find() or self._begin()
        try:
            resources.enter_context(bisection.record_drive())
        except UserError as error:  # A worker of the queue drives it, and its result is stored later.
            self.note_problem(str(error))
            return None
        if self.store_result():
            return None
        return bisection.open_for_driving(
            NamedProgress(self._output, cell_label(self.regression.cell)), resources
        )

    def hand_over(self, submit: Callable[[QueuedBisection], None]) -> None:
        """Begin the bisection or go on with it in the queue, or store its result where it has ended.

        Raises `UserError`.
        """
        bisection = self._bisection = self._find() or self._begin()
        if self.store_result():
            return
        request = bisection.request
        board = request.stack.platforms[request.platform].board
        submit(
            QueuedBisection(
                bisection=bisection.name,
                question=_typed_options(request),
                board=request.platform if board else None,
                device=request.device,
            )
        )

    def store_result(self) -> bool:
        """Store the result of the bisection if it has ended, and return whether it has."""
        bisection = self._find()
        if bisection is None:
            return False
        row = bisection.journal.row()
        if row.outcome in (None, BisectionOutcome.BUDGET):
            return False
        self._store_conclusion(bisection, read_document(Conclusion, row.conclusion))
        return True

    def check_budget(self) -> None:
        """Count a probe that is about to start against the limits of the night. Raises `BudgetSpentError`."""
        self.context.limits.count_run(self.regression.cell.platform)

    def conclude(self, conclusion: Conclusion) -> None:
        """Store how the bisection ended, and write its report. A report that cannot be written loses no answer."""
        assert self._bisection is not None
        self._bisection.conclude(conclusion)
        self._store_conclusion(self._bisection, conclusion)
        try:
            _write_report(self.context, self._bisection)
        except UserError as error:
            self.note_problem(str(error))

    def fail(self, error: UserError) -> None:
        """Store that the bisection cannot go on.

        If its ends are not to blame, the device or the disk most likely is. Then the next night begins a new one.
        """
        if isinstance(error, EndsError):
            if self._bisection is not None:
                ended = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
                self._bisection.conclude(ended)
            self.note_no_blame(str(error))
        else:
            if self._bisection is not None:
                self._bisection.note_failure(str(error))
            self.remember(None)
        self.note_problem(str(error))

    def note_problem(self, text: str) -> None:
        """Add a sentence on what could not be done tonight."""
        self._problems.append(f"{cell_label(self.regression.cell)}: {text}")

    def _store_conclusion(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        match conclusion.outcome:
            case BisectionOutcome.CULPRIT:
                self.note_named_commit(bisection, conclusion)
            case BisectionOutcome.BUDGET:
                self.note_problem(conclusion.message)
            case BisectionOutcome.ENDS_DO_NOT_DIFFER | BisectionOutcome.NO_CULPRIT:
                self.note_no_blame(conclusion.message)
                self.note_problem(conclusion.message)
            case _:
                self.note_no_commit(conclusion.message)

    def _find(self) -> StoredBisection | None:
        """Return the bisection that was begun before, if its stack is the same."""
        identity = self.linked_bisection_id()
        if identity is None:
            return None
        bisection = self.context.bisection(identity)
        return bisection if bisection.request.stack == self.context.stack else None

    def _begin(self) -> StoredBisection:
        context, regression, ends = self.context, self.regression, self.ends()
        cell, config = regression.cell, context.config
        if cell.platform not in config.platforms or cell.tolerance not in config.tolerances:
            raise UserError(
                f"expected a job with platform {cell.platform} and tolerance {cell.tolerance}, found one that no "
                f"longer has both; the search for its {self.purpose} waits for them"
            )
        plan = prepare(
            Question(
                stack=context.stack,
                repository=context.stack.searched,
                good=(ends.good,),
                bad=ends.bad,
                seeks=ends.seeks,
                runtime_dir=None,
                first_parent=False,
                case=question_case(config, cell),
                platform=cell.platform,
                device=config.platforms[cell.platform].device,
                bad_when=regression.bad_when,
                golden_data=None,
                timeout=config.timeout,
                confidence=config.confidence,
                output=config.output / "bisections" / ends.folder,
            ),
            context.home,
        )
        bisection = StoredBisection.begin(plan, sessions=context.sessions, home=context.home)
        self.remember(bisection.journal.bisection)
        return bisection


class FindCulprit(RegressionTask):
    """Finds the commit that broke a case. Regressions with one culprit are one incident."""

    purpose = "culprit"

    def ends(self) -> _Ends:
        regression = self.regression
        return _Ends(
            good=regression.last_good,
            bad=regression.first_bad,
            seeks=Seeks.REGRESSION,
            folder=f"regression-{regression.id}",
        )

    def linked_bisection_id(self) -> int | None:
        return self.regression.bisection_id

    def remember(self, bisection: int | None) -> None:
        self.context.journal.regressions.update(self.regression.id, bisection_id=bisection)

    def note_named_commit(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        culprit = conclusion.culprits[0]
        clone = self.context.workspace.clones[culprit.repository]
        self.context.journal.incidents.add_regression(
            self.regression.id,
            night_id=self.context.night.id,
            bisection_id=bisection.journal.bisection,
            repository=culprit.repository,
            culprit=culprit.commit,
            subject=clone.commit(culprit.commit).subject,
            confidence=culprit.confidence,
        )

    def note_no_commit(self, why: str) -> None:
        self.context.journal.regressions.update(self.regression.id, problem=why)

    def note_no_blame(self, why: str) -> None:
        # A commit may explain the runs of tomorrow, if the device works again, or if the failure is flaky.
        self.remember(None)


class FindFix(RegressionTask):
    """Finds the commit that fixed a case that has recovered."""

    purpose = "fix"

    def ends(self) -> _Ends:
        regression = self.regression
        assert regression.recovered_at is not None
        return _Ends(
            good=regression.recovered_at,
            bad=regression.last_bad,
            seeks=Seeks.FIX,
            folder=f"fix-{regression.id}",
        )

    def linked_bisection_id(self) -> int | None:
        return self.regression.fix_bisection_id

    def remember(self, bisection: int | None) -> None:
        self.context.journal.regressions.update(self.regression.id, fix_bisection_id=bisection)

    def note_named_commit(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        fix = conclusion.through or conclusion.culprits[0]
        self.context.journal.regressions.update(self.regression.id, fixed_by=fix.commit)

    def note_no_commit(self, why: str) -> None:
        self.context.journal.regressions.update(self.regression.id, fix_problem=why)

    def note_no_blame(self, why: str) -> None:
        self.note_no_commit(why)


def _typed_options(request: BisectRequest) -> tuple[str, ...]:
    """Return the options that a person would type to ask the same question, without the stack."""
    fix = () if request.seeks is Seeks.REGRESSION else ("--find-fix",)
    case = () if request.case is None else ("--case", request.case)
    return ("--good", request.good, "--bad", request.bad, *fix, *case, "--platform", request.platform)


def _expected_timings(context: NightContext, regression: RegressionRow) -> Timings | None:
    """Return the expected times of a bisection's first probes, from earlier runs of its cell or else of the job."""
    journal = context.journal
    return Timings.from_probes(
        map(probe_times, journal.runs.recent(regression.cell.id))
    ) or Timings.from_probes(map(probe_times, journal.runs.recent()))


def _known_culprits(context: NightContext, incidents: Iterable[IncidentRow]) -> list[tuple[str, str]]:
    """Return the commit of the searched repository at which the culprit of each incident comes in."""
    return [(context.stack.searched, _entry_commit(incident)) for incident in incidents]


def _entry_commit(incident: IncidentRow) -> str:
    through = read_document(Conclusion, incident.bisection.conclusion).through
    return through.commit if through else incident.culprit


def localize_incidents(context: NightContext) -> Iterator[str]:
    """Localize and reduce each open incident once, by the bisection that opened it.

    Yields one sentence for each incident that was not localized, as soon as that is known. Raises `OutOfTimeError`.
    """
    note_reductions(context)
    for incident in context.journal.incidents.all(open_only=True):
        if read_document(Conclusion, incident.bisection.conclusion).localization is not None:
            continue
        context.limits.check()
        bisection = context.bisection(incident.bisection_id)
        with ExitStack() as held:
            try:
                held.enter_context(bisection.lock())
            except UserError as error:  # A worker of the queue holds the lock, and localizes it.
                yield f"incident {incident.ordinal} is not localized here: {error}"
                continue
            with context.sessions() as session:
                rows = load_rows(session, bisection.name)
            localized = localize_culprit(
                rows,
                home=context.home,
                reduce=True,
                seconds=context.limits.remaining_seconds(),
                say=lambda text: say(context.progress, Text(text)),
            )
            # The next night begins again with a localization that the end of this night interrupted.
            context.limits.check()
            bisection.journal.note_localization(write_document(localized))
        record_builds(rows, context.home)
        try:
            _write_report(context, bisection, earlier=rows)
        except UserError as error:
            yield f"incident {incident.ordinal}: {error}"
        if localized.reduced is not None:
            context.journal.incidents.set_reduction(incident.id, str(localized.reduced))
        elif localized.status == "left out":
            yield f"incident {incident.ordinal} is not localized: {localized.message}"


def _write_report(context: NightContext, bisection: StoredBisection, *, earlier: Rows | None = None) -> None:
    """Write the report of a bisection into its folder. `earlier` is as of `load_rows`. Raises `UserError`."""
    with context.sessions() as session:
        rows = load_rows(session, bisection.name, earlier=earlier)
    record_report(rows, bisection.journal)


def note_reductions(context: NightContext) -> None:
    """Store the reduction of each open incident whose bisection a worker of the queue has localized and reduced."""
    for incident in context.journal.incidents.all(open_only=True):
        known = read_document(Conclusion, incident.bisection.conclusion).localization
        if incident.reduction is None and known is not None and known.reduced is not None:
            context.journal.incidents.set_reduction(incident.id, str(known.reduced))


def close_incidents(context: NightContext) -> None:
    """Close the incidents whose regressions have all recovered.

    Also stores the fix of incidents that were closed before their fix was known.
    """
    for incident in context.journal.incidents.all():
        fixed_by = _common_fix(incident)
        if incident.closed_night_id is not None:
            if incident.fixed_by is None and fixed_by is not None:
                context.journal.incidents.set_fix(incident.id, fixed_by)
        elif all(regression.recovered_night_id is not None for regression in incident.regressions):
            context.journal.incidents.close(incident.id, night_id=context.night.id, fixed_by=fixed_by)


def _common_fix(incident: IncidentRow) -> str | None:
    """Return the commit that fixed all regressions of an incident. None if there are several, or one is not known."""
    fixes = {regression.fixed_by for regression in incident.regressions}
    return fixes.pop() if len(fixes) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Holds what the runs of a cell say about its open regression.

    judgement: good where it has recovered, bad where it still fails, None where another run is needed.
    passes: how often the cell has passed since it last failed.
    needed_passes: how many such passes in a row show that it has recovered.
    """

    judgement: Judgement | None
    passes: int
    needed_passes: int


def judge_recovery(
    runs: Sequence[FinishedProbe], target: Target, *, bad_end: tuple[int, int] = (0, 0), confidence: float
) -> Recovery:
    """Judge a target by all runs of its cell since the regression was opened, in order.

    bad_end: failures and judged runs of the failing end that the regression's bisection measured.
    confidence: a regression that is not fixed is judged to have recovered with a probability of at most 1 -
    `confidence`. This holds over all nights together, and over all failure rates by their prior (`min_passes`).

    While the regression is not fixed, every commit after its first failure is bad. So passes before the last run of a
    content that failed are missed failures, and help to estimate the failure rate. A bad commit may show the later
    passes, of any content, by chance.

    Each content that failed gives one further chance to err. The error after the k-th such content may be at most (1 -
    confidence) / (k (k + 1)). The sum over all k is 1 - confidence.
    """
    judged = [run for run in runs if run.judgement is not Judgement.SKIP]
    failed = {run.content for run in judged if run.judgement is Judgement.BAD}
    last_failing = max((place for place, run in enumerate(judged, 1) if run.content in failed), default=0)
    failing, passing = judged[:last_failing], judged[last_failing:]
    failures = bad_end[0] + sum(run.judgement is Judgement.BAD for run in failing)
    attempt = max(1, len(failed))
    least = min_passes(
        failures=failures,
        runs=bad_end[1] + len(failing),
        error=(1 - confidence) / (attempt * (attempt + 1)),
    )
    # A fix lies before all of these passes, or there is none.
    log = ProbeLog((*failing, *(replace(run, content=target.content) for run in passing)))
    return Recovery(
        judgement=judge_target(log, target, passes=least),
        passes=len(passing),
        needed_passes=passes_needed(log, least=least),
    )


def min_passes(*, failures: int, runs: int, error: float) -> int:
    """Return the fewest passes in a row that a bad commit shows with a probability of at most `error`.

    failures: the number of failures in `runs` judged runs of bad commits.

    The probability of k passes is the posterior predictive probability E[(1 - r)^k | failures, runs], where
    r = P(fail | bad). Source: Gelman et al., Bayesian Data Analysis, 3rd ed., section 1.3.
    By the prior (`Rates.cautious`), r is 1 with probability 1/5, and otherwise has the distribution Beta(1/2, 1/2).
    So a commit that failed in all of its runs may still pass.

    >>> [min_passes(failures=n, runs=n, error=0.002) for n in (1, 3, 8, 30)]
    [18, 5, 3, 2]
    >>> min_passes(failures=4, runs=8, error=0.002)
    17
    """
    limit = 16
    while True:
        passes = np.arange(limit + 1.0)
        zero = np.zeros_like(passes)
        evidence = fit(
            Rates.cautious(),
            good_fails=zero,
            good_passes=zero,
            bad_fails=zero + failures,
            bad_passes=passes + (runs - failures),
        ).log_evidence
        rare = np.flatnonzero(np.exp(evidence - evidence[0]) <= error)
        if rare.size:
            return int(rare[0])
        limit *= 4


@contextmanager
def lock_incidents(context: NightContext) -> Generator[None]:
    """Lock the job's incidents, and wait while another process of this home closes, reports or writes them.

    A night and a worker that stores its results may run at the same time, but each incident is reported once.
    """
    folder = context.home.state / "nightly"
    make_folder(folder)
    with FileLock(folder / f"{context.config.job}.incidents.lock"):
        yield


def report_incidents(context: NightContext) -> list[str]:
    """Call the hook for each incident that opened or closed in this night, unless it was called before.

    The job limits the calls of a night. Returns one sentence for each call that failed, and one for skipped calls.
    """
    config, journal, night = context.config, context.journal, context.night
    notes = list[str]()
    if not config.on_incident:
        return notes
    calls = journal.nights.hook_calls(night.id)
    reported = {(call.incident_id, call.event) for call in calls}
    calls_left, unreported = config.hooks_per_night - len(calls), 0
    incidents = journal.incidents.all()
    for incident in incidents:
        shown = incident_report(incident, night, incidents)
        if shown.event is None or (incident.id, shown.event) in reported:
            continue
        if calls_left <= 0:
            unreported += 1
            continue
        calls_left -= 1
        text = HookReport(job=config.job, night=night.ordinal, incident=shown).model_dump_json()
        code = call_hook(config.on_incident, text, _hook_variables(config, night, shown))
        journal.nights.add_hook_call(night.id, incident.id, shown.event, code)
        if code != 0:
            notes.append(f"the hook ended with {code} for incident {incident.ordinal}")
    if unreported:
        notes.append(
            f"the hook was not told of {plural(unreported, 'incident')}: hooks_per_night is {config.hooks_per_night}"
        )
    return notes


def _hook_variables(config: NightlyConfig, night: NightRow, incident: IncidentReport) -> dict[str, str]:
    """Return the environment variables of a hook."""
    return {
        "JOB": config.job,
        "NIGHT": str(night.ordinal),
        "EVENT": incident.event or "",
        "INCIDENT": str(incident.number),
        "NAME": incident.bisection,
        "REPOSITORY": incident.repository,
        "CULPRIT": incident.culprit,
    }

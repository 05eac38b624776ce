"""From open regressions to incidents: bisect what has no culprit yet, group by culprit, close what passes again.

Bisections are driven together (`run.loop`), and know of each other: what one has built is cheap for all, and what one
suspects, or an open incident names, is looked at early by those whose range holds it.
"""

import sys
from contextlib import ExitStack

from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import EndsError, UserError
from ...runner.stack.stack import Stack
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.documents.document import read_document, write_document
from ...store.night_journal import NightJournal
from ...store.tables.nights import CaseRunRow, CellRow, IncidentRow, NightRow, RegressionRow
from ...store.vocabulary import BisectionOutcome, BuildSource
from ..after.hand_over import localize_culprit
from ..engine.priority.costs import Timings
from ..engine.probes import ProbeTimes
from ..plan.question import Question, prepare
from ..report.write import write_report
from ..result import Conclusion, NamedCommit
from ..run.driven import DrivenBisection
from ..run.loop import Loop
from ..run.session import StoredBisection, open_crew
from .config import NightlyConfig
from .limits import Limits, OutOfTimeError
from .runs import question_case
from .terminal import Transcript, Voice


class Investigator:
    """Bisects the regressions of one night."""

    def __init__(
        self,
        *,
        config: NightlyConfig,
        stack: Stack,
        sessions: sessionmaker[Session],
        journal: NightJournal,
        home: Home,
        night: NightRow,
        limits: Limits,
        workspace: Workspace,
    ) -> None:
        self._config = config
        self._stack = stack
        self._sessions = sessions
        self._journal = journal
        self._home = home
        self._night = night
        self._limits = limits
        self._workspace = workspace
        self._clones = workspace.clones
        self._problems: list[str] = []
        self._transcript = Transcript(Console(stderr=True))

    def investigate(self, *, jobs: int) -> list[str]:
        """Name the culprit of every regression that has none, with `jobs` runs at once; what could not be done, a
        sentence each."""
        waiting = [
            regression
            for regression in self._journal.open_regressions()
            if regression.incident_id is None and regression.problem is None
        ]
        if waiting:
            known = [
                (self._stack.searched, self._entry(each)) for each in self._journal.incidents(open_only=True)
            ]
            with open_crew(self._stack, self._home, jobs=jobs, backend="loky") as crew:
                loop = Loop(crew, built=self._journal.built_contents(), known_culprits=known, together=True)
                loop.run(_RegressionTask(self, regression) for regression in waiting)
        return self._problems

    def localize(self) -> list[str]:
        """Localize and reduce each open incident once, by the bisection that opened it; what was not, a sentence each.

        Raises `OutOfTimeError`.
        """
        problems: list[str] = []
        for incident in self._journal.incidents(open_only=True):
            if read_document(Conclusion, incident.bisection.conclusion).localization is not None:
                continue
            self._limits.check()
            bisection = self._find(incident.bisection_id)
            with bisection.lock():
                found = localize_culprit(
                    self._sessions,
                    bisection.name,
                    home=self._home,
                    reduce=True,
                    seconds=self._limits.left(),
                    say=lambda text: print(text, file=sys.stderr),
                )
                # One that the night's end cut short is begun again tomorrow.
                self._limits.check()
                bisection.journal.note_localization(write_document(found))
            write_report(self._sessions, bisection.name, bisection.request.output)
            if found.reduced is not None:
                self._journal.set_reduction(incident.id, str(found.reduced))
            elif found.status == "left out":
                problems.append(f"incident {incident.ordinal} is not localized: {found.message}")
        return problems

    def close(self) -> list[int]:
        """Close the incidents whose regressions have all recovered; their ids."""
        closed: list[int] = []
        for incident in self._journal.incidents(open_only=True):
            if all(regression.recovered_night_id is not None for regression in incident.regressions):
                fixes = {regression.fixed_by for regression in incident.regressions}
                self._journal.close_incident(
                    incident.id, night=self._night.id, fixed_by=fixes.pop() if len(fixes) == 1 else None
                )
                closed.append(incident.id)
        return closed

    def timings(self, cell: CellRow) -> Timings | None:
        """What is expected of a bisection's first probes."""
        journal = self._journal
        return Timings.of(map(_times, journal.recent_runs(cell.id))) or Timings.of(
            map(_times, journal.recent_runs())
        )

    def permit(self, cell: CellRow) -> None:
        """Count a probe that is about to start. Raises `BudgetSpentError`."""
        self._limits.permit(cell.platform)

    def open(
        self, regression: RegressionRow, held: ExitStack
    ) -> tuple[StoredBisection, DrivenBisection | None]:
        """The bisection of a regression, locked, and what drives it; None where it has ended before.

        Raises `UserError`.
        """
        bisection = self._open(regression)
        held.enter_context(bisection.lock())
        if bisection.journal.row().outcome not in (None, BisectionOutcome.BUDGET):
            return bisection, None
        return bisection, bisection.opened(Voice(self._transcript, _label(regression.cell)))

    def out_of_time(self) -> str | None:
        """Why no bisection may begin; None where one may."""
        try:
            self._limits.check()
        except OutOfTimeError as error:
            return str(error)
        return None

    def concluded(
        self, regression: RegressionRow, bisection: StoredBisection, conclusion: Conclusion
    ) -> None:
        """Keep what came of a regression's bisection."""
        if conclusion.outcome is BisectionOutcome.CULPRIT:
            self._join(regression, bisection, conclusion.culprits[0])
        elif conclusion.outcome is BisectionOutcome.BUDGET:
            self.problem(regression, conclusion.message)
        else:
            self._journal.update_regression(regression.id, problem=conclusion.message)

    def keep(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        """Keep how a bisection ended, with its report."""
        bisection.conclude(conclusion)
        write_report(self._sessions, bisection.name, bisection.request.output)

    def failed(self, regression: RegressionRow, error: UserError) -> None:
        """A bisection cannot go on: the device or the disk, most likely. Tomorrow another one is begun."""
        self._journal.update_regression(regression.id, bisection_id=None)
        self.problem(regression, str(error))

    def problem(self, regression: RegressionRow, text: str) -> None:
        """Note what could not be done."""
        self._problems.append(f"{_label(regression.cell)}: {text}")

    def _open(self, regression: RegressionRow) -> StoredBisection:
        """The bisection of a regression; one of an earlier night is gone on with, if it was asked of the same stack."""
        if regression.bisection_id is not None:
            bisection = self._find(regression.bisection_id)
            if bisection.request.stack == self._stack:
                return bisection
        return self._begin(regression)

    def _entry(self, incident: IncidentRow) -> str:
        """The commit of the searched repository at which an incident's culprit comes in."""
        conclusion = read_document(Conclusion, incident.bisection.conclusion)
        return conclusion.through.commit if conclusion.through else incident.culprit

    def _begin(self, regression: RegressionRow) -> StoredBisection:
        cell, config = regression.cell, self._config
        plan = prepare(
            Question(
                stack=self._stack,
                repository=self._stack.searched,
                good=regression.last_good,
                bad=regression.first_bad,
                runtime_dir=None,
                first_parent=False,
                case=question_case(config, cell),
                platform=cell.platform,
                device=config.platforms[cell.platform].device,
                bad_when=regression.bad_when,
                golden_data=None,
                timeout=config.timeout,
                confidence=config.confidence,
                output=config.output / "bisections" / f"regression-{regression.id}",
            ),
            self._home,
        )
        bisection = StoredBisection.begin(plan, sessions=self._sessions, home=self._home)
        self._journal.update_regression(regression.id, bisection_id=bisection.journal.bisection)
        return bisection

    def _find(self, identity: int) -> StoredBisection:
        journal = self._journal.bisection(identity)
        return StoredBisection(journal, journal.row().name, self._home)

    def _join(self, regression: RegressionRow, bisection: StoredBisection, culprit: NamedCommit) -> None:
        self._journal.join_incident(
            regression.id,
            night=self._night.id,
            bisection=bisection.journal.bisection,
            repository=culprit.repository,
            culprit=culprit.commit,
            subject=self._clones[culprit.repository].commit(culprit.commit).subject,
            confidence=culprit.confidence,
        )


class _RegressionTask:
    """The bisection of one regression, driven beside those of the others."""

    deadline: float | None = None

    def __init__(self, investigator: Investigator, regression: RegressionRow) -> None:
        self._investigator = investigator
        self._regression = regression
        self._bisection: StoredBisection | None = None
        self.timings = investigator.timings(regression.cell)

    def open(self, held: ExitStack) -> DrivenBisection | None:
        investigator = self._investigator
        late = investigator.out_of_time()
        if late is not None:
            investigator.problem(self._regression, f"its bisection was not begun: {late}")
            return None
        self._bisection, driven = investigator.open(self._regression, held)
        if driven is None:
            conclusion = read_document(Conclusion, self._bisection.journal.row().conclusion)
            investigator.concluded(self._regression, self._bisection, conclusion)
        return driven

    def permit(self) -> None:
        self._investigator.permit(self._regression.cell)

    def concluded(self, conclusion: Conclusion) -> None:
        assert self._bisection is not None
        self._investigator.keep(self._bisection, conclusion)
        self._investigator.concluded(self._regression, self._bisection, conclusion)

    def failed(self, error: UserError) -> None:
        if isinstance(error, EndsError) and self._bisection is not None:
            ended = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
            self._bisection.conclude(ended)
        self._investigator.failed(self._regression, error)


def _times(run: CaseRunRow) -> ProbeTimes:
    return ProbeTimes(
        build_source=BuildSource(run.build_source),
        build_seconds=run.build_seconds,
        run_seconds=run.run_seconds,
    )


def _label(cell: CellRow) -> str:
    return f"{cell.case} on {cell.platform}"

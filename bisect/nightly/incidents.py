"""From open regressions to incidents: bisect what has no culprit yet, group by culprit, close what passes again.

Bisections take turns (`together`), and know of each other: what one has built is cheap for all, and what one suspects,
or an open incident names, is looked at early by those whose range holds it.
"""

import sys
from functools import partial

from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import EndsError, UserError
from ...runner.stack.stack import Stack
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.documents.document import read_document, write_document
from ...store.night_journal import NightJournal
from ...store.tables.nights import CellRow, IncidentRow, NightRow, RegressionRow
from ...store.vocabulary import BisectionOutcome
from ..after.hand_over import localize_culprit
from ..plan.question import Question, prepare
from ..report.write import write_report
from ..result import Conclusion, NamedCommit
from ..run.costs import Timings
from ..run.session import StoredBisection, open_crew
from .config import NightlyConfig
from .limits import Limits, OutOfTimeError
from .runs import question_case
from .terminal import Transcript, Voice
from .together import Seat, Table, Task


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
                table = Table(crew, built=set(self._journal.built_contents()), known=known)
                table.drive(
                    Task(
                        drive=partial(self._bisect, regression),
                        permit=partial(self._limits.permit, regression.cell.platform),
                        timings=self._timings(regression.cell),
                    )
                    for regression in waiting
                )
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

    def _timings(self, cell: CellRow) -> Timings | None:
        """What is expected of a bisection's first runs."""
        return Timings.of(self._journal.recent_runs(cell.id)) or Timings.of(self._journal.recent_runs())

    def _bisect(self, regression: RegressionRow, seat: Seat) -> None:
        cell = regression.cell
        label = f"{cell.case} on {cell.platform}"
        try:
            self._limits.check()
            bisection = self._open(regression)
            conclusion = self._drive(bisection, label, seat)
        except OutOfTimeError as error:
            self._problems.append(f"{label}: its bisection was not begun: {error}")
        except UserError as error:
            # The device or the disk, most likely: tomorrow another bisection is begun.
            self._journal.update_regression(regression.id, bisection_id=None)
            self._problems.append(f"{label}: {error}")
        else:
            if conclusion.outcome is BisectionOutcome.CULPRIT:
                self._join(regression, bisection, conclusion.culprits[0])
            elif conclusion.outcome is BisectionOutcome.BUDGET:
                self._problems.append(f"{label}: {conclusion.message}")
            else:
                self._journal.update_regression(regression.id, problem=conclusion.message)

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

    def _drive(self, bisection: StoredBisection, label: str, seat: Seat) -> Conclusion:
        row = bisection.journal.row()
        if row.outcome not in (None, BisectionOutcome.BUDGET):
            return read_document(Conclusion, row.conclusion)
        progress = Voice(self._transcript, label)
        with bisection.lock():
            try:
                conclusion = bisection.drive_beside(seat, seat, progress)
            except EndsError as error:
                conclusion = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
                bisection.journal.conclude(conclusion.outcome, write_document(conclusion))
                raise
        write_report(self._sessions, bisection.name, bisection.request.output)
        return conclusion

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

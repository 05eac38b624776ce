"""From open regressions to incidents: bisect what has no culprit yet, group by culprit, close what passes again.

A regression whose range holds a culprit that is known already is asked about that commit and its parent first: that
takes two builds, which the first bisection has made, and a whole search only where the answer is no.
"""

from collections.abc import Mapping

from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import EndsError, UserError
from ...runner.git import GitRepository
from ...runner.home import Home
from ...runner.stack import Stack
from ...store.night_journal import NightJournal
from ...store.nightly import Incident, Night, Regression
from ...store.schema import Outcome
from ..conclusion import Conclusion, NamedCommit
from ..progress import Progress
from ..report.write import write_report
from ..session import CrewOptions, Question, StoredBisection, prepare
from .config import NightlyConfig, duration
from .runs import question_case


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
        night: Night,
        progress: Progress,
        clones: Mapping[str, GitRepository],
    ) -> None:
        self._config = config
        self._stack = stack
        self._sessions = sessions
        self._journal = journal
        self._home = home
        self._night = night
        self._progress = progress
        self._clones = clones

    def investigate(self) -> list[str]:
        """Name the culprit of every regression that has none; what could not be done, a sentence each.

        Raises `OutOfTimeError`.
        """
        problems: list[str] = []
        for regression in self._journal.open_regressions():
            if regression.incident_id is not None or regression.problem is not None:
                continue
            try:
                self._bisect(regression)
            except UserError as error:
                # The device or the disk, most likely: tomorrow another bisection is begun.
                self._journal.update_regression(regression.id, bisection_id=None)
                problems.append(f"{regression.cell.case} on {regression.cell.platform}: {error}")
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

    def _bisect(self, regression: Regression) -> None:
        if regression.bisection_id is None and self._explained(regression):
            return
        if regression.bisection_id is None:
            bisection = self._begin(regression, regression.last_good, regression.first_bad)
        else:
            bisection = self._find(regression.bisection_id)
        row = bisection.journal.row()
        finished = row.outcome is not None
        conclusion = Conclusion.model_validate(row.conclusion) if finished else self._drive(bisection)
        if conclusion.outcome is Outcome.CULPRIT:
            self._join(regression, bisection, conclusion.culprits[0])
        else:
            self._journal.update_regression(regression.id, problem=conclusion.message)

    def _explained(self, regression: Regression) -> bool:
        """Whether the culprit of an open incident explains this regression too."""
        clone = self._clones[self._stack.searched]
        for incident in self._journal.incidents(open_only=True):
            commit = self._entry(incident)
            parents = clone.commit(commit).parents
            if (
                not parents
                or not clone.is_ancestor(regression.last_good, parents[0])
                or not clone.is_ancestor(commit, regression.first_bad)
            ):
                continue
            try:
                bisection = self._begin(regression, parents[0], commit)
                conclusion = self._drive(bisection)
            except EndsError:
                self._journal.update_regression(regression.id, bisection_id=None)
                continue
            if conclusion.outcome is Outcome.CULPRIT:
                self._join(regression, bisection, conclusion.culprits[0])
                return True
            self._journal.update_regression(regression.id, bisection_id=None)
        return False

    def _entry(self, incident: Incident) -> str:
        """The commit of the searched repository at which an incident's culprit comes in."""
        conclusion = Conclusion.model_validate(incident.bisection.conclusion)
        return conclusion.through.commit if conclusion.through else incident.culprit

    def _begin(self, regression: Regression, good: str, bad: str) -> StoredBisection:
        cell, config = regression.cell, self._config
        plan = prepare(
            Question(
                stack=self._stack,
                repository=self._stack.searched,
                good=good,
                bad=bad,
                runtime_dir=None,
                first_parent=False,
                case=question_case(config, cell),
                platform=cell.platform,
                device=config.platforms[cell.platform].device,
                bad_when=regression.bad_when,
                golden_data=None,
                timeout=duration(config.timeout) if config.timeout else None,
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

    def _drive(self, bisection: StoredBisection) -> Conclusion:
        with bisection.lock():
            try:
                conclusion = bisection.drive(self._progress, CrewOptions())
            except EndsError as error:
                conclusion = Conclusion(outcome=Outcome.ENDS_DO_NOT_DIFFER, message=str(error))
                bisection.journal.conclude(conclusion.outcome, conclusion.model_dump(mode="json"))
                raise
        write_report(self._sessions, bisection.name, bisection.request.output)
        return conclusion

    def _join(self, regression: Regression, bisection: StoredBisection, culprit: NamedCommit) -> None:
        self._journal.join_incident(
            regression.id,
            night=self._night.id,
            bisection=bisection.journal.bisection,
            repository=culprit.repository,
            culprit=culprit.commit,
            subject=self._clones[culprit.repository].commit(culprit.commit).subject,
            confidence=culprit.confidence,
        )

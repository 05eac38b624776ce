"""From open regressions to incidents: bisect what has no culprit yet, group by culprit, close what passes again.

Bisections run one after another, so that the first answer comes soon, but choose together: what is built already is
cheap for all, and a build that several may want is cheaper for each. A regression whose range holds a culprit that is
known already is asked about that commit and its parent first: that
takes two builds, which the first bisection has made, and a whole search only where the answer is no.
"""

import sys
from collections import Counter
from itertools import chain

from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ...runner.content import StackContent
from ...runner.errors import EndsError, UserError
from ...runner.git import GitError
from ...runner.home import Home
from ...runner.revisions import Revisions, fixed_revisions
from ...runner.stack import Stack
from ...runner.workspace import Workspace
from ...store.night_journal import NightJournal
from ...store.nightly import Incident, Night, Regression
from ...store.schema import Outcome
from ..conclusion import Conclusion, NamedCommit
from ..hand_over import localize_culprit
from ..report.write import write_report
from ..session import CrewOptions, Question, StoredBisection, prepare
from ..shared_builds import SharedBuilds
from ..stage import Range, load_stage
from .config import NightlyConfig, duration
from .limits import LimitedProgress, Limits, QuotaSpentError
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
        self._content = StackContent(stack, workspace)
        self._revisions = Revisions(
            stack, workspace.clones, fixed_revisions(stack, workspace.repositories, searched=stack.searched)
        )
        self._wanted: Counter[str] = Counter()
        """How many regressions behind the one at work may want to build a content."""

    def investigate(self) -> list[str]:
        """Name the culprit of every regression that has none; what could not be done, a sentence each.

        Raises `OutOfTimeError`.
        """
        problems: list[str] = []
        waiting = [
            regression
            for regression in self._journal.open_regressions()
            if regression.incident_id is None and regression.problem is None
        ]
        ranges = {regression.id: self._contents(regression) for regression in waiting}
        for place, regression in enumerate(waiting):
            self._wanted = Counter(chain.from_iterable(ranges[each.id] for each in waiting[place + 1 :]))
            try:
                self._bisect(regression)
            except QuotaSpentError:
                problems.append(
                    f"{regression.cell.case} on {regression.cell.platform}: the device's runs of this night are used "
                    "up; the next night goes on with its bisection"
                )
            except UserError as error:
                # The device or the disk, most likely: tomorrow another bisection is begun.
                self._journal.update_regression(regression.id, bisection_id=None)
                problems.append(f"{regression.cell.case} on {regression.cell.platform}: {error}")
        return problems

    def localize(self) -> list[str]:
        """Localize and reduce each open incident once, by the bisection that opened it; what was not, a sentence each.

        Raises `OutOfTimeError`.
        """
        problems: list[str] = []
        for incident in self._journal.incidents(open_only=True):
            if Conclusion.model_validate(incident.bisection.conclusion).localization is not None:
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
                bisection.journal.note_localization(found.model_dump(mode="json"))
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

    def _contents(self, regression: Regression) -> frozenset[str]:
        """What a bisection of a regression may want to build; nothing where its commits are gone."""
        searched = self._stack.searched
        try:
            stage = load_stage(
                Range(repository=searched, old=regression.last_good, new=regression.first_bad, held={}),
                repository=self._clones[searched],
                content=self._content,
                revisions=self._revisions,
            )
        except GitError:
            return frozenset()
        return frozenset(content for content in stage.contents.values() if content) if stage else frozenset()

    def _bisect(self, regression: Regression) -> None:
        if regression.bisection_id is None and self._explained(regression):
            return
        if regression.bisection_id is None:
            bisection = self._begin(regression, regression.last_good, regression.first_bad)
        else:
            bisection = self._find(regression.bisection_id)
        row = bisection.journal.row()
        finished = row.outcome is not None
        conclusion = (
            Conclusion.model_validate(row.conclusion)
            if finished
            else self._drive(bisection, regression.cell.platform)
        )
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
                conclusion = self._drive(bisection, regression.cell.platform)
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

    def _drive(self, bisection: StoredBisection, platform: str) -> Conclusion:
        shared = SharedBuilds(built=self._journal.built_contents(), wanted=self._wanted)
        progress = LimitedProgress(Console(stderr=True), self._limits, platform)
        with bisection.lock():
            try:
                conclusion = bisection.drive(progress, CrewOptions(shared=shared))
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

"""What one cell shows tonight: passed, flaky, new, regressed, known, or nothing that counts.

A failure counts only between two runs that worked on that device: the last good commit passed there once, and is run
there again after the failure. Passes close a regression only where they tell more than chance (`regressions.recovery`).
"""

from collections.abc import Sequence

from ...runner.git.repository import GitError, GitRepository
from ...runner.git.revisions import NoPinError
from ...runner.workspace.workspace import MissingCommitError
from ...store.documents.document import read_document
from ...store.journals.nightly.case_results import CaseResult
from ...store.journals.nightly.job import JobJournal
from ...store.tables.nights import CaseResultRow, CaseRunRow, CellRow, NightRow, RegressionRow
from ...store.vocabulary import CaseStatus, Judgement, Verdict
from ...store.words import plural
from ..engine.probes import Target
from ..result import Conclusion
from ..run.history import first_parents
from ..search.choose.gallop import GallopTo, Passes, gallop
from ..search.evidence.knowledge import Outcome
from .config import NightlyConfig
from .regressions.recovery import Recovery, judge_recovery
from .runs import FAILING, OF_THE_DEVICE, CaseRunner, judged_run

_MOST_RUNS = 40
"""Of a cell whose recovery is judged, in one night. What they show counts in the next night too."""
_NO_RUN_LEFT = "the device's runs of this night are used up"
_TAKEN_AGAIN = frozenset({CaseStatus.PASSED, CaseStatus.NEW, CaseStatus.REGRESSED, CaseStatus.KNOWN})


class Examiner:
    """Examines cells, one after another, and keeps regressions up to date."""

    def __init__(
        self,
        *,
        config: NightlyConfig,
        journal: JobJournal,
        runner: CaseRunner,
        night: NightRow,
        searched: str,
    ) -> None:
        self._config = config
        self._journal = journal
        self._runner = runner
        self._night = night
        self._searched = searched
        self._environment: str | None = None

    def examine(self, cell: CellRow, head: str) -> CaseResultRow:
        """What a cell shows at a commit; a result that tonight has already is not made again.

        Raises `OutOfTimeError`.
        """
        known = self._journal.results.get(self._night.id, cell.id)
        if known is not None:
            return known
        regression = self._journal.regressions.of_cell(cell.id)
        row = self._examine(cell, head, regression)
        return self._journal.results.set(self._night.id, cell.id, row)

    def _examine(self, cell: CellRow, head: str, regression: RegressionRow | None) -> CaseResult:
        try:
            content = self._runner.content_at(head)
        except (NoPinError, MissingCommitError) as error:
            return _row(CaseStatus.UNTESTED, head, None, [], str(error))
        same = self._same_as(cell, content)
        if same is not None:
            status = CaseStatus.KNOWN if same.regression_id is not None and regression else same.status
            return CaseResult(
                status=status,
                commit=head,
                content=content,
                runs=0,
                failures=0,
                verdict=same.verdict,
                signature=same.signature,
                message="nothing has changed since the last run",
                same_as=same.id,
                regression=regression.id if status is CaseStatus.KNOWN and regression else None,
            )
        runs = [run for run in self._journal.runs.of_night(self._night.id, cell.id) if run.commit == head]
        while self._runs_again(head, content, runs, regression):
            run = self._runner.run(self._night.id, cell, head)
            if run is None:
                so_far = (
                    f"{_so_far(self._recovery(regression, head, content))}; " if regression and runs else ""
                )
                return _row(CaseStatus.UNTESTED, head, content, runs, f"{so_far}{_NO_RUN_LEFT}")
            runs.append(run)
        if regression is not None:
            return self._decide_open(head, content, runs, regression)
        return self._decide(cell, head, content, runs)

    def _runs_again(
        self, head: str, content: str, runs: Sequence[CaseRunRow], regression: RegressionRow | None
    ) -> bool:
        """Whether one more run of a cell has to tell what it shows."""
        if not runs:
            return True
        if regression is not None and self._lies_before(regression, head):
            return False
        if regression is None:
            return _failures(runs) == len(runs) < 1 + self._config.reruns
        if runs[-1].verdict is not Verdict.PASS or len(runs) >= _MOST_RUNS:
            return False
        return self._recovery(regression, head, content).judgement is None

    def _recovery(self, regression: RegressionRow, head: str, content: str) -> Recovery:
        """What all runs of a cell since its regression was opened say of its newest commit."""
        runs = self._journal.runs.of_regression(regression)
        before = {commit for commit in {run.commit for run in runs} if self._lies_before(regression, commit)}
        return judge_recovery(
            [judged_run(run, regression.bad_when) for run in runs if run.commit not in before],
            Target(repository=self._searched, commit=head, held={}, content=content),
            bad_end=_measured_bad_end(regression),
            confidence=self._config.confidence,
        )

    def _lies_before(self, regression: RegressionRow, commit: str) -> bool:
        """Whether a commit is older than the one where a case was first seen to fail, as where a branch went back: that
        it passes there tells of no fix."""
        clone = self._runner.workspace.clones[self._searched]
        return commit != regression.first_bad and _follows(clone, regression.first_bad, commit)

    def _same_as(self, cell: CellRow, content: str) -> CaseResultRow | None:
        """The result of an earlier night that tonight's would repeat."""
        if self._config.unchanged == "run":
            return None
        history = self._journal.results.history(cell.id)
        if not history or history[-1].content != content or history[-1].status not in _TAKEN_AGAIN:
            return None
        if history[-1].same_as_id is None and not history[-1].runs:
            return None
        last = self._journal.runs.last(cell.id, content)
        if last is None or last.environment.fingerprint != self._surroundings():
            return None
        return history[-1]

    def _surroundings(self) -> str:
        if self._environment is None:
            self._environment = self._runner.environment()
        return self._environment

    def _decide(self, cell: CellRow, head: str, content: str, runs: Sequence[CaseRunRow]) -> CaseResult:
        """What the runs of a cell without an open regression show."""
        last, failures = runs[-1], _failures(runs)
        if last.verdict is Verdict.PASS and failures:
            return _row(
                CaseStatus.FLAKY,
                head,
                content,
                runs,
                f"failed {failures} of {plural(len(runs), 'run')} of one commit",
            )
        if last.verdict is Verdict.PASS:
            return _row(CaseStatus.PASSED, head, content, runs, "passed")
        if last.verdict is Verdict.ENVIRONMENT_ERROR:
            return _row(CaseStatus.INFRASTRUCTURE, head, content, runs, _shown(last))
        if last.verdict not in FAILING:
            return _row(CaseStatus.UNTESTED, head, content, runs, _shown(last))
        return self._new_failure(cell, head, content, runs)

    def _decide_open(
        self, head: str, content: str, runs: Sequence[CaseRunRow], regression: RegressionRow
    ) -> CaseResult:
        """What the runs of a cell show whose regression is open, which stays so unless it has recovered."""
        last = runs[-1]
        match judged_run(last, regression.bad_when).judgement:
            case Judgement.GOOD:
                return self._decide_passing(head, content, runs, regression)
            case Judgement.SKIP:
                infrastructure = last.verdict in OF_THE_DEVICE
                status = CaseStatus.INFRASTRUCTURE if infrastructure else CaseStatus.UNTESTED
                return _row(status, head, content, runs, _shown(last))
            case Judgement.BAD:
                self._journal.regressions.update(regression.id, last_bad=head)
                # A night that was killed behind the opening of a regression meets it again.
                opened = regression.opened_night_id == self._night.id
                status = CaseStatus.REGRESSED if opened else CaseStatus.KNOWN
                passes = len(runs) - _failures(runs)
                passed = f"passed {passes} of {plural(len(runs), 'run')}: " if passes else ""
                message = f"{passed}{_shown(last)}"
                return _row(status, head, content, runs, message, regression=regression.id)

    def _decide_passing(
        self, head: str, content: str, runs: Sequence[CaseRunRow], regression: RegressionRow
    ) -> CaseResult:
        """Close an open regression whose cell passes, if it has recovered."""
        if self._lies_before(regression, head):
            message = (
                f"passed before {regression.first_bad[:12]}, where it fails: the branch went back, and its regression "
                "stays open"
            )
            return _row(CaseStatus.PASSED, head, content, runs, message)
        recovery = self._recovery(regression, head, content)
        match recovery.judgement:
            case Judgement.GOOD:
                self._journal.regressions.update(
                    regression.id, recovered_night_id=self._night.id, recovered_at=head
                )
                message = f"passed in {plural(recovery.passes, 'run')}, all of those since it last failed"
                return _row(CaseStatus.PASSED, head, content, runs, message)
            case Judgement.BAD:
                return _row(CaseStatus.FLAKY, head, content, runs, "passed at the content that failed before")
            case _:
                message = f"{_so_far(recovery)}; it is run {_MOST_RUNS} times in a night at most"
                return _row(CaseStatus.UNTESTED, head, content, runs, message)

    def _new_failure(self, cell: CellRow, head: str, content: str, runs: Sequence[CaseRunRow]) -> CaseResult:
        last = runs[-1]
        passing = self._journal.runs.passing(cell.id)
        if any(run.content == content for run in passing):
            return _row(CaseStatus.FLAKY, head, content, runs, "failed at a content that passed before")
        if not passing:
            status = CaseStatus.INFRASTRUCTURE if last.verdict in OF_THE_DEVICE else CaseStatus.NEW
            return _row(status, head, content, runs, f"never passed: {_shown(last)}")
        clone = self._runner.workspace.clones[self._searched]
        good = next((run.commit for run in passing if _follows(clone, head, run.commit)), None)
        if good is None:
            good = self._gallop(cell, head)
        if good is None:
            return _row(
                CaseStatus.UNTESTED,
                head,
                content,
                runs,
                "failed; what passed before is not in its history, and nothing in it passes on this device now",
            )
        control = self._run_once(cell, good)
        if control is None or control.verdict is not Verdict.PASS:
            shown = "not run" if control is None else _shown(control)
            return _row(
                CaseStatus.INFRASTRUCTURE,
                head,
                content,
                runs,
                f"failed, but {good[:12]}, which passed before, does not pass on this device now: {shown}",
            )
        regression = self._journal.regressions.open(
            self._night.id, cell.id, last_good=good, first_bad=head, bad_when=last.verdict
        )
        return _row(
            CaseStatus.REGRESSED,
            head,
            content,
            runs,
            f"{_shown(last)}; it passed at {good[:12]}",
            regression=regression.id,
        )

    def _gallop(self, cell: CellRow, head: str) -> str | None:
        """The nearest commit of 1, 2, 4, ... first parents back at which a cell passes now."""
        line = first_parents(self._runner.workspace.clones[self._searched], head, "commits")
        outcomes: dict[int, Outcome] = {}
        while isinstance(step := gallop(line.distances, outcomes), GallopTo):
            outcomes[step.commit] = self._outcome(cell, line.commits[step.commit])
        return line.commits[step.commit] if isinstance(step, Passes) else None

    def _outcome(self, cell: CellRow, commit: str) -> Outcome:
        """What a cell shows at an earlier commit tonight."""
        try:
            run = self._run_once(cell, commit)
        except (NoPinError, MissingCommitError):
            return Outcome.SKIP
        if run is None or run.verdict not in FAILING | {Verdict.PASS}:
            return Outcome.SKIP
        return Outcome.GOOD if run.verdict is Verdict.PASS else Outcome.BAD

    def _run_once(self, cell: CellRow, commit: str) -> CaseRunRow | None:
        """The last run of this night at a commit, which is made where there is none; None where no run is left."""
        made = [run for run in self._journal.runs.of_night(self._night.id, cell.id) if run.commit == commit]
        return made[-1] if made else self._runner.run(self._night.id, cell, commit)


def _follows(clone: GitRepository, head: str, commit: str) -> bool:
    """Whether a commit is in the history of a head; one that is gone, as after a forced push, is not."""
    try:
        return clone.is_ancestor(commit, head)
    except GitError:
        return False


def _measured_bad_end(regression: RegressionRow) -> tuple[int, int]:
    """Failures and judged runs of the failing end in the bisection of a regression, where it has measured that."""
    stored = regression.bisection.conclusion if regression.bisection is not None else None
    rates = () if stored is None else read_document(Conclusion, stored).rates
    return next(((rate.failures, rate.runs) for rate in rates if rate.end == "bad"), (0, 0))


def _so_far(recovery: Recovery) -> str:
    return (
        f"passed {recovery.passes} of the {plural(recovery.needed, 'run')} in a row that would tell that it has "
        "recovered; its regression stays open"
    )


def _failures(runs: Sequence[CaseRunRow]) -> int:
    return sum(run.verdict in FAILING for run in runs)


def _shown(run: CaseRunRow) -> str:
    first = f": {run.evidence[0].strip()}" if run.evidence else ""
    return f"{run.verdict}{f' ({run.signature})' if run.signature else ''}{first}"[:500]


def _row(
    status: CaseStatus,
    head: str,
    content: str | None,
    runs: Sequence[CaseRunRow],
    message: str,
    *,
    regression: int | None = None,
) -> CaseResult:
    judged = [run for run in runs if run.verdict in FAILING or run.verdict is Verdict.PASS]
    shown = next((run for run in judged if run.verdict in FAILING), runs[-1] if runs else None)
    return CaseResult(
        status=status,
        commit=head,
        content=content,
        runs=len(judged),
        failures=_failures(judged),
        verdict=shown.verdict if shown else None,
        signature=shown.signature if shown else None,
        message=message,
        regression=regression,
    )

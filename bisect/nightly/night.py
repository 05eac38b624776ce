"""One night of a job (`bisect-precision nightly`).

A night runs the matrix, bisects what regressed, reports incidents, and writes all of it. `run_nightly` is the command,
and `run_night` the night itself. Only one process at a time works at a job. `Examiner` decides what each cell shows:
whether it passed, is flaky, new, regressed or known, or shows nothing that counts.

A failure counts only if the device is known to work. The last good commit passed there before, and must pass there
again after the failure. Passes close a regression only if they are too many to be due to chance
(`regressions.judge_recovery`).
"""

import platform
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text
from sqlalchemy.orm import Session, sessionmaker

from ...runner.cli_options import print_error
from ...runner.errors import UsageError, UserError
from ...runner.git import GitError, GitRepository
from ...runner.pins import NoPinError
from ...runner.probe.probe import Prober
from ...runner.process.signals import terminate_as_interrupt
from ...runner.releases import add_releases
from ...runner.stack import Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home, command_line, sole_holder, user_home
from ...runner.workspace.slot import MissingCommitError, Workspace
from ...store.database import check_not_replaced
from ...store.durable_files import make_folder, make_ignored_folder, read_document, write_whole
from ...store.nights import CaseResult, CellKey, JobJournal
from ...store.queue import QueueJournal, Submission
from ...store.tables import CaseResultRow, CaseRunRow, CellRow, NightRow, RegressionRow
from ...store.vocabulary import CaseStatus, Judgement, Seeks, StoreError, Verdict, plural
from ..cli import ERROR, run_command
from ..drive.hand_over import check_hook
from ..drive.session import open_sessions
from ..engine.answer import Conclusion
from ..history.loader import first_parents
from ..history.range import Target, search_outcome
from ..listing import store_url
from ..options import NightlyOptions
from ..queue_worker import home_name
from ..report.report_files import check_place, check_room
from ..search.belief import Outcome
from ..search.halving import GallopTo, Passes, gallop
from .matrix import (
    CaseRunner,
    Limits,
    NightlyConfig,
    OutOfTimeError,
    QuotaSpentError,
    judge_matrix_run,
    judged_run,
    load_config,
)
from .night_report import (
    FailOn,
    NightReport,
    junit_text,
    markdown_text,
    night_exit_code,
    night_report,
    print_night,
    result_line,
    say,
)
from .regressions import (
    NightContext,
    QueuedBisection,
    Recovery,
    bisect_regressions,
    close_incidents,
    judge_recovery,
    localize_incidents,
    lock_incidents,
    note_reductions,
    report_incidents,
    store_ended_bisections,
    submit_regressions,
)


def run_nightly(
    file: Path,
    *,
    store: str | None,
    budget: float | None,
    jobs: int = 1,
    submit: bool = False,
    fail_on: FailOn = FailOn.ANY,
    quiet: bool = False,
    as_json: bool = False,
) -> int:
    """Run a night, or go on with an interrupted one, print what it showed, and return the exit code."""
    begun = datetime.now().astimezone()

    def body() -> int:
        config, stack = _load_job(file)
        remedy = f"name another one as output in {file}"
        check_place(config.output, what="the nights", remedy=remedy)
        check_room(config.output, remedy=remedy)
        home = user_home()
        home.make()
        folder = home.state / "nightly" / config.job
        make_folder(folder)
        try:
            lock = folder.with_name(f"{config.job}.lock")
            with sole_holder(lock, folder) as alone, terminate_as_interrupt():
                if not alone:
                    print(
                        f"{config.job}: another process runs this job; nothing was done",
                        file=sys.stderr,
                    )
                    return 0
                sessions = open_sessions(store_url(store))
                report = run_night(
                    config,
                    stack,
                    sessions=sessions,
                    home=home,
                    limits=Limits(config, begun=begun, budget=budget),
                    jobs=jobs,
                    progress=Console(stderr=True, quiet=quiet),
                    submit=partial(_submit, sessions, home, file, config.job) if submit else None,
                )
        except UnwrittenNightError as error:
            _show(error.report, None, as_json=as_json)
            error.is_answered = True
            raise
        except KeyboardInterrupt:
            again = command_line(["bisect-precision", "nightly", str(file)])
            why = "interrupted; the next start goes on with this night:"
            print(f"{why}\n{again}", file=sys.stderr)
            raise KeyboardInterrupt(f"{why} {again}") from None
        _show(report, night_folder(config, report.night), as_json=as_json)
        try:
            check_not_replaced(sessions)
        except StoreError as error:
            return print_error(str(error), ERROR, as_json=False)
        return night_exit_code(report, fail_on=fail_on)

    return run_command(body)


def _load_job(file: Path) -> tuple[NightlyConfig, Stack]:
    """Return the job of a nightly file and its stack, after a check that its hook exists. Raises `UsageError`."""
    config, stack = load_config(file)
    if config.on_incident:
        check_hook(config.on_incident, asked=f"{file}: on_incident")
    return config, stack


def _show(report: NightReport, folder: Path | None, *, as_json: bool) -> None:
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        print_night(report, folder, Console())


def _submit(
    sessions: sessionmaker[Session], home: Home, file: Path, job: str, submitted: QueuedBisection
) -> None:
    """Submit a bisection of a night to the queue in the job's name. Workers localize and reduce its culprit too."""
    submission = Submission(
        bisection=submitted.bisection,
        user=job,
        words=(*submitted.question, "--reduce"),
        folder=str(file.absolute().parent),
        board=submitted.board,
        device=submitted.device,
    )
    keep = ["nightly", str(file.absolute()), "--keep"]
    QueueJournal(sessions).submit_existing(submission, place=home_name(home), afterwards=keep)


def run_keep(options: NightlyOptions) -> int:
    """Store and report what the queue's workers have found for a job, and return the exit code."""

    def body() -> int:
        if options.submit or options.as_json or options.budget is not None:
            raise UsageError(
                "--keep: expected no --submit, --budget or --json with it, because it runs nothing; leave them out"
            )
        config, stack = _load_job(options.file)
        home = user_home()
        sessions = open_sessions(store_url(options.store))
        progress = Console(stderr=True, quiet=options.quiet)
        store_queue_results(config, stack, sessions=sessions, home=home, progress=progress)
        return 0

    return run_command(body)


def run_night(
    config: NightlyConfig,
    stack: Stack,
    *,
    sessions: sessionmaker[Session],
    home: Home,
    limits: Limits,
    jobs: int,
    progress: Console,
    submit: Callable[[QueuedBisection], None] | None = None,
) -> NightReport:
    """Run a night, or go on with an interrupted one, and write it to its folder below the job's output.

    progress: the console that shows what the night does.
    submit: hands a bisection to the queue. With it, no bisection runs here, and the results of those that have ended
    since the last night are stored.

    Raises:
        UserError: a branch does not exist.
        UnwrittenNightError: the folder cannot be written.
    """
    journal = JobJournal(sessions, config.job)
    stack = add_releases(stack, home.releases)
    workspace = Workspace(stack, home)
    searched = workspace.repositories[stack.searched]
    heads = {branch: searched.resolve(branch, option="branches") for branch in config.branches}
    night = journal.nights.resume_unfinished() or journal.nights.begin(heads, platform.node())
    limits.count_earlier_runs(journal.runs_since(limits.opened or night.started))
    clone = workspace.clones[stack.searched]
    journal.commits.add(stack.searched, [clone.commit(head) for head in night.heads.values()])
    notes: list[str] = []
    context = NightContext(
        config=config,
        stack=stack,
        sessions=sessions,
        journal=journal,
        home=home,
        night=night,
        limits=limits,
        workspace=workspace,
        progress=progress,
    )
    try:
        _run_matrix(config, workspace, journal, night, home=home, limits=limits, progress=progress)
        if submit is None:
            notes += bisect_regressions(context, jobs=jobs)
        else:
            notes += submit_regressions(context, submit)
        notes.extend(localize_incidents(context))
    except OutOfTimeError as error:
        notes.append(str(error))
    with lock_incidents(context):
        close_incidents(context)
        notes += report_incidents(context)
        journal.nights.end(night.id, notes)
        return _write_night(context)


def store_queue_results(
    config: NightlyConfig, stack: Stack, *, sessions: sessionmaker[Session], home: Home, progress: Console
) -> None:
    """Store and report the results of bisections that the newest night left to the queue, and write that night again.

    Nothing is run. A night that is at work at the same time stores and writes these results too.

    Raises `UserError` where there is no night.
    """
    journal = JobJournal(sessions, config.job)
    nights = journal.nights.all()
    if not nights:
        raise UserError(
            f"{config.job}: expected a night whose findings to keep, found none; run one without --keep"
        )
    stack = add_releases(stack, home.releases)
    context = NightContext(
        config=config,
        stack=stack,
        sessions=sessions,
        journal=journal,
        home=home,
        night=nights[-1],
        limits=Limits(config, begun=datetime.now().astimezone(), budget=None),
        workspace=Workspace(stack, home),
        progress=progress,
    )
    with lock_incidents(context):
        notes = store_ended_bisections(context)
        note_reductions(context)
        close_incidents(context)
        notes += report_incidents(context)
        if journal.nights.add_notes(context.night.id, notes):
            _write_night(context)
    opened = len(journal.incidents.all(open_only=True))
    say(progress, Text(f"night {context.night.ordinal} of {config.job}: {plural(opened, 'open incident')}"))


def night_folder(config: NightlyConfig, ordinal: int) -> Path:
    """Return the folder to which the night of this number is written."""
    return config.output / f"night-{ordinal:04d}"


def _run_matrix(
    config: NightlyConfig,
    workspace: Workspace,
    journal: JobJournal,
    night: NightRow,
    *,
    home: Home,
    limits: Limits,
    progress: Console,
) -> None:
    stack = workspace.stack
    content = StackContent(stack, workspace)
    with Prober(workspace, content, home, on_activity=lambda _text: None) as prober:
        runner = CaseRunner(
            config=config,
            stack=stack,
            workspace=workspace,
            prober=prober,
            content=content,
            journal=journal,
            limits=limits,
            directory=home.state / "nightly" / config.job / f"{night.ordinal:04d}",
        )
        examiner = Examiner(
            config=config, journal=journal, runner=runner, night=night, searched=stack.searched
        )
        for key in matrix(config, night.heads):
            result = examiner.examine(journal.runs.get_or_create_cell(key), night.heads[key.branch])
            rest = f"{key.tolerance}, {key.branch}"
            say(progress, result_line(key.case, key.platform, rest, result.status))


def matrix(config: NightlyConfig, heads: Collection[str]) -> list[CellKey]:
    """Return the cells of the branches that have a head, commit by commit, so that cells can share a build."""
    return [
        CellKey(branch=branch, case=case, platform=name, tolerance=tolerance)
        for branch in config.branches
        if branch in heads
        for name in config.platforms
        for case in config.cases
        for tolerance in config.tolerances
    ]


def _write_night(context: NightContext) -> NightReport:
    """Write the report of a night that is over to its folder, and return it."""
    night = next(row for row in context.journal.nights.all() if row.id == context.night.id)
    report = night_report(context.journal, night)
    _write(night_folder(context.config, night.ordinal), report)
    return report


class UnwrittenNightError(UserError):
    """The files of a night could not be written. The night is over, and is in the store."""

    def __init__(self, message: str, report: NightReport) -> None:
        super().__init__(message)
        self.report = report


def _write(folder: Path, report: NightReport) -> None:
    files = {
        "night.json": report.model_dump_json(indent=2) + "\n",
        "junit.xml": junit_text(report),
        "night.md": markdown_text(report),
    }
    try:
        make_ignored_folder(folder.parent)
        make_folder(folder)
        for name, text in files.items():
            write_whole(folder / name, text)
    except OSError as error:
        message = f"{folder}: expected a folder to write the night to: {error.strerror}"
        raise UnwrittenNightError(message, report) from error


_MAX_RUNS = 40
"""A cell whose recovery is judged runs at most this many times in a night. The next night goes on with the count."""

_QUOTA_MESSAGE = "the device's runs of this night are used up"

_REUSABLE_STATUSES = frozenset({CaseStatus.PASSED, CaseStatus.NEW, CaseStatus.REGRESSED, CaseStatus.KNOWN})


class Examiner:
    """Examines cells one after another, and keeps their regressions up to date."""

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

    def examine(self, cell: CellRow, head: str) -> CaseResultRow:
        """Return what a cell shows at a commit. A result of this night is not made again.

        Raises `OutOfTimeError`.
        """
        known = self._journal.results.get(self._night.id, cell.id)
        if known is not None:
            return known
        regression = self._journal.regressions.find_open(cell.id)
        row = self._examine(cell, head, regression)
        return self._journal.results.set(self._night.id, cell.id, row)

    def _examine(self, cell: CellRow, head: str, regression: RegressionRow | None) -> CaseResult:
        """Return the result of a cell at `head`. The cell is run only if nothing says how it ends."""
        try:
            content = self._runner.content_at(head)
        except (NoPinError, MissingCommitError) as error:
            return _SeenRuns(head, "", []).result(CaseStatus.UNTESTED, str(error))
        same = self._repeatable_result(cell, content)
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
                same_as_id=same.id,
                regression_id=regression.id if status is CaseStatus.KNOWN and regression else None,
            )
        seen = _SeenRuns(head, content, self._runs_tonight(cell, head))
        while self._needs_another_run(seen, regression):
            try:
                seen.runs.append(self._runner.run(self._night.id, cell, head))
            except QuotaSpentError:
                progress = ""
                if regression and seen.runs:
                    progress = f"{_recovery_progress(self._recovery(regression, head, content))}; "
                return seen.result(CaseStatus.UNTESTED, f"{progress}{_QUOTA_MESSAGE}")
        return self._decide(cell, seen) if regression is None else self._decide_open(seen, regression)

    def _runs_tonight(self, cell: CellRow, commit: str) -> list[CaseRunRow]:
        """Return the runs of an earlier start of this night that say something about the commit."""
        runs = self._journal.runs.runs_in_night(self._night.id, cell.id)
        return [run for run in runs if run.commit == commit and run.verdict.traits.judges_commit]

    def _needs_another_run(self, seen: "_SeenRuns", regression: RegressionRow | None) -> bool:
        """Return whether one more run of a cell is needed to decide what it shows."""
        if not seen.runs:
            return True
        if regression is None:
            return seen.failures == len(seen.runs) < 1 + self._config.reruns
        if self._is_before_regression(regression, seen.head):
            return False
        if seen.last.verdict is not Verdict.PASS or len(seen.runs) >= _MAX_RUNS:
            return False
        return self._recovery(regression, seen.head, seen.content).judgement is None

    def _recovery(self, regression: RegressionRow, head: str, content: str) -> Recovery:
        """Judge the newest commit by all runs of a cell since its regression was opened."""
        runs = self._journal.runs.runs_for_regression(regression)
        before = {
            commit
            for commit in {run.commit for run in runs}
            if self._is_before_regression(regression, commit)
        }
        return judge_recovery(
            [judged_run(run, regression.bad_when) for run in runs if run.commit not in before],
            Target(repository=self._searched, commit=head, held={}, content=content),
            bad_end=_bad_end_counts(regression),
            confidence=self._config.confidence,
        )

    def _is_before_regression(self, regression: RegressionRow, commit: str) -> bool:
        """Return whether a commit is an ancestor of the first commit at which the case was seen to fail.

        A branch that was reset leads to such a commit. A pass there is no sign of a fix.
        """
        clone = self._runner.workspace.clones[self._searched]
        return commit != regression.first_bad and _is_in_history(clone, regression.first_bad, commit)

    def _repeatable_result(self, cell: CellRow, content: str) -> CaseResultRow | None:
        """Return the result of an earlier night that this night's runs would only repeat; None where there is none."""
        if self._config.unchanged == "run":
            return None
        result = self._journal.results.last(cell.id)
        if result is None or result.content != content or result.status not in _REUSABLE_STATUSES:
            return None
        if result.same_as_id is None and not result.runs:
            return None
        run = self._journal.runs.last(cell.id, content)
        if run is None or run.environment.fingerprint != self._runner.environment(cell):
            return None
        return result

    def _decide(self, cell: CellRow, seen: "_SeenRuns") -> CaseResult:
        """Return the result of a cell without an open regression."""
        verdict = seen.last.verdict
        if verdict is Verdict.PASS and seen.failures:
            runs = plural(len(seen.runs), "run")
            return seen.result(CaseStatus.FLAKY, f"failed {seen.failures} of {runs} of one commit")
        if verdict is Verdict.PASS:
            return seen.result(CaseStatus.PASSED, "passed")
        if not verdict.traits.judges_commit:
            return seen.result(CaseStatus.INFRASTRUCTURE, _run_text(seen.last))
        if not verdict.traits.is_failure:
            return seen.result(CaseStatus.UNTESTED, _run_text(seen.last))
        return self._new_failure(cell, seen)

    def _decide_open(self, seen: "_SeenRuns", regression: RegressionRow) -> CaseResult:
        """Return the result of a cell with an open regression, which is closed if it has recovered."""
        last = seen.last
        match judged_run(last, regression.bad_when).judgement:
            case Judgement.GOOD:
                return self._decide_passing(seen, regression)
            case Judgement.SKIP:
                infrastructure = last.verdict.traits.may_be_device
                status = CaseStatus.INFRASTRUCTURE if infrastructure else CaseStatus.UNTESTED
                return seen.result(status, _run_text(last))
            case Judgement.BAD:
                self._journal.regressions.update(regression.id, last_bad=seen.head)
                # A night that was killed after it had opened a regression finds it open when it is resumed.
                opened = regression.opened_night_id == self._night.id
                status = CaseStatus.REGRESSED if opened else CaseStatus.KNOWN
                passes = len(seen.runs) - seen.failures
                passed = f"passed {passes} of {plural(len(seen.runs), 'run')}: " if passes else ""
                return seen.result(status, f"{passed}{_run_text(last)}", regression=regression.id)

    def _decide_passing(self, seen: "_SeenRuns", regression: RegressionRow) -> CaseResult:
        """Return the result of a cell that passes, and close its open regression if it has recovered."""
        if self._is_before_regression(regression, seen.head):
            return seen.result(
                CaseStatus.PASSED,
                f"passed before {regression.first_bad[:12]}, where it fails: the branch went back, and its regression "
                "stays open",
            )
        recovery = self._recovery(regression, seen.head, seen.content)
        match recovery.judgement:
            case Judgement.GOOD:
                self._journal.regressions.update(
                    regression.id, recovered_night_id=self._night.id, recovered_at=seen.head
                )
                runs = plural(recovery.passes, "run")
                return seen.result(CaseStatus.PASSED, f"passed in {runs}, all of those since it last failed")
            case Judgement.BAD:
                return seen.result(CaseStatus.FLAKY, "passed at the content that failed before")
            case _:
                limit = f"it is run {_MAX_RUNS} times in a night at most"
                return seen.result(CaseStatus.UNTESTED, f"{_recovery_progress(recovery)}; {limit}")

    def _new_failure(self, cell: CellRow, seen: "_SeenRuns") -> CaseResult:
        """Return the result of a cell that fails and has no open regression."""
        last = seen.last
        passing = self._journal.runs.passing_runs(cell.id)
        passed = [run.environment_id for run in passing if run.content == seen.content]
        if last.environment_id in passed:
            return seen.result(CaseStatus.FLAKY, "failed at a content that passed before")
        if passed:
            return seen.result(
                CaseStatus.INFRASTRUCTURE,
                "failed at a content that passed before, when its environment or its command was another one",
            )
        if not passing:
            status = CaseStatus.INFRASTRUCTURE if last.verdict.traits.may_be_device else CaseStatus.NEW
            return seen.result(status, f"never passed: {_run_text(last)}")
        try:
            return self._compare_with_passing(cell, seen, passing)
        except QuotaSpentError:
            unknown = "failed; whether what passed before still passes is not known"
            return seen.result(CaseStatus.UNTESTED, f"{unknown}: {_QUOTA_MESSAGE}")

    def _compare_with_passing(
        self, cell: CellRow, seen: "_SeenRuns", passing: Sequence[CaseRunRow]
    ) -> CaseResult:
        """Open a regression where a commit that passed before still passes, and return the result of the cell.

        `passing` are the runs that passed, newest first. Raises `OutOfTimeError`, and `QuotaSpentError`.
        """
        clone = self._runner.workspace.clones[self._searched]
        good = next((run.commit for run in passing if _is_in_history(clone, seen.head, run.commit)), None)
        if good is None:
            good = self._gallop(cell, seen.head)
        if good is None:
            return seen.result(
                CaseStatus.UNTESTED,
                "failed; what passed before is not in its history, and nothing in it passes on this device now",
            )
        try:
            control = self._run_once(cell, good)
        except (NoPinError, MissingCommitError) as error:
            return seen.result(
                CaseStatus.UNTESTED, f"failed; {good[:12]}, which passed before, cannot be run: {error}"
            )
        if control.verdict is not Verdict.PASS:
            return seen.result(
                CaseStatus.INFRASTRUCTURE,
                f"failed, but {good[:12]}, which passed before, does not pass on this device now: "
                f"{_run_text(control)}",
            )
        regression = self._journal.regressions.open(
            self._night.id, cell.id, last_good=good, first_bad=seen.head, bad_when=seen.last.verdict
        )
        message = f"{_run_text(seen.last)}; it passed at {good[:12]}"
        return seen.result(CaseStatus.REGRESSED, message, regression=regression.id)

    def _gallop(self, cell: CellRow, head: str) -> str | None:
        """Return the nearest commit of 1, 2, 4, ... first parents back at which a cell passes now."""
        line = first_parents(self._runner.workspace.clones[self._searched], head)
        outcomes: dict[int, Outcome] = {}
        while isinstance(step := gallop(len(line.commits), outcomes), GallopTo):
            outcomes[step.commit] = self._outcome(cell, line.commits[step.commit])
        return line.commits[step.commit] if isinstance(step, Passes) else None

    def _outcome(self, cell: CellRow, commit: str) -> Outcome:
        """Return the outcome of a cell at an earlier commit tonight."""
        try:
            run = self._run_once(cell, commit)
        except (NoPinError, MissingCommitError):
            return Outcome.SKIP
        return search_outcome(judge_matrix_run(run.verdict), Seeks.REGRESSION)

    def _run_once(self, cell: CellRow, commit: str) -> CaseRunRow:
        """Return the last run of this night that says something about a commit, and make one where there is none."""
        made = self._runs_tonight(cell, commit)
        return made[-1] if made else self._runner.run(self._night.id, cell, commit)


@dataclass
class _SeenRuns:
    """The runs of a cell in this night at the newest commit of its branch.

    content: the content of that commit; empty where nothing can be built.
    """

    head: str
    content: str
    runs: list[CaseRunRow]

    @property
    def last(self) -> CaseRunRow:
        """Return the newest run. Requires that there is one."""
        return self.runs[-1]

    @property
    def failures(self) -> int:
        """Return the number of runs that failed."""
        return _count_failures(self.runs)

    def result(self, status: CaseStatus, message: str, *, regression: int | None = None) -> CaseResult:
        """Return the result of the cell with this status."""
        judged = [run for run in self.runs if judge_matrix_run(run.verdict) is not Judgement.SKIP]
        last = self.runs[-1] if self.runs else None
        shown = next((run for run in judged if run.verdict.traits.is_failure), last)
        return CaseResult(
            status=status,
            commit=self.head,
            content=self.content or None,
            runs=len(judged),
            failures=_count_failures(judged),
            verdict=shown.verdict if shown else None,
            signature=shown.signature if shown else None,
            message=message,
            regression_id=regression,
        )


def _is_in_history(clone: GitRepository, head: str, commit: str) -> bool:
    """Return whether a commit is in the history of a head. False for a commit that is gone, as after a forced push."""
    try:
        return clone.is_ancestor(commit, head)
    except GitError:
        return False


def _bad_end_counts(regression: RegressionRow) -> tuple[int, int]:
    """Return the failures and judged runs of the failing end that a regression's bisection measured, or (0, 0)."""
    stored = regression.bisection.conclusion if regression.bisection is not None else None
    rates = () if stored is None else read_document(Conclusion, stored).rates
    return next(((rate.failures, rate.runs) for rate in rates if rate.end == "bad"), (0, 0))


def _recovery_progress(recovery: Recovery) -> str:
    return (
        f"passed {recovery.passes} of the {plural(recovery.needed_passes, 'run')} in a row that would show that it has "
        "recovered; its regression stays open"
    )


def _count_failures(runs: Sequence[CaseRunRow]) -> int:
    return sum(run.verdict.traits.is_failure for run in runs)


def _run_text(run: CaseRunRow) -> str:
    first = f": {run.evidence[0].strip()}" if run.evidence else ""
    return f"{run.verdict}{f' ({run.signature})' if run.signature else ''}{first}"[:500]

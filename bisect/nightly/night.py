"""One night: the matrix is run, what regressed is bisected, incidents are told of, and all of it is written."""

import platform
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...runner.git.releases import with_releases
from ...runner.probe.probe import Prober
from ...runner.stack.stack import Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.files import make_ignored_folder, write_whole
from ...store.journals.nightly.case_runs import CellKey
from ...store.journals.nightly.job import JobJournal
from ...store.tables.nights import NightRow
from ...store.words import plural
from .config import NightlyConfig
from .examine import Examiner
from .junit import junit_text
from .limits import Limits, OutOfTimeError
from .markdown import markdown_text
from .regressions.bisections import bisect_regressions, keep_regressions, submit_regressions
from .regressions.context import NightContext
from .regressions.incidents import close_incidents, localize_incidents, note_reductions
from .regressions.tasks import Submitted
from .regressions.telling import alone_at_incidents, tell_incidents
from .runs import CaseRunner
from .summary import NightReport, night_report
from .terminal import result_line, say


def run_night(
    config: NightlyConfig,
    stack: Stack,
    *,
    sessions: sessionmaker[Session],
    home: Home,
    limits: Limits,
    jobs: int,
    progress: Console,
    submit: Callable[[Submitted], None] | None = None,
) -> NightReport:
    """Run a night, or go on with one that was cut short, and write it to its folder below the job's output.

    What it does meanwhile is told on `progress`. Where `submit` is given, bisections are left to it, and those that
    have ended since the last night are kept.

    Raises `UserError` where a branch is not there, and `UnwrittenNightError` where its folder cannot be written.
    """
    journal = JobJournal(sessions, config.job)
    stack = with_releases(stack, home.releases)
    workspace = Workspace(stack, home)
    searched = workspace.repositories[stack.searched]
    heads = {branch: searched.resolve(branch, option="branches") for branch in config.branches}
    night = journal.nights.unfinished() or journal.nights.begin(heads, platform.node())
    limits.count_earlier(journal.runs_since(limits.opened or night.started))
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
        notes += localize_incidents(context)
    except OutOfTimeError as error:
        notes.append(str(error))
    with alone_at_incidents(context):
        close_incidents(context)
        notes += tell_incidents(context)
        journal.nights.finish(night.id, notes)
        return _written(context)


def keep_ended(
    config: NightlyConfig, stack: Stack, *, sessions: sessionmaker[Session], home: Home, progress: Console
) -> None:
    """Keep what has been found since the newest night of a job by bisections that it left to the queue, tell of it,
    and write that night again. Nothing is run; a night that is at work meanwhile keeps it too, and writes it.

    Raises `UserError` where there is no night.
    """
    journal = JobJournal(sessions, config.job)
    nights = journal.nights.all()
    if not nights:
        raise UserError(
            f"{config.job}: expected a night to keep findings for, found none: begin one without --keep"
        )
    stack = with_releases(stack, home.releases)
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
    with alone_at_incidents(context):
        notes = keep_regressions(context)
        note_reductions(context)
        close_incidents(context)
        notes += tell_incidents(context)
        if journal.nights.add_notes(context.night.id, notes):
            _written(context)
    opened = len(journal.incidents.all(open_only=True))
    say(progress, Text(f"night {context.night.ordinal} of {config.job}: {plural(opened, 'open incident')}"))


def folder_of(config: NightlyConfig, ordinal: int) -> Path:
    """Where the night of this number is written."""
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
            result = examiner.examine(journal.runs.cell(key), night.heads[key.branch])
            rest = f"{key.tolerance}, {key.branch}"
            say(progress, result_line(key.case, key.platform, rest, result.status))


def matrix(config: NightlyConfig, heads: Collection[str]) -> list[CellKey]:
    """The cells of the branches that have a head, commit by commit: one build serves all cells that want it."""
    return [
        CellKey(branch=branch, case=case, platform=name, tolerance=tolerance)
        for branch in config.branches
        if branch in heads
        for name in config.platforms
        for case in config.cases
        for tolerance in config.tolerances
    ]


def _written(context: NightContext) -> NightReport:
    """The report of a night that is over, once it is in its folder."""
    night = next(row for row in context.journal.nights.all() if row.id == context.night.id)
    report = night_report(context.journal, night)
    _write(folder_of(context.config, night.ordinal), report)
    return report


class UnwrittenNightError(UserError):
    """A night is over, and in the store; its files could not be written."""

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
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            write_whole(folder / name, text)
    except OSError as error:
        told = f"{folder}: expected a folder to write the night to: {error.strerror}"
        raise UnwrittenNightError(told, report) from error

"""One night: the matrix is run, what regressed is bisected, incidents are told of, and all of it is written."""

import platform
from collections.abc import Callable, Collection
from pathlib import Path

from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...runner.git.releases import with_releases
from ...runner.probe.probe import Prober
from ...runner.stack.stack import Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.files import write_whole
from ...store.journals.nightly.case_runs import CellKey
from ...store.journals.nightly.job import JobJournal
from ...store.tables.nights import NightRow
from ...store.words import plural
from ..after.hooks import call_hook
from .config import NightlyConfig
from .examine import Examiner
from .junit import junit_text
from .limits import Limits, OutOfTimeError
from .markdown import markdown_text
from .regressions.bisections import bisect_regressions, submit_regressions
from .regressions.context import NightContext
from .regressions.incidents import close_incidents, localize_incidents
from .regressions.tasks import Submitted
from .runs import CaseRunner
from .summary import HookReport, IncidentReport, NightReport, incident_report, night_report
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

    Raises `UserError` where a branch is not there, or the folder cannot be written.
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
    close_incidents(context)
    _tell(config, journal, night, notes)
    journal.nights.finish(night.id, notes)
    finished = next(row for row in journal.nights.all() if row.id == night.id)
    report = night_report(journal, finished)
    _write(folder_of(config, night.ordinal), report)
    return report


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


def _tell(config: NightlyConfig, journal: JobJournal, night: NightRow, notes: list[str]) -> None:
    """Call the hook for what opened or closed tonight, each once, up to the night's cap."""
    if not config.on_incident:
        return
    calls = journal.nights.hook_calls(night.id)
    told = {(call.incident_id, call.event) for call in calls}
    left, untold = config.hooks_per_night - len(calls), 0
    every = journal.incidents.all()
    for incident in every:
        shown = incident_report(incident, night, every)
        if shown.event is None or (incident.id, shown.event) in told:
            continue
        if left <= 0:
            untold += 1
            continue
        left -= 1
        text = HookReport(job=config.job, night=night.ordinal, incident=shown).model_dump_json()
        code = call_hook(config.on_incident, text, _variables(config, night, shown))
        journal.nights.add_hook_call(night.id, incident.id, shown.event, code)
        if code != 0:
            notes.append(f"the hook ended with {code} for incident {incident.ordinal}")
    if untold:
        notes.append(
            f"the hook was not told of {plural(untold, 'incident')}: hooks_per_night is {config.hooks_per_night}"
        )


def _variables(config: NightlyConfig, night: NightRow, incident: IncidentReport) -> dict[str, str]:
    """What a hook finds in its environment."""
    return {
        "JOB": config.job,
        "NIGHT": str(night.ordinal),
        "EVENT": incident.event or "",
        "INCIDENT": str(incident.number),
        "NAME": incident.bisection,
        "REPOSITORY": incident.repository,
        "CULPRIT": incident.culprit,
    }


def _write(folder: Path, report: NightReport) -> None:
    files = {
        "night.json": report.model_dump_json(indent=2) + "\n",
        "junit.xml": junit_text(report),
        "night.md": markdown_text(report),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_whole(folder / name, text)
    except OSError as error:
        raise UserError(f"{folder}: expected a folder to write the night to: {error.strerror}") from error

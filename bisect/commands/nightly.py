"""`bisect-precision nightly`: one night, from the matrix to what is written."""

import platform
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...runner.probe.probe import Prober
from ...runner.stack.stack import Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home, user_home
from ...runner.workspace.workspace import Workspace
from ...store.database import sqlite_url
from ...store.files import write_whole
from ...store.night_journal import CellKey, NightJournal
from ...store.tables.nights import NightRow
from ..nightly.config import NightlyConfig, load_config
from ..nightly.examine import Examiner
from ..nightly.hooks import call_hook
from ..nightly.incidents import Investigator
from ..nightly.junit import junit_text
from ..nightly.limits import Limits, OutOfTimeError
from ..nightly.markdown import markdown_text
from ..nightly.runs import Runner
from ..nightly.summary import HookReport, NightReport, incident_report, night_report
from ..nightly.terminal import print_night, result_line, say
from ..run.session import open_sessions
from .errors import run_command
from .signals import terminated_like_interrupted

FAILING = 7
"""Exit code of a night after which a case that passed before still fails."""


def run_nightly(file: Path, *, store: str | None, budget: float | None, jobs: int = 1) -> int:
    """Run a night, or go on with one that was cut short; the exit code."""

    def body() -> int:
        config, stack = load_config(file)
        home = user_home()
        folder = home.state / "nightly"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / f"{config.job}.lock", blocking=False), terminated_like_interrupted():
                sessions = open_sessions(store or sqlite_url(home.store))
                limits = Limits(config, begun=datetime.now().astimezone(), budget=budget)
                report = _night(config, stack, sessions=sessions, home=home, limits=limits, jobs=jobs)
        except Timeout:
            print(f"{config.job}: another start of this job is at work; nothing was done", file=sys.stderr)
            return 0
        return _exit_code(report)

    return run_command(body)


def _night(
    config: NightlyConfig,
    stack: Stack,
    *,
    sessions: sessionmaker[Session],
    home: Home,
    limits: Limits,
    jobs: int,
) -> NightReport:
    journal = NightJournal(sessions, config.job)
    workspace = Workspace(stack, home)
    searched = workspace.repositories[stack.searched]
    heads = {branch: searched.resolve(branch, option="branches") for branch in config.branches}
    night = journal.unfinished_night() or journal.begin_night(heads, platform.node())
    limits.count_earlier(journal.runs_since(limits.opened or night.started))
    clone = workspace.clones[stack.searched]
    journal.add_commits(stack.searched, [clone.commit(head) for head in night.heads.values()])
    notes: list[str] = []
    investigator = Investigator(
        config=config,
        stack=stack,
        sessions=sessions,
        journal=journal,
        home=home,
        night=night,
        limits=limits,
        workspace=workspace,
    )
    try:
        _run_matrix(config, stack, workspace, journal, night, home=home, limits=limits)
        notes += investigator.investigate(jobs=jobs)
        notes += investigator.localize()
    except OutOfTimeError as error:
        notes.append(str(error))
    investigator.close()
    _tell(config, journal, night, notes)
    journal.finish_night(night.id, notes)
    finished = next(row for row in journal.nights() if row.id == night.id)
    report = night_report(journal, finished)
    folder = config.output / f"night-{night.ordinal:04d}"
    _write(folder, report)
    print_night(report, str(folder), Console())
    return report


def _run_matrix(
    config: NightlyConfig,
    stack: Stack,
    workspace: Workspace,
    journal: NightJournal,
    night: NightRow,
    *,
    home: Home,
    limits: Limits,
) -> None:
    content, console = StackContent(stack, workspace), Console(stderr=True)
    with Prober(workspace, content, home, on_activity=lambda _text: None) as prober:
        runner = Runner(
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
        for key in _matrix(config, night):
            result = examiner.examine(journal.cell(key), night.heads[key.branch])
            rest = f"{key.tolerance}, {key.branch}"
            say(console, result_line(key.case, key.platform, rest, result.status))


def _matrix(config: NightlyConfig, night: NightRow) -> list[CellKey]:
    """Commit by commit, so that one build serves all cells that want it."""
    return [
        CellKey(branch=branch, case=case, platform=name, tolerance=tolerance)
        for branch in config.branches
        if branch in night.heads
        for name in config.platforms
        for case in config.cases
        for tolerance in config.tolerances
    ]


def _tell(config: NightlyConfig, journal: NightJournal, night: NightRow, notes: list[str]) -> None:
    """Call the hook for what opened or closed tonight, each once, up to the night's cap."""
    if not config.on_incident:
        return
    calls = journal.hook_calls(night.id)
    told = {(call.incident_id, call.event) for call in calls}
    left, untold = config.hooks_per_night - len(calls), 0
    for incident in journal.incidents():
        shown = incident_report(incident, night)
        if shown.event is None or (incident.id, shown.event) in told:
            continue
        if left <= 0:
            untold += 1
            continue
        left -= 1
        text = HookReport(job=config.job, night=night.ordinal, incident=shown).model_dump_json()
        code = call_hook(config.on_incident, text)
        journal.add_hook_call(night.id, incident.id, shown.event, code)
        if code != 0:
            notes.append(f"the hook ended with {code} for incident {incident.ordinal}")
    if untold:
        notes.append(
            f"the hook was not told of {untold} incidents: hooks_per_night is {config.hooks_per_night}"
        )


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


def _exit_code(report: NightReport) -> int:
    failing: Sequence[str] = ("regressed", "known")
    return FAILING if any(case.status in failing for case in report.cases) else 0

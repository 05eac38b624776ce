"""`bisect-precision nightly`: one night, alone at its job, and what is printed of it."""

import sys
from datetime import datetime
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UsageError
from ...runner.stack.stack import Stack
from ...runner.workspace.home import Home, command_line, user_home
from ...store.database import check_kept
from ...store.journals.queue.submissions import QueueJournal, Submission
from ..after.hooks import check_hook
from ..nightly.config import NightlyConfig, load_config
from ..nightly.limits import Limits
from ..nightly.night import UnwrittenNightError, folder_of, keep_ended, run_night
from ..nightly.outcome import FailOn, exit_code
from ..nightly.regressions.tasks import Submitted
from ..nightly.summary import NightReport
from ..nightly.terminal import print_night
from ..report.folder import check_place, check_room
from ..run.session import open_sessions
from .command_line.options import NightlyOptions
from .command_line.stores import store_url
from .errors import run_command
from .service.place import home_name
from .signals import terminated_like_interrupted


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
    """Run a night, or go on with one that was cut short, and print what it showed; the exit code."""
    begun = datetime.now().astimezone()

    def body() -> int:
        config, stack = _config(file)
        mend = f"name another one as output in {file}"
        check_place(config.output, what="the nights", mend=mend)
        check_room(config.output, mend=mend)
        home = user_home()
        home.make()
        folder = home.state / "nightly"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / f"{config.job}.lock", blocking=False), terminated_like_interrupted():
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
            raise
        except Timeout:
            print(f"{config.job}: another start of this job is at work; nothing was done", file=sys.stderr)
            return 0
        except KeyboardInterrupt:
            again = command_line(["bisect-precision", "nightly", str(file)])
            print(f"interrupted; the next start goes on with this night:\n{again}", file=sys.stderr)
            raise
        _show(report, folder_of(config, report.night), as_json=as_json)
        check_kept(sessions)
        return exit_code(report, fail_on=fail_on)

    return run_command(body)


def _config(file: Path) -> tuple[NightlyConfig, Stack]:
    """The job of a nightly file, whose hook is there to be told. Raises `UsageError`."""
    config, stack = load_config(file)
    if config.on_incident:
        check_hook(config.on_incident, asked=f"{file}: on_incident")
    return config, stack


def _show(report: NightReport, folder: Path | None, *, as_json: bool) -> None:
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        print_night(report, folder, Console())


def keep_found(options: NightlyOptions) -> int:
    """Keep what the queue's workers have found for a job, and tell of it; the exit code."""

    def body() -> int:
        if options.submit or options.as_json or options.budget is not None:
            raise UsageError(
                "--keep: expected no --submit, --budget or --json beside it, for it runs nothing; leave them out"
            )
        config, stack = _config(options.file)
        home = user_home()
        sessions = open_sessions(store_url(options.store))
        progress = Console(stderr=True, quiet=options.quiet)
        keep_ended(config, stack, sessions=sessions, home=home, progress=progress)
        return 0

    return run_command(body)


def _submit(sessions: sessionmaker[Session], home: Home, file: Path, job: str, submitted: Submitted) -> None:
    """Leave a bisection of a night to the queue, as the job's own; a culprit is localized and reduced as in a night."""
    submission = Submission(
        bisection=submitted.bisection,
        user=job,
        words=[*submitted.question, "--reduce"],
        folder=str(file.absolute().parent),
        board=submitted.board,
        device=submitted.device,
    )
    keep = ["nightly", str(file.absolute()), "--keep"]
    QueueJournal(sessions).submit_begun(submission, place=home_name(home), afterwards=keep)

"""`bisect-precision` itself: from its options to a bisection that is driven, or to a plan that is printed.

`bisect` is the entry. `question_of` turns the options into a question, with ends that may come from a `git bisect log`.
`drive` runs the bisection, shows its progress, writes its report, and prints how to go on where it was stopped.
"""

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from rich.console import Console
from sqlalchemy import func, make_url, select
from sqlalchemy.orm import Session, sessionmaker

from ..runner.case.case import add_predecessors
from ..runner.cli_options import STORE_VARIABLE
from ..runner.errors import EndsError, UsageError, UserError
from ..runner.git import GitRepository
from ..runner.probe.build_cache import check_build_store
from ..runner.probe.pool import check_backend
from ..runner.process.entry import INTERRUPTED, NOTHING_BEGUN
from ..runner.process.run import find_secret
from ..runner.process.signals import (
    OutOfTimeInterrupt,
    check_interrupt,
    terminate_as_interrupt,
    time_limit,
)
from ..runner.settings import read_overrides, read_variables
from ..runner.stack import Environment, Stack
from ..runner.workspace.environment import case_variables, variable_changes
from ..runner.workspace.home import Home, command_line, user_home
from ..store.database import StoreError, check_store, check_store_file, store_folder
from ..store.durable_files import write_document
from ..store.tables import MAX_NAME_LENGTH, BisectionRow, ProbeRow
from ..store.vocabulary import BisectionOutcome, ProbeState, Seeks
from .ask.ends import BisectLog, Question
from .ask.predicate import PLACEHOLDER_COMMAND, Predicate
from .ask.prepare import prepare
from .ask.question import REPORTS_FOLDER, override_pins, repository_stack, select_stack
from .cli import SlowStart
from .commands import plan_json, plan_lines
from .drive.hand_over import (
    check_notify_command,
    localize_culprit,
    notify,
    record_builds,
    refused_argument_advice,
    skipped_localization,
)
from .drive.progress import LiveProgress, PlainProgress
from .drive.session import DriveOptions, StoredBisection, UnstoredConclusionError, check_person, open_sessions
from .engine.answer import Conclusion
from .exit_codes import ERROR, run_command, store_url
from .options import BisectOptions
from .report.basis import load_rows
from .report.end_advice import end_lines, has_unjudged_end
from .report.model import Report
from .report.report_builder import build_report
from .report.terminal import print_conclusion, print_line, print_report
from .report.write import NEWEST_LINK, check_place, check_room, link_newest, report_folder, write_report


@dataclass(frozen=True, kw_only=True)
class NamedEnds:
    """The ends as the user named them, not looked up yet (see `Question`)."""

    good: tuple[str, ...]
    bad: str
    also_old: tuple[str, ...] = ()


def named_ends(options: BisectOptions, log: BisectLog | None) -> NamedEnds:
    """Return the ends to ask about. Those of the options come before those of the log.

    Raises `UsageError` where one is missing, or they contradict each other.
    """
    olds, news = (tuple(log.olds), log.news[-1:]) if log else ((), [])
    good, bad, also_old = options.good, options.bad, tuple[str, ...]()
    if options.find_fix:
        good = good or tuple(news)
        bad = bad or next(reversed(olds), None)
        also_old = tuple(sha for sha in olds if sha != bad)
    else:
        good, bad = (*good, *olds), bad or next(iter(news), None)
    if bad is None:
        raise UsageError("expected a bad end, found no --bad: name a commit where the case fails")
    if not good and options.find_fix:
        raise UsageError(
            "--find-fix: expected both ends, found no --good: name a later commit where the case passes"
        )
    if len(good) > 1 and options.find_fix:
        raise UsageError(
            f"--find-fix: expected one --good, found {', '.join(good)}: name the first known to pass again"
        )
    return NamedEnds(good=good, bad=bad, also_old=also_old)


EXIT_CODES = {
    BisectionOutcome.CULPRIT: 0,
    BisectionOutcome.ERROR: 1,
    BisectionOutcome.ONLY_SKIPPED: 3,
    BisectionOutcome.ENDS_DO_NOT_DIFFER: 4,
    BisectionOutcome.NO_CULPRIT: 5,
    BisectionOutcome.SUSPECT: 6,
    BisectionOutcome.BUDGET: 6,
}


def drive(
    open_bisection: Callable[[sessionmaker[Session]], StoredBisection],
    options: BisectOptions,
    home: Home,
    start: SlowStart,
) -> int:
    """Drive a bisection of the store to its end, write its report, and localize its culprit. Return the tool's exit
    code.

    Raises `UserError` where it cannot go on.
    """
    sessions = open_sessions(store_url(options.store))
    bisection = open_bisection(sessions)
    ending = _Ending(sessions=sessions, bisection=bisection, options=options)
    try:
        start.end()
        return _drive(bisection, options, ending, home)
    except KeyboardInterrupt:
        ending.handle_interrupt()
        return INTERRUPTED


def _drive(bisection: StoredBisection, options: BisectOptions, ending: "_Ending", home: Home) -> int:
    """Drive a bisection to its end, and show how it ended. Return the exit code."""
    sessions, resume = ending.sessions, resume_command(options, bisection.name)
    ended_before = _count_ended_runs(sessions, bisection.name)
    waited = time.monotonic() - options.begun
    with bisection.record_drive(seconds=waited), terminate_as_interrupt():
        try:
            conclusion = _conclude(bisection, options)
        except EndsError as error:
            conclusion = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
            bisection.conclude(conclusion)
            ending.write()
            if options.as_json:
                ending.show(conclusion)
            _print_end_advice(sessions, bisection.name, always=True)
            ending.attempt(ending.notify)
            ending.attempt(lambda: check_store_file(sessions))
            raise
        except UnstoredConclusionError as error:
            print_conclusion(error.conclusion, bisection.request.seeks, Console())
            raise error.why from error
        except UserError:
            _print_end_advice(sessions, bisection.name)
            ending.print_next_command("to go on after mending it:", resume)
            raise
        written = ending.write()
        ending.attempt(lambda: record_builds(sessions, bisection.name, home))
        if conclusion.outcome is BisectionOutcome.CULPRIT and _should_localize(bisection, options):
            _localize(bisection, options, sessions, home=home)
            written = ending.write()
    if conclusion.outcome is BisectionOutcome.BUDGET:
        ran = _count_ended_runs(sessions, bisection.name) > ended_before
        ending.print_next_command(*_budget_advice(options, bisection.name, ran=ran))
    told = ending.publish(conclusion)
    return EXIT_CODES[conclusion.outcome] if written and told else ERROR


@dataclass(kw_only=True)
class _Ending:
    """What remains to do at the end of a bisection: files and a summary, both made from the store.

    Whatever goes wrong in one of them, the other is still made, and the answer is printed.
    """

    sessions: sessionmaker[Session]
    bisection: StoredBisection
    options: BisectOptions
    is_shown: bool = False
    """Whether the answer was printed, or its printing has begun."""
    report: Report | None = None
    """The report as it was written last. None before that."""

    def write(self) -> bool:
        """Write the report, with the time so far. Return whether that succeeded."""
        output = self.bisection.request.output

        def write() -> None:
            self.bisection.note_time()
            self.report, _ = write_report(self.sessions, self.bisection.name, output)
            with suppress(OSError):  # the file system may have no links
                link_newest(output)

        return self.attempt(write)

    def show(self, conclusion: Conclusion) -> bool:
        """Print the answer. Return whether all of it could be made."""
        self.is_shown = True
        if self.attempt(self._print):
            return True
        print_conclusion(conclusion, self.bisection.request.seeks, Console())
        return False

    def publish(self, conclusion: Conclusion) -> bool:
        """Print the answer and run the hook of --notify. Return whether all of it could be made and is kept."""
        shown = self.show(conclusion)
        if conclusion.outcome is BisectionOutcome.ONLY_SKIPPED:
            self.attempt(lambda: _print_skip_advice(self.sessions, self.bisection.name))
        self.attempt(self.notify)
        return self.is_stored and shown

    @cached_property
    def is_stored(self) -> bool:
        """Return whether the store has the result. This is checked once, at the end; a store that was removed meanwhile
        is reported."""
        return self.attempt(lambda: check_store_file(self.sessions))

    def handle_interrupt(self) -> None:
        """Print how to go on. Where there was an answer already, print that."""
        conclusion = self.bisection.conclusion
        if conclusion is not None and not self.is_shown:
            _say("interrupted after the search: the answer is kept")
            self.write()
            self.show(conclusion)
        if conclusion is None or conclusion.outcome is BisectionOutcome.BUDGET:
            resume = resume_command(self.options, self.bisection.name)
            self.print_next_command("interrupted; to resume:", resume)

    def print_next_command(self, why: str, command: str) -> None:
        """Print the command that goes on with the bisection, if the store still has it."""
        if self.is_stored:
            # The command has a line of its own, so that it can be copied.
            _say(why)
            _say(command)

    def notify(self) -> None:
        """Run the hook of --notify, if there is one."""
        if self.options.notify is not None:
            problem = notify(self.options.notify, self.sessions, self.bisection.name)
            if problem is not None:
                _say(problem)

    def _print(self) -> None:
        report = self.report
        if report is None:
            with self.sessions() as session:
                report = build_report(session, self.bisection.name)
        if self.options.as_json:
            print(report.model_dump_json(indent=2))
            return
        console = Console()
        if self.options.quiet:
            print_line(report, self.bisection.request.output, console)
            return
        print_report(report, self.bisection.request.output, console)

    def attempt(self, make: Callable[[], object]) -> bool:
        """Call `make`, and print why it failed if it did. Return whether it succeeded."""
        try:
            make()
        except Exception as error:  # no error may cost the answer
            _say(f"error: {error if isinstance(error, UserError | StoreError) else repr(error)}")
            return False
        return True


def _budget_advice(options: BisectOptions, name: str, *, ran: bool) -> tuple[str, str]:
    """Return how to go on once the budget is spent, in words and as a command.

    `ran` says that a run came to its end within the budget.
    """
    if ran or options.budget is None:
        return "the budget is spent; to resume:", resume_command(options, name)
    # The same budget would again be too small for one run.
    more = replace(options, budget=2 * options.budget)
    why = "the budget is spent, and no run came to its end; to resume with a larger one:"
    return why, resume_command(more, name)


def _count_ended_runs(sessions: sessionmaker[Session], name: str) -> int:
    """Return how many of the bisection's own runs have ended so far."""
    with sessions() as session:
        own = (BisectionRow.name == name, ProbeRow.reused_id.is_(None))
        ended = select(func.count(ProbeRow.id)).join(BisectionRow).where(*own)
        return session.scalar(ended.where(ProbeRow.state == ProbeState.FINISHED)) or 0


def _print_end_advice(sessions: sessionmaker[Session], name: str, *, always: bool = False) -> None:
    """Print what both ends showed last, and what to check.

    Without `always`, print it only where an end could not be judged.
    """
    with sessions() as session:
        rows = load_rows(session, name)
        if rows.probes and (always or has_unjudged_end(rows)):
            for line in end_lines(rows):
                _say(line)
            for text in refused_argument_advice(rows):
                _say(f"  - {text}")


def _print_skip_advice(sessions: sessionmaker[Session], name: str) -> None:
    """Print how to make commits testable at which the case was refused an argument."""
    with sessions() as session:
        for text in refused_argument_advice(load_rows(session, name)):
            _say(f"note: {text}")


def resume_command(options: BisectOptions, name: str) -> str:
    """Return the command that resumes the bisection `name` as it was begun. A password in the store's URL becomes
    `***`."""
    words = ["bisect-precision"]
    if options.store and options.store != os.environ.get(STORE_VARIABLE):
        words += ["--store", make_url(options.store).render_as_string()]
    return command_line([*words, *resume_words(options, name)])


def resume_words(options: BisectOptions, name: str) -> list[str]:
    """Return the words, after the program and its store, that resume the bisection `name` as it was begun.

    A budget is given again in the same size.
    """
    words: list[str] = []
    if options.jobs > 1:
        words += ["--jobs", str(options.jobs)]
    if options.backend != "loky":
        words += ["--backend", options.backend]
    if options.build_store is not None:
        words += ["--build-store", options.build_store]
    if options.no_localize:
        words.append("--no-localize")
    if options.reduce:
        words.append("--reduce")
    if options.notify is not None:
        words += ["--notify", options.notify]
    if options.budget is not None:
        words += ["--budget", f"{options.budget:.15g}s"]
    return [*words, "--resume", name]


def _conclude(bisection: StoredBisection, options: BisectOptions) -> Conclusion:
    drive_options = DriveOptions(
        jobs=options.jobs,
        backend=options.backend,
        build_store=options.build_store,
        deadline=options.deadline,
    )
    err = Console(stderr=True, quiet=options.quiet)
    live = err.is_terminal and not options.quiet and not bisection.request.interactive
    builds = bool(bisection.request.stack.steps)
    with LiveProgress(err, builds=builds) if live else PlainProgress(err, builds=builds) as progress:
        return bisection.drive(progress, drive_options)


def _should_localize(bisection: StoredBisection, options: BisectOptions) -> bool:
    """Return whether a culprit is to be localized. A command of the user's own leaves no tensors."""
    return not options.no_localize and not (bisection.request.is_command or bisection.request.interactive)


def _localize(
    bisection: StoredBisection,
    options: BisectOptions,
    sessions: sessionmaker[Session],
    *,
    home: Home,
) -> None:
    """Localize in what is left of the budget, and record the result."""
    try:
        localization = localize_culprit(
            sessions,
            bisection.name,
            home=home,
            reduce=options.reduce,
            seconds=options.seconds_left,
            say=lambda text: _say(text, style="dim", quiet=options.quiet),
        )
    except KeyboardInterrupt:
        bisection.journal.note_localization(write_document(skipped_localization("interrupted")))
        raise
    bisection.journal.note_localization(write_document(localization))


def _say(text: str, *, style: str | None = None, quiet: bool = False) -> None:
    console = Console(stderr=True, quiet=quiet)
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


_DEFAULT_BAD_WHEN = "mismatch"
_OPENING_STEP = "opening the store of results"
_BUDGET_SPENT_MESSAGE = (
    "the budget was spent while the question was checked, before the first run: nothing was run or kept; ask again "
    "with a larger --budget"
)


def bisect(options: BisectOptions, start: SlowStart) -> int:
    """Begin a bisection or resume one, and print its result. Return the tool's exit code."""

    def body() -> int:
        try:
            return _bisect(options, start)
        except OutOfTimeInterrupt:
            _end_children()
            print(_BUDGET_SPENT_MESSAGE, file=sys.stderr)
            return EXIT_CODES[BisectionOutcome.BUDGET]
        except KeyboardInterrupt:
            _end_children()
            print(NOTHING_BEGUN, file=sys.stderr)
            raise

    return run_command(body)


def _bisect(options: BisectOptions, start: SlowStart) -> int:
    """Resume a bisection, or prepare a new one and drive it. Return the exit code."""
    home = user_home()
    check_backend(options.backend, jobs=options.jobs)
    if options.build_store is not None:
        check_build_store(options.build_store)
    check_final_steps(options)
    if options.resume is not None:
        _check_resume(options)
        start.step(_OPENING_STEP)
        with ExitStack() as held:
            return drive(
                lambda sessions: _find_bisection(options, sessions, home, held), options, home, start
            )
    if options.interactive:
        check_person(jobs=options.jobs, backend=options.backend)
    with time_limit(options.seconds_left):
        plan = prepare(question_of(options), home, step=start.step, run_programs=not options.dry_run)
    check_interrupt()
    if options.dry_run:
        check_place(plan.request.output)
        check_store(store_url(options.store))
        check_room(plan.request.output, mend="name another folder with -o")
        _check_room(home, options)
        print(plan_json(plan) if options.as_json else "\n".join(plan_lines(plan)))
        return 0
    for notice in () if options.quiet else plan.notices:
        print(f"note: {notice}", file=sys.stderr)
    with _hold_output(plan.request.output, home, options):
        start.step(_OPENING_STEP)
        return drive(
            lambda sessions: StoredBisection.begin(
                plan, sessions=sessions, home=home, reuse=not options.fresh
            ),
            options,
            home,
            start,
        )


def _end_children() -> None:
    """End the processes that were started to check a question."""
    import psutil  # other commands start faster without it

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.terminate()


def check_final_steps(options: BisectOptions) -> None:
    """Raises `UsageError` where the steps at the end of a bisection are impossible or contradict each other."""
    if options.notify is not None:
        check_notify_command(options.notify)
    if options.no_localize and options.reduce:
        raise UsageError("expected --no-localize or --reduce, found both: a reduction begins with localizing")


def _check_resume(options: BisectOptions) -> None:
    """Raises `UsageError` where something is asked beside `--resume`, which goes on with the old question."""
    asked = {
        "--good": options.good or None,
        "--bad": options.bad,
        "--repo": options.repo,
        "--case": options.case,
        "--after": options.after or None,
        "--overlay": options.overlay or None,
        "--adapt": options.adapt or None,
        "--bad-when": options.bad_when,
        "--good-when": options.good_when,
        "--crash": options.crash,
        "--golden-data": options.golden_data,
        "--runtime-dir": options.runtime_dir,
        "--name": options.name,
        "--fresh": options.fresh or None,
        "--dry-run": options.dry_run or None,
        "a command behind --": options.predicate,
    }
    given = [name for name, value in asked.items() if value is not None]
    if given:
        raise UsageError(
            f"--resume: expected no question beside it, found {', '.join(given)}: it was asked before"
        )


def _find_bisection(
    options: BisectOptions, sessions: sessionmaker[Session], home: Home, held: ExitStack
) -> StoredBisection:
    """Return the bisection to resume: the one of the given name, else the newest of this checkout.

    `held` holds the folders of its result.
    """
    if options.resume:
        bisection = StoredBisection.find(options.resume, sessions=sessions, home=home)
    else:
        bisection = StoredBisection.newest_of(Path.cwd(), sessions=sessions, home=home)
        if not options.quiet:
            print(
                f"note: going on with {bisection.name}, the newest that is unfinished here", file=sys.stderr
            )
    request = bisection.request
    if request.interactive:
        check_person(jobs=options.jobs, backend=options.backend)
    with bisection.lock():
        pass  # another driver is reported here, rather than as one that writes to the report's folder
    held.enter_context(_hold_output(request.output, home, options))
    if request.inherited is not None:
        changes = list(variable_changes(request.inherited, case_variables(request.stack, home)))
        if changes:
            notice = (
                f"variables of the shell are not as they were when the bisection began: {'; '.join(changes)}"
            )
            bisection.journal.add_notice(notice)
            print(f"note: {notice}", file=sys.stderr)
    begun = bisection.journal.row().created
    if edited := [file for file in request.own_files if _is_newer(file, begun)]:
        notice = f"{', '.join(map(str, edited))}: changed after the bisection began; what it showed before still counts"
        bisection.journal.add_notice(notice)
        print(f"note: {notice}; to count only what it shows now, ask anew", file=sys.stderr)
    return bisection


def _is_newer(file: Path, time: datetime) -> bool:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC) > time
    except OSError:
        return False  # a missing file is reported when it is run


@contextmanager
def _hold_output(output: Path, home: Home, options: BisectOptions) -> Generator[None]:
    """Check the folders where the result will be kept before anything runs, and hold that of the report.

    Raises `UserError` where one cannot be used.
    """
    with report_folder(output):
        _check_room(home, options)
        yield


def _check_room(home: Home, options: BisectOptions) -> None:
    """Raises `UserError` where a disk for the home or the store has no room. Makes nothing."""
    check_room(home.state, mend="set PRECISION_BISECT_HOME to a folder with room")
    if (folder := store_folder(store_url(options.store))) is not None:
        check_room(folder, mend="name another one with --store")


def question_of(options: BisectOptions) -> Question:
    """Return what the options ask, of the stack that they name or that the current folder belongs to.

    Raises `UsageError` where options contradict each other, or one that is needed is missing.
    """
    _check_after(options)
    _check_secrets(options)
    if options.name is not None:
        check_name(options.name)
    if options.interactive:
        options = _person_options(options)
    log = None if options.replay is None else BisectLog.read(options.replay)
    ends = named_ends(options, log)
    stack = override_pins(_stack(options), freeze=options.freeze, search=options.search)
    repository = _searched_repository(options, stack)
    command = None if options.predicate is None else _predicate(options, stack, repository)
    if command is not None:
        stack = command.replace_case(stack, repository)
    elif options.case is None and options.runtime_dir is None:
        raise UsageError(
            f"expected a case, found none: name a script of {stack.case.repository} with --case, or a build "
            "directory with --runtime-dir"
        )
    return Question(
        stack=add_predecessors(stack.with_case_variables(read_variables(options.env)), options.after),
        repository=repository,
        good=ends.good,
        bad=ends.bad,
        command=command,
        also_old=ends.also_old,
        case=options.case,
        platform=options.platform,
        device=options.device,
        bad_when=options.bad_when or (None if command or options.interactive else _DEFAULT_BAD_WHEN),
        good_when=options.good_when,
        crash=options.crash or "skip",
        golden_data=options.golden_data,
        runtime_dir=options.runtime_dir,
        first_parent=options.first_parent or (log is not None and log.first_parent),
        timeout=options.timeout,
        confidence=options.confidence,
        output=options.output,
        name=options.name,
        cherry_picks=options.cherry_pick,
        overlays=options.overlay,
        adapt=options.adapt,
        skip=(*options.skip, *(log.skip if log else ())),
        path=(*options.path, *(log.paths if log else ())),
        replayed=log,
        interactive=options.interactive,
        typed=options.typed,
        seeks=Seeks.FIX if options.find_fix else Seeks.REGRESSION,
    )


def _check_after(options: BisectOptions) -> None:
    """Raises `UsageError` where `--after` is given without a script that could run after those cases."""
    beside = {"a command behind --": options.predicate, "--runtime-dir": options.runtime_dir}
    found = next((name for name, given in beside.items() if given is not None), None)
    if options.after and (found is not None or options.case is None):
        raise UsageError(
            f"--after {options.after[0]}: expected a script with --case alone, which is run in its process after it, "
            f"found {found or 'no --case'}; leave --after out, or name the script"
        )


def _check_secrets(options: BisectOptions) -> None:
    """Raises `UsageError` where the shell has put a secret into what reports and the store repeat word for word."""
    texts = {
        "the command behind --": "\n".join(options.predicate or ()),
        "--bad-when": options.bad_when,
        "--good-when": options.good_when,
        "--env": "\n".join(options.env),
        "--name": options.name,
        "-o": None if options.output is None else str(options.output),
    }
    for where, text in texts.items():
        if text is not None and (name := find_secret(text, os.environ)) is not None:
            raise UsageError(
                f"{where}: expected no secret, found the value of {name}, which reports and the store would show; "
                f"let the command read the variable, as in -- sh -c './check.sh \"${name}\"'"
            )


def check_name(name: str) -> None:
    """Raises `UsageError` where a bisection cannot have this name. Folders and files get it too."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}", name):
        raise UsageError(
            f"--name {shlex.quote(name)}: expected at most {MAX_NAME_LENGTH} letters, digits, - and _, with a letter "
            "or digit first"
        )
    if name == NEWEST_LINK:
        raise UsageError(
            f"--name {name}: expected another name, for {REPORTS_FOLDER}/{name} leads to the newest report"
        )


def _person_options(options: BisectOptions) -> BisectOptions:
    """Return the options of a case that a person judges. Without a case, the person chooses what to run."""
    by_output = {"--bad-when": options.bad_when, "--good-when": options.good_when, "--crash": options.crash}
    for name, given in by_output.items():
        if given is not None:
            raise UsageError(f"{name} {given}: expected none with --interactive, where a person says it")
    if options.predicate is None and options.case is None and options.runtime_dir is None:
        return replace(options, predicate=PLACEHOLDER_COMMAND)
    return options


def _stack(options: BisectOptions) -> Stack:
    """Return the stack that was named, else the one that the current folder implies."""
    overrides = read_overrides(options.repository)
    stack = select_stack(options.stack, overrides, by_checkout=options.predicate is None)
    if stack is not None:
        return stack
    if options.predicate is not None:
        return repository_stack(overrides)
    raise UsageError(
        "expected a stack, found no stack.toml here and no checkout of a known one: name one with --stack, or a "
        "command behind -- that judges each commit by its exit code"
    )


def _searched_repository(options: BisectOptions, stack: Stack) -> str:
    """Return the repository whose commits the ends name."""
    name = options.repo or stack.searched
    if name not in stack.repositories:
        raise UsageError(f"--repo {name}: expected one of {', '.join(sorted(stack.repositories))}")
    return name


def _predicate(options: BisectOptions, stack: Stack, repository: str) -> Predicate:
    """Return the command behind `--`, as a worktree of the repository can run it."""
    if not options.predicate or not options.predicate[0]:
        raise UsageError("expected a command behind --, found nothing")
    of_a_case = {
        "--case": options.case,
        "--golden-data": options.golden_data,
        "--runtime-dir": options.runtime_dir,
        "--reduce": options.reduce or None,
    }
    for option, given in of_a_case.items():
        if given is not None:
            raise UsageError(f"expected either {option} or a command behind --, found both")
    checkout = GitRepository.open(stack.repositories[repository].path, name=repository)
    predicate = Predicate.from_words(options.predicate, here=Path.cwd(), checkout=checkout.path)
    # Elsewhere the program may be another one: with another PATH, in a stack's environment, or on another machine.
    is_here = options.backend == "loky" and not stack.steps and stack.environment == Environment()
    of_shell = is_here and not any(text.startswith("PATH=") for text in options.env)
    predicate.check_runnable(search_path=os.environ.get("PATH") if of_shell else None)
    return predicate

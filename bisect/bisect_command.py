"""`bisect-precision` itself: from its options to a bisection that is driven, or to a plan that is printed.

`bisect` is the entry. `_drive` runs the bisection, and `_Closing` writes its report, prints the answer, and says how to
go on where it was stopped.
"""

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from rich.console import Console
from rich.text import Text
from sqlalchemy import func, make_url, select
from sqlalchemy.orm import Session, sessionmaker

from ..runner.cli_options import STORE_VARIABLE, break_line, print_error, print_json_error, print_text
from ..runner.errors import EndsError, UndecidedError, UsageError, UserError
from ..runner.probe.build_cache import check_build_store
from ..runner.probe.pool import check_backend
from ..runner.process.entry import INTERRUPTED, NOTHING_BEGUN
from ..runner.process.signals import (
    OutOfTimeInterrupt,
    check_interrupt,
    defer_interrupt,
    terminate_as_interrupt,
    time_limit,
)
from ..runner.workspace.environment import case_variables, variable_changes
from ..runner.workspace.home import Home, command_line, user_home
from ..store.database import check_can_open, check_not_replaced, store_folder
from ..store.durable_files import write_document
from ..store.tables import BisectionRow, ProbeRow
from ..store.vocabulary import BisectionOutcome, ProbeState, StoreError
from .ask.prepare import prepare
from .ask.question import Plan
from .ask.typed_question import question_of
from .cli import ERROR, SlowStart, run_command
from .drive.hand_over import (
    check_notify_command,
    localize_culprit,
    notify,
    record_builds,
    refused_argument_advice,
    skipped_localization,
)
from .drive.person import check_person
from .drive.progress import LiveProgress, PlainProgress
from .drive.session import DriveOptions, StoredBisection, UnstoredConclusionError, open_sessions
from .engine.answer import Conclusion
from .listing import store_url
from .options import BisectOptions
from .report.advice import end_lines, has_unjudged_end
from .report.basis import Rows, load_rows
from .report.model import Report
from .report.report_builder import make_report
from .report.report_files import (
    check_place,
    check_room,
    link_newest,
    record_report,
    report_folder,
)
from .report.terminal import PLAN_INDENT, plan_json, plan_lines, print_conclusion, print_line, print_report

_OPENING_STEP = "opening the store of results"
_BUDGET_SPENT_MESSAGE = (
    "the budget was spent while the question was checked, before the first run: nothing was run or kept; ask again "
    "with a larger --budget"
)
EXIT_CODES = {
    BisectionOutcome.CULPRIT: 0,
    BisectionOutcome.ERROR: 1,
    BisectionOutcome.ONLY_SKIPPED: 3,
    BisectionOutcome.ENDS_DO_NOT_DIFFER: 4,
    BisectionOutcome.NO_CULPRIT: 5,
    BisectionOutcome.SUSPECT: 6,
    BisectionOutcome.BUDGET: 6,
}


def bisect(options: BisectOptions, start: SlowStart) -> int:
    """Begin a bisection or resume one, and print its result. Return the exit code."""

    def body() -> int:
        try:
            return _bisect(options, start)
        except OutOfTimeInterrupt:
            _end_children()
            raise UndecidedError(_BUDGET_SPENT_MESSAGE) from None
        except KeyboardInterrupt:
            _end_children()
            print(NOTHING_BEGUN, file=sys.stderr)
            raise KeyboardInterrupt(NOTHING_BEGUN) from None

    return run_command(body)


def _bisect(options: BisectOptions, start: SlowStart) -> int:
    """Resume a bisection, or prepare a new one and drive it. Return the exit code."""
    home = user_home()
    check_backend(options.backend, jobs=options.jobs)
    if options.build_store is not None:
        check_build_store(options.build_store)
    check_final_steps(options)
    if options.resume is not None:
        return _resume(options, home, start)
    if options.interactive:
        check_person(jobs=options.jobs, backend=options.backend)
    with time_limit(options.seconds_left):
        plan = prepare(question_of(options), home, step=start.step, run_programs=not options.dry_run)
    check_interrupt()
    if options.dry_run:
        _print_plan(plan, options, home)
        return 0
    for notice in () if options.quiet else plan.notices:
        _print_note(notice)
    with _hold_output(plan.request.output, home, options):
        start.step(_OPENING_STEP)
        sessions = open_sessions(store_url(options.store))
        bisection = _begin(plan, sessions, options, home)
        del plan  # A long range takes much memory, and is needed no more once it is searched.
        return _drive(bisection, sessions, options, home, start)


def _begin(
    plan: Plan, sessions: sessionmaker[Session], options: BisectOptions, home: Home
) -> StoredBisection:
    """Store a new bisection, and print why no earlier run counts where one could. Raises `UserError`."""
    bisection = StoredBisection.begin(plan, sessions=sessions, home=home, reuse=not options.fresh)
    for notice in () if options.quiet else bisection.reuse_notices:
        _print_note(notice)
    return bisection


def _print_plan(plan: Plan, options: BisectOptions, home: Home) -> None:
    """Print what would be run, after a check that its result can be kept. Raises `UserError`."""
    check_place(plan.request.output)
    check_can_open(store_url(options.store))
    check_room(plan.request.output, remedy="name another folder with -o")
    _check_room(home, options)
    if options.as_json:
        print(plan_json(plan))
    else:
        print_text("\n".join(plan_lines(plan)), indent=PLAN_INDENT)


def _resume(options: BisectOptions, home: Home, start: SlowStart) -> int:
    """Resume a bisection, and drive it. Return the exit code."""
    _check_resume(options)
    start.step(_OPENING_STEP)
    with ExitStack() as resources:
        sessions = open_sessions(store_url(options.store))
        bisection = _find_bisection(options, sessions, home, resources)
        return _drive(bisection, sessions, options, home, start)


def _end_children() -> None:
    """End the processes that the check of a question has started."""
    import psutil  # other commands start faster without it

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.terminate()


def check_final_steps(options: BisectOptions) -> None:
    """Raise `UsageError` where steps at the end of a bisection are impossible or contradict each other."""
    if options.notify is not None:
        check_notify_command(options.notify)
    if options.no_localize and options.reduce:
        raise UsageError("expected --no-localize or --reduce, found both: a reduction begins with localizing")


_RESUME_OPTIONS = frozenset(
    (
        *(
            "--resume",
            "--store",
            "--jobs",
            "-j",
            "--backend",
            "--build-store",
            "--budget",
            "--no-localize",
            "--reduce",
        ),
        *("--quiet", "-q", "--json", "--notify"),
    )
)
"""These options say how a bisection is run. All others are of its question, or of its report."""


def _check_resume(options: BisectOptions) -> None:
    """Raise `UsageError` where `--resume` stands beside an option of a question, because it continues an old one."""
    words = options.typed[: options.typed.index("--")] if "--" in options.typed else options.typed
    names = (name for word in words if word[:1] == "-" for name in _option_names(word))
    found = [name for name in dict.fromkeys(names) if name not in _RESUME_OPTIONS]
    found += ["a command behind --"] if options.predicate is not None else []
    if found:
        raise UsageError(
            f"--resume: expected no question beside it, found {', '.join(found)}: it was asked before"
        )


_SHORT_FLAG = "q"
"""The only letter of a short option that takes no value."""


def _option_names(word: str) -> Iterator[str]:
    """Yield the options of a word. Short ones may share it, as in -qo, and the last may have its value there: -j2."""
    if word.startswith("--"):
        yield word.partition("=")[0]
        return
    for letter in word[1:]:
        yield f"-{letter}"
        if letter != _SHORT_FLAG:
            return


def _find_bisection(
    options: BisectOptions, sessions: sessionmaker[Session], home: Home, resources: ExitStack
) -> StoredBisection:
    """Return the bisection to resume: that of the given name, else the newest of this checkout.

    Its folders are held until `resources` is closed. Raises `UserError`.
    """
    if options.resume:
        bisection = StoredBisection.find(options.resume, sessions=sessions, home=home)
    else:
        bisection = StoredBisection.newest_of(Path.cwd(), sessions=sessions, home=home)
        if not options.quiet:
            _print_note(f"going on with {bisection.name}, the newest that is unfinished here")
    request = bisection.request
    if request.interactive:
        check_person(jobs=options.jobs, backend=options.backend)
    with bisection.lock():
        pass  # without this, another driver would be reported as one that writes to the report's folder
    resources.enter_context(_hold_output(request.output, home, options))
    if request.inherited is not None:
        changes = list(variable_changes(request.inherited, case_variables(request.stack, home)))
        if changes:
            notice = (
                f"variables of the shell are not as they were when the bisection began: {'; '.join(changes)}"
            )
            bisection.journal.add_notice(notice)
            _print_note(notice)
    begun = bisection.journal.row().created
    if edited := [file for file in request.own_files if _is_newer(file, begun)]:
        notice = f"{', '.join(map(str, edited))}: changed after the bisection began; what it showed before still counts"
        bisection.journal.add_notice(notice)
        _print_note(f"{notice}; to count only what it shows now, ask anew")
    return bisection


def _is_newer(file: Path, time: datetime) -> bool:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC) > time
    except OSError:
        return False  # a missing file is reported when it is run


@contextmanager
def _hold_output(output: Path, home: Home, options: BisectOptions) -> Generator[None]:
    """Hold the folder of the report, after a check that the result has room everywhere. Raises `UserError`."""
    with report_folder(output):
        _check_room(home, options)
        yield


def _check_room(home: Home, options: BisectOptions) -> None:
    """Raise `UserError` where a disk for the home or the store has no room. Make no folder."""
    check_room(home.state, remedy="set PRECISION_BISECT_HOME to a folder with room")
    if (folder := store_folder(store_url(options.store))) is not None:
        check_room(folder, remedy="name another one with --store")


def _drive(
    bisection: StoredBisection,
    sessions: sessionmaker[Session],
    options: BisectOptions,
    home: Home,
    start: SlowStart,
) -> int:
    """Drive a bisection of the store to its end, report its answer, and localize its culprit. Return the exit code.

    Raises `UserError` where it cannot go on.
    """
    closing = _Closing(sessions=sessions, bisection=bisection, options=options)
    try:
        start.end()
        return _drive_to_end(bisection, options, closing, home)
    except KeyboardInterrupt:
        closing.handle_interrupt()
        return INTERRUPTED


def _drive_to_end(bisection: StoredBisection, options: BisectOptions, closing: "_Closing", home: Home) -> int:
    """Do what `_drive` says, except at an interrupt."""
    sessions, resume = closing.sessions, resume_command(options, bisection.name)
    ended_before = _count_ended_runs(sessions, bisection.name)
    seconds_before = time.monotonic() - options.start_time
    with bisection.record_drive(seconds=seconds_before), terminate_as_interrupt():
        try:
            conclusion = _search(bisection, options)
        except EndsError as error:
            conclusion = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
            bisection.conclude(conclusion)
            closing.write()
            if options.as_json:
                closing.show(conclusion)
                error.is_answered = True
            _print_end_advice(closing.rows, always=True)
            closing.attempt(closing.notify)
            closing.attempt(lambda: check_not_replaced(sessions))
            raise
        except UnstoredConclusionError as error:
            print_conclusion(error.conclusion, bisection.request.seeks, Console(stderr=options.as_json))
            raise error.why from error
        except UserError:
            _print_end_advice(closing.rows)
            closing.print_next_command("to go on after fixing it:", resume)
            raise
        written = closing.write()
        closing.attempt(lambda: record_builds(closing.rows, home))
        if conclusion.outcome is BisectionOutcome.CULPRIT and _should_localize(bisection, options):
            _localize(bisection, options, closing.rows, home=home)
            written = closing.write()
    if conclusion.outcome is BisectionOutcome.BUDGET:
        ran = _count_ended_runs(sessions, bisection.name) > ended_before
        closing.print_next_command(*_budget_advice(options, bisection.name, ran=ran))
    published = closing.publish(conclusion)
    return EXIT_CODES[conclusion.outcome] if written and published else ERROR


def _search(bisection: StoredBisection, options: BisectOptions) -> Conclusion:
    """Drive a bisection to its conclusion, and show its progress."""
    drive_options = DriveOptions(
        jobs=options.jobs,
        backend=options.backend,
        build_store=options.build_store,
        deadline=options.deadline,
    )
    err = Console(stderr=True, quiet=options.quiet)
    is_live = err.is_terminal and not options.quiet and not bisection.request.interactive
    builds = bool(bisection.request.stack.steps)
    with LiveProgress(err, builds=builds) if is_live else PlainProgress(err, builds=builds) as progress:
        return bisection.drive(progress, drive_options)


def _should_localize(bisection: StoredBisection, options: BisectOptions) -> bool:
    """Return whether to localize a culprit. Runs of a command, or of a person, leave no tensors."""
    return not options.no_localize and not (bisection.request.is_command or bisection.request.interactive)


def _localize(
    bisection: StoredBisection,
    options: BisectOptions,
    rows: Rows,
    *,
    home: Home,
) -> None:
    """Localize the culprit in what is left of the budget, and record the result."""
    try:
        localization = localize_culprit(
            rows,
            home=home,
            reduce=options.reduce,
            seconds=options.seconds_left,
            say=lambda text: _say(text, style="dim", quiet=options.quiet),
        )
    except KeyboardInterrupt:
        bisection.journal.note_localization(write_document(skipped_localization("interrupted")))
        raise
    bisection.journal.note_localization(write_document(localization))


@dataclass(kw_only=True)
class _Closing:
    """The steps at the end of a bisection. An error in one of them stops no other, and the answer is always printed."""

    sessions: sessionmaker[Session]
    bisection: StoredBisection
    options: BisectOptions
    is_shown: bool = False
    """Whether the printing of the answer has begun."""
    _rows: Rows | None = None
    _report: Report | None = None

    @property
    def rows(self) -> Rows:
        """Return what the store holds of the bisection, as it was read last."""
        return self._rows or self._read()

    def _read(self) -> Rows:
        with self.sessions() as session:
            self._rows = load_rows(session, self.bisection.name, earlier=self._rows)
        return self._rows

    @property
    def report(self) -> Report:
        """Return the report that was written last, or that of the rows where none could be written."""
        return self._report or make_report(self.rows)

    def write(self) -> bool:
        """Write the report, with the time so far. Return whether that succeeded."""

        def write() -> None:
            self.bisection.note_time()
            self._report = record_report(self._read(), self.bisection.journal)
            with suppress(OSError):  # the file system may have no links
                link_newest(self.bisection.request.output)

        return self.attempt(write)

    def show(self, conclusion: Conclusion) -> bool:
        """Print the answer. Return whether all of it could be made."""
        self.is_shown = True
        if self.attempt(self._print):
            return True
        if self.options.as_json:
            print_error(conclusion.message, ERROR, as_json=True)
        else:
            print_conclusion(conclusion, self.bisection.request.seeks, Console())
        return False

    def publish(self, conclusion: Conclusion) -> bool:
        """Print the answer and run the hook of --notify. Return whether all of it could be made and is kept."""
        shown = self.show(conclusion)
        if conclusion.outcome is BisectionOutcome.ONLY_SKIPPED:
            self.attempt(lambda: _print_skip_advice(self.rows))
        self.attempt(self.notify)
        return self.is_stored and shown

    @cached_property
    def is_stored(self) -> bool:
        """Return whether the store still has the result. Print an error once where it was removed meanwhile."""
        return self.attempt(lambda: check_not_replaced(self.sessions))

    def handle_interrupt(self) -> None:
        """Print the answer if there is one already, and how to go on if the search is not over."""
        conclusion = self.bisection.conclusion
        if conclusion is not None and not self.is_shown:
            _say("interrupted after the search: the answer is kept")
            self.write()
            self.show(conclusion)
        if conclusion is None or conclusion.outcome is BisectionOutcome.BUDGET:
            resume = resume_command(self.options, self.bisection.name)
            self.print_next_command("interrupted; to resume:", resume)
            if self.options.as_json and not self.is_shown:
                print_json_error(f"interrupted; to resume: {resume}", INTERRUPTED)

    def print_next_command(self, why: str, command: str) -> None:
        """Print a command that goes on with the bisection, if the store still has it. `why` introduces the command."""
        if self.is_stored:
            # The command has a line of its own, so that it can be copied.
            _say(why)
            Console(stderr=True).print(Text(command), soft_wrap=True)

    def notify(self) -> None:
        """Run the hook of --notify, if there is one."""
        if self.options.notify is not None:
            problem = notify(self.options.notify, self.report, self.bisection.request.output)
            if problem is not None:
                _say(problem)

    def _print(self) -> None:
        if self.options.as_json:
            with defer_interrupt():  # half a document would be none
                print(self.report.model_dump_json(indent=2))
            return
        show = print_line if self.options.quiet else print_report
        show(self.report, self.bisection.request.output, Console())

    def attempt(self, make: Callable[[], object]) -> bool:
        """Call `make`, and print its error. Return whether there was none."""
        try:
            make()
        except Exception as error:  # no error may cost the answer
            _say(f"error: {error if isinstance(error, UserError | StoreError) else repr(error)}")
            return False
        return True


def _budget_advice(options: BisectOptions, name: str, *, ran: bool) -> tuple[str, str]:
    """Return how to go on once the budget is spent, in words and as a command.

    `ran` says that a run ended within the budget. If none did, the same budget would be too small again.
    """
    if ran or options.budget is None:
        return "the budget is spent; to resume:", resume_command(options, name)
    larger = replace(options, budget=2 * options.budget)
    why = "the budget is spent, and no run came to its end; to resume with a larger one:"
    return why, resume_command(larger, name)


def _count_ended_runs(sessions: sessionmaker[Session], name: str) -> int:
    """Return how many runs of the bisection have ended so far. Reused runs are left out."""
    with sessions() as session:
        own = (BisectionRow.name == name, ProbeRow.reused_id.is_(None))
        ended = select(func.count(ProbeRow.id)).join(BisectionRow).where(*own)
        return session.scalar(ended.where(ProbeRow.state == ProbeState.FINISHED)) or 0


def _print_end_advice(rows: Rows, *, always: bool = False) -> None:
    """Print what both ends showed last, and what to check. Without `always`, only an unjudged end is a reason to."""
    if rows.probes and (always or has_unjudged_end(rows)):
        for line in end_lines(rows):
            _say(line)
        for text in refused_argument_advice(rows):
            _say(f"  - {text}")


def _print_skip_advice(rows: Rows) -> None:
    """Print how to make commits testable where a function refused an argument of the case."""
    for text in refused_argument_advice(rows):
        _say(f"note: {text}")


def resume_command(options: BisectOptions, name: str) -> str:
    """Return the command that resumes a bisection with the same options. A password in a URL becomes `***`."""
    words = ["bisect-precision"]
    if options.store and options.store != os.environ.get(STORE_VARIABLE):
        words += ["--store", make_url(options.store).render_as_string()]
    return command_line([*words, *resume_words(options, name)])


def resume_words(options: BisectOptions, name: str) -> list[str]:
    """Return the words of that command behind the program and its store. A budget has its full size again."""
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
    if options.quiet:
        words.append("--quiet")
    if options.as_json:
        words.append("--json")
    return [*words, "--resume", name]


def _print_note(text: str) -> None:
    """Print a note on standard error."""
    print_text(f"note: {text}", indent=len("note: "), err=True)


def _say(text: str, *, style: str | None = None, quiet: bool = False) -> None:
    """Print a line on standard error. On a terminal it is broken between words."""
    console = Console(stderr=True, quiet=quiet)
    indent = len(text) - len(text.lstrip(" -"))
    parts = break_line(text, console, indent=indent)
    console.print(Text("\n".join(parts)), style=style, soft_wrap=True)

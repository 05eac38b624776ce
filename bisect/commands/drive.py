"""Driving a bisection from the command line: what is shown meanwhile, what is written, and how to go on."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from rich.console import Console
from sqlalchemy import func, make_url, select
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import EndsError, UserError
from ...runner.workspace.home import Home, command_line
from ...store.database import StoreError, check_kept
from ...store.documents.document import write_document
from ...store.options import STORE_VARIABLE
from ...store.tables.bisections import BisectionRow, ProbeRow
from ...store.vocabulary import BisectionOutcome, ProbeState
from ..after.hand_over import localize_culprit
from ..after.notify import notify
from ..after.reducible import leave_builds
from ..after.renamed import told_of_refused_arguments
from ..report.ends import end_lines, is_about_an_end
from ..report.model.build import build_report
from ..report.model.rows import load_rows
from ..report.terminal import print_conclusion, print_probes, print_report
from ..report.write import write_report
from ..result import Conclusion
from ..run.session import DriveOptions, StoredBisection, UnstoredConclusionError, open_sessions
from ..run.view.live import LiveProgress
from ..run.view.plain import PlainProgress
from .command_line.bisect_options import BisectOptions
from .command_line.main_group import INTERRUPTED
from .command_line.slow_start import SlowStart
from .command_line.stores import store_url
from .errors import ERROR
from .signals import terminated_like_interrupted

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
    """Drive a bisection of the store to its end, write its report, localize its culprit; the tool's exit code.

    Raises `UserError` where it cannot go on.
    """
    sessions = open_sessions(store_url(options.store))
    bisection = open_bisection(sessions)
    start.end()
    resume = resume_command(options, bisection.name)
    ended_before = _ended_runs(sessions, bisection.name)
    ending = _Ending(sessions=sessions, bisection=bisection, options=options)
    with bisection.lock(), terminated_like_interrupted():
        try:
            conclusion = _conclude(bisection, options)
        except KeyboardInterrupt:
            ending.say_how_to_go_on("interrupted; to resume:", resume)
            return INTERRUPTED
        except EndsError as error:
            conclusion = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
            bisection.conclude(conclusion)
            ending.write()
            if options.as_json:
                ending.show(conclusion)
            _tell_of_ends(sessions, bisection.name, always=True)
            ending.attempt(ending.notify)
            ending.attempt(lambda: check_kept(sessions))
            raise
        except UnstoredConclusionError as error:
            print_conclusion(error.conclusion, bisection.request.seeks, Console())
            raise error.why from error
        except UserError:
            _tell_of_ends(sessions, bisection.name)
            ending.say_how_to_go_on("to go on after mending it:", resume)
            raise
        written = ending.write()
        ending.attempt(lambda: leave_builds(sessions, bisection.name, home))
        if conclusion.outcome is BisectionOutcome.CULPRIT and _localizes(bisection, options):
            _localize(bisection, options, sessions, home=home)
            written = ending.write()
    if conclusion.outcome is BisectionOutcome.BUDGET:
        ran = _ended_runs(sessions, bisection.name) > ended_before
        ending.say_how_to_go_on(*_after_budget(options, bisection.name, ran=ran))
    told = ending.tell(conclusion)
    return EXIT_CODES[conclusion.outcome] if written and told else ERROR


@dataclass(frozen=True, kw_only=True)
class _Ending:
    """What is left of a bisection: files and a summary, both made from the store. Whatever they meet, the other
    is made all the same, and the answer is printed."""

    sessions: sessionmaker[Session]
    bisection: StoredBisection
    options: BisectOptions

    def write(self) -> bool:
        """Write the report; whether that went well."""
        request = self.bisection.request
        return self.attempt(lambda: write_report(self.sessions, self.bisection.name, request.output))

    def show(self, conclusion: Conclusion) -> bool:
        """Print the answer; whether all of it could be made."""
        if self.attempt(self._print):
            return True
        print_conclusion(conclusion, self.bisection.request.seeks, Console())
        return False

    def tell(self, conclusion: Conclusion) -> bool:
        """Print the answer, and tell those who asked for it; whether all of it could be made, and is kept."""
        shown = self.show(conclusion)
        if conclusion.outcome is BisectionOutcome.ONLY_SKIPPED:
            self.attempt(lambda: _tell_of_skips(self.sessions, self.bisection.name))
        self.attempt(self.notify)
        return self.is_kept and shown

    @cached_property
    def is_kept(self) -> bool:
        """Whether the store has it, looked at once at the end; where it was removed meanwhile, that is printed."""
        return self.attempt(lambda: check_kept(self.sessions))

    def say_how_to_go_on(self, why: str, command: str) -> None:
        """Print the command that goes on with it, where there still is what it goes on with."""
        if self.is_kept:
            # A command stands on a line of its own, to be copied.
            _say(why)
            _say(command)

    def notify(self) -> None:
        """Tell those who asked for it."""
        if self.options.notify is not None:
            problem = notify(self.options.notify, self.sessions, self.bisection.name)
            if problem is not None:
                _say(problem)

    def _print(self) -> None:
        with self.sessions() as session:
            report = build_report(session, self.bisection.name)
        if self.options.as_json:
            print(report.model_dump_json(indent=2))
            return
        console = Console()
        print_report(report, self.bisection.request.output, console)
        if self.options.verbose:
            print_probes(report, console)

    def attempt(self, make: Callable[[], object]) -> bool:
        """Make something; whether that went well, and why not is printed."""
        try:
            make()
        except Exception as error:  # whatever it is, it must not cost the answer
            _say(f"error: {error if isinstance(error, UserError | StoreError) else repr(error)}")
            return False
        return True


def _after_budget(options: BisectOptions, name: str, *, ran: bool) -> tuple[str, str]:
    """How to go on, in words and as a command. `ran`: a run came to its end within the budget."""
    if ran or options.budget is None:
        return "the budget is spent; to resume:", resume_command(options, name)
    # The same budget would be spent in vain again.
    more = replace(options, budget=2 * options.budget)
    why = "the budget is spent, and no run came to its end; to resume with a larger one:"
    return why, resume_command(more, name)


def _ended_runs(sessions: sessionmaker[Session], name: str) -> int:
    """How many runs of a bisection came to their ends so far."""
    with sessions() as session:
        ended = select(func.count(ProbeRow.id)).join(BisectionRow).where(BisectionRow.name == name)
        return session.scalar(ended.where(ProbeRow.state == ProbeState.FINISHED)) or 0


def _tell_of_ends(sessions: sessionmaker[Session], name: str, *, always: bool = False) -> None:
    """Print what both ends showed last, and what to check; else than `always`, only where one could not be judged."""
    with sessions() as session:
        rows = load_rows(session, name)
        if rows.probes and (always or is_about_an_end(rows)):
            for line in end_lines(rows):
                _say(line)
            for text in told_of_refused_arguments(rows):
                _say(f"  - {text}")


def _tell_of_skips(sessions: sessionmaker[Session], name: str) -> None:
    """Print what makes commits testable at which the case was refused an argument."""
    with sessions() as session:
        for text in told_of_refused_arguments(load_rows(session, name)):
            _say(f"note: {text}")


def resume_command(options: BisectOptions, name: str) -> str:
    """The command that goes on with the bisection `name` as it was begun; a password in the store's URL is `***`."""
    words = ["bisect-precision"]
    if options.store and options.store != os.environ.get(STORE_VARIABLE):
        words += ["--store", make_url(options.store).render_as_string()]
    return command_line([*words, *resume_words(options, name)])


def resume_words(options: BisectOptions, name: str) -> list[str]:
    """What stands behind the program and its store, to go on with the bisection `name` as it was begun: with a budget
    of the same size, where it had one."""
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
    if options.budget_runs is not None:
        words += ["--budget-runs", str(options.budget_runs)]
    return [*words, "--resume", name]


def _conclude(bisection: StoredBisection, options: BisectOptions) -> Conclusion:
    drive_options = DriveOptions(
        jobs=options.jobs,
        backend=options.backend,
        build_store=options.build_store,
        deadline=options.deadline,
        budget_runs=options.budget_runs,
    )
    err = Console(stderr=True, quiet=options.quiet)
    live = err.is_terminal and not options.quiet and not bisection.request.interactive
    builds = bool(bisection.request.stack.steps)
    with LiveProgress(err, builds=builds) if live else PlainProgress(err, builds=builds) as progress:
        return bisection.drive(progress, drive_options)


def _localizes(bisection: StoredBisection, options: BisectOptions) -> bool:
    """Whether a culprit is to be localized. A command of the user's own leaves no tensors."""
    return not options.no_localize and bisection.request.bad_when is not None


def _localize(
    bisection: StoredBisection,
    options: BisectOptions,
    sessions: sessionmaker[Session],
    *,
    home: Home,
) -> None:
    """Localize in what is left of the budget, and note what came of it."""
    localization = localize_culprit(
        sessions,
        bisection.name,
        home=home,
        reduce=options.reduce,
        seconds=options.seconds_left,
        say=lambda text: _say(text, style="dim", quiet=options.quiet),
    )
    bisection.journal.note_localization(write_document(localization))


def _say(text: str, *, style: str | None = None, quiet: bool = False) -> None:
    console = Console(stderr=True, quiet=quiet)
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

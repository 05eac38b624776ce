"""`bisect-precision` itself: from its options to a bisection that is driven, or to a plan that is printed."""

import os
import re
import shlex
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from ...runner.case.case import with_predecessors
from ...runner.errors import UsageError
from ...runner.git.repository import GitRepository
from ...runner.probe.builds.build_store import check_build_store
from ...runner.probe.workers.backends import check_backend
from ...runner.process.alarm import OutOfTimeInterrupt, interrupted_after
from ...runner.stack.overrides import read_overrides, read_variables
from ...runner.stack.parts import Environment
from ...runner.stack.stack import Stack
from ...runner.workspace.home import Home, user_home
from ...runner.workspace.inherited import changed_since, reaching_cases
from ...store.database import check_store, store_folder
from ...store.tables.bisections import LONGEST_NAME
from ...store.vocabulary import BisectionOutcome, Seeks
from ..after.notify import check_notify_command
from ..plan.ends.replay import BisectLog
from ..plan.pins import choose_pins
from ..plan.predicate import NOTHING_TO_RUN, Predicate
from ..plan.prepare import prepare
from ..plan.question import Question
from ..plan.stack import chosen_stack, repository_stack
from ..report.folder import check_place, check_room, report_folder
from ..run.person import check_person
from ..run.session import StoredBisection
from .command_line.bisect_options import BisectOptions
from .command_line.main_group import NOTHING_BEGUN
from .command_line.named_ends import named_ends
from .command_line.slow_start import SlowStart
from .command_line.stores import store_url
from .drive import EXIT_CODES, drive
from .errors import run_command
from .plan_text import plan_json, plan_lines

_DEFAULT_BAD_WHEN = "mismatch"
_OPENING = "opening the store of results"
_SPENT_BEFORE_BEGINNING = (
    "the budget was spent while the question was checked, before the first run: nothing was run or kept; ask again "
    "with a larger --budget"
)


def bisect(options: BisectOptions, start: SlowStart) -> int:
    """Begin a bisection or go on with one, and print its result; the tool's exit code."""
    return run_command(lambda: _bisect(options, start))


def _bisect(options: BisectOptions, start: SlowStart) -> int:
    home = user_home()
    check_backend(options.backend)
    if options.build_store is not None:
        check_build_store(options.build_store)
    check_ending(options)
    if options.resume is not None:
        _check_resume(options)
        start.step(_OPENING)
        with ExitStack() as held:
            return drive(lambda sessions: _found(options, sessions, home, held), options, home, start)
    if options.interactive:
        check_person(jobs=options.jobs, backend=options.backend)
    try:
        with _within_budget(options):
            plan = prepare(question_of(options), home, step=start.step)
    except OutOfTimeInterrupt:
        print(_SPENT_BEFORE_BEGINNING, file=sys.stderr)
        return EXIT_CODES[BisectionOutcome.BUDGET]
    except KeyboardInterrupt:
        print(NOTHING_BEGUN, file=sys.stderr)
        raise
    if options.dry_run:
        check_place(plan.request.output)
        check_store(store_url(options.store))
        check_room(plan.request.output, mend="name another folder with -o")
        _check_room(home, options)
        print(plan_json(plan) if options.as_json else "\n".join(plan_lines(plan)))
        return 0
    for notice in () if options.quiet else plan.notices:
        print(f"note: {notice}", file=sys.stderr)
    with _places(plan.request.output, home, options):
        start.step(_OPENING)
        return drive(
            lambda sessions: StoredBisection.begin(plan, sessions=sessions, home=home), options, home, start
        )


@contextmanager
def _within_budget(options: BisectOptions) -> Generator[None]:
    """Raises `OutOfTimeInterrupt` where the budget ends before the first run; what was started is ended."""
    try:
        with interrupted_after(options.seconds_left):
            yield
    except OutOfTimeInterrupt:
        import psutil  # other commands start sooner without it

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.terminate()
        raise


def check_ending(options: BisectOptions) -> None:
    """Raises `UsageError` where what is to be done at the end of a bisection cannot be."""
    if options.notify is not None:
        check_notify_command(options.notify)
    if options.no_localize and options.reduce:
        raise UsageError("expected --no-localize or --reduce, found both: a reduction begins with localizing")


def _check_resume(options: BisectOptions) -> None:
    """Raises `UsageError` where something is asked beside `--resume`, which goes on with what was asked."""
    asked = {
        "--good": options.good or None,
        "--bad": options.bad,
        "--repo": options.repo,
        "--case": options.case,
        "--after": options.after or None,
        "--overlay": options.overlay or None,
        "--adapt": options.adapt or None,
        "--bad-when": options.bad_when,
        "--golden-data": options.golden_data,
        "--runtime-dir": options.runtime_dir,
        "--end-runs": options.end_runs,
        "--name": options.name,
        "--dry-run": options.dry_run or None,
        "a command behind --": options.predicate,
    }
    given = [name for name, value in asked.items() if value is not None]
    if given:
        raise UsageError(
            f"--resume: expected no question beside it, found {', '.join(given)}: it was asked before"
        )


def _found(
    options: BisectOptions, sessions: sessionmaker[Session], home: Home, held: ExitStack
) -> StoredBisection:
    """The bisection to go on with: of the name that is given, else the newest of this checkout.

    `held` holds its places.
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
        pass  # another driver is told as such, and not as one that writes to the report's folder
    held.enter_context(_places(request.output, home, options))
    if request.inherited is not None:
        changes = list(changed_since(request.inherited, reaching_cases(request.stack)))
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
        return False  # what is gone is told when it is run


@contextmanager
def _places(output: Path, home: Home, options: BisectOptions) -> Generator[None]:
    """Where its result can be kept, looked at before anything is run. Raises `UserError`."""
    with report_folder(output):
        _check_room(home, options)
        yield


def _check_room(home: Home, options: BisectOptions) -> None:
    """Raises `UserError` where a disk that its result goes to beside its report has no room; nothing is made."""
    check_room(home.state, mend="set PRECISION_BISECT_HOME to a folder with room")
    if (folder := store_folder(store_url(options.store))) is not None:
        check_room(folder, mend="name another one with --store")


def question_of(options: BisectOptions) -> Question:
    """What the options ask, of the stack that they name or that the current folder belongs to.

    Raises `UsageError` where options contradict each other, or one that is needed is missing.
    """
    _check_after(options)
    if options.name is not None:
        check_name(options.name)
    if options.interactive:
        options = _left_to_person(options)
    log = None if options.replay is None else BisectLog.read(options.replay)
    ends = named_ends(options, log)
    stack = choose_pins(_stack(options), freeze=options.freeze, search=options.search)
    repository = _searched(options, stack)
    command = None if options.predicate is None else _predicate(options, stack, repository)
    if command is not None:
        stack = command.in_place_of_case(stack, repository)
    elif options.case is None and options.runtime_dir is None:
        raise UsageError(
            f"expected a case, found none: name a script of {stack.case.repository} with --case, or a build "
            "directory with --runtime-dir"
        )
    return Question(
        stack=with_predecessors(stack.with_case_variables(read_variables(options.env)), options.after),
        repository=repository,
        good=ends.good,
        bad=ends.bad,
        command=command,
        also_old=ends.also_old,
        case=options.case,
        platform=options.platform,
        device=options.device,
        bad_when=None if command or options.interactive else options.bad_when or _DEFAULT_BAD_WHEN,
        golden_data=options.golden_data,
        runtime_dir=options.runtime_dir,
        first_parent=options.first_parent or (log is not None and log.first_parent),
        timeout=options.timeout,
        confidence=options.confidence,
        end_runs=options.end_runs,
        output=options.output,
        name=options.name,
        gallop=options.gallop or "commits",
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
    """Raises `UsageError` where no script of a stack's case runs, behind which the cases of `--after` could."""
    beside = {"a command behind --": options.predicate, "--runtime-dir": options.runtime_dir}
    found = next((name for name, given in beside.items() if given is not None), None)
    if options.after and (found is not None or options.case is None):
        raise UsageError(
            f"--after {options.after[0]}: expected a script with --case alone, which is run in its process after it, "
            f"found {found or 'no --case'}; leave --after out, or name the script"
        )


def check_name(name: str) -> None:
    """Raises `UsageError` where a bisection cannot be called so, for folders and files are too."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}", name):
        raise UsageError(
            f"--name {shlex.quote(name)}: expected at most {LONGEST_NAME} letters, digits, - and _, with a letter or "
            "digit first"
        )


def _left_to_person(options: BisectOptions) -> BisectOptions:
    """The options of a case that a person judges; without one, there is nothing to run but what they choose."""
    if options.bad_when is not None:
        raise UsageError(
            f"--bad-when {options.bad_when}: expected none with --interactive, where a person says it"
        )
    if options.predicate is None and options.case is None and options.runtime_dir is None:
        return replace(options, predicate=NOTHING_TO_RUN)
    return options


def _stack(options: BisectOptions) -> Stack:
    """The stack that was named, else what the current folder says."""
    overrides = read_overrides(options.repository)
    stack = chosen_stack(options.stack, overrides, by_checkout=options.predicate is None)
    if stack is not None:
        return stack
    if options.predicate is not None:
        return repository_stack(overrides)
    raise UsageError(
        "expected a stack, found no stack.toml here and no checkout of a known one: name one with --stack, or a "
        "command behind -- that judges each commit by its exit code"
    )


def _searched(options: BisectOptions, stack: Stack) -> str:
    """The repository whose commits the ends name."""
    name = options.repo or stack.searched
    if name not in stack.repositories:
        raise UsageError(f"--repo {name}: expected one of {', '.join(sorted(stack.repositories))}")
    return name


def _predicate(options: BisectOptions, stack: Stack, repository: str) -> Predicate:
    """The command behind `--`, as a worktree of the repository can run it."""
    if not options.predicate or not options.predicate[0]:
        raise UsageError("expected a command behind --, found nothing")
    if options.bad_when is not None:
        raise UsageError(
            f"--bad-when {options.bad_when}: expected none beside a command behind --, whose exit code says it: "
            "0 good, 1-124 bad, 125 skip; to go by what it prints: -- sh -c '! CMD 2>&1 | grep -q PATTERN'"
        )
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
    predicate = Predicate.typed(options.predicate, here=Path.cwd(), checkout=checkout.path)
    # Beside the asker's own program there are those of another PATH, of a stack's environment, and of other machines.
    is_here = options.backend == "loky" and not stack.steps and stack.environment == Environment()
    of_shell = is_here and not any(text.startswith("PATH=") for text in options.env)
    predicate.check_runnable(search_path=os.environ.get("PATH") if of_shell else None)
    return predicate

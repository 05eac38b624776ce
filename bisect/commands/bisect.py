"""`bisect-precision` itself: from its options to a bisection that is driven, or to a plan that is printed."""

import sys
from pathlib import Path

from ...runner.errors import UsageError
from ...runner.git.repository import GitRepository
from ...runner.probe.workers.backends import check_backend
from ...runner.stack.file import load_stack, stack_of_checkout
from ...runner.stack.overrides import read_overrides
from ...runner.stack.stack import Stack
from ...runner.workspace.home import user_home
from ...store.vocabulary import Seeks
from ..plan.pins import choose_pins
from ..plan.prepare import prepare
from ..plan.question import Question
from ..plan.request import predicate_stack, with_predicate
from ..run.session import StoredBisection
from .bisect_options import BisectOptions
from .drive import drive
from .errors import run_command
from .plan_text import plan_lines

_DEFAULT_BAD_WHEN = "mismatch"


def bisect(options: BisectOptions) -> int:
    """Begin a bisection or go on with one, and print its result; the tool's exit code."""
    return run_command(lambda: _bisect(options))


def _bisect(options: BisectOptions) -> int:
    home = user_home()
    check_backend(options.backend)
    if options.no_localize and options.reduce:
        raise UsageError("expected --no-localize or --reduce, found both: a reduction begins with localizing")
    if options.resume is not None:
        name = options.resume or None
        return drive(lambda sessions: StoredBisection.find(name, sessions=sessions, home=home), options, home)
    plan = prepare(question_of(options), home)
    if options.dry_run:
        for line in plan_lines(plan):
            print(line)
        return 0
    for notice in plan.notices:
        print(f"note: {notice}", file=sys.stderr)
    return drive(lambda sessions: StoredBisection.begin(plan, sessions=sessions, home=home), options, home)


def question_of(options: BisectOptions) -> Question:
    """What the options ask, of the stack that they name or that the current folder belongs to.

    Raises `UsageError` where options contradict each other, or one that is needed is missing.
    """
    bad = _checked_bad_end(options)
    stack = choose_pins(_stack(options), freeze=options.freeze, search=options.search)
    repository = options.repo or stack.searched
    is_predicate = options.predicate is not None
    if options.predicate is not None:
        stack = with_predicate(stack, repository, _checked_predicate(options, stack, repository))
    elif options.case is None and options.runtime_dir is None:
        raise UsageError(
            f"expected a case, found none: name a script of {stack.case.repository} with --case, or a build "
            "directory with --runtime-dir"
        )
    return Question(
        stack=stack,
        repository=repository,
        good=options.good,
        bad=bad,
        case=options.case,
        platform=options.platform,
        device=options.device,
        bad_when=None if is_predicate else options.bad_when or _DEFAULT_BAD_WHEN,
        golden_data=options.golden_data,
        runtime_dir=options.runtime_dir,
        first_parent=options.first_parent,
        timeout=options.timeout,
        confidence=options.confidence,
        output=options.output,
        gallop=options.gallop or "commits",
        cherry_picks=options.cherry_pick,
        seeks=Seeks.FIX if options.find_fix else Seeks.REGRESSION,
    )


def _checked_bad_end(options: BisectOptions) -> str:
    """The bad end, of ends that can be asked about together."""
    if options.bad is None:
        raise UsageError("expected a bad end, found no --bad: name a commit where the case fails")
    if options.good is None and options.find_fix:
        raise UsageError(
            "--find-fix: expected both ends, found no --good: name a later commit where the case passes"
        )
    if options.good is not None and options.gallop is not None:
        raise UsageError(
            f"--gallop {options.gallop}: expected no --good, which it looks for; found --good {options.good}"
        )
    return options.bad


def _stack(options: BisectOptions) -> Stack:
    """The stack that was named, else what the current folder says."""
    overrides = read_overrides(options.repository)
    if options.stack is not None:
        return load_stack(options.stack, overrides=overrides)
    if Path("stack.toml").is_file():
        return load_stack("stack.toml", overrides=overrides)
    if options.predicate is not None:
        here = GitRepository.open(Path.cwd(), name="repository")
        return predicate_stack(Path(here.run("rev-parse", "--show-toplevel")))
    marked = stack_of_checkout(Path.cwd())
    if marked is None:
        raise UsageError(
            "expected a stack, found no stack.toml here and no checkout of a known one: name one with --stack"
        )
    return load_stack(marked, overrides=overrides)


def _checked_predicate(options: BisectOptions, stack: Stack, repository: str) -> tuple[str, ...]:
    """The words behind `--`, as a slot can run them."""
    if not options.predicate:
        raise UsageError("expected a command behind --, found nothing")
    of_a_case = (options.case, options.bad_when, options.golden_data, options.runtime_dir)
    if any(given is not None for given in of_a_case):
        raise UsageError("expected either --case or a command behind --, found both")
    return _locate(options.predicate, stack, repository)


def _locate(command: tuple[str, ...], stack: Stack, repository: str) -> tuple[str, ...]:
    """A script that git does not track is the user's own: slots do not have it, so it is named by its full path."""
    program = Path(command[0])
    checkout = GitRepository(stack.repositories[repository].path)
    if "/" not in command[0] or not program.is_file():
        return command
    tracked = checkout.run("ls-files", "--", str(program.absolute()))
    return command if tracked else (str(program.absolute()), *command[1:])

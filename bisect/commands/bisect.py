"""The main job behind the command line: ask, drive, report."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rich.console import Console
from sqlalchemy import make_url
from sqlalchemy.orm import Session as DatabaseSession
from sqlalchemy.orm import sessionmaker

from ...runner.errors import EndsError, UsageError, UserError
from ...runner.git.repository import GitRepository
from ...runner.probe.workers.backends import Backend, check_backend
from ...runner.stack.file import load_stack, stack_of_checkout
from ...runner.stack.stack import Stack
from ...runner.workspace.home import Home, user_home
from ...store.database import sqlite_url
from ...store.vocabulary import BisectionOutcome, Seeks
from ..after.hand_over import localize_culprit
from ..plan.pins import choose_pins
from ..plan.question import Plan, Question, prepare
from ..plan.request import predicate_stack, with_predicate
from ..report.terminal import print_summary
from ..report.write import write_report
from ..result import Conclusion
from ..run.progress import LiveProgress, PlainProgress, describe_stage
from ..run.session import CrewOptions, StoredBisection, open_sessions
from .errors import INTERRUPTED, run_command

EXIT_CODES = {
    BisectionOutcome.CULPRIT: 0,
    BisectionOutcome.ERROR: 1,
    BisectionOutcome.ONLY_SKIPPED: 3,
    BisectionOutcome.ENDS_DO_NOT_DIFFER: 4,
    BisectionOutcome.NO_CULPRIT: 5,
    BisectionOutcome.SUSPECT: 6,
    BisectionOutcome.BUDGET: 6,
}
STORE_VARIABLE = "PRECISION_BISECT_STORE"
_DEFAULT_BAD_WHEN = "mismatch"


def run_main_job(
    *,
    predicate: tuple[str, ...] | None,
    good: str | None,
    bad: str | None,
    stack: str | None,
    overrides: tuple[str, ...],
    repo: str | None,
    freeze: tuple[str, ...],
    search: tuple[str, ...],
    case: str | None,
    platform: str | None,
    device: int,
    bad_when: str | None,
    golden_data: Path | None,
    runtime_dir: Path | None,
    first_parent: bool,
    timeout: float | None,
    confidence: float,
    output: Path | None,
    store: str | None,
    resume: str | None,
    no_localize: bool,
    reduce: bool,
    dry_run: bool,
    jobs: int,
    backend: Backend,
    budget: float | None,
    gallop: Literal["commits", "days"] | None,
    find_fix: bool,
    cherry_pick: tuple[str, ...],
) -> int:
    """Start or go on with a bisection; the tool's exit code."""

    def body() -> int:
        home = user_home()
        check_backend(backend)
        crew = CrewOptions(jobs=jobs, backend=backend, budget=budget)
        if no_localize and reduce:
            raise UsageError(
                "expected --no-localize or --reduce, found both: a reduction begins with localizing"
            )
        if resume is not None:
            return _drive(
                lambda sessions: StoredBisection.find(resume or None, sessions=sessions, home=home),
                store=store,
                home=home,
                crew=crew,
                localize=not no_localize,
                reduce=reduce,
            )
        if bad is None:
            raise UsageError("expected a bad end, found no --bad: name a commit where the case fails")
        if good is None and find_fix:
            raise UsageError(
                "--find-fix: expected both ends, found no --good: name a later commit where the case passes"
            )
        if good is not None and gallop is not None:
            raise UsageError(
                f"--gallop {gallop}: expected no --good, which it looks for; found --good {good}"
            )
        chosen = _stack(stack, parse_overrides(overrides), predicate=predicate is not None)
        chosen = choose_pins(chosen, freeze=freeze, search=search)
        repository = repo or chosen.searched
        if predicate is not None:
            if not predicate:
                raise UsageError("expected a command behind --, found nothing")
            if any(given is not None for given in (case, bad_when, golden_data, runtime_dir)):
                raise UsageError("expected either --case or a command behind --, found both")
            chosen = with_predicate(chosen, repository, _locate(predicate, chosen, repository))
        elif case is None and runtime_dir is None:
            raise UsageError(
                f"expected a case, found none: name a script of {chosen.case.repository} with --case, or a build "
                "directory with --runtime-dir"
            )
        plan = prepare(
            Question(
                stack=chosen,
                repository=repository,
                good=good,
                bad=bad,
                case=case,
                platform=platform,
                device=device,
                bad_when=None if predicate is not None else bad_when or _DEFAULT_BAD_WHEN,
                golden_data=golden_data,
                runtime_dir=runtime_dir,
                first_parent=first_parent,
                timeout=timeout,
                confidence=confidence,
                output=output,
                gallop=gallop or "commits",
                cherry_picks=cherry_pick,
                seeks=Seeks.FIX if find_fix else Seeks.REGRESSION,
            ),
            home,
        )
        if dry_run:
            _print_plan(plan)
            return 0
        for notice in plan.notices:
            print(f"note: {notice}", file=sys.stderr)
        return _drive(
            lambda sessions: StoredBisection.begin(plan, sessions=sessions, home=home),
            store=store,
            home=home,
            crew=crew,
            localize=not no_localize,
            reduce=reduce,
        )

    return run_command(body)


def parse_overrides(overrides: tuple[str, ...]) -> dict[str, Path]:
    """Read `NAME=PATH` options. Paths count from the current folder. Raises `UsageError`."""
    parsed: dict[str, Path] = {}
    for text in overrides:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--repository {text}: expected NAME=PATH")
        parsed[name] = Path(path).absolute()
    return parsed


def _stack(name: str | None, overrides: dict[str, Path], *, predicate: bool) -> Stack:
    """The stack that was named, else what the current folder says."""
    if name is not None:
        return load_stack(name, overrides=overrides)
    if Path("stack.toml").is_file():
        return load_stack("stack.toml", overrides=overrides)
    if predicate:
        here = GitRepository.open(Path.cwd(), name="repository")
        return predicate_stack(Path(here.run("rev-parse", "--show-toplevel")))
    marked = stack_of_checkout(Path.cwd())
    if marked is None:
        raise UsageError(
            "expected a stack, found no stack.toml here and no checkout of a known one: name one with --stack"
        )
    return load_stack(marked, overrides=overrides)


def _locate(command: tuple[str, ...], stack: Stack, repository: str) -> tuple[str, ...]:
    """A script that git does not track is the user's own: the slots do not have it, so it is named by its full path."""
    program = Path(command[0])
    checkout = GitRepository(stack.repositories[repository].path)
    if "/" not in command[0] or not program.is_file():
        return command
    tracked = checkout.run("ls-files", "--", str(program.absolute()))
    return command if tracked else (str(program.absolute()), *command[1:])


def _drive(
    open_bisection: Callable[[sessionmaker[DatabaseSession]], StoredBisection],
    *,
    store: str | None,
    home: Home,
    crew: CrewOptions,
    localize: bool,
    reduce: bool,
) -> int:
    url = store or sqlite_url(home.store)
    sessions = open_sessions(url)
    bisection = open_bisection(sessions)
    request = bisection.request
    resume = shlex.join(
        [
            "bisect-precision",
            # A password is not printed: `***` stands for it.
            *(
                ["--store", make_url(store).render_as_string()]
                if store and store != os.environ.get(STORE_VARIABLE)
                else []
            ),
            *(["--jobs", str(crew.jobs)] if crew.jobs > 1 else []),
            *(["--backend", crew.backend] if crew.backend != "loky" else []),
            *([] if localize else ["--no-localize"]),
            *(["--reduce"] if reduce else []),
            *("--resume", bisection.name),
        ]
    )
    err = Console(stderr=True)
    begun = time.monotonic()
    with bisection.lock(), terminated_like_interrupted():
        try:
            with LiveProgress(err) if err.is_terminal else PlainProgress(err) as progress:
                conclusion = bisection.drive(progress, crew)
        except KeyboardInterrupt:
            err.print(f"interrupted; to resume: {resume}", markup=False, highlight=False, soft_wrap=True)
            return INTERRUPTED
        except EndsError as error:
            conclusion = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
            bisection.journal.conclude(conclusion.outcome, conclusion.model_dump(mode="json"))
            write_report(sessions, bisection.name, request.output)
            raise
        except UserError:
            err.print(f"to go on after mending it: {resume}", markup=False, highlight=False, soft_wrap=True)
            raise
        write_report(sessions, bisection.name, request.output)
        if localize and conclusion.outcome is BisectionOutcome.CULPRIT:
            left = None if crew.budget is None else crew.budget - (time.monotonic() - begun)
            found = localize_culprit(
                sessions,
                bisection.name,
                home=home,
                reduce=reduce,
                seconds=left,
                say=lambda text: err.print(text, style="dim", markup=False, highlight=False, soft_wrap=True),
            )
            bisection.journal.note_localization(found.model_dump(mode="json"))
            write_report(sessions, bisection.name, request.output)
    if conclusion.outcome is BisectionOutcome.BUDGET:
        err.print(f"the budget is spent; to resume: {resume}", markup=False, highlight=False, soft_wrap=True)
    print_summary(sessions, bisection.name, request.output, Console())
    return EXIT_CODES[conclusion.outcome]


@contextmanager
def terminated_like_interrupted() -> Generator[None]:
    """A polite kill, or the terminal going away, stops like Ctrl-C: nothing recorded, nothing left running."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_plan(plan: Plan) -> None:
    request, stage = plan.request, plan.stage
    print(f"stack:     {request.stack.name}")
    print(f"case:      {request.case_text or shlex.join(request.stack.case.command)}")
    print(f"platform:  {request.platform}, device {request.device}")
    old, new = ("", request.bad) if stage is None else (stage.range.old, stage.range.new)
    print(f"range:     {request.repository} {old[:12]}..{new[:12]}")
    if stage is None:
        print(f"           the good end is looked for 1, 2, 4, ... {request.gallop} before the bad one")
        probes = "to find the good end, then as many as its range takes"
    else:
        candidates = len(stage.collapsed.nodes)
        said = describe_stage(request.repository, commits=len(stage.commits), candidates=candidates)
        print(f"           {said}")
        steps = max(0, (candidates - 1).bit_length())
        probes = f"the ends, then about {steps} to find one commit, and 2 to confirm it"
    for name, pin in request.stack.pins.items():
        value = request.frozen.get(request.stack.held_name(name))
        frozen = f"frozen at {value}" if value is not None else "frozen, but says nothing at the bad end"
        print(f"pin:       {name} {'searched' if pin.search else frozen}")
    print(f"bad when:  {request.bad_when or 'the command exits with 1-127, except 125'}")
    print(
        f"golden:    {request.golden_data or ('captured at the good end' if request.captures_golden else 'none')}"
    )
    print(f"probes:    {probes}")
    print(f"report to: {request.output}")
    for notice in plan.notices:
        print(f"note: {notice}")

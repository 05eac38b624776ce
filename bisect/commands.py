"""The smaller commands of `bisect-precision`, one function each.

`trust` lets a stack or settings file of a checkout decide what runs. `history` and `report` show what the store
remembers. `doctor` says what this machine lacks of what a stack needs. `adapt` prints what a commit renames, as the
file that `--adapt` takes. `demo` makes a demo stack; nothing else outside of `demo/` knows that this folder exists.
`plan_lines` and `plan_json` give what `--dry-run` prints.
"""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ..demo.make import Truth, make_demo
from ..demo.scenarios import Scenario
from ..runner.case.case import CaseName
from ..runner.case.preflight import may_install
from ..runner.errors import UsageError, UserError
from ..runner.git import GitRepository
from ..runner.overlays import read_effective_text
from ..runner.pins import Revisions, fixed_revisions
from ..runner.releases import add_releases
from ..runner.renames import DoubtfulRename, ProposedRename, format_toml, proposed_renames
from ..runner.settings import read_overrides, read_settings, settings_file, trust_file
from ..runner.stack import Stack
from ..runner.workspace.environment import MachineFinding, examine_machine
from ..runner.workspace.home import command_line, locate_program, user_home
from ..runner.workspace.slot import Workspace
from ..store.database import migrate_and_read, store_exists
from ..store.tables import BisectionRow, CommitRow
from ..store.vocabulary import Seeks, plural
from .ask.ends import Plan
from .ask.predicate import BAD_EXIT_CODES
from .ask.question import (
    DEFAULT_STACK_FILE,
    BisectRequest,
    case_text,
    describe_missing_imports,
    pin_display_value,
    repository_stack,
    select_stack,
    suggest_file,
)
from .drive.driven import question_of
from .drive.hand_over import record_builds
from .drive.progress import (
    Estimate,
    describe_estimate,
    describe_stage,
    describe_waits,
    estimate_rest,
    initial_bisection,
)
from .engine.bisection import Bisection
from .exit_codes import ERROR, run_command, store_url
from .options import DemoOptions
from .pages.views import BisectionSummary, list_bisections, outcome_text
from .report import write
from .report.basis import load_rows
from .report.markdown import issue_text
from .report.phrases import shorten
from .report.report_builder import report_of_rows
from .report.terminal import print_probes, print_report
from .report.write import check_place

_MAX_DOUBTS = 20
"""A proposal lists at most this many doubtful names, so that the answer is not lost among them."""


def propose_renames(
    revision: str, *, repository: str | None, stack: str | None, repositories: tuple[str, ...]
) -> int:
    """Print the renames of a commit as TOML, and the doubtful ones as comments. Return 1 where no rename is usable."""

    def body() -> int:
        overrides = read_overrides(repositories)
        chosen = select_stack(stack, overrides) or repository_stack(overrides)
        name = repository or chosen.searched
        if name not in chosen.repositories:
            raise UsageError(f"--repo {name}: expected one of {', '.join(sorted(chosen.repositories))}")
        checkout = GitRepository.open(chosen.repositories[name].path, name=name)
        sha = checkout.resolve(revision, option="adapt")
        proposed, doubtful = proposed_renames(checkout, name, sha)
        about = f"{sha[:12]} of {name} ({checkout.commit(sha).subject})"
        if not proposed:
            print(
                f"note: expected a name that {about} changes wherever Python uses it, found none",
                file=sys.stderr,
            )
        print("\n".join(_lines(about, proposed, doubtful)))
        return 0 if proposed else ERROR

    return run_command(body)


def _lines(about: str, proposed: list[ProposedRename], doubtful: list[DoubtfulRename]) -> Iterator[str]:
    yield f"# Renamed by {about}. Leave out what does not concern the case."
    for each in proposed:
        yield f"\n# {plural(each.places, 'place')} of its diff, the first at {each.first}"
        yield format_toml(each.rename)
    if doubtful:
        yield "\n# Not proposed:"
    for doubt in doubtful[:_MAX_DOUBTS]:
        yield f"# - {doubt.told}: {doubt.why}"
    if len(doubtful) > _MAX_DOUBTS:
        yield f"# - and {len(doubtful) - _MAX_DOUBTS} more, with fewer places"


def make_demo_stack(options: DemoOptions) -> int:
    """Make a demo stack and print how to bisect it. Return the exit code."""

    def body() -> int:
        directory, scenario = options.directory, options.scenario
        if scenario not in list(Scenario):
            raise UsageError(f"--scenario {scenario}: expected one of {', '.join(Scenario)}")
        check_place(directory, what="the stack", mend="name another folder")
        try:
            truth = make_demo(
                directory, scenario=Scenario(scenario), commits=options.commits, seed=options.seed
            )
        except ValueError as error:
            raise UsageError(f"demo {directory}: {error}") from error
        words = _bisect_words(directory, truth)
        script = directory / "find.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(locate_program(words))} "$@"\n')
        script.chmod(0o755)
        if options.as_json:
            print(json.dumps({"directory": str(directory.absolute()), "command": words}))
            return 0
        print(
            f"made {directory}: minipto, minirt, minilib, stack.toml; the truth is in truth.json. To find it:"
        )
        print(f"  {command_line(words)}")
        return 0

    return run_command(body)


def _bisect_words(directory: Path, truth: Truth) -> list[str]:
    words = ["bisect-precision", "--stack", str(directory.absolute() / "stack.toml"), "--case", truth.case]
    words += ["--good", truth.good[:12], "--bad", truth.bad[:12]]
    if truth.bad_when != "mismatch":
        words += ["--bad-when", truth.bad_when]
    return words


_STYLES = {"ok": "green", "missing": "red", "warning": "yellow"}


def examine(
    stack: str | None,
    *,
    repositories: tuple[str, ...],
    case: str | None = None,
    revisions: tuple[str, ...] = (),
    quiet: bool = False,
    as_json: bool = False,
) -> int:
    """Print what this machine has of what a stack needs, and what it lacks.

    Without a stack, the checkout around the current folder is examined. With `case`, so are its imports at `revisions`,
    or at HEAD. `quiet` prints only what is missing or doubtful. Return 1 where something required is missing.
    """

    def body() -> int:
        if revisions and case is None:
            raise UsageError(f"--at {revisions[0]}: expected a --case to look for at that commit, found none")
        overrides = read_overrides(repositories)
        chosen = select_stack(stack, overrides) or repository_stack(overrides)
        findings = list(examine_machine(chosen, user_home()))
        if case is not None and not any(finding.state == "missing" for finding in findings):
            findings += [_examine_case(chosen, case, revision) for revision in revisions or ("HEAD",)]
        if as_json:
            print(TypeAdapter(list[MachineFinding]).dump_json(findings, indent=2).decode())
        else:
            _print([each for each in findings if each.state != "ok" or not quiet])
        return 1 if any(finding.state == "missing" for finding in findings) else 0

    return run_command(body)


def _examine_case(stack: Stack, case: str, revision: str) -> MachineFinding:
    """Check that a case exists at a commit, and that the slots' interpreter has what it imports."""
    home = user_home()
    stack = add_releases(stack, home.releases)
    workspace = Workspace(stack, home)
    searched = stack.searched
    sha = workspace.repositories[searched].resolve(revision, option="--at")
    fixed = fixed_revisions(stack, workspace.repositories, searched=searched)
    complete = Revisions(stack, workspace.clones, fixed).complete({searched: sha})
    script, subject = CaseName.parse(case, stack), f"case at {sha[:12]}"
    name = stack.case.repository
    overlays = stack.repositories[name].overlays
    if (
        not script.path.is_absolute()
        and read_effective_text(workspace.clones[name], overlays, complete[name], str(script.path)) is None
    ):
        alike = suggest_file(workspace.clones[name], complete[name], script.path)
        hint = f"expected a file of {name} at {complete[name][:12]}, found none{alike}"
        return MachineFinding(state="missing", subject=subject, found=case, hint=hint)
    lack = describe_missing_imports(stack, workspace, script, complete)
    if lack is None:
        return MachineFinding(state="ok", subject=subject, found=case)
    state = "warning" if may_install(stack) else "missing"
    return MachineFinding(state=state, subject=subject, found=case, hint=lack)


def _print(findings: Sequence[MachineFinding]) -> None:
    """Print the findings: in columns on a terminal, and in a pipe as one line each, neither padded nor wrapped."""
    console = Console()
    if not console.is_terminal:
        for finding in findings:
            print("  ".join(filter(None, (finding.state, finding.subject, finding.found, finding.hint))))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        table.add_row(
            Text(finding.state, style=_STYLES[finding.state]),
            Text(finding.subject),
            Text(finding.found, overflow="fold"),
            Text(finding.hint, overflow="fold"),
        )
    console.print(table)


_LONGEST_SUBJECT = 60
"""A table shows this many characters of a commit's subject. A longer one would wrap at usual widths."""


def show_history(name: str | None, *, store: str | None, as_json: bool = False) -> int:
    """List all bisections, the newest first, or show one in full. Return the exit code."""

    def body() -> int:
        console = Console()
        url = store_url(store)
        if name is None and not store_exists(url):
            print("[]" if as_json else f"no bisections yet in {url}")
            return 0
        with _open(url)() as session:
            if name is None:
                print(_list_json(session)) if as_json else _print_list(session, console)
                return 0
            rows = load_rows(session, name)
            report = report_of_rows(rows)
        if as_json:
            print(report.model_dump_json(indent=2))
            return 0
        print_probes(report, console)
        print_report(report, rows.request.output, console)
        return 0

    return run_command(body)


def write_report(name: str, *, output: Path | None, store: str | None) -> int:
    """Write the report of a bisection again, into its own folder or `output`. Return the exit code."""

    def body() -> int:
        sessions = _open(store_url(store))
        with sessions() as session:
            directory = output or load_rows(session, name).request.output
        record_builds(sessions, name, user_home())
        _, paths = write.write_report(sessions, name, directory)
        for path in paths:
            print(path)
        return 0

    return run_command(body)


def print_issue(name: str, *, store: str | None) -> int:
    """Print the text of an issue about a bisection. Return the exit code."""

    def body() -> int:
        with _open(store_url(store))() as session:
            print(issue_text(session, name), end="")
        return 0

    return run_command(body)


def _open(url: str) -> sessionmaker[Session]:
    if not store_exists(url):
        raise UserError(f"expected a store at {url}, found none; name another one with --store")
    return migrate_and_read(url)


def _list_json(session: Session) -> str:
    listed = TypeAdapter(list[BisectionSummary]).dump_json(list(list_bisections(session)), indent=2)
    return listed.decode()


def _print_list(session: Session, console: Console) -> None:
    bisections = session.scalars(select(BisectionRow).order_by(BisectionRow.id.desc())).all()
    if not bisections:
        print("no bisections yet")
    for bisection in bisections:
        request = bisection.request
        how = outcome_text(session, bisection)
        console.print(Text(f"{bisection.name}  {how}{_culprit(session, bisection)}"), soft_wrap=True)
        details = (
            f"{bisection.created:%Y-%m-%d %H:%M} UTC",
            request["stack"]["name"],
            case_text(
                request["case"],
                request.get("runtime_dir"),
                request["stack"]["case"]["command"],
                interactive=request.get("interactive", False),
            ),
            f"{bisection.repository} {_ends(bisection)}",
        )
        console.print(Text(f"    {shorten('  '.join(details), 400)}", style="dim"), soft_wrap=True)


def _seeks_regression(bisection: BisectionRow) -> bool:
    return bisection.request.get("seeks", Seeks.REGRESSION) == Seeks.REGRESSION


def _ends(bisection: BisectionRow) -> str:
    ends = bisection.good[:12], bisection.bad[:12]
    return "..".join(ends if _seeks_regression(bisection) else ends[::-1])


def _culprit(session: Session, bisection: BisectionRow) -> str:
    culprits = cast(list[dict[str, str]], (bisection.conclusion or {}).get("culprits", []))
    if not culprits:
        return ""
    repository, sha = culprits[0]["repository"], culprits[0]["commit"]
    subject = session.scalar(
        select(CommitRow.subject).where(CommitRow.repository == repository, CommitRow.sha == sha)
    )
    return f"  {repository} {sha[:12]} {shorten(subject or '', _LONGEST_SUBJECT)}".rstrip()


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan: what is run, over which range, with which pins, and how many probes are expected."""
    request = plan.request
    yield f"stack:     {request.stack.name}"
    yield f"case:      {request.case_text}"
    yield f"platform:  {request.platform}, device {request.device}"
    yield from _range_lines(plan)
    yield from _pin_lines(request)
    yield f"bad when:  {request.bad_criterion or BAD_EXIT_CODES}"
    captured = "captured at the good end" if request.captures_golden else "none"
    yield f"golden:    {request.golden_data or captured}"
    yield from _run_lines(plan)
    made = "" if plan.is_named else "; a new name is made when it is begun, or name it with --output"
    yield f"report to: {request.output}{made}"
    for notice in plan.notices:
        yield f"note: {notice}"


def plan_json(plan: Plan) -> str:
    """Return the plan as JSON."""
    request, loaded = plan.request, plan.range
    _, estimate = _estimate(plan)
    return json.dumps(
        {
            "stack": request.stack.name,
            "case": request.case_text,
            "platform": request.platform,
            "device": request.device,
            "repository": request.repository,
            "good": request.good if loaded is not None else None,
            "bad": request.bad,
            "commits": len(loaded.commits) if loaded is not None else None,
            "candidates": len(loaded.collapsed.nodes) if loaded is not None else None,
            "bad_when": request.bad_criterion or BAD_EXIT_CODES,
            "confidence": request.confidence,
            "runs": None if estimate is None else estimate.runs,
            "frozen": dict(request.frozen),
            "output": str(request.output) if plan.is_named else None,
            "notices": plan.notices,
        },
        indent=2,
    )


def _range_lines(plan: Plan) -> Iterator[str]:
    request, loaded = plan.request, plan.range
    if loaded is None:
        yield f"range:     {request.repository} ..{request.bad[:12]}"
        yield "           the good end is looked for 1, 2, 4, ... commits before the bad one"
        return
    yield f"range:     {request.repository} {loaded.range.old[:12]}..{loaded.range.new[:12]}"
    candidates = len(loaded.collapsed.nodes)
    yield f"           {describe_stage(request.repository, commits=len(loaded.commits), candidates=candidates)}"


def _pin_lines(request: BisectRequest) -> Iterator[str]:
    for name, pin in request.stack.pins.items():
        value = pin_display_value(request.stack, name, request.frozen.get(request.stack.revision_key(name)))
        frozen = f"frozen at {value}" if value is not None else "frozen, but says nothing at the bad end"
        yield f"pin:       {name} {'searched' if pin.search else frozen}"


def _run_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines about the runs to come, as the engine itself would ask for them."""
    if plan.range is None:
        yield "runs:      to find the good end, then as many as its range takes"
        return
    bisection, estimate = _estimate(plan)
    if bisection is not None and estimate is not None:
        yield f"runs:      {describe_estimate(estimate)}"
        yield "           where every run of a commit tells the same; more where not"
        if offered := bisection.known.question.perturbations:
            names = ", ".join(each.name for each in offered)
            yield f"           where it comes and goes, perturbations are tried: {names}"
        if waits := describe_waits(bisection):
            yield f"           {waits}"
    yield f"           until a confidence of {plan.request.confidence:g}"


def _estimate(plan: Plan) -> tuple[Bisection | None, Estimate | None]:
    """Return the bisection before its first run, and an estimate of what is to come. Each is None where it is unknown
    yet."""
    bisection = None if plan.range is None else initial_bisection(question_of(plan.request), plan.range)
    builds = bool(plan.request.stack.steps)
    return bisection, None if bisection is None else estimate_rest(bisection, builds=builds)


def trust_files(file: Path | None) -> int:
    """Trust a file, else all files of the checkout that decide here without being typed. Return the exit code."""

    def body() -> int:
        files = dict.fromkeys(
            each.resolve() for each in (_find_files(Path.cwd()) if file is None else [file])
        )
        if not files:
            raise UsageError(
                f"expected a {DEFAULT_STACK_FILE} or settings in the checkout, found neither; name a file to be trusted"
            )
        for each in files:
            trust_file(each)
            print(f"trusted {each}")
        return 0

    return run_command(body)


def _find_files(folder: Path) -> Iterator[Path]:
    """Yield the settings around a folder, the stack file that they name, and the stack file in the folder."""
    settings = settings_file(folder)
    if settings is not None:
        yield settings
        named = read_settings(settings).stack_file(settings.parent)
        if named is not None:
            yield named
    if (folder / DEFAULT_STACK_FILE).is_file():
        yield folder / DEFAULT_STACK_FILE

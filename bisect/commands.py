"""The smaller commands of `bisect-precision`, one function each.

`show_bisection`, `write_report` and `print_issue` show what the store remembers of a bisection. `examine` is `doctor`:
it finds what is missing on this machine. `propose_renames` is `adapt`. `make_demo_stack` is `demo`, and nothing else
outside of `demo/` knows that this folder exists.
"""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text
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
from ..store.vocabulary import plural
from .ask.prepare import describe_missing_imports
from .ask.question import DEFAULT_STACK_FILE, suggest_file
from .ask.typed_question import repository_stack, select_stack
from .cli import ERROR, run_command
from .drive.hand_over import record_builds
from .listing import store_url
from .options import AdaptOptions, DemoOptions, DoctorOptions
from .report import report_files
from .report.basis import load_rows, newest_name
from .report.report_builder import make_report
from .report.report_files import check_place, issue_text
from .report.terminal import print_line, print_probes, print_report


def show_bisection(name: str | None, *, store: str | None, as_json: bool = False) -> int:
    """Show a bisection, else the newest of this checkout, with all its probes. Return the exit code."""

    def body() -> int:
        with _open(store_url(store))() as session:
            rows = load_rows(session, name or newest_name(session, Path.cwd()))
        report = make_report(rows)
        if as_json:
            print(report.model_dump_json(indent=2))
            return 0
        console = Console()
        print_line(report, rows.request.output, console)
        print_probes(report, console)
        print_report(report, rows.request.output, console)
        return 0

    return run_command(body)


def write_report(name: str | None, *, output: Path | None, store: str | None) -> int:
    """Write the report of a bisection again, into `output` or its own folder. Return the exit code.

    Without a name, it is the newest bisection of this checkout, as for `print_issue`.
    """

    def body() -> int:
        sessions = _open(store_url(store))
        with sessions() as session:
            rows = load_rows(session, name or newest_name(session, Path.cwd()))
        record_builds(rows, user_home())
        _, paths = report_files.write_report(rows, output or rows.request.output)
        for path in paths:
            print(path)
        return 0

    return run_command(body)


def print_issue(name: str | None, *, store: str | None) -> int:
    """Print the text of an issue about a bisection, in Markdown. Return the exit code."""

    def body() -> int:
        with _open(store_url(store))() as session:
            print(issue_text(session, name or newest_name(session, Path.cwd())), end="")
        return 0

    return run_command(body)


def _open(url: str) -> sessionmaker[Session]:
    if not store_exists(url):
        raise UserError(f"expected a store at {url}, found none; name another one with --store")
    return migrate_and_read(url)


_STYLES = {"ok": "green", "missing": "red", "warning": "yellow"}


def examine(options: DoctorOptions) -> int:
    """Print what this machine has of what a stack and a case need, and what is missing.

    Without a stack, the checkout around the current folder is examined. `quiet` leaves out what is fine. Return 1 where
    something required is missing.
    """

    def body() -> int:
        case, revisions = options.case, options.at
        if revisions and case is None:
            raise UsageError(f"--at {revisions[0]}: expected a --case to look for at that commit, found none")
        overrides = read_overrides(options.repository)
        stack = select_stack(options.stack, overrides) or repository_stack(overrides)
        findings = list(examine_machine(stack, user_home()))
        if case is not None and not any(finding.state == "missing" for finding in findings):
            findings += [_examine_case(stack, case, revision) for revision in revisions or ("HEAD",)]
        if options.as_json:
            print(TypeAdapter(list[MachineFinding]).dump_json(findings, indent=2).decode())
        else:
            _print_findings([each for each in findings if each.state != "ok" or not options.quiet])
        return 1 if any(finding.state == "missing" for finding in findings) else 0

    return run_command(body)


def _examine_case(stack: Stack, case: str, revision: str) -> MachineFinding:
    """Return whether a case exists at a commit, and whether the slots' interpreter has what it imports."""
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
        suggested = suggest_file(workspace.clones[name], complete[name], script.path)
        hint = f"expected a file of {name} at {complete[name][:12]}, found none{suggested}"
        return MachineFinding(state="missing", subject=subject, found=case, hint=hint)
    hint = describe_missing_imports(stack, workspace, script, complete)
    if hint is None:
        return MachineFinding(state="ok", subject=subject, found=case)
    state = "warning" if may_install(stack) else "missing"
    return MachineFinding(state=state, subject=subject, found=case, hint=hint)


def _print_findings(findings: Sequence[MachineFinding]) -> None:
    """Print findings in columns on a terminal. In a pipe each has one line, neither padded nor wrapped."""
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


_MAX_DOUBTS = 20
"""A proposal lists at most this many doubtful names, so that the answer is not lost among them."""


def propose_renames(options: AdaptOptions) -> int:
    """Print the renames of a commit as TOML, and the doubtful ones as comments. Return 1 where none is proposed."""

    def body() -> int:
        overrides = read_overrides(options.repository)
        stack = select_stack(options.stack, overrides) or repository_stack(overrides)
        name = options.repo or stack.searched
        if name not in stack.repositories:
            raise UsageError(f"--repo {name}: expected one of {', '.join(sorted(stack.repositories))}")
        checkout = GitRepository.open(stack.repositories[name].path, name=name)
        sha = checkout.resolve(options.revision, option="adapt")
        proposed, doubtful = proposed_renames(checkout, name, sha)
        about = f"{sha[:12]} of {name} ({checkout.commit(sha).subject})"
        if not proposed:
            print(
                f"note: expected a name that {about} changes wherever Python uses it, found none",
                file=sys.stderr,
            )
        print("\n".join(_rename_lines(about, proposed, doubtful)))
        return 0 if proposed else ERROR

    return run_command(body)


def _rename_lines(
    about: str, proposed: list[ProposedRename], doubtful: list[DoubtfulRename]
) -> Iterator[str]:
    yield f"# Renamed by {about}. Leave out what does not concern the case."
    for each in proposed:
        yield f"\n# {plural(each.places, 'place')} of its diff, the first at {each.first}"
        yield format_toml(each.rename)
    if doubtful:
        yield "\n# Not proposed:"
    for doubt in doubtful[:_MAX_DOUBTS]:
        yield f"# - {doubt.description}: {doubt.why}"
    if len(doubtful) > _MAX_DOUBTS:
        yield f"# - and {len(doubtful) - _MAX_DOUBTS} more, with fewer places"


def make_demo_stack(options: DemoOptions) -> int:
    """Make a demo stack, and print how to bisect it. Return the exit code."""

    def body() -> int:
        directory, scenario = options.directory, options.scenario
        if scenario not in list(Scenario):
            raise UsageError(f"--scenario {scenario}: expected one of {', '.join(Scenario)}")
        check_place(directory, what="the stack", remedy="name another folder")
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
            f"made {directory}: minipto, minirt, minilib, stack.toml; the truth is in truth.json. "
            f"To find it, {shlex.join(['sh', str(script)])} runs:"
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


def trust_files(file: Path | None) -> int:
    """Trust a file, else all files that count in this folder without being typed. Return the exit code."""

    def body() -> int:
        found = _find_files(Path.cwd()) if file is None else [file]
        files = dict.fromkeys(each.resolve() for each in found)
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
        named = read_settings(settings).stack_file
        if named is not None:
            yield named
    if (folder / DEFAULT_STACK_FILE).is_file():
        yield folder / DEFAULT_STACK_FILE

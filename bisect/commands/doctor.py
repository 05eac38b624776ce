"""`bisect-precision doctor`: what this machine lacks of what a stack needs."""

from collections.abc import Sequence

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...runner.case.case import CaseName
from ...runner.case.lacks import may_install
from ...runner.errors import UsageError
from ...runner.git.overlays import read_laid_over
from ...runner.git.releases import with_releases
from ...runner.git.revisions import Revisions, fixed_revisions
from ...runner.stack.overrides import read_overrides
from ...runner.stack.stack import Stack
from ...runner.workspace.home import user_home
from ...runner.workspace.machine import MachineFinding, examine_machine
from ...runner.workspace.workspace import Workspace
from ..plan.lacks import lack_of, resembling_file
from ..plan.stack import chosen_stack, repository_stack
from .errors import run_command

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
    """Print what this machine has of a stack, else of what the checkout around the current folder needs, and of what
    `case` imports at `revisions`, or at HEAD; 1 where something required is missing. `quiet` leaves out what is there.
    """

    def body() -> int:
        if revisions and case is None:
            raise UsageError(f"--at {revisions[0]}: expected a --case to look for at that commit, found none")
        overrides = read_overrides(repositories)
        chosen = chosen_stack(stack, overrides) or repository_stack(overrides)
        findings = list(examine_machine(chosen, user_home()))
        if case is not None and not any(finding.state == "missing" for finding in findings):
            findings += [_imports(chosen, case, revision) for revision in revisions or ("HEAD",)]
        if as_json:
            print(TypeAdapter(list[MachineFinding]).dump_json(findings, indent=2).decode())
        else:
            _print([each for each in findings if each.state != "ok" or not quiet])
        return 1 if any(finding.state == "missing" for finding in findings) else 0

    return run_command(body)


def _imports(stack: Stack, case: str, revision: str) -> MachineFinding:
    """Whether a case is there at a commit, and the slots' interpreter has what it imports."""
    home = user_home()
    stack = with_releases(stack, home.releases)
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
        and read_laid_over(workspace.clones[name], overlays, complete[name], str(script.path)) is None
    ):
        alike = resembling_file(workspace.clones[name], complete[name], script.path)
        hint = f"expected a file of {name} at {complete[name][:12]}, found none{alike}"
        return MachineFinding(state="missing", subject=subject, found=case, hint=hint)
    lack = lack_of(stack, workspace, script, complete)
    if lack is None:
        return MachineFinding(state="ok", subject=subject, found=case)
    state = "warning" if may_install(stack) else "missing"
    return MachineFinding(state=state, subject=subject, found=case, hint=lack)


def _print(findings: Sequence[MachineFinding]) -> None:
    """On a terminal in columns; in a pipe a line each, neither padded nor wrapped."""
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

"""`bisect-precision doctor`: what this machine lacks of what a stack needs."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...runner.stack.file import load_stack
from ...runner.stack.overrides import read_overrides
from ...runner.workspace.home import user_home
from ...runner.workspace.machine import MachineFinding, examine_machine
from .errors import run_command

_STYLES = {"ok": "green", "missing": "red", "warning": "yellow"}


def examine(stack: str, *, repositories: tuple[str, ...]) -> int:
    """Print what was found on this machine; 1 where something required is missing."""

    def body() -> int:
        overrides = read_overrides(repositories)
        findings = list(examine_machine(load_stack(stack, overrides=overrides), user_home()))
        _print(findings)
        return 1 if any(finding.state == "missing" for finding in findings) else 0

    return run_command(body)


def _print(findings: Sequence[MachineFinding]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        table.add_row(
            Text(finding.state, style=_STYLES[finding.state]),
            Text(finding.subject),
            Text(finding.found, overflow="fold"),
            Text(finding.hint, overflow="fold"),
        )
    Console().print(table)

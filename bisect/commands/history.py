"""`bisect-precision history` and `report`: what the store remembers."""

from pathlib import Path
from typing import cast

from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...runner.workspace.home import user_home
from ...store.database import is_there, open_to_read
from ...store.tables.bisections import BisectionRow, CommitRow
from ...store.vocabulary import Seeks
from ..after.reducible import leave_builds
from ..plan.request import case_text
from ..report import write
from ..report.issue import issue_text
from ..report.model.build import report_of_rows
from ..report.model.rows import load_rows
from ..report.plain_text import shortened
from ..report.terminal import print_probes, print_report
from ..site.views.listing import Listed, how_it_ended, list_bisections
from .command_line.stores import store_url
from .errors import run_command

_LONGEST_SUBJECT = 60


def show_history(name: str | None, *, store: str | None, as_json: bool = False) -> int:
    """List all bisections, the newest first, or show one in full; the exit code."""

    def body() -> int:
        console = Console()
        url = store_url(store)
        if name is None and not is_there(url):
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
        print_report(report, rows.request.output, console)
        print_probes(report, console)
        return 0

    return run_command(body)


def write_report(name: str, *, output: Path | None, store: str | None) -> int:
    """Write the report of a bisection again, into its own folder or `output`; the exit code."""

    def body() -> int:
        sessions = _open(store_url(store))
        with sessions() as session:
            directory = output or load_rows(session, name).request.output
        leave_builds(sessions, name, user_home())
        for path in write.write_report(sessions, name, directory):
            print(path)
        return 0

    return run_command(body)


def print_issue(name: str, *, store: str | None) -> int:
    """Print the text of an issue about a bisection; the exit code."""

    def body() -> int:
        with _open(store_url(store))() as session:
            print(issue_text(session, name), end="")
        return 0

    return run_command(body)


def _open(url: str) -> sessionmaker[Session]:
    if not is_there(url):
        raise UserError(f"expected a store at {url}, found none; name another one with --store")
    return open_to_read(url)


def _list_json(session: Session) -> str:
    listed = TypeAdapter(list[Listed]).dump_json(list(list_bisections(session)), indent=2)
    return listed.decode()


def _print_list(session: Session, console: Console) -> None:
    bisections = session.scalars(select(BisectionRow).order_by(BisectionRow.id.desc())).all()
    if not bisections:
        print("no bisections yet")
    for bisection in bisections:
        request = bisection.request
        how = how_it_ended(bisection.outcome, request.get("seeks"), bisection.conclusion)
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
        console.print(Text(f"    {shortened('  '.join(details), 400)}", style="dim"), soft_wrap=True)


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
    return f"  {repository} {sha[:12]} {shortened(subject or '', _LONGEST_SUBJECT)}".rstrip()

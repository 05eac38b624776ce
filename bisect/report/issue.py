"""The text of an issue about what a bisection found: for the one who wrote the change, without this tool's terms."""

import shlex

from sqlalchemy.orm import Session

from ...store.vocabulary import Seeks
from ..plan.predicate import NOTHING_TO_RUN
from ..plan.request import BisectRequest
from .markdown import render
from .model.build import report_of_rows
from .model.rows import load_rows


def issue_text(session: Session, name: str) -> str:
    """Markdown whose heading is the issue's title. Template: templates/issue.md.j2.

    Raises `UserError` where there is no such bisection.
    """
    rows = load_rows(session, name)
    return render("issue.md.j2", report_of_rows(rows), search=search_command(rows.request))


def search_command(request: BisectRequest) -> str:
    """The command that asks the same question again, in a checkout of the searched repository."""
    words = ["bisect-precision"]
    command_alone = request.case is None and request.runtime_dir is None
    if not command_alone:
        words += ["--stack", request.stack.name]
    if request.repository != request.stack.searched:
        words += ["--repo", request.repository]
    words += ["--good", request.good, "--bad", request.bad]
    if request.seeks is Seeks.FIX:
        words.append("--find-fix")
    if request.first_parent:
        words.append("--first-parent")
    if request.interactive:
        words.append("--interactive")
    if command_alone:
        judged_alone = request.interactive and request.stack.case.command == NOTHING_TO_RUN
        return shlex.join(words) + ("" if judged_alone else f" -- {request.case_text}")
    if request.case is not None:
        words += ["--case", request.case]
    if request.runtime_dir is not None:
        words += ["--runtime-dir", str(request.runtime_dir)]
    words += ["--platform", request.platform]
    if request.bad_when is not None:
        words += ["--bad-when", request.bad_when]
    return shlex.join(words)

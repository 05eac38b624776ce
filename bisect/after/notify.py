"""Telling others that a bisection has ended: the command of --notify."""

import shlex
from typing import Literal

from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UsageError
from ...store.documents.document import Document
from ..report.model.build import report_of_rows
from ..report.model.model import AnswerCommit
from ..report.model.rows import load_rows
from .hooks import call_hook, check_hook


class EndNotice(Document):
    """What the command of --notify gets on its standard input."""

    schema_version: Literal[1] = 1
    name: str
    outcome: str
    message: str
    """One line."""
    case: str
    platform: str
    culprits: tuple[AnswerCommit, ...]
    report: str
    """The folder with report.json and the rest."""


def check_notify_command(text: str) -> None:
    """Check --notify before anything is run. Raises `UsageError` where there are none, or no such program."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--notify {text}: expected a command: {error}") from error
    if not words:
        raise UsageError("--notify: expected a command, found nothing")
    check_hook(words, asked=f"--notify {text}")


def notify(command: str, sessions: sessionmaker[Session], name: str) -> str | None:
    """Tell of the end of a bisection of the store; what went wrong in that, in a sentence."""
    with sessions() as session:
        notice, repository = _notice(session, name)
    first = notice.culprits[0] if notice.culprits else None
    confidence = "" if first is None or first.confidence is None else f"{first.confidence:.6f}"
    code = call_hook(
        tuple(shlex.split(command)),
        notice.model_dump_json(),
        {
            "NAME": notice.name,
            "OUTCOME": notice.outcome,
            "REPOSITORY": first.repository if first else repository,
            "CULPRIT": first.commit if first else "",
            "CONFIDENCE": confidence,
            "REPORT": notice.report,
        },
    )
    return None if code == 0 else f"--notify: the command ended with {code}"


def _notice(session: Session, name: str) -> tuple[EndNotice, str]:
    rows = load_rows(session, name)
    report = report_of_rows(rows)
    notice = EndNotice(
        name=report.name,
        outcome=report.outcome,
        message=report.message,
        case=report.case,
        platform=report.platform,
        culprits=report.culprits,
        report=str(rows.request.output),
    )
    return notice, report.repository

"""Bisections as a list shows them: a few columns, never whole requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from ....store.tables.bisections import BisectionRow, CommitRow
from ....store.tables.nights import IncidentRow
from ....store.vocabulary import BisectionOutcome, Seeks
from ...plan.request import case_text
from ...report.model.model import UNFINISHED
from ...report.phrases import ended


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One bisection with its first culprit."""

    name: str
    created: datetime
    outcome: str
    ended: str
    """How it ended, in words."""
    case: str
    platform: str
    repository: str
    culprit_repository: str | None
    culprit: str | None
    subject: str | None
    confidence: float | None
    author: str | None


def list_bisections(session: Session, *, limit: int | None = None, offset: int = 0) -> Sequence[Listed]:
    """The newest first."""
    rows = session.execute(
        select(
            BisectionRow.name,
            BisectionRow.created,
            BisectionRow.outcome,
            BisectionRow.repository,
            BisectionRow.conclusion,
            BisectionRow.request["case"].as_string().label("case"),
            BisectionRow.request["runtime_dir"].as_string().label("runtime_dir"),
            BisectionRow.request["stack"]["case"]["command"].label("command"),
            BisectionRow.request["platform"].label("platform"),
            BisectionRow.request["seeks"].as_string().label("seeks"),
            BisectionRow.request["interactive"].as_boolean().label("interactive"),
        )
        .order_by(BisectionRow.id.desc())
        .limit(limit)
        .offset(offset)
    ).all()
    named = [_first_culprit(row.conclusion) for row in rows]
    wanted = {sha for _, sha, _ in named if sha is not None}
    described = {
        (row.repository, row.sha): (row.subject, row.author)
        for row in session.execute(
            select(CommitRow.repository, CommitRow.sha, CommitRow.subject, CommitRow.author).where(
                CommitRow.sha.in_(wanted)
            )
        )
    }
    return [
        Listed(
            name=row.name,
            created=row.created,
            outcome=row.outcome.value if row.outcome else UNFINISHED,
            ended=how_it_ended(row.outcome, row.seeks, row.conclusion),
            case=case_text(row.case, row.runtime_dir, row.command or (), interactive=bool(row.interactive)),
            platform=row.platform or "",
            repository=row.repository,
            culprit_repository=repository,
            culprit=sha,
            subject=described.get((repository or "", sha or ""), (None, None))[0],
            confidence=confidence,
            author=described.get((repository or "", sha or ""), (None, None))[1],
        )
        for row, (repository, sha, confidence) in zip(rows, named, strict=True)
    ]


def how_it_ended(
    outcome: BisectionOutcome | None, seeks: str | None, conclusion: dict[str, object] | None
) -> str:
    """In words. seeks: None in stores from before fixes could be sought."""
    return ended(
        outcome.value if outcome else UNFINISHED,
        seeks=Seeks(seeks or Seeks.REGRESSION),
        in_doubt=bool((conclusion or {}).get("no_commit")),
    )


def authors_of(session: Session, incidents: Sequence[IncidentRow]) -> dict[tuple[str, str], str]:
    """Who wrote the culprits of incidents, by repository and commit, as far as the store describes them."""
    rows = session.execute(
        select(CommitRow.repository, CommitRow.sha, CommitRow.author).where(
            CommitRow.sha.in_({incident.culprit for incident in incidents})
        )
    )
    return {(row.repository, row.sha): row.author for row in rows if row.author}


def _first_culprit(conclusion: dict[str, object] | None) -> tuple[str | None, str | None, float | None]:
    culprits = cast(list[dict[str, str | float]], (conclusion or {}).get("culprits", []))
    if not culprits:
        return None, None, None
    first = culprits[0]
    confidence = first.get("confidence")
    return str(first["repository"]), str(first["commit"]), None if confidence is None else float(confidence)

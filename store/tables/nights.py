"""What a nightly job remembers: its nights, what each case showed in them, regressions, and the incidents they form.

A *cell* is one case on one platform under one tolerance on one branch. A *regression* is a cell that passed and then
failed; regressions with one culprit are one *incident*.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from ..vocabulary import CaseStatus, Verdict
from .bisections import Base, BisectionRow, EnvironmentRow
from .plain_json import Metrics, Texts


class NightRow(Base):
    """One start of a job, from the matrix to its bisections. One that was killed is gone on with."""

    __tablename__ = "nights"
    __table_args__ = (UniqueConstraint("job", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(String(64))
    ordinal: Mapped[int]
    """From 1 in each job."""
    started: Mapped[datetime]
    finished: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=1)
    """Starts of this night; more than one where it was killed."""
    heads: Mapped[Texts]
    """The commit of the searched repository by branch, as it was when the night began."""
    host: Mapped[str]
    summary: Mapped[dict[str, Any] | None]
    """Once finished: a `NightSummary`."""

    results: Mapped[list[CaseResultRow]] = relationship(back_populates="night", order_by="CaseResultRow.id")
    hook_calls: Mapped[list[HookCallRow]] = relationship(order_by="HookCallRow.id")


class CellRow(Base):
    """A case on a platform under a tolerance on a branch: what is followed from night to night."""

    __tablename__ = "cells"
    __table_args__ = (UniqueConstraint("job", "branch", "case", "platform", "tolerance"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(String(64))
    branch: Mapped[str]
    case: Mapped[str]
    platform: Mapped[str] = mapped_column(String(64))
    tolerance: Mapped[str] = mapped_column(String(64))


class CaseRunRow(Base):
    """One finished run of a cell in a night; a run that was cut short has no row."""

    __tablename__ = "case_runs"
    __table_args__ = (UniqueConstraint("night_id", "cell_id", "run"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), index=True)
    run: Mapped[int]
    started: Mapped[datetime]
    finished: Mapped[datetime]
    commit: Mapped[str] = mapped_column(String(64), index=True)
    revisions: Mapped[Texts]
    content: Mapped[str] = mapped_column(String(64), index=True)
    """As in `Probe.content`."""
    verdict: Mapped[Verdict]
    signature: Mapped[str | None] = mapped_column(Text)
    metrics: Mapped[Metrics]
    """Numbers by output and metric, as in `Probe.metrics`."""
    evidence: Mapped[list[str]]
    """The lines that justify the verdict."""
    device: Mapped[int]
    host: Mapped[str]
    build_source: Mapped[str] = mapped_column(String(32))
    build_seconds: Mapped[float]
    run_seconds: Mapped[float]
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    log: Mapped[str] = mapped_column(Text)
    """Path of the run's log (or of the failed build's)."""

    environment: Mapped[EnvironmentRow] = relationship()
    cell: Mapped[CellRow] = relationship()
    night: Mapped[NightRow] = relationship()


class CaseResultRow(Base):
    """What a night found of a cell."""

    __tablename__ = "case_results"
    __table_args__ = (UniqueConstraint("night_id", "cell_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), index=True)
    status: Mapped[CaseStatus]
    commit: Mapped[str] = mapped_column(String(64))
    content: Mapped[str | None] = mapped_column(String(64))
    runs: Mapped[int]
    """Judged runs in this night at this content; 0 where an earlier night's result was taken."""
    failures: Mapped[int]
    verdict: Mapped[Verdict | None]
    """Of the failure, else of the last run."""
    signature: Mapped[str | None] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    """One sentence for people."""
    same_as_id: Mapped[int | None] = mapped_column(ForeignKey("case_results.id"))
    """The earlier result that was taken, since nothing that can change it has changed."""
    regression_id: Mapped[int | None] = mapped_column(ForeignKey("regressions.id"))

    night: Mapped[NightRow] = relationship(back_populates="results")
    cell: Mapped[CellRow] = relationship()
    regression: Mapped[RegressionRow | None] = relationship()


class RegressionRow(Base):
    """A cell that passed, then failed; open until it has recovered."""

    __tablename__ = "regressions"

    id: Mapped[int] = mapped_column(primary_key=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), index=True)
    opened_night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    last_good: Mapped[str] = mapped_column(String(64))
    first_bad: Mapped[str] = mapped_column(String(64))
    bad_when: Mapped[str]
    """What counts as bad in its bisection."""
    bisection_id: Mapped[int | None] = mapped_column(ForeignKey("bisections.id"))
    problem: Mapped[str | None] = mapped_column(Text)
    """Why its bisection named nothing."""
    incident_id: Mapped[int | None] = mapped_column(ForeignKey("incidents.id"), index=True)
    recovered_night_id: Mapped[int | None] = mapped_column(ForeignKey("nights.id"))
    last_bad: Mapped[str] = mapped_column(String(64))
    """The newest commit at which it was seen failing."""
    recovered_at: Mapped[str | None] = mapped_column(String(64))
    """The commit at which it was judged to pass again."""
    fixed_by: Mapped[str | None] = mapped_column(String(64))
    """The fixing commit of the searched repository, once the bisection that looks for it has named one."""
    fix_bisection_id: Mapped[int | None] = mapped_column(ForeignKey("bisections.id"))
    """The bisection that looks for the fixing commit."""
    fix_problem: Mapped[str | None] = mapped_column(Text)
    """Why no fixing commit is named, and none is looked for any more."""

    cell: Mapped[CellRow] = relationship()
    bisection: Mapped[BisectionRow | None] = relationship(foreign_keys=[bisection_id])
    incident: Mapped[IncidentRow | None] = relationship(back_populates="regressions")
    opened_night: Mapped[NightRow] = relationship(foreign_keys=[opened_night_id])
    recovered_night: Mapped[NightRow | None] = relationship(foreign_keys=[recovered_night_id])


class IncidentRow(Base):
    """All regressions with one culprit. Open until each of them has recovered."""

    __tablename__ = "incidents"
    __table_args__ = (UniqueConstraint("job", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(String(64))
    ordinal: Mapped[int]
    """From 1 in each job: the number people speak of."""
    repository: Mapped[str]
    """Of the culprit."""
    culprit: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(Text)
    confidence: Mapped[float | None]
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"))
    """The bisection that named the culprit; those of further regressions are theirs."""
    opened_night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    closed_night_id: Mapped[int | None] = mapped_column(ForeignKey("nights.id"), index=True)
    fixed_by: Mapped[str | None] = mapped_column(String(64))
    """The fixing commit, of the searched repository; None where several may have done it."""
    reduction: Mapped[str | None] = mapped_column(Text)
    """Folder of its one reduction."""

    regressions: Mapped[list[RegressionRow]] = relationship(
        back_populates="incident", order_by="RegressionRow.id"
    )
    bisection: Mapped[BisectionRow] = relationship()
    opened_night: Mapped[NightRow] = relationship(foreign_keys=[opened_night_id])
    closed_night: Mapped[NightRow | None] = relationship(foreign_keys=[closed_night_id])


class HookCallRow(Base):
    """A hook that was told of an event; noted when it has ended, so that a resume tells it once more at most."""

    __tablename__ = "hook_calls"

    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    incident_id: Mapped[int] = mapped_column(ForeignKey("incidents.id"))
    event: Mapped[str] = mapped_column(String(16))
    """`opened` or `closed`."""
    called: Mapped[datetime]
    exit_code: Mapped[int]
    """Negative for a signal; 127 where it could not be started."""

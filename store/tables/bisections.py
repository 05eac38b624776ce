"""What is remembered: bisections, the commits they range over, and every probe with its evidence.

A report is made from these rows alone, so each sentence of it can be traced to one. Times are UTC, durations
seconds, commits full hexadecimal ids.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Enum, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from ..clock import UtcDateTime
from ..vocabulary import BisectionOutcome, BuildSource, Judgement, Phase, ProbeState, Seeks, Verdict
from .plain_json import JsonMetrics, Metrics, Numbers, PlainJson, Texts

LONGEST_NAME = 64
"""Characters of a bisection's name."""


def _values(kind: type[StrEnum]) -> list[str]:
    return [member.value for member in kind]


class Base(DeclarativeBase):
    """All tables. Enumerations are stored as their text, so that a reader needs no Python."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime,
        dict[str, Any]: JSON,
        list[str]: PlainJson,
        Texts: PlainJson,
        Numbers: PlainJson,
        Metrics: JsonMetrics,
        StrEnum: Enum(StrEnum, native_enum=False, length=32, values_callable=_values),
    }


class BisectionRow(Base):
    """One question: which commit of `repository` between good and bad changed the result of one case?"""

    __tablename__ = "bisections"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(LONGEST_NAME), unique=True)
    created: Mapped[datetime]
    finished: Mapped[datetime | None]
    repository: Mapped[str]
    good: Mapped[str] = mapped_column(String(64))
    bad: Mapped[str] = mapped_column(String(64))
    request: Mapped[dict[str, Any]]
    """The document of all that was asked, stack included: what a resume needs."""
    golden: Mapped[str | None] = mapped_column(String(64))
    """SHA-256 of the golden data's manifest."""
    outcome: Mapped[BisectionOutcome | None]
    conclusion: Mapped[dict[str, Any] | None]

    stages: Mapped[list[StageRow]] = relationship(back_populates="bisection", order_by="StageRow.ordinal")
    probes: Mapped[list[ProbeRow]] = relationship(back_populates="bisection", order_by="ProbeRow.ordinal")
    notices: Mapped[list[NoticeRow]] = relationship(back_populates="bisection", order_by="NoticeRow.id")


class StageRow(Base):
    """One range that was searched: the superproject first, then the submodule that a culprit moved."""

    __tablename__ = "stages"
    __table_args__ = (UniqueConstraint("bisection_id", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"), index=True)
    ordinal: Mapped[int]
    repository: Mapped[str]
    seeks: Mapped[Seeks] = mapped_column(server_default=Seeks.REGRESSION.value)
    old: Mapped[str] = mapped_column("good", String(64))
    """The end that the other one builds on: where a regression is sought the good one."""
    new: Mapped[str] = mapped_column("bad", String(64))
    held: Mapped[Texts]
    """Revisions of other repositories that were held for the whole range, by repository."""
    old_content: Mapped[str | None] = mapped_column(String(64))
    """The content of the old end; None where it is still looked for, and in stores of earlier versions."""

    bisection: Mapped[BisectionRow] = relationship(back_populates="stages")
    candidates: Mapped[list[CandidateRow]] = relationship(
        back_populates="stage", order_by="CandidateRow.ordinal"
    )


class CommitRow(Base):
    """A commit as git describes it."""

    __tablename__ = "commits"
    __table_args__ = (UniqueConstraint("repository", "sha"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    repository: Mapped[str]
    sha: Mapped[str] = mapped_column(String(64), index=True)
    parents: Mapped[list[str]]
    author: Mapped[str]
    email: Mapped[str]
    date: Mapped[datetime]
    subject: Mapped[str] = mapped_column(Text)
    files: Mapped[list[str]]
    """Paths that differ from the first parent."""


class CandidateRow(Base):
    """A commit of a stage's range. Commits that cannot differ in result share a `representative`; those without one
    equal the good end."""

    __tablename__ = "candidates"
    __table_args__ = (UniqueConstraint("stage_id", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    stage_id: Mapped[int] = mapped_column(ForeignKey("stages.id"), index=True)
    ordinal: Mapped[int]
    """Topological: parents before children."""
    commit_id: Mapped[int] = mapped_column(ForeignKey("commits.id"))
    representative_id: Mapped[int | None] = mapped_column(ForeignKey("commits.id"))
    content: Mapped[str | None] = mapped_column(String(64))
    """As in `ProbeRow.content`; None where the commit pins no submodule, so that it cannot be tested."""

    stage: Mapped[StageRow] = relationship(back_populates="candidates")
    commit: Mapped[CommitRow] = relationship(foreign_keys=[commit_id])
    representative: Mapped[CommitRow | None] = relationship(foreign_keys=[representative_id])


class EnvironmentRow(Base):
    """The surroundings of probes: interpreter, compilers, CPU, libraries, pins that are not searched."""

    __tablename__ = "environments"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64), unique=True)
    details: Mapped[Texts]


class BuildRow(Base):
    """A toolchain that was really built, once."""

    __tablename__ = "builds"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    created: Mapped[datetime]
    seconds: Mapped[float]
    steps: Mapped[Numbers]
    """Seconds by step."""


class ProbeRow(Base):
    """One build-and-run of the case at one commit; `run` counts the runs of the same content."""

    __tablename__ = "probes"
    __table_args__ = (
        UniqueConstraint("bisection_id", "content", "run"),
        UniqueConstraint("bisection_id", "ordinal"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"), index=True)
    stage_id: Mapped[int] = mapped_column(ForeignKey("stages.id"), index=True)
    ordinal: Mapped[int]
    phase: Mapped[Phase]
    repository: Mapped[str]
    commit: Mapped[str] = mapped_column(String(64), index=True)
    revisions: Mapped[Texts]
    """The commit of every repository of the stack."""
    content: Mapped[str] = mapped_column(String(64))
    """Key of all that can change the result; equal keys are one experiment."""
    run: Mapped[int]
    attempt: Mapped[int] = mapped_column(default=1)
    """Starts of this probe; more than one where a driver or a worker was killed in it, or it was cancelled."""
    state: Mapped[ProbeState]
    started: Mapped[datetime]
    finished: Mapped[datetime | None]

    verdict: Mapped[Verdict | None]
    judgement: Mapped[Judgement | None]
    signature: Mapped[str | None] = mapped_column(Text)
    metrics: Mapped[Metrics | None]
    exit_code: Mapped[int | None]
    """Of the run; negative for a signal."""
    build_id: Mapped[int | None] = mapped_column(ForeignKey("builds.id"))
    build_source: Mapped[BuildSource | None]
    build_seconds: Mapped[float | None]
    run_seconds: Mapped[float | None]
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    slot: Mapped[int | None]
    host: Mapped[str | None]
    command: Mapped[list[str] | None]

    bisection: Mapped[BisectionRow] = relationship(back_populates="probes")
    stage: Mapped[StageRow] = relationship()
    build: Mapped[BuildRow | None] = relationship()
    environment: Mapped[EnvironmentRow | None] = relationship()
    evidence: Mapped[list[EvidenceRow]] = relationship(back_populates="probe", order_by="EvidenceRow.ordinal")
    artifacts: Mapped[list[ArtifactRow]] = relationship(back_populates="probe", order_by="ArtifactRow.id")


class EvidenceRow(Base):
    """A line of output that justifies a verdict."""

    __tablename__ = "evidence"

    id: Mapped[int] = mapped_column(primary_key=True)
    probe_id: Mapped[int] = mapped_column(ForeignKey("probes.id"), index=True)
    ordinal: Mapped[int]
    stream: Mapped[str] = mapped_column(String(16))
    line: Mapped[int]
    """From 1, counted over the whole log; 0 where the evidence is no line of it."""
    text: Mapped[str] = mapped_column(Text)
    why: Mapped[str] = mapped_column(Text)

    probe: Mapped[ProbeRow] = relationship(back_populates="evidence")


class ArtifactRow(Base):
    """A file or folder that a probe left."""

    __tablename__ = "artifacts"

    id: Mapped[int] = mapped_column(primary_key=True)
    probe_id: Mapped[int] = mapped_column(ForeignKey("probes.id"), index=True)
    kind: Mapped[str] = mapped_column(String(32))
    """`log` or `build_directory`."""
    path: Mapped[str] = mapped_column(Text)
    bytes: Mapped[int] = mapped_column(BigInteger)

    probe: Mapped[ProbeRow] = relationship(back_populates="artifacts")


class NoticeRow(Base):
    """A warning that belongs in the report, such as an environment that moved between two probes."""

    __tablename__ = "notices"

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"), index=True)
    created: Mapped[datetime]
    text: Mapped[str] = mapped_column(Text)

    bisection: Mapped[BisectionRow] = relationship(back_populates="notices")

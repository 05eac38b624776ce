"""The tables of the store.

They hold bisections, the commits that these range over, and every probe with its evidence. A report is made from these
rows alone, so each sentence of it can be traced to one. Nightly jobs have nights, results, regressions and incidents. A
*cell* is one case on one platform under one tolerance on one branch. A *regression* is a cell that passed and then
failed; regressions with one culprit are one *incident*. The queue holds submitted bisections and the tokens of those
who may submit.

Times are in UTC, durations in seconds, and commits are full hexadecimal ids. Columns of plain values
hold JSON with a version: `{"schema_version": 2, "values": ...}`. Version 1 has no such wrapper, only the values.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, cast

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Enum,
    ForeignKey,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    func,
    select,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from .durable_files import plain_value, versioned_value
from .vocabulary import (
    BisectionOutcome,
    BuildSource,
    CaseStatus,
    DriveEnd,
    Judgement,
    Phase,
    ProbeState,
    Seeks,
    SubmissionState,
    Verdict,
    VerdictSource,
)


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def store_now(session: Session) -> datetime:
    """Return the time of the store's server, which is the same for all machines that share the store.

    A store in a file belongs to one machine, and has the time of that machine.
    """
    if session.get_bind().dialect.name != "postgresql":
        return now()
    return session.execute(select(func.clock_timestamp())).scalar_one().astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime that is kept as UTC, also where the database knows no time zones (SQLite)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a point in time as UTC. Raises `ValueError` where it has no time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a datetime with a time zone, found {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a stored point in time, which is in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_NOT_FINITE = frozenset({"nan", "inf", "-inf"})

StringMap = dict[str, str]
"""A map of names to texts."""
FloatMap = dict[str, float]
"""A map of names to numbers."""
Metrics = dict[str, dict[str, float]]
"""The measured numbers of each output, by metric."""


class PlainJson(TypeDecorator[Any]):
    """JSON values, stored with the version of their schema."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> Any:
        """Return the value with the newest version."""
        return None if value is None else versioned_value(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Any | None:
        """Return the plain value of any schema version. Raises `DocumentError`."""
        return None if value is None else plain_value(value)


class JsonMetrics(PlainJson):
    """Measured numbers.

    JSON has no infinity or NaN, and PostgreSQL rejects them. They are kept as the texts `nan`, `inf` and `-inf`.
    """

    cache_ok = True

    def process_bind_param(self, value: Metrics | None, dialect: Dialect) -> Any:
        """Return numbers as JSON can represent them."""
        if value is None:
            return None
        written = {
            name: {key: _to_json_number(number) for key, number in numbers.items()}
            for name, numbers in value.items()
        }
        return super().process_bind_param(written, dialect)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Metrics | None:
        """Return numbers as they were measured."""
        read = super().process_result_value(value, dialect)
        if read is None:
            return None
        return {
            name: {key: float(n) if n in _NOT_FINITE else n for key, n in numbers.items()}
            for name, numbers in cast(dict[str, dict[str, Any]], read).items()
        }


def _to_json_number(number: float) -> float | str:
    finite = not isinstance(number, float) or math.isfinite(number)
    return number if finite else str(number)


MAX_NAME_LENGTH = 64
"""A bisection's name has this many characters at most, so that it fits a column of a table."""


def _enum_values(kind: type[StrEnum]) -> list[str]:
    return [member.value for member in kind]


class Base(DeclarativeBase):
    """All tables. Enumerations are stored as their text, so that a reader needs no Python."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime,
        dict[str, Any]: JSON,
        list[str]: PlainJson,
        StringMap: PlainJson,
        FloatMap: PlainJson,
        Metrics: JsonMetrics,
        StrEnum: Enum(StrEnum, native_enum=False, length=32, values_callable=_enum_values),
    }


class BisectionRow(Base):
    """One question: which commit of `repository` between good and bad changed the result of one case?"""

    __tablename__ = "bisections"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME_LENGTH), unique=True)
    created: Mapped[datetime]
    finished: Mapped[datetime | None]
    repository: Mapped[str]
    good: Mapped[str] = mapped_column(String(64))
    bad: Mapped[str] = mapped_column(String(64))
    request: Mapped[dict[str, Any]]
    """The document of all that was asked, including the stack. A resume needs nothing else."""
    golden: Mapped[str | None] = mapped_column(String(64))
    """The SHA-256 of the golden data's manifest."""
    outcome: Mapped[BisectionOutcome | None]
    conclusion: Mapped[dict[str, Any] | None]

    stages: Mapped[list[StageRow]] = relationship(back_populates="bisection", order_by="StageRow.ordinal")
    probes: Mapped[list[ProbeRow]] = relationship(back_populates="bisection", order_by="ProbeRow.ordinal")
    notices: Mapped[list[NoticeRow]] = relationship(back_populates="bisection", order_by="NoticeRow.id")
    drives: Mapped[list[DriveRow]] = relationship(back_populates="bisection", order_by="DriveRow.id")


class DriveRow(Base):
    """One start of a bisection: the process that drove it, the time, and how it ended."""

    __tablename__ = "drives"

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"), index=True)
    host: Mapped[str]
    process: Mapped[int]
    begun: Mapped[datetime]
    """The time at which the command began, before it checked what the user asked for."""
    last_alive: Mapped[datetime] = mapped_column("until")
    """The time at which the process was last known to be alive."""
    end: Mapped[DriveEnd | None]
    """How this drive ended. None while it runs or if it was killed."""
    message: Mapped[str | None] = mapped_column(Text)
    """The one-line error message, if it failed."""

    bisection: Mapped[BisectionRow] = relationship(back_populates="drives")


class StageRow(Base):
    """One searched range.

    Range 1 is in the bisection's repository. If the culprit of a range changes the pin of a submodule, the next range
    is in that submodule.
    """

    __tablename__ = "stages"
    __table_args__ = (UniqueConstraint("bisection_id", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"), index=True)
    ordinal: Mapped[int]
    repository: Mapped[str]
    seeks: Mapped[Seeks] = mapped_column(server_default=Seeks.REGRESSION.value)
    old: Mapped[str] = mapped_column("good", String(64))
    """The older end of the range: the good end in the search for a regression, the bad one in the search for a fix."""
    new: Mapped[str] = mapped_column("bad", String(64))
    held: Mapped[StringMap]
    """The revisions of other repositories that were held for the whole range, by repository."""
    old_content: Mapped[str | None] = mapped_column(String(64))
    """The content key of the old end. None in older stores, and while the old end is searched for, because `old` may
    still change."""

    candidates: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    """The commits of the range, parents before children: one JSON array per line, in gzip's format.

    A long range has hundreds of thousands of them. None while the old end is searched for."""

    bisection: Mapped[BisectionRow] = relationship(back_populates="stages")


class CommitRow(Base):
    """A commit as git describes it.

    A commit has a row if it was run, or if an answer or an end of a range names it.
    """

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


class EnvironmentRow(Base):
    """The environment of probes: interpreter, compilers, CPU, libraries, and the commits of other repositories."""

    __tablename__ = "environments"

    id: Mapped[int] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64), unique=True)
    details: Mapped[StringMap]


class BuildRow(Base):
    """One build of a toolchain. Each key is recorded once."""

    __tablename__ = "builds"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    created: Mapped[datetime]
    seconds: Mapped[float]
    steps: Mapped[FloatMap]
    """Seconds by step."""


class ProbeRow(Base):
    """One build and run of the case at one commit; `run` counts the runs of the same content."""

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
    revisions: Mapped[StringMap]
    """The commit of every repository of the stack."""
    content: Mapped[str] = mapped_column(String(64))
    """The key of everything that can change the result. Equal keys are one experiment."""
    run: Mapped[int]
    attempt: Mapped[int] = mapped_column(default=1)
    """The number of starts of this probe. It is more than one if an earlier start was killed or cancelled."""
    state: Mapped[ProbeState]
    started: Mapped[datetime]
    finished: Mapped[datetime | None]

    verdict: Mapped[Verdict | None]
    judgement: Mapped[Judgement | None]
    verdict_source: Mapped[VerdictSource] = mapped_column(server_default=VerdictSource.OUTPUT.value)
    signature: Mapped[str | None] = mapped_column(Text)
    metrics: Mapped[Metrics | None]
    exit_code: Mapped[int | None]
    """The exit code of the run; negative for a signal."""
    symptoms: Mapped[dict[str, Any] | None]
    """The `Symptoms` of the run (errors, last lines, ending), where the case is a command of the user."""
    likeness: Mapped[float | None]
    """The probability that the run failed as the failing end did.

    It is set only if the run failed. `judgement` then says whether it shows the searched failure (bad) or another one
    (skip). It is good if the failing test of the end passes in it."""
    build_id: Mapped[int | None] = mapped_column(ForeignKey("builds.id"))
    build_source: Mapped[BuildSource | None]
    build_seconds: Mapped[float | None]
    run_seconds: Mapped[float | None]
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    slot: Mapped[int | None]
    host: Mapped[str | None]
    command: Mapped[list[str] | None]
    reused_id: Mapped[int | None]
    """The probe that this row copies, from another bisection with the same question."""

    bisection: Mapped[BisectionRow] = relationship(back_populates="probes")
    reused: Mapped[ProbeRow | None] = relationship(
        primaryjoin="foreign(ProbeRow.reused_id) == remote(ProbeRow.id)", viewonly=True
    )
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
    """The number of the line in the whole log, from 1; 0 where the evidence is no line of it."""
    text: Mapped[str] = mapped_column(Text)
    why: Mapped[str] = mapped_column(Text)

    probe: Mapped[ProbeRow] = relationship(back_populates="evidence")


class ArtifactRow(Base):
    """A file or folder that a probe left."""

    __tablename__ = "artifacts"

    id: Mapped[int] = mapped_column(primary_key=True)
    probe_id: Mapped[int] = mapped_column(ForeignKey("probes.id"), index=True)
    kind: Mapped[str] = mapped_column(String(32))
    """`log`, `build_directory` or `golden_data`."""
    path: Mapped[str] = mapped_column(Text)
    bytes: Mapped[int] = mapped_column(BigInteger)

    probe: Mapped[ProbeRow] = relationship(back_populates="artifacts")


class NoticeRow(Base):
    """A warning that belongs in the report, such as an environment that changed between two probes."""

    __tablename__ = "notices"

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"), index=True)
    created: Mapped[datetime]
    text: Mapped[str] = mapped_column(Text)

    bisection: Mapped[BisectionRow] = relationship(back_populates="notices")


class NightRow(Base):
    """One run of a job, from the test matrix to its bisections. A killed night is resumed."""

    __tablename__ = "nights"
    __table_args__ = (UniqueConstraint("job", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(String(64))
    ordinal: Mapped[int]
    """The number of the night in its job, from 1."""
    started: Mapped[datetime]
    finished: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=1)
    """The number of starts of this night. It exceeds one where the night was killed."""
    heads: Mapped[StringMap]
    """The commit of the searched repository at the beginning of the night, by branch."""
    host: Mapped[str]
    summary: Mapped[dict[str, Any] | None]
    """A `NightSummary`, once the night is finished."""

    results: Mapped[list[CaseResultRow]] = relationship(back_populates="night", order_by="CaseResultRow.id")
    hook_calls: Mapped[list[HookCallRow]] = relationship(order_by="HookCallRow.id")


class CellRow(Base):
    """A case on a platform under a tolerance on a branch, which is followed from night to night."""

    __tablename__ = "cells"
    __table_args__ = (UniqueConstraint("job", "branch", "case", "platform", "tolerance"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(String(64))
    branch: Mapped[str]
    case: Mapped[str]
    platform: Mapped[str] = mapped_column(String(64))
    tolerance: Mapped[str] = mapped_column(String(64))


class CaseRunRow(Base):
    """One finished run of a cell in a night. A run that was cut short has no row."""

    __tablename__ = "case_runs"
    __table_args__ = (UniqueConstraint("night_id", "cell_id", "run"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), index=True)
    run: Mapped[int]
    started: Mapped[datetime]
    finished: Mapped[datetime]
    commit: Mapped[str] = mapped_column(String(64), index=True)
    revisions: Mapped[StringMap]
    content: Mapped[str] = mapped_column(String(64), index=True)
    """The content as in `ProbeRow.content`."""
    verdict: Mapped[Verdict]
    signature: Mapped[str | None] = mapped_column(Text)
    metrics: Mapped[Metrics]
    """Numbers by output and metric, as in `ProbeRow.metrics`."""
    evidence: Mapped[list[str]]
    """The lines that justify the verdict."""
    device: Mapped[int]
    host: Mapped[str]
    build_source: Mapped[str] = mapped_column(String(32))
    build_seconds: Mapped[float]
    run_seconds: Mapped[float]
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"))
    log: Mapped[str] = mapped_column(Text)
    """The path of the run's log (or of the failed build's)."""

    environment: Mapped[EnvironmentRow] = relationship()
    cell: Mapped[CellRow] = relationship()
    night: Mapped[NightRow] = relationship()


class CaseResultRow(Base):
    """The result of a night for a cell."""

    __tablename__ = "case_results"
    __table_args__ = (UniqueConstraint("night_id", "cell_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), index=True)
    status: Mapped[CaseStatus]
    commit: Mapped[str] = mapped_column(String(64))
    content: Mapped[str | None] = mapped_column(String(64))
    runs: Mapped[int]
    """The number of judged runs in this night at this content; 0 where an earlier night's result was taken."""
    failures: Mapped[int]
    verdict: Mapped[Verdict | None]
    """The verdict of the failure, or else of the last run."""
    signature: Mapped[str | None] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    """One sentence for people."""
    same_as_id: Mapped[int | None] = mapped_column(ForeignKey("case_results.id"))
    """The earlier result that was taken because nothing that can change it has changed."""
    regression_id: Mapped[int | None] = mapped_column(ForeignKey("regressions.id"))

    night: Mapped[NightRow] = relationship(back_populates="results")
    cell: Mapped[CellRow] = relationship()
    regression: Mapped[RegressionRow | None] = relationship()


class RegressionRow(Base):
    """A cell that passed, then failed. It is open until the cell has recovered."""

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
    """The reason why its bisection named nothing."""
    incident_id: Mapped[int | None] = mapped_column(ForeignKey("incidents.id"), index=True)
    recovered_night_id: Mapped[int | None] = mapped_column(ForeignKey("nights.id"))
    last_bad: Mapped[str] = mapped_column(String(64))
    """The newest commit at which it was seen failing."""
    recovered_at: Mapped[str | None] = mapped_column(String(64))
    """The commit at which it was judged to pass again."""
    fixed_by: Mapped[str | None] = mapped_column(String(64))
    """The fixing commit of the searched repository, once the bisection for it has named one."""
    fix_bisection_id: Mapped[int | None] = mapped_column(ForeignKey("bisections.id"))
    """The bisection that searches for the fixing commit."""
    fix_problem: Mapped[str | None] = mapped_column(Text)
    """The reason why the search for the fixing commit ended without naming one. Otherwise None."""

    cell: Mapped[CellRow] = relationship()
    bisection: Mapped[BisectionRow | None] = relationship(foreign_keys=[bisection_id])
    incident: Mapped[IncidentRow | None] = relationship(back_populates="regressions")
    opened_night: Mapped[NightRow] = relationship(foreign_keys=[opened_night_id])
    recovered_night: Mapped[NightRow | None] = relationship(foreign_keys=[recovered_night_id])


class IncidentRow(Base):
    """All regressions with one culprit. It is open until each of them has recovered."""

    __tablename__ = "incidents"
    __table_args__ = (UniqueConstraint("job", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str] = mapped_column(String(64))
    ordinal: Mapped[int]
    """The number in its job, from 1, by which people refer to it."""
    repository: Mapped[str]
    """The repository of the culprit."""
    culprit: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(Text)
    confidence: Mapped[float | None]
    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisections.id"))
    """The bisection that named the culprit. Further regressions have bisections of their own."""
    opened_night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    closed_night_id: Mapped[int | None] = mapped_column(ForeignKey("nights.id"), index=True)
    fixed_by: Mapped[str | None] = mapped_column(String(64))
    """The fixing commit, of the searched repository; None where several commits may have fixed it."""
    reduction: Mapped[str | None] = mapped_column(Text)
    """The folder of its one reduction."""

    regressions: Mapped[list[RegressionRow]] = relationship(
        back_populates="incident", order_by="RegressionRow.id"
    )
    bisection: Mapped[BisectionRow] = relationship()
    opened_night: Mapped[NightRow] = relationship(foreign_keys=[opened_night_id])
    closed_night: Mapped[NightRow | None] = relationship(foreign_keys=[closed_night_id])


class HookCallRow(Base):
    """A hook that was called for an event.

    It is recorded when the hook has ended, so a resume calls it at most once more.
    """

    __tablename__ = "hook_calls"

    id: Mapped[int] = mapped_column(primary_key=True)
    night_id: Mapped[int] = mapped_column(ForeignKey("nights.id"), index=True)
    incident_id: Mapped[int] = mapped_column(ForeignKey("incidents.id"))
    event: Mapped[str] = mapped_column(String(16))
    """`opened` or `closed`."""
    called: Mapped[datetime]
    exit_code: Mapped[int]
    """The exit code; negative for a signal, and 127 where the hook could not be started."""


class SubmissionRow(Base):
    """One call of `bisect-precision` that a worker makes later. Its bisection will have the name `bisection`."""

    __tablename__ = "submissions"

    id: Mapped[int] = mapped_column(primary_key=True)
    bisection: Mapped[str] = mapped_column(String(64), unique=True)
    user: Mapped[str] = mapped_column(String(64))
    words: Mapped[list[str]]
    """The words of the command without its name."""
    afterwards: Mapped[list[str]] = mapped_column(default=list, server_default="[]")
    """The words of the command that its worker runs after it has ended, such as that of a night that waits."""
    folder: Mapped[str] = mapped_column(Text)
    """The folder in which the words were typed."""
    priority: Mapped[int]
    board: Mapped[str | None] = mapped_column(String(64))
    """The platform of the board that it needs; None where it runs on a simulator."""
    device: Mapped[int | None]
    """The board's number; None where any board is suitable. A bisection that has begun stays on its board."""
    created: Mapped[datetime]
    state: Mapped[SubmissionState]
    cancelling: Mapped[bool]
    """Whether it was cancelled while it ran. Then its worker stops it."""
    exit_code: Mapped[int | None]
    """The exit code of the call, once it has ended."""
    finished: Mapped[datetime | None]

    place: Mapped[str | None] = mapped_column(String(64))
    """The home that holds its golden data and logs, once it has begun. It continues there."""
    lacking: Mapped[str | None] = mapped_column(Text)
    """While it waits, a machine that could not run it, and the reason."""
    lacking_host: Mapped[str | None]
    """The name of that machine."""
    worker: Mapped[str | None] = mapped_column(String(128))
    """The worker that runs it, while it runs."""
    host: Mapped[str | None]
    """The host whose boards it uses, while it runs."""
    started: Mapped[datetime | None]
    """The time at which its worker took it, while it runs."""
    lease: Mapped[datetime | None]
    """The time until which the worker has it. A worker without news by then has lost it."""
    lost: Mapped[int]
    """The number of workers that were lost while they ran it."""
    seconds: Mapped[float]
    """How long it has run on workers that no longer have it."""
    tail: Mapped[str] = mapped_column(Text)
    """The last lines of its log."""


class TokenRow(Base):
    """A user who may write to the queue through a server by showing the token. Only its digest is kept."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    """The SHA-256 of the token. The token is random, so nobody can guess it from the digest."""
    created: Mapped[datetime]
    revoked: Mapped[datetime | None]

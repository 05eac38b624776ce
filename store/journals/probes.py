"""The probes of one bisection in the store: noted before they start, and counted once they are finished, wholly or not
at all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from ..clock import now
from ..tables.bisections import ArtifactRow, BisectionRow, BuildRow, EvidenceRow, ProbeRow
from ..vocabulary import BuildSource, Evidence, Judgement, Phase, ProbeState, Verdict
from .shared_rows import environment_id, storable

_CONTENTS_ASKED_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class ProbeKey:
    """Which experiment: the n-th run of some content, and why it is made."""

    stage: int
    phase: Phase
    repository: str
    commit: str
    revisions: Mapping[str, str]
    content: str
    run: int


@dataclass(frozen=True, kw_only=True)
class ProbeOutcome:
    """The result of a probe. `build_key` is None where the build failed; seconds are wall time."""

    verdict: Verdict
    judgement: Judgement
    signature: str | None
    metrics: Mapping[str, Mapping[str, float]]
    exit_code: int | None
    evidence: Sequence[Evidence]
    build_key: str | None
    build_source: BuildSource
    build_seconds: float
    build_steps: Mapping[str, float]
    run_seconds: float
    fingerprint: str
    environment: Mapping[str, str]
    slot: int
    host: str
    command: Sequence[str]
    artifacts: Mapping[str, tuple[str, int]]
    """Path and bytes by kind."""


class ProbeJournal:
    """Writes the probes of one bisection and reads them back. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self._bisection = bisection

    def finished(self) -> list[ProbeRow]:
        """The finished probes in the order they were started, detached, with environment and evidence."""
        with self._sessions() as session:
            return list(session.scalars(self._query().order_by(ProbeRow.ordinal)))

    def get(self, ordinal: int) -> ProbeRow:
        """One finished probe."""
        with self._sessions() as session:
            return session.scalars(self._query().where(ProbeRow.ordinal == ordinal)).one()

    def last_elsewhere(self, contents: Collection[str]) -> list[ProbeRow]:
        """The last finished probe that other bisections made of each of some contents, detached, with its evidence."""
        elsewhere = (ProbeRow.bisection_id != self._bisection, ProbeRow.state == ProbeState.FINISHED)
        query = select(ProbeRow).options(selectinload(ProbeRow.evidence)).where(*elsewhere)
        asked, last = sorted(contents), dict[str, ProbeRow]()
        with self._sessions() as session:
            for start in range(0, len(asked), _CONTENTS_ASKED_AT_ONCE):
                some = asked[start : start + _CONTENTS_ASKED_AT_ONCE]
                found = session.scalars(query.where(ProbeRow.content.in_(some)).order_by(ProbeRow.finished))
                last |= {probe.content: probe for probe in found}
        return [*last.values()]

    def of_bisections_that_built(self, contents: Collection[str], *, most: int) -> list[list[ProbeRow]]:
        """The finished probes, detached, of other bisections for the same platform that built some of these contents,
        each in the order of the starts; of the newest ones, at most so many."""
        asked, bisections = sorted(contents), set[int]()
        built = (ProbeRow.bisection_id != self._bisection, ProbeRow.build_source == BuildSource.BUILT)
        with self._sessions() as session:
            for start in range(0, len(asked), _CONTENTS_ASKED_AT_ONCE):
                some = asked[start : start + _CONTENTS_ASKED_AT_ONCE]
                query = select(ProbeRow.bisection_id).where(*built, ProbeRow.content.in_(some))
                bisections |= {*session.scalars(query.distinct())}
            platform = session.get_one(BisectionRow, self._bisection).request.get("platform")
            newest = (session.get_one(BisectionRow, each) for each in sorted(bisections, reverse=True))
            alike = [each.id for each in newest if each.request.get("platform") == platform][:most]
            return [
                [
                    *session.scalars(
                        select(ProbeRow)
                        .where(ProbeRow.bisection_id == each, ProbeRow.state == ProbeState.FINISHED)
                        .order_by(ProbeRow.ordinal)
                    )
                ]
                for each in reversed(alike)
            ]

    def _query(self) -> Select[ProbeRow]:
        return (
            select(ProbeRow)
            .options(joinedload(ProbeRow.environment), selectinload(ProbeRow.evidence))
            .where(ProbeRow.bisection_id == self._bisection, ProbeRow.state == ProbeState.FINISHED)
        )

    def start(self, key: ProbeKey) -> int:
        """Note that a probe starts, and get its ordinal. One that was cut short or cancelled starts
        again in its own row."""
        with self._sessions.begin() as session:
            row = session.scalar(
                select(ProbeRow).where(
                    ProbeRow.bisection_id == self._bisection,
                    ProbeRow.content == key.content,
                    ProbeRow.run == key.run,
                )
            )
            if row is not None:
                if row.state is ProbeState.FINISHED:
                    raise ValueError(f"run {key.run} of {key.content} is finished: a probe counts once")
                row.state = ProbeState.STARTED
                row.attempt += 1
                row.started = now()
                return row.ordinal
            last = session.scalar(
                select(func.max(ProbeRow.ordinal)).where(ProbeRow.bisection_id == self._bisection)
            )
            row = ProbeRow(
                bisection_id=self._bisection,
                stage_id=key.stage,
                ordinal=(last or 0) + 1,
                phase=key.phase,
                repository=key.repository,
                commit=key.commit,
                revisions=dict(key.revisions),
                content=key.content,
                run=key.run,
                state=ProbeState.STARTED,
                started=now(),
            )
            session.add(row)
            return row.ordinal

    def cancel(self, ordinal: int) -> None:
        """Note that a started probe was stopped, for it had lost its value."""
        with self._sessions.begin() as session:
            row = session.scalars(
                select(ProbeRow).where(ProbeRow.bisection_id == self._bisection, ProbeRow.ordinal == ordinal)
            ).one()
            if row.state is ProbeState.FINISHED:
                raise ValueError(f"run {ordinal} is finished: it counts")
            row.state = ProbeState.CANCELLED

    def finish(self, ordinal: int, result: ProbeOutcome) -> None:
        """Note the result of a started probe, with all its evidence."""
        with self._sessions.begin() as session:
            row = session.scalars(
                select(ProbeRow).where(ProbeRow.bisection_id == self._bisection, ProbeRow.ordinal == ordinal)
            ).one()
            row.state = ProbeState.FINISHED
            row.finished = now()
            row.verdict = result.verdict
            row.judgement = result.judgement
            row.signature = None if result.signature is None else storable(result.signature)
            row.metrics = {name: dict(values) for name, values in result.metrics.items()}
            row.exit_code = result.exit_code
            row.build_source = result.build_source
            row.build_seconds = result.build_seconds
            row.run_seconds = result.run_seconds
            row.slot = result.slot
            row.host = result.host
            row.command = list(result.command)
            row.environment_id = environment_id(session, result.fingerprint, result.environment)
            if result.build_key is not None:
                row.build_id = _build_id(session, result)
            row.evidence = [
                EvidenceRow(
                    ordinal=index,
                    stream=line.stream,
                    line=line.line,
                    text=storable(line.text),
                    why=storable(line.why),
                )
                for index, line in enumerate(result.evidence)
            ]
            row.artifacts = [
                ArtifactRow(kind=kind, path=path, bytes=size)
                for kind, (path, size) in result.artifacts.items()
            ]


def _build_id(session: Session, result: ProbeOutcome) -> int | None:
    """The row of the build a probe used; a build is noted when it was really made."""
    known = session.scalar(select(BuildRow.id).where(BuildRow.key == result.build_key))
    if known is not None or result.build_source is not BuildSource.BUILT:
        return known
    assert result.build_key is not None
    row = BuildRow(
        key=result.build_key, created=now(), seconds=result.build_seconds, steps=dict(result.build_steps)
    )
    session.add(row)
    session.flush()
    return row.id

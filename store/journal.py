"""The driver's hand on the store. Each method is one transaction: a probe is noted before it starts, and
counts once it is finished, wholly or not at all."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from .clock import now
from .commit import Commit
from .database import sole_driver
from .tables.bisections import (
    ArtifactRow,
    BisectionRow,
    BuildRow,
    CandidateRow,
    CommitRow,
    EnvironmentRow,
    EvidenceRow,
    NoticeRow,
    ProbeRow,
    StageRow,
)
from .vocabulary import BisectionOutcome, BuildSource, Evidence, Judgement, Phase, ProbeState, Seeks, Verdict


@dataclass(frozen=True, kw_only=True)
class RangeCommit:
    """A commit of a range: the commit that stands for it (None: the good end does), and its content, if it has one."""

    commit: Commit
    representative: str | None
    content: str | None


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


class Journal:
    """Writes one bisection and reads it back."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self.bisection = bisection

    @classmethod
    def begin(
        cls,
        sessions: sessionmaker[Session],
        *,
        name: str,
        repository: str,
        good: str,
        bad: str,
        request: Mapping[str, Any],
    ) -> "Journal":
        """Note a new bisection."""
        with sessions.begin() as session:
            row = BisectionRow(
                name=name, created=now(), repository=repository, good=good, bad=bad, request=dict(request)
            )
            session.add(row)
            session.flush()
            return cls(sessions, row.id)

    @classmethod
    def find(cls, sessions: sessionmaker[Session], name: str | None) -> "Journal | None":
        """A bisection by its name, or the newest one that is not finished."""
        query = select(BisectionRow.id).order_by(BisectionRow.id.desc()).limit(1)
        unfinished = BisectionRow.outcome.is_(None) | (BisectionRow.outcome == BisectionOutcome.BUDGET)
        query = query.where(BisectionRow.name == name) if name else query.where(unfinished)
        with sessions() as session:
            found = session.scalar(query)
        return None if found is None else cls(sessions, found)

    def sole_driver(self) -> AbstractContextManager[bool]:
        """Whether this process, of all machines that share the store, is the one to drive it."""
        return sole_driver(self._sessions, self.bisection)

    def row(self) -> BisectionRow:
        """The bisection's own row, detached."""
        with self._sessions() as session:
            return session.get_one(BisectionRow, self.bisection)

    def set_golden(self, digest: str) -> None:
        """Note the data that every probe from now on runs with."""
        with self._sessions.begin() as session:
            session.get_one(BisectionRow, self.bisection).golden = digest

    def set_good(self, sha: str) -> None:
        """Note the good end that was looked for."""
        with self._sessions.begin() as session:
            session.get_one(BisectionRow, self.bisection).good = sha

    def add_notice(self, text: str) -> None:
        """Note a warning for the report, once."""
        with self._sessions.begin() as session:
            known = select(NoticeRow.id).where(
                NoticeRow.bisection_id == self.bisection, NoticeRow.text == storable(text)
            )
            if session.scalar(known) is None:
                session.add(NoticeRow(bisection_id=self.bisection, created=now(), text=storable(text)))

    def conclude(self, outcome: BisectionOutcome, conclusion: Mapping[str, Any]) -> None:
        """Note how it ended."""
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.outcome = outcome
            row.conclusion = dict(conclusion)
            row.finished = now()

    def note_localization(self, localization: Mapping[str, Any]) -> None:
        """Note where the failure begins, beside how the bisection ended."""
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.conclusion = {**(row.conclusion or {}), "localization": dict(localization)}

    def stage(
        self,
        *,
        ordinal: int,
        repository: str,
        seeks: Seeks,
        old: str,
        new: str,
        held: Mapping[str, str],
        candidates: Iterable[RangeCommit],
    ) -> int:
        """The id of a range, which is noted with its candidates the first time that there are any: before, its old
        end is still looked for.

        `candidates` come parents first.
        """
        with self._sessions.begin() as session:
            listed = list(candidates)
            row = session.scalar(
                select(StageRow).where(StageRow.bisection_id == self.bisection, StageRow.ordinal == ordinal)
            )
            if row is None:
                row = StageRow(
                    bisection_id=self.bisection,
                    ordinal=ordinal,
                    repository=repository,
                    seeks=seeks,
                    old=old,
                    new=new,
                    held=dict(held),
                )
                session.add(row)
                session.flush()
            elif not listed or row.candidates:
                return row.id
            row.old = old
            ids = commit_ids(session, repository, [candidate.commit for candidate in listed])
            session.add_all(
                CandidateRow(
                    stage_id=row.id,
                    ordinal=index,
                    commit_id=ids[candidate.commit.sha],
                    representative_id=ids[candidate.representative] if candidate.representative else None,
                    content=candidate.content,
                )
                for index, candidate in enumerate(listed)
            )
            return row.id

    def add_commits(self, repository: str, commits: Iterable[Commit]) -> None:
        """Note commits that a report speaks of beside the candidates, such as the ends."""
        with self._sessions.begin() as session:
            commit_ids(session, repository, list(commits))

    def probes(self) -> list[ProbeRow]:
        """The finished probes in the order they were started, detached, with environment and evidence."""
        with self._sessions() as session:
            return list(session.scalars(self._finished().order_by(ProbeRow.ordinal)))

    def probe(self, ordinal: int) -> ProbeRow:
        """One finished probe."""
        with self._sessions() as session:
            return session.scalars(self._finished().where(ProbeRow.ordinal == ordinal)).one()

    def _finished(self) -> Select[ProbeRow]:
        return (
            select(ProbeRow)
            .options(joinedload(ProbeRow.environment), selectinload(ProbeRow.evidence))
            .where(ProbeRow.bisection_id == self.bisection, ProbeRow.state == ProbeState.FINISHED)
        )

    def start_probe(self, key: ProbeKey) -> int:
        """Note that a probe starts, and get its ordinal. One that was cut short or cancelled starts
        again in its own row."""
        with self._sessions.begin() as session:
            row = session.scalar(
                select(ProbeRow).where(
                    ProbeRow.bisection_id == self.bisection,
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
                select(func.max(ProbeRow.ordinal)).where(ProbeRow.bisection_id == self.bisection)
            )
            row = ProbeRow(
                bisection_id=self.bisection,
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

    def cancel_probe(self, ordinal: int) -> None:
        """Note that a started probe was stopped, for it had lost its value."""
        with self._sessions.begin() as session:
            row = session.scalars(
                select(ProbeRow).where(ProbeRow.bisection_id == self.bisection, ProbeRow.ordinal == ordinal)
            ).one()
            if row.state is ProbeState.FINISHED:
                raise ValueError(f"run {ordinal} is finished: it counts")
            row.state = ProbeState.CANCELLED

    def finish_probe(self, ordinal: int, result: ProbeOutcome) -> None:
        """Note the result of a started probe, with all its evidence."""
        with self._sessions.begin() as session:
            row = session.scalars(
                select(ProbeRow).where(ProbeRow.bisection_id == self.bisection, ProbeRow.ordinal == ordinal)
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


def storable(text: str) -> str:
    """Text as every database takes it: valid Unicode without NUL."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def commit_ids(session: Session, repository: str, commits: Sequence[Commit]) -> dict[str, int]:
    """The ids of all known commits of a repository; those of `commits` are known from now on."""
    known = {
        row.sha: row.id
        for row in session.execute(
            select(CommitRow.sha, CommitRow.id).where(CommitRow.repository == repository)
        )
    }
    fresh = {commit.sha: commit for commit in commits if commit.sha not in known}
    rows = [CommitRow(repository=repository, **_storable_fields(commit)) for commit in fresh.values()]
    session.add_all(rows)
    session.flush()
    return known | {row.sha: row.id for row in rows}


def _storable_fields(commit: Commit) -> dict[str, object]:
    return {
        "sha": commit.sha,
        "date": commit.date,
        "parents": list(commit.parents),
        "author": storable(commit.author),
        "email": storable(commit.email),
        "subject": storable(commit.subject),
        "files": [storable(path) for path in commit.files],
    }


def environment_id(session: Session, fingerprint: str, details: Mapping[str, str]) -> int:
    """The row of some surroundings, made where they are new."""
    known = session.scalar(select(EnvironmentRow.id).where(EnvironmentRow.fingerprint == fingerprint))
    if known is not None:
        return known
    row = EnvironmentRow(fingerprint=fingerprint, details=dict(details))
    session.add(row)
    session.flush()
    return row.id


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

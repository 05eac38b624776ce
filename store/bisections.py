"""Bisections in the store: what was asked, what was run, and how it ended.

`BisectionJournal` is one bisection. `StageJournal` writes the ranges that it has searched, with their commits.
`ProbeJournal` writes its probes: they are recorded before they start, and count, wholly, only once they are finished.
`EarlierRunJournal` reads what earlier nights and bisections have run in one repository. Rows are read detached. Text is
converted so that every database accepts it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, exists, func, insert, select
from sqlalchemy.orm import Session, aliased, joinedload, selectinload, sessionmaker

from .database import sole_driver
from .tables import (
    ArtifactRow,
    BisectionRow,
    BuildRow,
    CandidateRow,
    CaseResultRow,
    CaseRunRow,
    CellRow,
    CommitRow,
    DriveRow,
    EnvironmentRow,
    EvidenceRow,
    NoticeRow,
    ProbeRow,
    StageRow,
    now,
)
from .vocabulary import (
    BisectionOutcome,
    BuildSource,
    CaseStatus,
    Commit,
    DriveEnd,
    Evidence,
    Judgement,
    Phase,
    ProbeState,
    Seeks,
    Verdict,
    VerdictSource,
)

_MOST_RUNS = 10_000
"""Rates are learned from this many of the newest nightly runs. The nights of years would fill the memory."""
_READ_BATCH = 1_000
"""The database hands over this many rows at a time, so that runs of other repositories do not fill the memory."""
_MOST_BISECTIONS = 200
"""Rates are learned from this many of the newest bisections. Older ones say little about today's cases."""
_MOST_ALIKE = 50
"""This many of the newest bisections with one failing end are compared with a new one. Each brings its starts along."""


@dataclass(frozen=True, kw_only=True)
class NightlyRun:
    """A run of a case in a night, and the result of that night for the case."""

    case: str
    content: str
    verdict: Verdict
    status: CaseStatus


class RangeCandidate(NamedTuple):
    """A commit of a searched range. `representative` and `content` are those of `CandidateRow`."""

    sha: str
    parents: Sequence[str]
    subject: str
    representative: str | None
    content: str | None


def range_candidates(session: Session, stage: int) -> Iterator[RangeCandidate]:
    """Yield the commits of a range, parents before children. Rows of a long range are not made into objects."""
    own, first = aliased(CommitRow), aliased(CommitRow)
    query = (
        select(own.sha, own.parents, own.subject, first.sha, CandidateRow.content)
        .select_from(CandidateRow)
        .join(own, CandidateRow.commit_id == own.id)
        .outerjoin(first, CandidateRow.representative_id == first.id)
        .where(CandidateRow.stage_id == stage)
        .order_by(CandidateRow.ordinal)
    )
    for row in session.execute(query):
        yield RangeCandidate(*row)


class EarlierRunJournal:
    """Reads what was run. Rows are detached."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def nightly_runs(self, *, repository: str, platform: str) -> list[NightlyRun]:
        """Return the newest 10,000 nightly runs of a platform that had this repository, at the commits that nights
        examined.
        """
        same = and_(
            CaseResultRow.night_id == CaseRunRow.night_id,
            CaseResultRow.cell_id == CaseRunRow.cell_id,
            CaseResultRow.commit == CaseRunRow.commit,
        )
        query = (
            select(
                CellRow.case,
                CaseRunRow.content,
                CaseRunRow.verdict,
                CaseRunRow.revisions,
                CaseResultRow.status,
            )
            .join(CaseResultRow, same)
            .join(CellRow, CellRow.id == CaseRunRow.cell_id)
            .where(CellRow.platform == platform)
            .order_by(CaseRunRow.id.desc())
            .execution_options(yield_per=_READ_BATCH)
        )
        with self._sessions() as session:
            # The repositories of a run are in JSON. So other runs are read too, and left out.
            runs = (
                NightlyRun(case=case, content=content, verdict=verdict, status=status)
                for case, content, verdict, revisions, status in session.execute(query)
                if repository in revisions
            )
            return [*islice(runs, _MOST_RUNS)]

    def bisections_with_culprit(self, *, repository: str) -> list[BisectionRow]:
        """Return the newest 200 bisections of a repository that named a culprit from their own runs alone.

        Reused runs count with the bisections that made them.
        """
        reused = exists().where(ProbeRow.bisection_id == BisectionRow.id, ProbeRow.reused_id.is_not(None))
        named = BisectionRow.outcome == BisectionOutcome.CULPRIT
        query = (
            select(BisectionRow)
            .where(BisectionRow.repository == repository, named, ~reused)
            .order_by(BisectionRow.id.desc())
            .limit(_MOST_BISECTIONS)
        )
        with self._sessions() as session:
            return [*session.scalars(query)]

    def bisections_with_bad_end(self, *, repository: str, bad: str) -> list[BisectionRow]:
        """Return the newest 50 bisections of a repository with this failing end, with their starts."""
        query = (
            select(BisectionRow)
            .where(BisectionRow.repository == repository, BisectionRow.bad == bad)
            .order_by(BisectionRow.id.desc())
            .limit(_MOST_ALIKE)
            .options(selectinload(BisectionRow.drives))
        )
        with self._sessions() as session:
            return [*session.scalars(query)]

    def judged_probes(self, bisections: Collection[str], contents: Collection[str]) -> list[ProbeRow]:
        """Return the probes of some contents that bisections, given by name, made and judged good or bad.

        The first one to end comes first. Environments and bisections are loaded.
        """
        query = (
            select(ProbeRow)
            .join(BisectionRow)
            .where(
                BisectionRow.name.in_(bisections),
                ProbeRow.reused_id.is_(None),
                ProbeRow.judgement.in_((Judgement.GOOD, Judgement.BAD)),
            )
            .order_by(ProbeRow.finished, ProbeRow.id)
            .options(joinedload(ProbeRow.environment), joinedload(ProbeRow.bisection))
        )
        with self._sessions() as session:
            probes = session.scalars(query)
            return [probe for probe in probes if probe.content in contents and probe.phase.is_unmodified]

    def ranges(self, bisection: int) -> list[tuple[StageRow, list[RangeCandidate]]]:
        """Return the ranges of a bisection, each with its commits, parents before children."""
        query = select(StageRow).where(StageRow.bisection_id == bisection)
        with self._sessions() as session:
            return [(stage, [*range_candidates(session, stage.id)]) for stage in session.scalars(query)]

    def probes(self, bisection: int) -> Sequence[ProbeRow]:
        """Return the finished probes of a bisection."""
        finished = (ProbeRow.bisection_id == bisection, ProbeRow.state == ProbeState.FINISHED)
        query = select(ProbeRow).where(*finished)
        with self._sessions() as session:
            return session.scalars(query).all()


def storable_text(text: str) -> str:
    """Return text that every database accepts: valid Unicode without NUL."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


class CommitJournal:
    """The commits that pages and reports describe. Each is written once."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def add(self, repository: str, commits: Iterable[Commit]) -> None:
        """Record commits that reports mention beside the candidates of a range, such as its ends."""
        with self._sessions.begin() as session:
            commit_ids(session, repository, list(commits))


def commit_ids(session: Session, repository: str, commits: Sequence[Commit]) -> dict[str, int]:
    """Return the ids of commits of a repository, after adding those that the store does not know."""
    known = _known_commit_ids(session, repository, [commit.sha for commit in commits])
    fresh = {commit.sha: commit for commit in commits if commit.sha not in known}
    if fresh:
        # Rows of a long range are not made into objects one by one.
        rows = [{"repository": repository, **_storable_fields(commit)} for commit in fresh.values()]
        session.connection().execute(insert(CommitRow), rows)
        known |= _known_commit_ids(session, repository, [*fresh])
    return known


_MAX_NAMES = 500
"""One query names this many ids at most, because databases bound their parameters."""


def batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield ids in lists that one query can name."""
    return (names[start : start + _MAX_NAMES] for start in range(0, len(names), _MAX_NAMES))


def _known_commit_ids(session: Session, repository: str, shas: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in batches(shas):
        named = CommitRow.sha.in_(some)
        query = select(CommitRow.sha, CommitRow.id).where(CommitRow.repository == repository, named)
        found |= {row.sha: row.id for row in session.execute(query)}
    return found


def _storable_fields(commit: Commit) -> dict[str, object]:
    return {
        "sha": commit.sha,
        "date": commit.date,
        "parents": list(commit.parents),
        "author": storable_text(commit.author),
        "email": storable_text(commit.email),
        "subject": storable_text(commit.subject),
        "files": [storable_text(path) for path in commit.files],
    }


def get_or_create_environment(session: Session, fingerprint: str, details: Mapping[str, str]) -> int:
    """Return the id of the environment's row. Inserts the row if it is missing."""
    known = session.scalar(select(EnvironmentRow.id).where(EnvironmentRow.fingerprint == fingerprint))
    if known is not None:
        return known
    row = EnvironmentRow(fingerprint=fingerprint, details=dict(details))
    session.add(row)
    session.flush()
    return row.id


_NOT_REUSED = ProbeRow.reused_id.is_(None)
"""By this condition a probe was made for its bisection, and not reused from another one."""


@dataclass(frozen=True, kw_only=True)
class ProbeStart:
    """Describes a probe to start. `content` and `run` identify it within its bisection."""

    stage: int
    phase: Phase
    repository: str
    commit: str
    revisions: Mapping[str, str]
    content: str
    run: int


@dataclass(frozen=True, kw_only=True)
class ProbeOutcome:
    """The result of a probe. `build_key` is None where the build failed. Seconds are wall time."""

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
    """Path and size in bytes, by kind."""
    symptoms: Mapping[str, Any] | None = None
    """What a command's run showed of its failure, as JSON."""
    likeness: float | None = None
    """The probability that this run failed as the failing end did. None if the judgement did not use it."""
    verdict_source: VerdictSource = VerdictSource.OUTPUT


_OWN_COLUMNS = {"id", "bisection_id", "stage_id", "ordinal", "phase", "run", "reused_id"}
_COPIED_COLUMNS = [
    column.key for column in ProbeRow.__mapper__.column_attrs if column.key not in _OWN_COLUMNS
]
"""These columns are the same in a copy of a probe for another bisection."""


class ProbeJournal:
    """Writes the probes of one bisection and reads them back. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self._bisection = bisection

    def finished_probes(self) -> list[ProbeRow]:
        """Return the finished probes in the order of their starts, detached, with environment and evidence."""
        with self._sessions() as session:
            return list(session.scalars(self._query().order_by(ProbeRow.ordinal)))

    def get(self, ordinal: int) -> ProbeRow:
        """Return one finished probe."""
        with self._sessions() as session:
            return session.scalars(self._query().where(ProbeRow.ordinal == ordinal)).one()

    def last_in_other_bisections(self, contents: Collection[str]) -> list[ProbeRow]:
        """Return the last finished probe of each content in other bisections, detached, with its evidence."""
        elsewhere = (
            ProbeRow.bisection_id != self._bisection,
            ProbeRow.state == ProbeState.FINISHED,
            _NOT_REUSED,
        )
        query = select(ProbeRow).options(selectinload(ProbeRow.evidence)).where(*elsewhere)
        last = dict[str, ProbeRow]()
        with self._sessions() as session:
            for batch in batches(sorted(contents)):
                found = session.scalars(query.where(ProbeRow.content.in_(batch)).order_by(ProbeRow.finished))
                last |= {probe.content: probe for probe in found}
        return [*last.values()]

    def probes_of_bisections_that_built(
        self, contents: Collection[str], *, limit: int
    ) -> list[list[ProbeRow]]:
        """Return the finished probes of other bisections that built any of `contents` for the same platform.

        The probes are detached. There is one list for each bisection, in start order. The newest `limit` bisections are
        returned, oldest first.
        """
        bisections = set[int]()
        built = (
            ProbeRow.bisection_id != self._bisection,
            ProbeRow.build_source == BuildSource.BUILT,
            _NOT_REUSED,
        )
        with self._sessions() as session:
            for batch in batches(sorted(contents)):
                query = select(ProbeRow.bisection_id).where(*built, ProbeRow.content.in_(batch))
                bisections |= {*session.scalars(query.distinct())}
            platform = session.get_one(BisectionRow, self._bisection).request.get("platform")
            newest = (session.get_one(BisectionRow, each) for each in sorted(bisections, reverse=True))
            alike = [each.id for each in newest if each.request.get("platform") == platform][:limit]
            return [
                [
                    *session.scalars(
                        select(ProbeRow)
                        .where(
                            ProbeRow.bisection_id == each, ProbeRow.state == ProbeState.FINISHED, _NOT_REUSED
                        )
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

    def reuse(self, stage: int, probes: Iterable[tuple[ProbeRow, Phase]]) -> list[int]:
        """Copy finished probes of other bisections into the stage `stage` of this one, with the given phases.

        Columns, evidence and the names of artifacts are copied. Return the ordinals here, in the order of the probes.
        """
        with self._sessions.begin() as session:
            of_bisection = ProbeRow.bisection_id == self._bisection
            last = session.scalar(select(func.max(ProbeRow.ordinal)).where(of_bisection)) or 0
            runs = Counter(session.scalars(select(ProbeRow.content).where(of_bisection)))
            copies: list[ProbeRow] = []
            for ordinal, (probe, phase) in enumerate(probes, last + 1):
                original = session.get_one(ProbeRow, probe.id)
                runs[original.content] += 1
                own = {
                    "bisection_id": self._bisection,
                    "stage_id": stage,
                    "ordinal": ordinal,
                    "phase": phase,
                    "run": runs[original.content],
                    "reused_id": original.id,
                }
                copies.append(
                    ProbeRow(
                        **{name: getattr(original, name) for name in _COPIED_COLUMNS},
                        **own,
                        evidence=[
                            EvidenceRow(
                                ordinal=line.ordinal,
                                stream=line.stream,
                                line=line.line,
                                text=line.text,
                                why=line.why,
                            )
                            for line in original.evidence
                        ],
                        artifacts=[
                            ArtifactRow(kind=each.kind, path=each.path, bytes=each.bytes)
                            for each in original.artifacts
                        ],
                    )
                )
            session.add_all(copies)
            return [copy.ordinal for copy in copies]

    def start(self, key: ProbeStart) -> int:
        """Record that a probe starts, and return its ordinal.

        A probe that was cut short or cancelled starts again in its own row.
        """
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
        """Record that a started probe was stopped because its result is no longer needed."""
        with self._sessions.begin() as session:
            row = session.scalars(
                select(ProbeRow).where(ProbeRow.bisection_id == self._bisection, ProbeRow.ordinal == ordinal)
            ).one()
            if row.state is ProbeState.FINISHED:
                raise ValueError(f"probe {ordinal} is finished: it cannot be cancelled")
            row.state = ProbeState.CANCELLED

    def finish(self, ordinal: int, result: ProbeOutcome) -> None:
        """Record the result of a started probe, with all its evidence."""
        with self._sessions.begin() as session:
            row = session.scalars(
                select(ProbeRow).where(ProbeRow.bisection_id == self._bisection, ProbeRow.ordinal == ordinal)
            ).one()
            row.state = ProbeState.FINISHED
            row.finished = now()
            row.verdict = result.verdict
            row.verdict_source = result.verdict_source
            row.judgement = result.judgement
            row.signature = None if result.signature is None else storable_text(result.signature)
            row.metrics = {name: dict(values) for name, values in result.metrics.items()}
            row.exit_code = result.exit_code
            row.symptoms = None if result.symptoms is None else dict(result.symptoms)
            row.likeness = result.likeness
            row.build_source = result.build_source
            row.build_seconds = result.build_seconds
            row.run_seconds = result.run_seconds
            row.slot = result.slot
            row.host = result.host
            row.command = list(result.command)
            row.environment_id = get_or_create_environment(session, result.fingerprint, result.environment)
            if result.build_key is not None:
                row.build_id = _get_or_create_build(session, result)
            row.evidence = [
                EvidenceRow(
                    ordinal=index,
                    stream=line.stream,
                    line=line.line,
                    text=storable_text(line.text),
                    why=storable_text(line.why),
                )
                for index, line in enumerate(result.evidence)
            ]
            row.artifacts = [
                ArtifactRow(kind=kind, path=path, bytes=size)
                for kind, (path, size) in result.artifacts.items()
            ]


def _get_or_create_build(session: Session, result: ProbeOutcome) -> int | None:
    """Return the id of the build that a probe used. Inserts the build if this probe made it.

    None: the probe did not make it, and nothing recorded it.
    """
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


@dataclass(frozen=True, kw_only=True)
class RangeCommit:
    """A commit of a range.

    `representative` is None if no commit of the range represents it. `content` is None if it pins no submodule.
    """

    commit: Commit
    representative: str | None
    content: str | None


class StageJournal:
    """Writes the stages of one bisection. Each is the search of one range. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self._bisection = bisection

    def record(
        self,
        *,
        ordinal: int,
        repository: str,
        seeks: Seeks,
        old: str,
        new: str,
        held: Mapping[str, str],
        candidates: Iterable[RangeCommit],
        old_content: str | None = None,
    ) -> int:
        """Record a range, or add candidates to one that has none. Return its id.

        The candidates are recorded at the first call that has any. Before that, the old end of the range is still being
        searched. `candidates` come parents first.
        """
        with self._sessions.begin() as session:
            listed = list(candidates)
            row = session.scalar(
                select(StageRow).where(StageRow.bisection_id == self._bisection, StageRow.ordinal == ordinal)
            )
            if row is None:
                row = StageRow(
                    bisection_id=self._bisection,
                    ordinal=ordinal,
                    repository=repository,
                    seeks=seeks,
                    old=old,
                    new=new,
                    held=dict(held),
                )
                session.add(row)
                session.flush()
            elif not listed or session.scalar(select(exists().where(CandidateRow.stage_id == row.id))):
                return row.id
            row.old, row.old_content = old, old_content
            ids = commit_ids(session, repository, [candidate.commit for candidate in listed])
            rows = [
                {
                    "stage_id": row.id,
                    "ordinal": index,
                    "commit_id": ids[candidate.commit.sha],
                    "representative_id": ids[candidate.representative] if candidate.representative else None,
                    "content": candidate.content,
                }
                for index, candidate in enumerate(listed)
            ]
            if rows:
                session.connection().execute(insert(CandidateRow), rows)
            return row.id


class BisectionJournal:
    """One bisection in the store, with its ranges and probes. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection_id: int) -> None:
        self._sessions = sessions
        self.bisection = bisection_id
        self.stages = StageJournal(sessions, bisection_id)
        self.probes = ProbeJournal(sessions, bisection_id)
        self.commits = CommitJournal(sessions)
        self.earlier_runs = EarlierRunJournal(sessions)

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
    ) -> "BisectionJournal":
        """Record a new bisection."""
        with sessions.begin() as session:
            row = BisectionRow(
                name=name, created=now(), repository=repository, good=good, bad=bad, request=dict(request)
            )
            session.add(row)
            session.flush()
            return cls(sessions, row.id)

    @classmethod
    def find(cls, sessions: sessionmaker[Session], name: str) -> "BisectionJournal | None":
        """Return the bisection of this name."""
        with sessions() as session:
            found = session.scalar(select(BisectionRow.id).where(BisectionRow.name == name))
        return None if found is None else cls(sessions, found)

    @classmethod
    def unfinished_bisections(cls, sessions: sessionmaker[Session]) -> list["BisectionJournal"]:
        """Return the bisections that are not finished, the newest first."""
        unfinished = BisectionRow.outcome.is_(None) | (BisectionRow.outcome == BisectionOutcome.BUDGET)
        query = select(BisectionRow.id).where(unfinished).order_by(BisectionRow.id.desc())
        with sessions() as session:
            return [cls(sessions, found) for found in session.scalars(query)]

    def sole_driver(self) -> AbstractContextManager[bool]:
        """Yield whether this process is the only one, on all machines that share the store, to drive the bisection."""
        return sole_driver(self._sessions, self.bisection)

    def begin_drive(self, *, host: str, process: int, seconds: float) -> int:
        """Record a start by a command that began `seconds` ago; return the start's id."""
        with self._sessions.begin() as session:
            until = now()
            row = DriveRow(
                bisection_id=self.bisection,
                host=host,
                process=process,
                begun=until - timedelta(seconds=seconds),
                last_alive=until,
            )
            session.add(row)
            session.flush()
            return row.id

    def note_alive(self, drive: int) -> None:
        """Record that a start is alive."""
        with self._sessions.begin() as session:
            session.get_one(DriveRow, drive).last_alive = now()

    def end_drive(self, drive: int, end: DriveEnd, message: str | None) -> None:
        """Record how a start ended."""
        with self._sessions.begin() as session:
            row = session.get_one(DriveRow, drive)
            row.end, row.message = end, None if message is None else storable_text(message)

    def row(self) -> BisectionRow:
        """Return the bisection's own row, detached."""
        with self._sessions() as session:
            return session.get_one(BisectionRow, self.bisection)

    def set_golden(self, digest: str) -> None:
        """Record the data with which every further probe runs."""
        with self._sessions.begin() as session:
            session.get_one(BisectionRow, self.bisection).golden = digest

    def set_good(self, sha: str) -> None:
        """Record the good end that was searched for."""
        with self._sessions.begin() as session:
            session.get_one(BisectionRow, self.bisection).good = sha

    def add_notice(self, text: str) -> None:
        """Record a warning for the report, once."""
        with self._sessions.begin() as session:
            known = select(NoticeRow.id).where(
                NoticeRow.bisection_id == self.bisection, NoticeRow.text == storable_text(text)
            )
            if session.scalar(known) is None:
                session.add(NoticeRow(bisection_id=self.bisection, created=now(), text=storable_text(text)))

    def conclude(self, outcome: BisectionOutcome, conclusion: Mapping[str, Any]) -> None:
        """Record how the bisection ended."""
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.outcome = outcome
            row.conclusion = dict(conclusion)
            row.finished = now()

    def note_localization(self, localization: Mapping[str, Any]) -> None:
        """Record where the failure begins, beside how the bisection ended."""
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.conclusion = {**(row.conclusion or {}), "localization": dict(localization)}

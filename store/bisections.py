"""Bisections in the store: what was asked, what was run, and how it ended.

`BisectionJournal` is one bisection. Its `StageJournal` writes the ranges that it has searched, with their commits. Its
`ProbeJournal` writes its probes: they are recorded before they start, and count only once they are finished.
`EarlierRunJournal` reads the runs of earlier nights and bisections in one repository. Rows are read detached, and text
is converted so that every database accepts it.
"""

import gzip
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from itertools import islice
from sys import intern
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Select, and_, exists, func, insert, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from .database import sole_driver
from .tables import (
    ArtifactRow,
    BisectionRow,
    BuildRow,
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

_MAX_IDS = 500
"""One query has at most this many ids, because databases limit the number of parameters."""

Item = TypeVar("Item")


def batches(ids: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the ids in lists that are short enough for one query."""
    return (ids[start : start + _MAX_IDS] for start in range(0, len(ids), _MAX_IDS))


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
            bisection_id = session.scalar(select(BisectionRow.id).where(BisectionRow.name == name))
        return None if bisection_id is None else cls(sessions, bisection_id)

    @classmethod
    def unfinished_bisections(cls, sessions: sessionmaker[Session]) -> list["BisectionJournal"]:
        """Return the bisections that are not finished, the newest first."""
        unfinished = BisectionRow.outcome.is_(None) | (BisectionRow.outcome == BisectionOutcome.BUDGET)
        query = select(BisectionRow.id).where(unfinished).order_by(BisectionRow.id.desc())
        with sessions() as session:
            return [cls(sessions, bisection_id) for bisection_id in session.scalars(query)]

    def sole_driver(self) -> AbstractContextManager[bool]:
        """Yield whether this process is the only one to drive the bisection, on all machines that share the store."""
        return sole_driver(self._sessions, self.bisection)

    def begin_drive(self, *, host: str, process: int, seconds: float) -> int:
        """Record a drive: one start of the program, whose command began `seconds` ago. Return the drive's id."""
        with self._sessions.begin() as session:
            current = now()
            row = DriveRow(
                bisection_id=self.bisection,
                host=host,
                process=process,
                begun=current - timedelta(seconds=seconds),
                last_alive=current,
            )
            session.add(row)
            session.flush()
            return row.id

    def note_alive(self, drive: int) -> None:
        """Record that a drive is alive."""
        with self._sessions.begin() as session:
            session.get_one(DriveRow, drive).last_alive = now()

    def end_drive(self, drive: int, end: DriveEnd, message: str | None) -> None:
        """Record how a drive ended."""
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
        """Add the localization to the conclusion of the bisection."""
        self._extend_conclusion(localization=dict(localization))

    def note_caveats(self, caveats: Sequence[str]) -> None:
        """Write the caveats of the last report into the conclusion of the bisection. They replace earlier ones."""
        self._extend_conclusion(caveats=[*caveats])

    def _extend_conclusion(self, **parts: object) -> None:
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.conclusion = {**(row.conclusion or {}), **parts}


class RangeCandidate(NamedTuple):
    """A commit of a searched range.

    Commits that cannot differ in result share a representative. Where `representative` is None, that of the first
    parent applies, and so on. If the first parents lead out of the range, the first commit outside represents them.

    content: the content as in `ProbeRow.content`. None if the commit lacks a pin and so cannot be tested, or is never
    run.
    unread: the number of commits before it for which it stands too, and which were not read.
    """

    sha: str
    parents: Sequence[str]
    subject: str
    representative: str | None
    content: str | None
    unread: int = 0


_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(RangeCandidate)
_GZIP_LEVEL = 1
"""Ranges are compressed at the fastest level. Most of a range are ids, which no level makes much smaller."""


def _pack(candidates: Sequence[RangeCandidate]) -> bytes:
    packed = BytesIO()
    with gzip.open(packed, "wb", _GZIP_LEVEL) as lines:
        lines.writelines(map(_ENCODER.encode_lines, batches(candidates)))
    return packed.getvalue()


def range_candidates(session: Session, stage: int) -> list[RangeCandidate]:
    """Return the commits of a range, parents before children. There are none while its old end is searched for."""
    packed = session.scalar(select(StageRow.candidates).where(StageRow.id == stage))
    if packed is None:
        return []
    with gzip.open(BytesIO(packed)) as lines:
        return [_share_ids(_DECODER.decode(line)) for line in lines]


def _share_ids(candidate: RangeCandidate) -> RangeCandidate:
    """Return the same candidate. Its ids are the same objects as those of other commits, which saves memory."""
    sha, parents, subject, representative, content, unread = candidate
    shared = None if representative is None else intern(representative)
    return RangeCandidate(intern(sha), tuple(map(intern, parents)), subject, shared, content, unread)


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
        candidates: Sequence[RangeCandidate],
        old_content: str | None = None,
        replaces: bool = False,
    ) -> int:
        """Record a range, or add the candidates to a range that was recorded without them. Return its id.

        candidates: parents first. Empty while the old end of the range is still searched for. The first call with
        candidates stores them, with the old end that was found. Later calls change nothing, unless they replace what
        was stored.
        """
        with self._sessions.begin() as session:
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
            if candidates and (replaces or row.candidates is None):
                row.old, row.old_content, row.candidates = old, old_content, _pack(candidates)
            session.flush()
            return row.id


@dataclass(frozen=True, kw_only=True)
class ProbeStart:
    """A probe to start. `content` and `run` identify it within its bisection."""

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
    """The lines and the ending by which a command's failure is compared with others, as JSON."""
    likeness: float | None = None
    """The probability that this run failed as the failing end did. None if the judgement did not use it."""
    verdict_source: VerdictSource = VerdictSource.OUTPUT


_NOT_REUSED = ProbeRow.reused_id.is_(None)
"""A probe meets this condition if it was made for its own bisection, and not reused from another one."""


class ProbeJournal:
    """Writes the probes of one bisection and reads them back. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self._bisection = bisection

    def finished_probes(self) -> list[ProbeRow]:
        """Return the finished probes in the order of their starts, detached, with environment and evidence."""
        with self._sessions() as session:
            return list(session.scalars(self._finished_query().order_by(ProbeRow.ordinal)))

    def get(self, ordinal: int) -> ProbeRow:
        """Return one finished probe."""
        with self._sessions() as session:
            return session.scalars(self._finished_query().where(ProbeRow.ordinal == ordinal)).one()

    def last_probes_in_other_bisections(self, contents: Collection[str]) -> list[ProbeRow]:
        """Return the last finished probe of each content in other bisections, detached, with its evidence."""
        query = (
            select(ProbeRow)
            .options(selectinload(ProbeRow.evidence))
            .where(
                ProbeRow.bisection_id != self._bisection, ProbeRow.state == ProbeState.FINISHED, _NOT_REUSED
            )
        )
        last = dict[str, ProbeRow]()
        with self._sessions() as session:
            for batch in batches(_contents_with_probes(session, contents)):
                probes = session.scalars(query.where(ProbeRow.content.in_(batch)).order_by(ProbeRow.finished))
                last |= {probe.content: probe for probe in probes}
        return [*last.values()]

    def probes_by_bisection(self, contents: Collection[str], *, limit: int) -> list[list[ProbeRow]]:
        """Return the finished probes of other bisections that built any of `contents` for the same platform.

        There is one list for each of the newest `limit` bisections, oldest first. Probes are in the order of their
        starts, detached.
        """
        bisections = set[int]()
        built = (
            ProbeRow.bisection_id != self._bisection,
            ProbeRow.build_source == BuildSource.BUILT,
            _NOT_REUSED,
        )
        with self._sessions() as session:
            for batch in batches(_contents_with_probes(session, contents)):
                query = select(ProbeRow.bisection_id).where(*built, ProbeRow.content.in_(batch))
                bisections |= {*session.scalars(query.distinct())}
            platform = session.get_one(BisectionRow, self._bisection).request.get("platform")
            rows = (session.get_one(BisectionRow, each) for each in sorted(bisections, reverse=True))
            same_platform = [each.id for each in rows if each.request.get("platform") == platform][:limit]
            probe_lists: list[list[ProbeRow]] = []
            for each in reversed(same_platform):
                finished = (ProbeRow.bisection_id == each, ProbeRow.state == ProbeState.FINISHED, _NOT_REUSED)
                query = select(ProbeRow).where(*finished).order_by(ProbeRow.ordinal)
                probe_lists.append([*session.scalars(query)])
            return probe_lists

    def _finished_query(self) -> Select[ProbeRow]:
        return (
            select(ProbeRow)
            .options(joinedload(ProbeRow.environment), selectinload(ProbeRow.evidence))
            .where(ProbeRow.bisection_id == self._bisection, ProbeRow.state == ProbeState.FINISHED)
        )

    def reuse(self, stage: int, probes: Iterable[tuple[ProbeRow, Phase]]) -> list[int]:
        """Copy finished probes of other bisections into the stage `stage` of this one, with the given phases.

        Columns, evidence and the names of artifacts are copied. Return the new ordinals, in the order of the probes.
        """
        with self._sessions.begin() as session:
            of_bisection = ProbeRow.bisection_id == self._bisection
            last = session.scalar(select(func.max(ProbeRow.ordinal)).where(of_bisection)) or 0
            runs = Counter(session.scalars(select(ProbeRow.content).where(of_bisection)))
            copies: list[ProbeRow] = []
            for ordinal, (probe, phase) in enumerate(probes, last + 1):
                original = session.get_one(ProbeRow, probe.id)
                runs[original.content] += 1
                own_values = {
                    "bisection_id": self._bisection,
                    "stage_id": stage,
                    "ordinal": ordinal,
                    "phase": phase,
                    "run": runs[original.content],
                    "reused_id": original.id,
                }
                copies.append(_copy_probe(original, own_values))
            session.add_all(copies)
            return [copy.ordinal for copy in copies]

    def start(self, key: ProbeStart, commit: Commit | None = None) -> int:
        """Record that a probe starts, and return its ordinal. `commit` describes the commit that it runs.

        A probe that was cut short or cancelled starts again in its own row. It may be wanted for something else now:
        for another phase or range, or at another commit of the same content.
        """
        with self._sessions.begin() as session:
            if commit is not None:
                add_commits(session, key.repository, [commit])
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
                row.stage_id, row.phase = key.stage, key.phase
                row.repository, row.commit = key.repository, key.commit
                row.revisions = dict(key.revisions)
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
            # These come first, because each read would write what has changed of the row until then.
            environment = get_or_create_environment(session, result.fingerprint, result.environment)
            build = None if result.build_key is None else _get_or_create_build(session, result)
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
            row.environment_id = environment
            row.build_id = build
            # The lists of the row are not assigned, because that would read them first.
            session.add_all(
                EvidenceRow(
                    probe_id=row.id,
                    ordinal=index,
                    stream=line.stream,
                    line=line.line,
                    text=storable_text(line.text),
                    why=storable_text(line.why),
                )
                for index, line in enumerate(result.evidence)
            )
            session.add_all(
                ArtifactRow(probe_id=row.id, kind=kind, path=path, bytes=size)
                for kind, (path, size) in result.artifacts.items()
            )


def _contents_with_probes(session: Session, contents: Collection[str]) -> list[str]:
    """Return which of some contents have a probe.

    It reads all contents of the store, because a long range has more contents than a store.
    """
    return [each for each in session.scalars(select(ProbeRow.content).distinct()) if each in contents]


_OWN_COLUMNS = {"id", "bisection_id", "stage_id", "ordinal", "phase", "run", "reused_id"}

_COPIED_COLUMNS = [
    column.key for column in ProbeRow.__mapper__.column_attrs if column.key not in _OWN_COLUMNS
]
"""The columns that are the same in a copy of a probe for another bisection."""


def _copy_probe(original: ProbeRow, own_values: Mapping[str, Any]) -> ProbeRow:
    """Return a copy of a probe with these values of its own columns."""
    return ProbeRow(
        **{name: getattr(original, name) for name in _COPIED_COLUMNS},
        **own_values,
        evidence=[
            EvidenceRow(
                ordinal=line.ordinal, stream=line.stream, line=line.line, text=line.text, why=line.why
            )
            for line in original.evidence
        ],
        artifacts=[
            ArtifactRow(kind=each.kind, path=each.path, bytes=each.bytes) for each in original.artifacts
        ],
    )


def _get_or_create_build(session: Session, result: ProbeOutcome) -> int | None:
    """Return the id of the build that a probe used. Insert the build if this probe made it.

    None if the probe did not make the build, and nothing recorded it.
    """
    build_id = session.scalar(select(BuildRow.id).where(BuildRow.key == result.build_key))
    if build_id is not None or result.build_source is not BuildSource.BUILT:
        return build_id
    assert result.build_key is not None
    row = BuildRow(
        key=result.build_key, created=now(), seconds=result.build_seconds, steps=dict(result.build_steps)
    )
    session.add(row)
    session.flush()
    return row.id


def get_or_create_environment(session: Session, fingerprint: str, details: Mapping[str, str]) -> int:
    """Return the id of the environment's row. Insert the row if it is missing."""
    environment_id = session.scalar(
        select(EnvironmentRow.id).where(EnvironmentRow.fingerprint == fingerprint)
    )
    if environment_id is not None:
        return environment_id
    row = EnvironmentRow(fingerprint=fingerprint, details=dict(details))
    session.add(row)
    session.flush()
    return row.id


class CommitJournal:
    """The commits that pages and reports describe. Each is written once."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def add(self, repository: str, commits: Sequence[Commit]) -> None:
        """Record commits that an answer or an end of a range names."""
        with self._sessions.begin() as session:
            add_commits(session, repository, commits)


def add_commits(session: Session, repository: str, commits: Sequence[Commit]) -> None:
    """Insert those commits of a repository that the store does not know."""
    missing = {commit.sha: commit for commit in commits}
    for batch in batches([*missing]):
        query = select(CommitRow.sha).where(CommitRow.repository == repository, CommitRow.sha.in_(batch))
        for sha in session.scalars(query):
            del missing[sha]
    if missing:
        rows = [{"repository": repository, **_storable_fields(commit)} for commit in missing.values()]
        session.execute(insert(CommitRow), rows)


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


def storable_text(text: str) -> str:
    """Return text that every database accepts: valid Unicode without NUL."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


_MAX_RUNS = 10_000
"""Rates are learned from this many of the newest nightly runs. The nights of years would fill the memory."""

_READ_BATCH = 1_000
"""The database hands over this many rows at a time, so that runs of other repositories do not fill the memory."""

_MAX_BISECTIONS = 200
"""Rates are learned from this many of the newest bisections. Older ones say little about today's cases."""

_MAX_SAME_END = 50
"""A new bisection is compared with at most this many earlier ones that have its failing end, the newest ones.

Each is read with its drives."""


@dataclass(frozen=True, kw_only=True)
class NightlyRun:
    """A run of a case in a night, and the result of that night for the case."""

    case: str
    content: str
    verdict: Verdict
    status: CaseStatus


class EarlierRunJournal:
    """Reads earlier runs. Rows are detached."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def nightly_runs(self, *, repository: str, platform: str) -> list[NightlyRun]:
        """Return the newest 10,000 nightly runs of a platform and a repository, at the commits that nights examined."""
        same_commit = and_(
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
            .join(CaseResultRow, same_commit)
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
            return [*islice(runs, _MAX_RUNS)]

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
            .limit(_MAX_BISECTIONS)
        )
        with self._sessions() as session:
            return [*session.scalars(query)]

    def bisections_with_bad_end(self, *, repository: str, bad: str) -> list[BisectionRow]:
        """Return the newest 50 bisections of a repository with this failing end, with their drives."""
        query = (
            select(BisectionRow)
            .where(BisectionRow.repository == repository, BisectionRow.bad == bad)
            .order_by(BisectionRow.id.desc())
            .limit(_MAX_SAME_END)
            .options(selectinload(BisectionRow.drives))
        )
        with self._sessions() as session:
            return [*session.scalars(query)]

    def judged_probes(self, bisections: Collection[str], contents: Collection[str]) -> list[ProbeRow]:
        """Return the probes of `contents` that the named bisections made, and judged good or bad.

        They come in the order in which they finished. Environments and bisections are loaded.
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
            return [(stage, range_candidates(session, stage.id)) for stage in session.scalars(query)]

    def probes(self, bisection: int) -> Sequence[ProbeRow]:
        """Return the finished probes of a bisection."""
        finished = (ProbeRow.bisection_id == bisection, ProbeRow.state == ProbeState.FINISHED)
        query = select(ProbeRow).where(*finished)
        with self._sessions() as session:
            return session.scalars(query).all()

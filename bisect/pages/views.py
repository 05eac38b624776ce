"""Reads from the store what the pages of bisections, of commits and of the queue show.

`range_beliefs` computes how probable each commit of a searched range is after all runs, with the search's own evidence
and posterior. `commit_view` is a commit as git describes it, with all its runs. `list_bisections` reads a few columns
of each bisection, never whole requests. The last functions say how the queue stands, and find the files that a
localization and a reduction left beside a report.
"""

import gzip
import io
import os
import re
import stat
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from ...store.queue import QueueEntry
from ...store.tables import BisectionRow, CaseRunRow, CommitRow, IncidentRow, ProbeRow
from ...store.vocabulary import (
    MAKER_EMAIL,
    BisectionOutcome,
    Judgement,
    ProbeState,
    Seeks,
    SubmissionState,
    plural,
)
from ..ask.question import case_text
from ..drive.driven import finished_probe, sort_by_end
from ..engine.runs import ProbeLog, RangeEvidence
from ..engine.search import judge_by_end_rates
from ..history.range import candidates_on_line, search_outcome
from ..report.basis import Rows, SearchedRange, unfinished_state
from ..report.model import UNFINISHED
from ..report.phrases import one_line, outcome_words
from ..search.belief import Outcome
from ..search.graph import CommitGraph
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior


@dataclass(frozen=True, kw_only=True)
class RangeBelief:
    """Probabilities of the hypotheses about one range. They sum to 1.

    commits: the commits that can differ in their result, parents before children.
    left_out: the number of commits on branches that began before the range and failed there already.
    """

    commits: tuple[tuple[str, float], ...]
    no_culprit: float
    environment: float
    left_out: int = 0


def range_beliefs(rows: Rows) -> tuple[RangeBelief | None, ...]:
    """Return the probabilities of each range. None where no commit can differ, or the commits form no valid graph."""
    stored = sort_by_end(rows.probes)
    log = ProbeLog(
        tuple(
            replace(finished_probe(each), judgement=rows.judgement(each) or Judgement.SKIP) for each in stored
        )
    )
    beliefs: list[RangeBelief | None] = []
    outer: _StoredRange | None = None
    for standing in rows.ranges:
        stored = _StoredRange(standing, log)
        beliefs.append(_belief(rows, stored, outer, log))
        outer = stored
    return tuple(beliefs)


def _belief(
    rows: Rows, stored: "_StoredRange", outer: "_StoredRange | None", log: ProbeLog
) -> RangeBelief | None:
    try:
        evidence = stored.evidence
        if outer is not None:
            evidence = _inherited_evidence(stored, outer, log)
    except ValueError:
        return None
    belief = Posterior.start(
        evidence.graph, rows.request.rates, observations=evidence.observations(log)
    ).belief
    return RangeBelief(
        commits=tuple(zip(stored.places, belief.commits.tolist(), strict=True)),
        no_culprit=belief.no_culprit,
        environment=belief.environment,
        left_out=stored.excluded_count,
    )


class _StoredRange:
    """A stored range in the terms of the search's evidence, without the branches that the search left out."""

    def __init__(self, standing: SearchedRange, log: ProbeLog) -> None:
        self.standing = standing
        self._log = log

    @cached_property
    def places(self) -> dict[str, int]:
        """Return the commits that can differ in their result, each with its place among them."""
        gone = self._excluded_places
        every = self._all_places
        return {sha: place for place, sha in enumerate(sha for sha in every if every[sha] not in gone)}

    @cached_property
    def _all_places(self) -> dict[str, int]:
        """Return the same for the whole range, including commits that the search left out."""
        standing = self.standing
        return {sha: place for place, sha in enumerate(sha for sha in standing.members if sha in standing)}

    @cached_property
    def _excluded_places(self) -> frozenset[int]:
        """Return candidates on branches that began before the range and failed there already, by the rule of the
        search.

        Raises `ValueError` where the commits form no graph.
        """
        graph = CommitGraph(self._parents(self._all_places))
        newest = self._all_places.get(self.standing.representative_of(self.standing.stage.new))
        gone: set[int] = set()
        for sha, node in self._all_places.items():
            if node not in gone and any(map(self._is_like_new_end, self._parents_outside(sha))):
                line = candidates_on_line(graph, node)
                gone |= set() if newest in line else line
        return frozenset(gone)

    @property
    def excluded_count(self) -> int:
        """Return the number of candidates that the search left out."""
        return len(self._excluded_places)

    def _parents_outside(self, sha: str) -> list[str]:
        """Return the parents of a commit that are neither commits of the range nor its old end."""
        standing = self.standing
        return [
            parent
            for parent in standing.parents(sha)
            if parent not in standing and parent != standing.stage.old
        ]

    def _is_like_new_end(self, parent: str) -> bool:
        """Return whether a parent from before the range was run and behaves like the new end."""
        standing, log = self.standing, self._log
        seeks = standing.stage.seeks
        newest = standing.stage.new
        old, new = standing.old_content, standing.content(newest) if newest in standing else None
        if new is None:
            return False
        good, bad = (old, new) if seeks is Seeks.REGRESSION else (new, old)
        contents = {probe.content for probe in standing.runs.get(parent, ()) if probe.commit == parent}
        judgements = (judge_by_end_rates(log, content, good=good, bad=bad) for content in contents)
        return any(
            judgement is not None and search_outcome(judgement, seeks) is Outcome.BAD
            for judgement in judgements
        )

    def _parents(self, places: Mapping[str, int]) -> list[list[int]]:
        standing = self.standing
        return [
            sorted(
                {places[of] for of in map(standing.representative_of, standing.parents(sha)) if of in places}
            )
            for sha in places
        ]

    @cached_property
    def evidence(self) -> RangeEvidence:
        """Return the candidates with their contents, nothing inherited. Raises `ValueError` where they form no
        graph."""
        standing = self.standing
        return RangeEvidence(
            graph=CommitGraph(self._parents(self.places)),
            contents=[standing.content(sha) for sha in self.places],
            old_content=standing.old_content,
            seeks=standing.stage.seeks,
        )


def _inherited_evidence(inner: _StoredRange, outer: _StoredRange, log: ProbeLog) -> RangeEvidence:
    """Return the evidence of the inner range with the outer range's runs that stand for the ends of the inner one.

    The culprit of the outer range, which is known by then, says which end each of these runs stands for.
    """
    repository = outer.standing.stage.repository
    culprit = inner.standing.stage.held.get(repository)
    if culprit is None:
        return inner.evidence
    stage = inner.standing.stage
    ends = {stage.old: GOOD_END, stage.new: inner.evidence.graph.bad}
    pins = _pins(outer.standing, stage.repository, culprit)
    return inner.evidence.inherit(
        outer.evidence,
        log,
        culprit=outer.places[outer.standing.representative_of(culprit)],
        ends={changed: ends.get(pins.get(changed, "")) for changed in (True, False)},
        flipped=stage.seeks is not outer.standing.stage.seeks,
    )


def _pins(outer: SearchedRange, pinned: str, culprit: str) -> dict[bool, str]:
    """Return what the culprit (True) and its parent (False) pin, as far as they ran with their own pins."""
    pins: dict[bool, str] = {}
    for changed, sha in ((True, culprit), (False, outer.parents(culprit)[0])):
        for probe in outer.runs_of(sha):
            if probe.stage_id == outer.stage.id and probe.phase.is_unmodified:
                pins[changed] = probe.revisions[pinned]
    return pins


_MAX_RUNS = 200
"""The page of a commit lists this many of its newest runs of each kind. A release that many nights use has
thousands."""


@dataclass(frozen=True, kw_only=True)
class CommitView:
    """What the page of one commit shows. `described` is None where the store does not describe the commit."""

    repository: str
    sha: str
    described: CommitRow | None
    bisections: Sequence[BisectionRow]
    """The bisections that ran the commit."""
    runs: Sequence[ProbeRow]
    """The newest runs of the commit in bisections, newest first."""
    url: str | None
    """The page of the commit outside this site."""
    night_runs: Sequence[CaseRunRow]
    """The newest runs of the commit in nights, newest first."""

    @property
    def has_author(self) -> bool:
        """Return whether a person made the commit. This tool itself makes commits for the releases of a tool."""
        return self.described is not None and self.described.email != MAKER_EMAIL


def commit_view(session: Session, repository: str, sha: str) -> CommitView:
    """Return what the page of a commit shows."""
    described = session.scalar(
        select(CommitRow).where(CommitRow.repository == repository, CommitRow.sha == sha)
    )
    runs = session.scalars(
        select(ProbeRow)
        .where(
            ProbeRow.repository == repository,
            ProbeRow.commit == sha,
            ProbeRow.state == ProbeState.FINISHED,
            ProbeRow.reused_id.is_(None),
        )
        .order_by(ProbeRow.id.desc())
        .limit(_MAX_RUNS)
        .options(joinedload(ProbeRow.bisection).load_only(BisectionRow.name, BisectionRow.outcome))
    ).all()
    night_runs = session.scalars(
        select(CaseRunRow)
        .where(CaseRunRow.commit == sha)
        .order_by(CaseRunRow.id.desc())
        .limit(_MAX_RUNS)
        .options(joinedload(CaseRunRow.cell), joinedload(CaseRunRow.night))
    ).all()
    bisections = {probe.bisection.name: probe.bisection for probe in runs}
    return CommitView(
        repository=repository,
        sha=sha,
        described=described,
        bisections=tuple(bisections.values()),
        runs=runs,
        url=_url(session, repository, sha),
        night_runs=night_runs,
    )


def _url(session: Session, repository: str, sha: str) -> str | None:
    """Return the web address of a commit, by the remote that the newest bisection of its repository stored."""
    prefix = session.scalar(
        select(BisectionRow.request["commit_pages"][repository].as_string())
        .where(BisectionRow.repository == repository)
        .order_by(BisectionRow.id.desc())
        .limit(1)
    )
    return f"{prefix}{sha}" if prefix and prefix.startswith("https://") else None


@dataclass(frozen=True, kw_only=True)
class BisectionSummary:
    """One bisection in a list, with its first culprit."""

    name: str
    created: datetime
    outcome: str
    ended: str
    """How the bisection ended, or why it has not, in words."""
    case: str
    platform: str
    repository: str
    culprit_repository: str | None
    culprit: str | None
    subject: str | None
    confidence: float | None
    author: str | None


def list_bisections(
    session: Session, *, limit: int | None = None, offset: int = 0
) -> Sequence[BisectionSummary]:
    """Return the bisections of a store, newest first."""
    rows = session.execute(
        select(
            BisectionRow.id,
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
        BisectionSummary(
            name=row.name,
            created=row.created,
            outcome=row.outcome.value if row.outcome else UNFINISHED,
            ended=outcome_text(session, session.get_one(BisectionRow, row.id))
            if row.outcome is None
            else _outcome_text(row.outcome, row.seeks, row.conclusion),
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


def outcome_text(session: Session, bisection: BisectionRow) -> str:
    """Return how a bisection ended, or why it has not, in words."""
    why = unfinished_state(session, bisection)
    if why is not None:
        return why.text
    assert bisection.outcome is not None
    return _outcome_text(bisection.outcome, bisection.request.get("seeks"), bisection.conclusion)


def _outcome_text(outcome: BisectionOutcome, seeks: str | None, conclusion: dict[str, object] | None) -> str:
    """Return an outcome in words. `seeks` is None in stores from before fixes could be sought."""
    return outcome_words(
        outcome.value,
        seeks=Seeks(seeks or Seeks.REGRESSION),
        in_doubt=bool((conclusion or {}).get("no_commit")),
    )


def culprit_authors(session: Session, incidents: Sequence[IncidentRow]) -> dict[tuple[str, str], str]:
    """Return the authors of the culprits of incidents, by repository and commit, as far as the store knows them."""
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


_FULL_COMMIT_ID = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")

MAX_FINISHED_SUBMISSIONS = 30
"""The page of the queue shows this many finished submissions at most. It is for those that wait or run."""


def state_text(entry: QueueEntry) -> str:
    """Return the state of a submission, in words."""
    runs = f", {plural(entry.runs, 'run')} made" if entry.runs else ""
    needs = _board_text(entry)
    if entry.state is SubmissionState.QUEUED:
        lacking = f"; {one_line(entry.lacking)}" if entry.lacking else ""
        return f"waits{f' for {needs}' if needs else ''}{runs}{lacking}"
    if entry.state is SubmissionState.RUNNING:
        what = "is being cancelled" if entry.cancelling else "runs"
        return f"{what} on {one_line(entry.host or '')}{f', {needs}' if needs else ''}"
    if entry.state is SubmissionState.CANCELLED:
        return f"was cancelled{runs}"
    outcome = f": {entry.outcome.value.replace('_', ' ')}" if entry.outcome else ""
    return f"ended with exit code {entry.exit_code}{outcome}{runs}"


def command_text(entry: QueueEntry) -> str:
    """Return the submitted command with commit ids as short as elsewhere on the site."""
    return _FULL_COMMIT_ID.sub(r"\1", entry.command)


def _board_text(entry: QueueEntry) -> str:
    if entry.platform is None:
        return ""
    return f"board {entry.platform}{'' if entry.device is None else f' {entry.device}'}"


def submission_tone(entry: QueueEntry) -> str:
    """Return the style class of a submission's state."""
    if entry.state is SubmissionState.ENDED:
        return "good" if entry.exit_code == 0 else "skip"
    return "none"


_TASK_GRAPH = "task_graph.html"
_REDUCTION_FOLDER = Path("reduced")
_RESULT_LINK = "result"
"""This link in a reduction's folder leads to the newest version."""
_MAX_PAGE_BYTES = 16 << 20
"""A larger page of a task graph, in bytes, is not served. The server reads it as a whole."""
_MAX_ARCHIVE_BYTES = 64 << 20
"""An archive has at most this many bytes, because a page is made in memory."""
_MAX_ARCHIVE_ENTRIES = 2000
"""An archive has at most this many files and folders, because each request for a page counts them."""

TASK_GRAPH_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
"""The task graph, which draws with its own script, has this content security policy.

`sandbox` without `allow-same-origin` keeps that script from this site's addresses and storage."""


def task_graph(report: Path) -> Path | None:
    """Return the path of the page that `reduce` made of the culprit's tasks, if there is one."""
    return _plain_file(report / _TASK_GRAPH, _MAX_PAGE_BYTES)


def reduced_files(report: Path) -> list[Path]:
    """Return the files of the reduced build, sorted by name.

    Empty where there is no reduced build, or where it is too large for a page. Links are left out, so that nothing
    outside the reduction's folder is ever read.
    """
    folder = _result(report)
    if folder is None:
        return []
    files: list[Path] = []
    entries = size = 0
    for parent, folders, names in os.walk(folder):  # `os.walk` follows no links.
        entries += len(folders) + len(names)
        if entries > _MAX_ARCHIVE_ENTRIES:
            return []
        plain = [file for name in names if (file := _plain_file(Path(parent, name), _MAX_ARCHIVE_BYTES))]
        size += sum(file.lstat().st_size for file in plain)
        if size > _MAX_ARCHIVE_BYTES:
            return []
        files += plain
    return sorted(files)


def archive(report: Path) -> bytes:
    """Return the reduced build as tar.gz. The same files give the same bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        folder = _result(report)
        for file in reduced_files(report):
            assert folder is not None
            content = file.read_bytes()
            entry = tarfile.TarInfo(str(_REDUCTION_FOLDER / file.relative_to(folder)))
            entry.size = len(content)
            entry.mode = 0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _result(report: Path) -> Path | None:
    """Return the folder of the newest version of the reduction. None: there is none, or it lies elsewhere."""
    folder = report / _REDUCTION_FOLDER
    try:
        found = (folder / _RESULT_LINK).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    inside = found.is_relative_to(report.resolve() / _REDUCTION_FOLDER)
    return found if inside and found.is_dir() and not folder.is_symlink() else None


def _plain_file(file: Path, largest: int) -> Path | None:
    try:
        found = file.lstat()
    except OSError:
        return None
    return file if stat.S_ISREG(found.st_mode) and found.st_size <= largest else None

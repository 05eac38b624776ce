"""Reads from the store what the pages show: of bisections, of commits, of the queue, and of nightly jobs.

`range_beliefs` returns the probability of each commit of a searched range after all runs, by the search's own
posterior. `commit_view` is a commit as git describes it, with all its runs. `task_graph` and `reduced_files` find the
files that a localization and a reduction left in the folder of a report. `newest_grid` and `case_view` are the results
of each cell in each night. A grid reads only the columns that it shows, for the newest nights or for one month.
"""

import gzip
import io
import posixpath
import re
import stat
import tarfile
from calendar import monthrange
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import groupby
from pathlib import Path
from statistics import median

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from ...store.durable_files import entries_below
from ...store.nights import earlier_incidents
from ...store.tables import (
    BisectionRow,
    CaseResultRow,
    CaseRunRow,
    CellRow,
    CommitRow,
    IncidentRow,
    NightRow,
    ProbeRow,
    RegressionRow,
)
from ...store.vocabulary import (
    MAKER_EMAIL,
    BuildSource,
    CaseStatus,
    Judgement,
    ProbeState,
    Seeks,
    SubmissionState,
)
from ..ask.earlier_runs import finished_probe, sort_by_end
from ..engine.runs import ProbeLog, RangeEvidence
from ..engine.search import judge_by_end_rates
from ..history.range import candidates_on_line, search_outcome
from ..listing import QueueEntry
from ..nightly.matrix import judge_matrix_run, result_log
from ..nightly.night_report import could_not_run, night_line, severity
from ..report.basis import Rows, SearchedRange
from ..search.belief import Outcome, prior_by_size
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
    log = ProbeLog(
        tuple(
            replace(finished_probe(each), judgement=rows.judgement(each) or Judgement.SKIP)
            for each in sort_by_end(rows.probes)
        )
    )
    beliefs: list[RangeBelief | None] = []
    outer: _StoredRange | None = None
    for searched in rows.ranges:
        stored = _StoredRange(searched, log)
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
    sizes = np.array([float(stored.searched.size(sha)) for sha in stored.places])
    belief = Posterior.start(
        evidence.graph,
        rows.request.rates,
        prior=prior_by_size(sizes),
        observations=evidence.observations(log),
    ).belief
    return RangeBelief(
        commits=tuple(zip(stored.places, belief.commits.tolist(), strict=True)),
        no_culprit=belief.no_culprit,
        environment=belief.environment,
        left_out=stored.excluded_count,
    )


class _StoredRange:
    """A stored range in the terms of the search's evidence, without the branches that the search left out."""

    def __init__(self, searched: SearchedRange, log: ProbeLog) -> None:
        self.searched = searched
        self._log = log

    @cached_property
    def places(self) -> dict[str, int]:
        """Return the commits that can differ in their result, each with its place among them."""
        kept = [sha for sha, place in self._all_places.items() if place not in self._excluded_places]
        return {sha: place for place, sha in enumerate(kept)}

    @cached_property
    def _all_places(self) -> dict[str, int]:
        """Return the same for the whole range, including commits that the search left out."""
        candidates = [sha for sha in self.searched.members if sha in self.searched]
        return {sha: place for place, sha in enumerate(candidates)}

    @cached_property
    def _excluded_places(self) -> frozenset[int]:
        """Return the candidates on branches that began before the range and failed there already, as the search does.

        Raises `ValueError` where the commits form no graph.
        """
        graph = CommitGraph(self._parents(self._all_places))
        newest = self._all_places.get(self.searched.representative_of(self.searched.stage.new))
        excluded: set[int] = set()
        joined = {
            place
            for sha, place in self._all_places.items()
            if self.searched.stage.old in map(self.searched.representative_of, self.searched.parents(sha))
        }
        for sha, place in self._all_places.items():
            # A history of its own has no parent outside that could be run. Its first commit shows what it does.
            before = self._parents_outside(sha) if self.searched.parents(sha) else [sha]
            if place not in excluded and any(map(self._is_like_new_end, before)):
                line = candidates_on_line(graph, place, joined=joined)
                if newest not in line:
                    excluded |= line
        return frozenset(excluded)

    @property
    def excluded_count(self) -> int:
        """Return the number of candidates that the search left out."""
        return len(self._excluded_places)

    def _parents_outside(self, sha: str) -> list[str]:
        """Return the parents of a commit that are neither commits of the range nor its old end."""
        searched = self.searched
        return [
            parent
            for parent in searched.parents(sha)
            if parent not in searched and parent != searched.stage.old
        ]

    def _is_like_new_end(self, parent: str) -> bool:
        """Return whether a parent from before the range was run and behaves like the new end."""
        searched, log = self.searched, self._log
        seeks = searched.stage.seeks
        newest = searched.stage.new
        old, new = searched.old_content, searched.content(newest)
        if new is None:
            return False
        good, bad = (old, new) if seeks is Seeks.REGRESSION else (new, old)
        contents = {probe.content for probe in searched.runs.get(parent, ()) if probe.commit == parent}
        judgements = (judge_by_end_rates(log, content, good=good, bad=bad) for content in contents)
        return any(
            judgement is not None and search_outcome(judgement, seeks) is Outcome.BAD
            for judgement in judgements
        )

    def _parents(self, places: Mapping[str, int]) -> list[list[int]]:
        """Return the places of the parents of each commit."""
        parents: list[list[int]] = []
        for sha in places:
            below = map(self.searched.representative_of, self.searched.parents(sha))
            parents.append(sorted({places[parent] for parent in below if parent in places}))
        return parents

    @cached_property
    def evidence(self) -> RangeEvidence:
        """Return the candidates with their contents, nothing inherited.

        Raises `ValueError` where they form no graph.
        """
        searched = self.searched
        return RangeEvidence(
            graph=CommitGraph(self._parents(self.places)),
            contents=[searched.content(sha) for sha in self.places],
            old_content=searched.old_content,
            seeks=searched.stage.seeks,
        )


def _inherited_evidence(inner: _StoredRange, outer: _StoredRange, log: ProbeLog) -> RangeEvidence:
    """Return the evidence of the inner range, with the runs of the outer range that stand for its ends.

    The culprit of the outer range, which is known by then, says for which end each of these runs stands.
    """
    repository = outer.searched.stage.repository
    culprit = inner.searched.stage.held.get(repository)
    if culprit is None:
        return inner.evidence
    stage = inner.searched.stage
    ends = {stage.old: GOOD_END, stage.new: inner.evidence.graph.bad}
    pins = _pins(outer.searched, stage.repository, culprit)
    return inner.evidence.inherit(
        outer.evidence,
        log,
        culprit=outer.places[outer.searched.representative_of(culprit)],
        ends={changed: ends.get(pins.get(changed, "")) for changed in (True, False)},
        flipped=stage.seeks is not outer.searched.stage.seeks,
    )


def _pins(outer: SearchedRange, pinned: str, culprit: str) -> dict[bool, str]:
    """Return the pins of the culprit (True) and of its parent (False), as far as they ran with their own pins."""
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
    night_runs: Sequence[tuple[CaseRunRow, Judgement]]
    """The newest runs of the commit in nights, each with its judgement, newest first."""

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
        night_runs=[(run, judge_matrix_run(run.verdict)) for run in night_runs],
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


def culprit_authors(session: Session, incidents: Sequence[IncidentRow]) -> dict[tuple[str, str], str]:
    """Return the authors of the culprits of incidents, by repository and commit, as far as the store knows them."""
    rows = session.execute(
        select(CommitRow.repository, CommitRow.sha, CommitRow.author).where(
            CommitRow.sha.in_({incident.culprit for incident in incidents})
        )
    )
    return {(row.repository, row.sha): row.author for row in rows if row.author}


_FULL_COMMIT_ID = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")

MAX_FINISHED_SUBMISSIONS = 30
"""The page of the queue shows this many finished submissions at most. It is for those that wait or run."""


def command_text(entry: QueueEntry) -> str:
    """Return the submitted command with commit ids as short as on all pages."""
    return _FULL_COMMIT_ID.sub(r"\1", entry.command)


def submission_tone(entry: QueueEntry) -> str:
    """Return the style class of a submission's state."""
    if entry.state is SubmissionState.ENDED:
        return "good" if entry.exit_code == 0 else "skip"
    return "none"


_TASK_GRAPH = "task_graph.html"
_REDUCTION_FOLDER = Path("reduced")
_RESULT_LINK = "result"
"""The link in a reduction's folder to the newest version."""
_MAX_PAGE_BYTES = 16 << 20
"""A larger page of a task graph is not served, because the server reads it as a whole."""
_MAX_ARCHIVE_BYTES = 64 << 20
"""An archive has at most this many bytes, because a page is made in memory."""
_MAX_ARCHIVE_ENTRIES = 2000
"""An archive has at most this many files and folders, because each request for a page counts them."""

TASK_GRAPH_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
"""The content security policy of the task graph, which draws with its own script.

`sandbox` without `allow-same-origin` keeps that script from this site's addresses and storage."""


def task_graph(report: Path) -> Path | None:
    """Return the path of the page that `reduce` made of the culprit's tasks, if there is one."""
    return _plain_file(report / _TASK_GRAPH, _MAX_PAGE_BYTES)


def reduced_files(report: Path) -> list[Path]:
    """Return the files of the reduced build, sorted by name.

    Empty where there is no reduced build, or where it is too large for a page. Links are left out, so that nothing
    outside the reduction's folder is ever read.
    """
    folder = _reduction_result(report)
    if folder is None:
        return []
    files: list[Path] = []
    size = 0
    with suppress(OSError):
        for entries, path in enumerate(entries_below(folder), 1):
            if entries > _MAX_ARCHIVE_ENTRIES:
                return []
            if file := _plain_file(path, _MAX_ARCHIVE_BYTES):
                size += file.lstat().st_size
                files.append(file)
            if size > _MAX_ARCHIVE_BYTES:
                return []
    return sorted(files)


def archive(report: Path) -> bytes:
    """Return the reduced build as tar.gz. The same files give the same bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        folder = _reduction_result(report)
        for file in reduced_files(report):
            assert folder is not None
            content = file.read_bytes()
            entry = tarfile.TarInfo(str(_REDUCTION_FOLDER / file.relative_to(folder)))
            entry.size = len(content)
            entry.mode = 0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _reduction_result(report: Path) -> Path | None:
    """Return the folder of the newest version of the reduction.

    None where there is none, or where it lies outside the report.
    """
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


OVERVIEW_NIGHTS = 30
"""A job's overview shows this many of the newest nights. Older nights are on the pages of their months."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Says what a night found for a cell, with the number of its incident."""

    status: CaseStatus
    message: str
    incident: int | None
    could_not_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells x nights of one job, with nights from old to new. A cell that a night did not run has no entry."""

    job: str
    nights: Sequence[NightRow]
    cells: Sequence[CellRow]
    shown: Mapping[tuple[int, int], CellResult]
    """The results by cell and night."""

    @property
    def months(self) -> Sequence[tuple[str, int]]:
        """Return the months of the nights, each with its number of nights, newest first."""
        months = (f"{night.started:%Y-%m}" for night in reversed(self.nights))
        return [(month, len(list(group))) for month, group in groupby(months)]

    @property
    def days(self) -> Mapping[int, str]:
        """Return the day of the month of each night, by its id. A second night of one day has `(2)` after the day."""
        earlier = Counter[date]()
        days: dict[int, str] = {}
        for night in self.nights:
            day = night.started.date()
            earlier[day] += 1
            days[night.id] = f"{day.day} ({earlier[day]})" if earlier[day] > 1 else f"{day.day}"
        return days

    @property
    def newest(self) -> Mapping[CaseStatus, int]:
        """Return the number of cells with each status in the newest night, failing ones first."""
        last = self.nights[-1].id if self.nights else None
        found = Counter(shown.status for (_, night), shown in self.shown.items() if night == last)
        return {status: found[status] for status in sorted(found, key=severity)}

    @property
    def last_night(self) -> str:
        """Return what the newest night showed, in one line without incidents; empty where there is no night."""
        if not self.nights:
            return ""
        last = self.nights[-1].id
        unrun = sum(each.could_not_run for (_, night), each in self.shown.items() if night == last)
        return night_line(self.newest, not_run=unrun, incidents=0)

    @property
    def folder(self) -> str:
        """Return the folder that holds all cases, with its slash; empty where it is the root."""
        common = posixpath.commonprefix([cell.case for cell in self.cells])
        return common[: common.rfind("/") + 1]

    def distinguishing_parts(self, cell: CellRow) -> list[str]:
        """Return what distinguishes a cell from others of its case.

        It is the platform, with the tolerance and the branch where the cells have several.
        """
        parts = [cell.platform]
        parts += [cell.tolerance] if len({each.tolerance for each in self.cells}) > 1 else []
        return parts + ([cell.branch] if len({each.branch for each in self.cells}) > 1 else [])


def jobs(session: Session) -> list[str]:
    """Return the names of all jobs that ever ran, sorted."""
    return list(session.scalars(select(NightRow.job).distinct().order_by(NightRow.job)))


def months(session: Session, job: str) -> list[str]:
    """Return the months with a night of a job, such as `2026-03`, newest first."""
    started = session.scalars(select(NightRow.started).where(NightRow.job == job))
    return sorted({f"{moment:%Y-%m}" for moment in started}, reverse=True)


def newest_grid(session: Session, job: str) -> Grid:
    """Return the grid of the newest nights."""
    query = (
        select(NightRow).where(NightRow.job == job).order_by(NightRow.ordinal.desc()).limit(OVERVIEW_NIGHTS)
    )
    return _grid(session, job, list(reversed(session.scalars(query).all())))


def month_grid(session: Session, job: str, month: str) -> Grid:
    """Return the grid of one month's nights."""
    nights = session.scalars(select(NightRow).where(NightRow.job == job).order_by(NightRow.ordinal))
    return _grid(session, job, [night for night in nights if f"{night.started:%Y-%m}" == month])


def _grid(session: Session, job: str, nights: Sequence[NightRow]) -> Grid:
    """Return the results of all cells of a job in some nights."""
    cells = session.scalars(
        select(CellRow)
        .where(CellRow.job == job)
        .order_by(CellRow.case, CellRow.platform, CellRow.tolerance, CellRow.branch, CellRow.id)
    ).all()
    rows = session.execute(
        select(
            CaseResultRow.cell_id,
            CaseResultRow.night_id,
            CaseResultRow.status,
            CaseResultRow.verdict,
            CaseResultRow.message,
            IncidentRow.ordinal,
        )
        .outerjoin(RegressionRow, CaseResultRow.regression_id == RegressionRow.id)
        .outerjoin(IncidentRow, RegressionRow.incident_id == IncidentRow.id)
        .where(CaseResultRow.night_id.in_([night.id for night in nights]))
    )
    shown = {
        (cell, night): CellResult(
            status=status, message=message, incident=incident, could_not_run=could_not_run(status, verdict)
        )
        for cell, night, status, verdict, message, incident in rows
    }
    seen = {cell for cell, _ in shown}
    last = nights[-1].id if nights else 0

    def newest_severity(cell: CellRow) -> int:
        found = shown.get((cell.id, last))
        return severity(found.status) if found else severity(CaseStatus.PASSED)

    ordered = sorted((cell for cell in cells if cell.id in seen), key=newest_severity)
    return Grid(job=job, nights=nights, cells=ordered, shown=shown)


def incidents(session: Session, job: str) -> Sequence[IncidentRow]:
    """Return the incidents of a job, open ones first, and the newest first in both groups."""
    found = session.scalars(
        select(IncidentRow)
        .where(IncidentRow.job == job)
        .order_by(IncidentRow.closed_night_id.is_not(None), IncidentRow.ordinal.desc())
        .options(
            joinedload(IncidentRow.opened_night),
            joinedload(IncidentRow.closed_night),
            joinedload(IncidentRow.bisection),
            selectinload(IncidentRow.regressions).joinedload(RegressionRow.cell),
        )
    )
    return found.all()


def incident(session: Session, job: str, ordinal: int) -> tuple[IncidentRow, Sequence[int]]:
    """Return one incident of a job, with the numbers of earlier incidents that had its culprit."""
    every = incidents(session, job)
    found = next(each for each in every if each.ordinal == ordinal)
    return found, earlier_incidents(found, every)


@dataclass(frozen=True, kw_only=True)
class CaseView:
    """Has what a case page shows: one cell with its results, newest first.

    Seconds are medians over the runs of the cell, and over the builds that were not reused.
    """

    cell: CellRow
    results: Sequence[tuple[CaseResultRow, int | None]]
    """The results, each with the number of its incident."""
    runs: int
    failures: int
    flaky_nights: int
    counts: Mapping[CaseStatus, int]
    build_seconds: float | None
    run_seconds: float | None
    timings: Sequence[tuple[str, float, Judgement]]
    """Commit, seconds and judgement of the newest runs, from old to new."""
    calendar: Sequence["CalendarMonth"]
    """The months, newest first."""
    logs: Mapping[int, str]
    """The log of the run that a night's result is taken from, by night, for results that are no pass."""

    @property
    def most_days(self) -> int:
        """Return the number of days of the longest month that is shown."""
        return max((month.length for month in self.calendar), default=0)


@dataclass(frozen=True, kw_only=True)
class CalendarMonth:
    """A month of a case page: its number of days, and the result of each day's last night.

    Each result stands with the number of its incident.
    """

    name: str
    length: int
    days: Mapping[int, tuple[CaseResultRow, int | None]]

    @classmethod
    def from_results(cls, name: str, results: Sequence[tuple[CaseResultRow, int | None]]) -> "CalendarMonth":
        """Make the month from its results, which begin with the newest."""
        first = results[0][0].night.started
        return cls(
            name=name,
            length=monthrange(first.year, first.month)[1],
            days={each[0].night.started.day: each for each in reversed(results)},
        )


_MAX_TIMINGS = 200
"""The curve of a case shows this many of its newest runs. More points would not be told apart at its width."""


def case_view(session: Session, cell: int) -> CaseView:
    """Return what the page of a cell shows."""
    rows = session.execute(
        select(CaseResultRow, IncidentRow.ordinal)
        .outerjoin(RegressionRow, CaseResultRow.regression_id == RegressionRow.id)
        .outerjoin(IncidentRow, RegressionRow.incident_id == IncidentRow.id)
        .where(CaseResultRow.cell_id == cell)
        .order_by(CaseResultRow.night_id.desc())
        .options(joinedload(CaseResultRow.night))
    ).all()
    results = [(result, number) for result, number in rows]
    timings = session.scalars(
        select(CaseRunRow).where(CaseRunRow.cell_id == cell).order_by(CaseRunRow.id)
    ).all()
    runs: dict[int, list[CaseRunRow]] = {}
    for run in timings:
        runs.setdefault(run.night_id, []).append(run)
    logs = {result.night_id: result_log(result, runs.get(result.night_id, [])) for result, _ in results}
    builds = [row.build_seconds for row in timings if row.build_source == BuildSource.BUILT]
    statuses = [result.status for result, _ in results]
    return CaseView(
        cell=session.get_one(CellRow, cell),
        results=results,
        runs=sum(result.runs for result, _ in results),
        failures=sum(result.failures for result, _ in results),
        flaky_nights=statuses.count(CaseStatus.FLAKY),
        counts={status: statuses.count(status) for status in CaseStatus if status in statuses},
        build_seconds=median(builds) if builds else None,
        run_seconds=median([row.run_seconds for row in timings]) if timings else None,
        timings=[
            (row.commit, row.run_seconds, judge_matrix_run(row.verdict)) for row in timings[-_MAX_TIMINGS:]
        ],
        calendar=[
            CalendarMonth.from_results(month, list(group))
            for month, group in groupby(results, lambda each: f"{each[0].night.started:%Y-%m}")
        ],
        logs={night: log for night, log in logs.items() if log is not None},
    )

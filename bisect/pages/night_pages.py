"""Reads what the pages of nightly jobs show: the result of each cell in each night.

A grid reads only the columns that it shows, for the newest nights or for one month.
"""

import posixpath
from calendar import monthrange
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from ...store.nights import earlier_incidents
from ...store.tables import CaseResultRow, CaseRunRow, CellRow, IncidentRow, NightRow, RegressionRow
from ...store.vocabulary import BuildSource, CaseStatus, Judgement
from ..nightly.matrix import judge_matrix_run, result_log
from ..nightly.night_report import could_not_run, night_line, severity

OVERVIEW_NIGHTS = 30
"""A job's overview shows this many of the newest nights. Older nights are on the pages of their months."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a night found for a cell, with the number of its incident."""

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
    """What a case page shows: one cell with its results, newest first.

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

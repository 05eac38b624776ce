"""Nightly jobs as pages show them: what each cell showed in each night, read in columns, a month at a time."""

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

from ....store.journals.nightly.incidents import earlier_incidents
from ....store.tables.nights import CaseResultRow, CaseRunRow, CellRow, IncidentRow, NightRow, RegressionRow
from ....store.vocabulary import BuildSource, CaseStatus, Judgement
from ...nightly.outcome import could_not_run, night_line, severity
from ...nightly.runs import judgement_of, log_of

SHOWN_NIGHTS = 30
"""Of the newest, on the overview; the others are on the pages of their months."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a night found of a cell, with the number of the incident that it belongs to."""

    status: CaseStatus
    message: str
    incident: int | None
    could_not_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Cells x nights of one job; nights from old to new. A cell that a night did not run has no entry."""

    job: str
    nights: Sequence[NightRow]
    cells: Sequence[CellRow]
    shown: Mapping[tuple[int, int], Shown]
    """By cell and night."""

    @property
    def months(self) -> Sequence[tuple[str, int]]:
        """The months of the nights with their numbers of nights, newest first."""
        months = (f"{night.started:%Y-%m}" for night in reversed(self.nights))
        return [(month, len(list(group))) for month, group in groupby(months)]

    @property
    def days(self) -> Mapping[int, str]:
        """The day of the month of each night, by its id; of a second night of one day with `(2)` behind it."""
        earlier = Counter[date]()
        days: dict[int, str] = {}
        for night in self.nights:
            day = night.started.date()
            earlier[day] += 1
            days[night.id] = f"{day.day} ({earlier[day]})" if earlier[day] > 1 else f"{day.day}"
        return days

    @property
    def newest(self) -> Mapping[CaseStatus, int]:
        """How many cells showed what in the newest night, what fails first."""
        last = self.nights[-1].id if self.nights else None
        found = Counter(shown.status for (_, night), shown in self.shown.items() if night == last)
        return {status: found[status] for status in sorted(found, key=severity)}

    @property
    def last_night(self) -> str:
        """What the newest night showed, without its incidents; empty where there is none."""
        if not self.nights:
            return ""
        last = self.nights[-1].id
        unrun = sum(each.could_not_run for (_, night), each in self.shown.items() if night == last)
        return night_line(self.newest, not_run=unrun, incidents=0)

    @property
    def folder(self) -> str:
        """The folder that holds all cases, with its slash; empty where there is none but the root."""
        common = posixpath.commonprefix([cell.case for cell in self.cells])
        return common[: common.rfind("/") + 1]

    def differs(self, cell: CellRow) -> list[str]:
        """What tells a cell from others of its case: the platform, and tolerance and branch where not all share one."""
        parts = [cell.platform]
        parts += [cell.tolerance] if len({each.tolerance for each in self.cells}) > 1 else []
        return parts + ([cell.branch] if len({each.branch for each in self.cells}) > 1 else [])


def jobs(session: Session) -> list[str]:
    """All jobs that ever ran, by name."""
    return list(session.scalars(select(NightRow.job).distinct().order_by(NightRow.job)))


def months(session: Session, job: str) -> list[str]:
    """The months with a night, as `2026-03`, newest first."""
    started = session.scalars(select(NightRow.started).where(NightRow.job == job))
    return sorted({f"{moment:%Y-%m}" for moment in started}, reverse=True)


def newest_grid(session: Session, job: str) -> Grid:
    """The grid of the newest nights."""
    query = select(NightRow).where(NightRow.job == job).order_by(NightRow.ordinal.desc()).limit(SHOWN_NIGHTS)
    return _grid(session, job, list(reversed(session.scalars(query).all())))


def month_grid(session: Session, job: str, month: str) -> Grid:
    """The grid of one month's nights."""
    nights = session.scalars(select(NightRow).where(NightRow.job == job).order_by(NightRow.ordinal))
    return _grid(session, job, [night for night in nights if f"{night.started:%Y-%m}" == month])


def _grid(session: Session, job: str, nights: Sequence[NightRow]) -> Grid:
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
        (cell, night): Shown(
            status=status, message=message, incident=incident, could_not_run=could_not_run(status, verdict)
        )
        for cell, night, status, verdict, message, incident in rows
    }
    seen = {cell for cell, _ in shown}
    last = nights[-1].id if nights else 0

    def failing_first(cell: CellRow) -> int:
        found = shown.get((cell.id, last))
        return severity(found.status) if found else severity(CaseStatus.PASSED)

    ordered = sorted((cell for cell in cells if cell.id in seen), key=failing_first)
    return Grid(job=job, nights=nights, cells=ordered, shown=shown)


def incidents(session: Session, job: str) -> Sequence[IncidentRow]:
    """Open ones first, newest first in either group."""
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
    """One incident of a job, with the numbers of those that had its culprit before."""
    every = incidents(session, job)
    found = next(each for each in every if each.ordinal == ordinal)
    return found, earlier_incidents(found, every)


@dataclass(frozen=True, kw_only=True)
class CaseView:
    """All of a case page: one cell with its results, newest first. Seconds are medians over its runs, and over those
    builds that were really made for it."""

    cell: CellRow
    results: Sequence[tuple[CaseResultRow, int | None]]
    """With the incident's number."""
    runs: int
    failures: int
    flaky_nights: int
    counts: Mapping[CaseStatus, int]
    build_seconds: float | None
    run_seconds: float | None
    timings: Sequence[tuple[str, float, Judgement]]
    """Commit, seconds and judgement of the newest runs, old to new."""
    calendar: Sequence["CalendarMonth"]
    """The newest first."""
    logs: Mapping[int, str]
    """By night, the log of the run that its result is taken from, where it did not pass."""

    @property
    def most_days(self) -> int:
        """Of the months that are shown, how many the longest has."""
        return max((month.length for month in self.calendar), default=0)


@dataclass(frozen=True, kw_only=True)
class CalendarMonth:
    """A month of a case page: how many days it has, and what the last night of each found, with the incident's
    number."""

    name: str
    length: int
    days: Mapping[int, tuple[CaseResultRow, int | None]]

    @classmethod
    def of(cls, name: str, results: Sequence[tuple[CaseResultRow, int | None]]) -> "CalendarMonth":
        """The month of results, the newest of which stands first."""
        first = results[0][0].night.started
        return cls(
            name=name,
            length=monthrange(first.year, first.month)[1],
            days={each[0].night.started.day: each for each in reversed(results)},
        )


_MOST_TIMINGS = 200


def case_view(session: Session, cell: int) -> CaseView:
    """The view of a cell."""
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
    logs = {result.night_id: log_of(result, runs.get(result.night_id, [])) for result, _ in results}
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
            (row.commit, row.run_seconds, judgement_of(row.verdict)) for row in timings[-_MOST_TIMINGS:]
        ],
        calendar=[
            CalendarMonth.of(month, list(group))
            for month, group in groupby(results, lambda each: f"{each[0].night.started:%Y-%m}")
        ],
        logs={night: log for night, log in logs.items() if log is not None},
    )

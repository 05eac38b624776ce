"""Nightly jobs as pages show them: what each cell showed in each night, read in columns, a month at a time."""

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from ....store.nights_schema import CaseResult, CaseRun, Cell, Incident, Night, Regression, Status
from ....store.vocabulary import BuildSource, Verdict

SHOWN_NIGHTS = 30
"""Of the newest, on the overview; the others are on the pages of their months."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a night found of a cell, with the number of the incident that it belongs to."""

    status: Status
    message: str
    incident: int | None


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Cells x nights of one job; nights from old to new. A cell that a night did not run has no entry."""

    job: str
    nights: Sequence[Night]
    cells: Sequence[Cell]
    shown: Mapping[tuple[int, int], Shown]
    """By cell and night."""

    @property
    def months(self) -> Sequence[tuple[str, int]]:
        """The months of the nights with their numbers of nights, newest first."""
        months = (f"{night.started:%Y-%m}" for night in reversed(self.nights))
        return [(month, len(list(group))) for month, group in groupby(months)]

    @property
    def newest(self) -> Mapping[Status, int]:
        """How many cells showed what in the newest night."""
        last = self.nights[-1].id if self.nights else None
        found = Counter(shown.status for (_, night), shown in self.shown.items() if night == last)
        return {status: found[status] for status in Status if found[status]}

    @property
    def folder(self) -> str:
        """The folder that holds all cases, with its slash; empty where there is none but the root."""
        common = posixpath.commonprefix([cell.case for cell in self.cells])
        return common[: common.rfind("/") + 1]

    def differs(self, cell: Cell) -> list[str]:
        """What tells a cell from others of its case: the platform, and tolerance and branch where not all share one."""
        parts = [cell.platform]
        parts += [cell.tolerance] if len({each.tolerance for each in self.cells}) > 1 else []
        return parts + ([cell.branch] if len({each.branch for each in self.cells}) > 1 else [])


def jobs(session: Session) -> list[str]:
    """All jobs that ever ran, by name."""
    return list(session.scalars(select(Night.job).distinct().order_by(Night.job)))


def months(session: Session, job: str) -> list[str]:
    """The months with a night, as `2026-03`, newest first."""
    started = session.scalars(select(Night.started).where(Night.job == job))
    return sorted({f"{moment:%Y-%m}" for moment in started}, reverse=True)


def newest_grid(session: Session, job: str) -> Grid:
    """The grid of the newest nights."""
    query = select(Night).where(Night.job == job).order_by(Night.ordinal.desc()).limit(SHOWN_NIGHTS)
    return _grid(session, job, list(reversed(session.scalars(query).all())))


def month_grid(session: Session, job: str, month: str) -> Grid:
    """The grid of one month's nights."""
    nights = session.scalars(select(Night).where(Night.job == job).order_by(Night.ordinal))
    return _grid(session, job, [night for night in nights if f"{night.started:%Y-%m}" == month])


def _grid(session: Session, job: str, nights: Sequence[Night]) -> Grid:
    cells = session.scalars(
        select(Cell)
        .where(Cell.job == job)
        .order_by(Cell.case, Cell.platform, Cell.tolerance, Cell.branch, Cell.id)
    ).all()
    rows = session.execute(
        select(
            CaseResult.cell_id, CaseResult.night_id, CaseResult.status, CaseResult.message, Incident.ordinal
        )
        .outerjoin(Regression, CaseResult.regression_id == Regression.id)
        .outerjoin(Incident, Regression.incident_id == Incident.id)
        .where(CaseResult.night_id.in_([night.id for night in nights]))
    )
    shown = {
        (cell, night): Shown(status=status, message=message, incident=incident)
        for cell, night, status, message, incident in rows
    }
    seen = {cell for cell, _ in shown}
    return Grid(job=job, nights=nights, cells=[cell for cell in cells if cell.id in seen], shown=shown)


def incidents(session: Session, job: str) -> Sequence[Incident]:
    """Open ones first, newest first in either group."""
    found = session.scalars(
        select(Incident)
        .where(Incident.job == job)
        .order_by(Incident.closed_night_id.is_not(None), Incident.ordinal.desc())
        .options(
            joinedload(Incident.opened_night),
            joinedload(Incident.closed_night),
            joinedload(Incident.bisection),
            selectinload(Incident.regressions).joinedload(Regression.cell),
        )
    )
    return found.all()


def incident(session: Session, job: str, ordinal: int) -> Incident:
    """One incident of a job."""
    return next(each for each in incidents(session, job) if each.ordinal == ordinal)


@dataclass(frozen=True, kw_only=True)
class CaseView:
    """All of a case page: one cell with its results, newest first. Seconds are medians over its runs, and over those
    builds that were really made for it."""

    cell: Cell
    results: Sequence[tuple[CaseResult, int | None]]
    """With the incident's number."""
    runs: int
    failures: int
    flaky_nights: int
    counts: Mapping[Status, int]
    build_seconds: float | None
    run_seconds: float | None
    timings: Sequence[tuple[str, float, Verdict]]
    """Commit, seconds and verdict of the newest runs, old to new."""
    calendar: Sequence[tuple[str, Mapping[int, tuple[CaseResult, int | None]]]]
    """Months, newest first, with what the last night of each day found."""


_MOST_TIMINGS = 200


def case_view(session: Session, cell: int) -> CaseView:
    """The view of a cell."""
    rows = session.execute(
        select(CaseResult, Incident.ordinal)
        .outerjoin(Regression, CaseResult.regression_id == Regression.id)
        .outerjoin(Incident, Regression.incident_id == Incident.id)
        .where(CaseResult.cell_id == cell)
        .order_by(CaseResult.night_id.desc())
        .options(joinedload(CaseResult.night))
    ).all()
    results = [(result, number) for result, number in rows]
    timings = session.execute(
        select(
            CaseRun.commit, CaseRun.build_source, CaseRun.build_seconds, CaseRun.run_seconds, CaseRun.verdict
        )
        .where(CaseRun.cell_id == cell)
        .order_by(CaseRun.id)
    ).all()
    builds = [row.build_seconds for row in timings if row.build_source == BuildSource.BUILT]
    statuses = [result.status for result, _ in results]
    return CaseView(
        cell=session.get_one(Cell, cell),
        results=results,
        runs=sum(result.runs for result, _ in results),
        failures=sum(result.failures for result, _ in results),
        flaky_nights=statuses.count(Status.FLAKY),
        counts={status: statuses.count(status) for status in Status if status in statuses},
        build_seconds=median(builds) if builds else None,
        run_seconds=median([row.run_seconds for row in timings]) if timings else None,
        timings=[(row.commit, row.run_seconds, row.verdict) for row in timings[-_MOST_TIMINGS:]],
        calendar=[
            (month, {each[0].night.started.day: each for each in reversed(list(group))})
            for month, group in groupby(results, lambda each: f"{each[0].night.started:%Y-%m}")
        ],
    )

"""Every page of the site by its address: the same for a folder of files and for the server."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...runner.errors import UserError
from ...store.journals.queue.entries import queue_entries
from ...store.tables.bisections import BisectionRow, CommitRow, ProbeRow, StageRow
from ...store.tables.nights import CellRow, IncidentRow
from ...store.tables.queue import SubmissionRow
from ..report.model.rows import load_rows
from ..report.model.sides import both_sides
from ..report.phrases import runs_in_order
from ..report.plain_text import shortened
from . import addresses, plots
from .render import policy, render
from .report_files import TASK_GRAPH_POLICY, archive, reduced_files, task_graph
from .views import nights
from .views.bisection import bisection_view
from .views.commit import commit_view
from .views.listing import authors_of, list_bisections
from .views.queue import MOST_OVER

_HTML = "text/html; charset=utf-8"
_FIRST_BISECTIONS = 12
_MOST_RUNS = 300
"""Rows of the table of runs; `history` prints all."""


@dataclass(frozen=True)
class Page:
    """A page (or file to download) that is made when it is asked for."""

    content: str
    """Its media type."""
    make: Callable[[], bytes]
    policy: str = field(default_factory=policy)
    """Its content security policy, where it is served."""


class Site:
    """The pages of a store, read through one session: what is not asked for is not made."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def pages(self) -> dict[str, Page]:
        """All pages by address, in an order that does not change. An address that is not here does not exist."""
        found = {addresses.INDEX: _html(self._index), addresses.BISECTIONS: _html(self._bisections)}
        if self._has_queue:
            found[addresses.QUEUE] = Page(_HTML, self._queue, policy(live=True))
        named = select(BisectionRow.name, BisectionRow.request["output"].label("output")).order_by(
            BisectionRow.id
        )
        for name, output in self._session.execute(named):
            found |= _files(name, Path(output))
            found[addresses.bisection(name)] = _html(lambda name=name: self._bisection(name))
            for side in ("good", "bad"):
                found[addresses.script(name, side)] = Page(
                    "text/plain; charset=utf-8", lambda name=name, side=side: self._script(name, side)
                )
        for job in self._jobs:
            found[addresses.job(job)] = _html(lambda job=job: self._job(job, None))
            for month in nights.months(self._session, job):
                found[addresses.month(job, month)] = _html(lambda job=job, month=month: self._job(job, month))
        for job, cell in self._session.execute(select(CellRow.job, CellRow.id).order_by(CellRow.id)):
            found[addresses.case(job, cell)] = _html(lambda job=job, cell=cell: self._case(job, cell))
        for job, ordinal in self._session.execute(
            select(IncidentRow.job, IncidentRow.ordinal).order_by(IncidentRow.id)
        ):
            found[addresses.incident(job, ordinal)] = _html(
                lambda job=job, ordinal=ordinal: self._incident(job, ordinal)
            )
        for repository, sha in sorted(self._commits):
            found[addresses.commit(repository, sha)] = _html(
                lambda repository=repository, sha=sha: self._commit(repository, sha)
            )
        return found

    @cached_property
    def _jobs(self) -> list[str]:
        return nights.jobs(self._session)

    @cached_property
    def _commits(self) -> set[tuple[str, str]]:
        """The commits that any page speaks of."""
        known = {
            (row[0], row[1]) for row in self._session.execute(select(CommitRow.repository, CommitRow.sha))
        }
        known |= {
            (row[0], row[1])
            for row in self._session.execute(select(ProbeRow.repository, ProbeRow.commit).distinct())
        }
        for repository, old, new in self._session.execute(
            select(StageRow.repository, StageRow.old, StageRow.new).distinct()
        ):
            known |= {(repository, old), (repository, new)}
        for repository, good, bad in self._session.execute(
            select(BisectionRow.repository, BisectionRow.good, BisectionRow.bad)
        ):
            known |= {(repository, good), (repository, bad)}
        known |= {
            (row[0], row[1])
            for row in self._session.execute(select(IncidentRow.repository, IncidentRow.culprit).distinct())
        }
        return known

    @cached_property
    def _shas(self) -> dict[str, set[str]]:
        """Those commits by their repository."""
        found: dict[str, set[str]] = {}
        for repository, sha in self._commits:
            found.setdefault(repository, set()).add(sha)
        return found

    def _render(self, template: str, here: str, **values: Any) -> bytes:
        sections = (
            ("Overview", addresses.INDEX),
            *((shortened(job, 40), addresses.job(job)) for job in self._jobs),
            ("Bisections", addresses.BISECTIONS),
            *([("Queue", addresses.QUEUE)] if self._has_queue else []),
        )
        return render(template, here, sections, **values)

    @cached_property
    def _has_queue(self) -> bool:
        """Whether anything was ever submitted."""
        return self._session.scalar(select(SubmissionRow.id).limit(1)) is not None

    def _queue(self) -> bytes:
        entries = queue_entries(self._session, most_over=MOST_OVER)
        return self._render("queue.html.j2", addresses.QUEUE, entries=entries[::-1])

    def _index(self) -> bytes:
        boards = [
            (nights.newest_grid(self._session, job), nights.incidents(self._session, job))
            for job in self._jobs
        ]
        listed = list_bisections(self._session, limit=_FIRST_BISECTIONS + 1)
        return self._render(
            "index.html.j2",
            addresses.INDEX,
            boards=boards,
            authors=authors_of(self._session, [each for _, every in boards for each in every]),
            listed=listed[:_FIRST_BISECTIONS],
            more=len(listed) > _FIRST_BISECTIONS,
        )

    def _bisections(self) -> bytes:
        return self._render("bisections.html.j2", addresses.BISECTIONS, listed=list_bisections(self._session))

    def _bisection(self, name: str) -> bytes:
        return self._with_bisection("bisection.html.j2", addresses.bisection(name), name)

    def _incident(self, job: str, ordinal: int) -> bytes:
        incident, earlier = nights.incident(self._session, job, ordinal)
        here = addresses.incident(job, ordinal)
        return self._with_bisection(
            "incident.html.j2", here, incident.bisection.name, incident=incident, earlier=earlier
        )

    def _with_bisection(self, template: str, here: str, name: str, **values: Any) -> bytes:
        try:
            view = bisection_view(load_rows(self._session, name))
        except UserError as error:
            # One bisection of another version of the tool takes no other page away.
            return self._render("unreadable.html.j2", here, name=name, problem=str(error))
        runs = runs_in_order(view.report)
        return self._render(
            template,
            here,
            view=view,
            runs=runs,
            most_runs=_MOST_RUNS,
            run_of={run.ordinal: run for _, run in runs}.__getitem__,
            **values,
        )

    def _job(self, job: str, month: str | None) -> bytes:
        whole = month is None
        grid = (
            nights.newest_grid(self._session, job) if whole else nights.month_grid(self._session, job, month)
        )
        every = nights.incidents(self._session, job) if whole else ()
        return self._render(
            "job.html.j2",
            addresses.job(job) if whole else addresses.month(job, month),
            job=job,
            month=month,
            grid=grid,
            every=every,
            authors=authors_of(self._session, every),
            months=nights.months(self._session, job),
        )

    def _case(self, job: str, cell: int) -> bytes:
        view = nights.case_view(self._session, cell)
        points = [
            plots.Point(
                index=index,
                commit=commit,
                judgement=judgement,
                value=seconds,
            )
            for index, (commit, seconds, judgement) in enumerate(view.timings)
        ]
        timing = plots.curve("seconds", points, commits=len(points))
        return self._render(
            "case.html.j2",
            addresses.case(job, cell),
            view=view,
            timing=timing,
            pages_of={sha: repository for repository, sha in self._commits},
        )

    def _script(self, name: str, side: str) -> bytes:
        try:
            found = both_sides(load_rows(self._session, name))
        except UserError:
            return b"# this bisection cannot be read; its page says why\nexit 1\n"
        shown = found.good if side == "good" else found.bad
        return (shown.script if shown else "# no run of this bisection showed this side\nexit 1\n").encode()

    def _commit(self, repository: str, sha: str) -> bytes:
        return self._render(
            "commit.html.j2",
            addresses.commit(repository, sha),
            view=commit_view(self._session, repository, sha),
            linked=self._shas[repository],
        )


def _files(name: str, report: Path) -> dict[str, Page]:
    """What lies beside a bisection's report."""
    found: dict[str, Page] = {}
    graph = task_graph(report)
    if graph is not None:
        found[addresses.task_graph(name)] = Page(_HTML, graph.read_bytes, TASK_GRAPH_POLICY)
    if reduced_files(report):
        found[addresses.reduced(name)] = Page("application/gzip", lambda: archive(report))
    return found


def _html(make: Callable[[], bytes]) -> Page:
    return Page(_HTML, make)

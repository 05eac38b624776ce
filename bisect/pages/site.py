"""Every page of the site by its address, and the site as a folder of files.

The folder and the server have the same pages. Each file is written as a whole or not at all, and a file that would not
change is left alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...runner.localization import link_back
from ...store.durable_files import write_whole
from ...store.tables import BisectionRow, CellRow, CommitRow, IncidentRow, ProbeRow, StageRow, SubmissionRow
from ...store.vocabulary import shorten
from ..listing import list_bisections, queue_entries, session_reader
from ..report.basis import load_rows
from ..report.phrases import runs_in_order
from ..report.report_builder import both_sides
from . import views
from .render import (
    BISECTIONS,
    INDEX,
    QUEUE,
    bisection_address,
    bisection_view,
    case_address,
    commit_address,
    commit_point,
    curve,
    incident_address,
    job_address,
    month_address,
    reduced_build_address,
    render,
    script_address,
    security_policy,
    task_graph_address,
)
from .views import (
    MAX_FINISHED_SUBMISSIONS,
    TASK_GRAPH_POLICY,
    archive,
    commit_view,
    culprit_authors,
    reduced_files,
    task_graph,
)

_HTML = "text/html; charset=utf-8"
_MAX_INDEX_BISECTIONS = 12
"""The start page lists this many of the newest bisections, and links to all."""
_MAX_RUNS = 300
"""The table of runs shows this many rows at most, so that a browser can draw it. `history` prints all runs."""


@dataclass(frozen=True)
class Page:
    """A page, or a file to download, which is made when it is requested."""

    content: str
    """The media type."""
    make: Callable[[], bytes]
    policy: str = field(default_factory=security_policy)
    """The content security policy with which a server sends the page."""


class Site:
    """The pages of a store, which are read through one session. A page is made only when it is requested."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def pages(self) -> dict[str, Page]:
        """Return all pages by address, in a stable order. No other address exists."""
        return {
            **self._root_pages(),
            **self._bisection_pages(None),
            **self._job_pages(),
            **self._commit_pages(),
        }

    def page(self, address: str) -> Page | None:
        """Return the page at an address, or None. Only the folder that the address names is looked up."""
        match address.split("/")[0]:
            case "bisections":
                return self._bisection_pages(address).get(address)
            case "jobs":
                return self._job_pages().get(address)
            case "commits":
                return self._commit_pages().get(address)
            case _:
                return self._root_pages().get(address)

    def _root_pages(self) -> dict[str, Page]:
        found = {INDEX: _html(self._index), BISECTIONS: _html(self._bisections)}
        if self._has_queue:
            found[QUEUE] = Page(_HTML, self._queue, security_policy(live=True))
        return found

    def _bisection_pages(self, wanted_address: str | None) -> dict[str, Page]:
        """Return the pages and files of all bisections, or only those with which `wanted_address` begins."""
        found: dict[str, Page] = {}
        named = select(BisectionRow.name, BisectionRow.request["output"].label("output")).order_by(
            BisectionRow.id
        )
        for name, output in self._session.execute(named):
            page = bisection_address(name)
            if wanted_address is not None and not wanted_address.startswith(page.removesuffix(".html")):
                continue
            found |= _files(name, Path(output))
            found[page] = _html(lambda name=name: self._bisection(name))
            for side in ("good", "bad"):
                found[script_address(name, side)] = Page(
                    "text/plain; charset=utf-8", lambda name=name, side=side: self._script(name, side)
                )
        return found

    def _job_pages(self) -> dict[str, Page]:
        found: dict[str, Page] = {}
        for job in self._jobs:
            found[job_address(job)] = _html(lambda job=job: self._job(job, None))
            for month in views.months(self._session, job):
                found[month_address(job, month)] = _html(lambda job=job, month=month: self._job(job, month))
        for job, cell in self._session.execute(select(CellRow.job, CellRow.id).order_by(CellRow.id)):
            found[case_address(job, cell)] = _html(lambda job=job, cell=cell: self._case(job, cell))
        for job, ordinal in self._session.execute(
            select(IncidentRow.job, IncidentRow.ordinal).order_by(IncidentRow.id)
        ):
            found[incident_address(job, ordinal)] = _html(
                lambda job=job, ordinal=ordinal: self._incident(job, ordinal)
            )
        return found

    def _commit_pages(self) -> dict[str, Page]:
        return {
            commit_address(repository, sha): _html(
                lambda repository=repository, sha=sha: self._commit(repository, sha)
            )
            for repository, sha in sorted(self._commits)
        }

    @cached_property
    def _jobs(self) -> list[str]:
        return views.jobs(self._session)

    @cached_property
    def _commits(self) -> set[tuple[str, str]]:
        """Return the commits that have a page: those that were run or named, and the ends of ranges."""
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

    def _render(self, template: str, here: str, **values: Any) -> bytes:
        sections = (
            ("Overview", INDEX),
            *((shorten(job, 40), job_address(job)) for job in self._jobs),
            ("Bisections", BISECTIONS),
            *([("Queue", QUEUE)] if self._has_queue else []),
        )
        return render(template, here, sections, has_page=self._has_page, **values)

    def _has_page(self, repository: str, sha: str) -> bool:
        """Return whether a commit has a page. A commit that a search only listed has none."""
        return (repository, sha) in self._commits

    @cached_property
    def _has_queue(self) -> bool:
        """Return whether anything was ever submitted to the queue."""
        return self._session.scalar(select(SubmissionRow.id).limit(1)) is not None

    def _queue(self) -> bytes:
        entries = queue_entries(session_reader(self._session), max_ended=MAX_FINISHED_SUBMISSIONS)
        return self._render("queue.html.j2", QUEUE, entries=entries[::-1])

    def _index(self) -> bytes:
        boards = [
            (views.newest_grid(self._session, job), views.incidents(self._session, job)) for job in self._jobs
        ]
        listed = list_bisections(session_reader(self._session), limit=_MAX_INDEX_BISECTIONS + 1)
        return self._render(
            "index.html.j2",
            INDEX,
            boards=boards,
            authors=culprit_authors(
                self._session, [incident for _, incidents in boards for incident in incidents]
            ),
            listed=listed[:_MAX_INDEX_BISECTIONS],
            more=len(listed) > _MAX_INDEX_BISECTIONS,
        )

    def _bisections(self) -> bytes:
        return self._render(
            "bisections.html.j2", BISECTIONS, listed=list_bisections(session_reader(self._session))
        )

    def _bisection(self, name: str) -> bytes:
        return self._render_bisection("bisection.html.j2", bisection_address(name), name)

    def _incident(self, job: str, ordinal: int) -> bytes:
        incident, earlier = views.incident(self._session, job, ordinal)
        here = incident_address(job, ordinal)
        return self._render_bisection(
            "incident.html.j2", here, incident.bisection.name, incident=incident, earlier=earlier
        )

    def _render_bisection(self, template: str, here: str, name: str, **values: Any) -> bytes:
        try:
            view = bisection_view(load_rows(self._session, name))
        except UserError as error:
            # A bisection of another version of the tool must not break other pages.
            return self._render("unreadable.html.j2", here, name=name, problem=str(error))
        runs = runs_in_order(view.report)
        return self._render(
            template,
            here,
            view=view,
            runs=runs,
            max_runs=_MAX_RUNS,
            run_of={run.ordinal: run for _, run in runs}.__getitem__,
            **values,
        )

    def _job(self, job: str, month: str | None) -> bytes:
        is_newest = month is None
        grid = (
            views.newest_grid(self._session, job)
            if is_newest
            else views.month_grid(self._session, job, month)
        )
        incidents = views.incidents(self._session, job) if is_newest else ()
        return self._render(
            "job.html.j2",
            job_address(job) if is_newest else month_address(job, month),
            job=job,
            month=month,
            grid=grid,
            all_incidents=incidents,
            authors=culprit_authors(self._session, incidents),
            months=views.months(self._session, job),
        )

    def _case(self, job: str, cell: int) -> bytes:
        view = views.case_view(self._session, cell)
        points = [
            commit_point(index, commit, judgement, seconds)
            for index, (commit, seconds, judgement) in enumerate(view.timings)
        ]
        timing = curve("seconds", points, places=len(points))
        return self._render(
            "case.html.j2",
            case_address(job, cell),
            view=view,
            timing=timing,
            repository_of={sha: repository for repository, sha in self._commits},
        )

    def _script(self, name: str, side: str) -> bytes:
        try:
            found = both_sides(load_rows(self._session, name))
        except UserError:
            return b"# this bisection cannot be read; its page says why\nexit 1\n"
        shown = found.good if side == "good" else found.bad
        missing = f"# no run of this bisection was judged {side}, so there is nothing to repeat\nexit 1\n"
        return (shown.script if shown else missing).encode()

    def _commit(self, repository: str, sha: str) -> bytes:
        return self._render(
            "commit.html.j2",
            commit_address(repository, sha),
            view=commit_view(self._session, repository, sha),
        )


def _files(name: str, report: Path) -> dict[str, Page]:
    """Return the pages of files that lie beside a bisection's report."""
    found: dict[str, Page] = {}
    graph = task_graph(report)
    if graph is not None:
        back = bisection_address(name).rpartition("/")[2]
        found[task_graph_address(name)] = Page(
            _HTML, lambda: link_back(graph.read_bytes(), back, "Back to the bisection"), TASK_GRAPH_POLICY
        )
    if reduced_files(report):
        found[reduced_build_address(name)] = Page("application/gzip", lambda: archive(report))
    return found


def _html(make: Callable[[], bytes]) -> Page:
    return Page(_HTML, make)


_GENERATED_TIME = re.compile(rb'<span class="generated">[^<]*</span>')
"""This element of templates/parts/base.html.j2 holds the time at which a page was made."""


@dataclass(frozen=True, kw_only=True)
class SiteBuild:
    """The result of writing a site.

    It holds the number of pages, the number of files that changed, and the largest page with its size in bytes.
    """

    pages: int
    changed: int
    largest: str
    largest_bytes: int


def write_site(sessions: sessionmaker[Session], directory: Path) -> SiteBuild:
    """Write all pages to a folder. Raises `UserError` where it cannot be written."""
    changed, largest, largest_bytes = 0, "", 0
    try:
        with sessions() as session:
            pages = Site(session).pages
            for address, page in pages.items():
                content = page.make()
                session.expunge_all()
                changed += _write(directory / address, content)
                if len(content) > largest_bytes:
                    largest, largest_bytes = address, len(content)
    except OSError as error:
        raise UserError(
            f"{directory}: expected a folder to write pages to: {error.strerror}; name another one with --html"
        ) from error
    return SiteBuild(pages=len(pages), changed=changed, largest=largest, largest_bytes=largest_bytes)


def _write(file: Path, content: bytes) -> bool:
    """Write a page and return whether it changed. A page that differs only in its time of making is left alone."""
    if file.is_file() and _GENERATED_TIME.sub(b"", file.read_bytes()) == _GENERATED_TIME.sub(b"", content):
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, content, is_public=True)
    return True

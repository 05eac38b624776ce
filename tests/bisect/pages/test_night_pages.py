"""Pages of nightly jobs: the grid, months, cases, incidents; hostile names inject nothing."""

import re
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from sqlalchemy import delete, select, update

from benchmarks.site.year import fill_nights
from precision_bisect.bisect.pages import views
from precision_bisect.bisect.pages.render import commit_address
from precision_bisect.bisect.pages.site import Site, write_site
from precision_bisect.store.tables import (
    BisectionRow,
    CaseResultRow,
    CaseRunRow,
    CellRow,
    IncidentRow,
    NightRow,
    RegressionRow,
)
from precision_bisect.store.vocabulary import BuildSource, CaseStatus, Verdict
from tests.bisect.pages.test_site_folder import EVIL, check_pages
from tests.bisect.report.conftest import culprit  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection, sha
from tests.support.stores import new_store


def test_nights_cases_and_incidents_have_pages(culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    fill_with_incident(culprit)
    site = tmp_path / "site"
    write_site(culprit.sessions, site)
    check_pages(site)
    front = (site / "index.html").read_text(encoding="utf-8")
    assert "✕ open" in front
    assert front.count('<a class="cell') == 30 * 3  # the newest nights alone
    assert front.index("last night (") < front.index("<h2>") < front.index("<table")
    assert "1 regressed, 2 passed; 1 open incident." in front
    # What fails stands on top.
    assert front.index(">✕</a>") < front.index(">✓</a>")
    months = sorted(file.name for file in (site / "jobs").glob("*-2025-*.html"))
    assert len(months) == 2
    incident = next(site.glob("jobs/*/incident-1.html")).read_text(encoding="utf-8")
    assert "99.93 %" in incident
    assert "Reduced build" in incident
    case = next(site.glob("jobs/*/case-1.html")).read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in case
    assert case.count('id="night-') == 40
    calendar = case[case.index('<table class="grid"') : case.index("</table>")]
    assert calendar.count('href="#night-') == 40
    february, january = re.findall('<tr><th scope="row">.*</tr>', calendar)
    assert (february.count("<td>"), january.count("<td>"), calendar.count('scope="col"')) == (28, 31, 32)
    assert re.findall('data-newest href="#night-(\\d+)"', calendar) == ["40"]


def test_a_calendar_has_the_days_of_its_months_alone(tmp_path: Path) -> None:
    sessions = new_store(tmp_path / "store.sqlite")
    fill_nights(sessions, nights=1, cases=1)
    with sessions.begin() as session:
        session.execute(update(NightRow).values(started=datetime(2026, 11, 25, tzinfo=UTC)))
    write_site(sessions, tmp_path / "site")
    case = next((tmp_path / "site").glob("jobs/*/case-1.html")).read_text(encoding="utf-8")
    assert '<th scope="col">30</th>' in case
    assert '<th scope="col">31</th>' not in case


def test_a_night_that_has_begun_and_judged_nothing_has_pages(tmp_path: Path) -> None:
    sessions = new_store(tmp_path / "store.sqlite")
    fill_nights(sessions, nights=1, cases=1)
    with sessions.begin() as session:
        session.execute(delete(CaseResultRow))
    write_site(sessions, tmp_path / "site")
    assert "nothing was judged; no open incident." in (tmp_path / "site" / "index.html").read_text()


def test_nights_of_one_day_are_numbered(tmp_path: Path) -> None:
    sessions = new_store(tmp_path / "store.sqlite")
    fill_nights(sessions, nights=3, cases=1)
    with sessions.begin() as session:
        first, second, third = views.newest_grid(session, "nightly").nights
        second.started = first.started
        assert views.newest_grid(session, "nightly").days == {
            first.id: f"{first.started.day}",
            second.id: f"{first.started.day} (2)",
            third.id: f"{third.started.day}",
        }


def fill_with_incident(stored: StoredBisection) -> None:
    """Forty nights of three cases; in the last one the first case, of a hostile name, has regressed."""
    # The environment of the bisection has the id that `fill_nights` would take.
    fill_nights(stored.sessions, nights=40, cases=3, environment=1000)
    with stored.sessions.begin() as session:
        bisection = session.scalars(select(BisectionRow.id)).one()
        last = session.scalars(select(NightRow.id).order_by(NightRow.id.desc())).first()
        assert last is not None
        incident = IncidentRow(
            job="nightly",
            ordinal=1,
            repository="compiler",
            culprit=sha("c5"),
            subject=EVIL,
            confidence=0.9993,
            bisection_id=bisection,
            opened_night_id=last,
            reduction=EVIL,
        )
        session.add(incident)
        session.flush()
        regression = RegressionRow(
            cell_id=1,
            opened_night_id=last,
            last_good=sha("c0"),
            first_bad=sha("c6"),
            last_bad=sha("c6"),
            bad_when="mismatch",
            bisection_id=bisection,
            incident_id=incident.id,
        )
        session.add(regression)
        session.flush()
        session.execute(update(CellRow).where(CellRow.id == 1).values(case=EVIL, branch=EVIL))
        session.execute(update(NightRow).where(NightRow.id == last).values(summary={"notes": [EVIL]}))
        session.execute(
            update(CaseResultRow)
            .where(CaseResultRow.night_id == last, CaseResultRow.cell_id == 1)
            .values(status=CaseStatus.REGRESSED, message=EVIL, regression_id=regression.id)
        )


def test_the_newest_grid_holds_the_newest_nights_and_counts_the_last(
    culprit: StoredBisection,  # noqa: F811
) -> None:
    fill_with_incident(culprit)
    with culprit.sessions() as session:
        grid = views.newest_grid(session, "nightly")
        assert views.jobs(session) == ["nightly"]
        assert views.months(session, "nightly") == ["2025-02", "2025-01"]
        assert [night.ordinal for night in grid.nights] == list(range(11, 41))
        assert grid.months == [("2025-02", 10), ("2025-01", 20)]
        assert len(grid.cells) == 3
        assert sum(grid.newest.values()) == 3
        assert grid.newest[CaseStatus.REGRESSED] == 1
        shown = grid.shown[1, grid.nights[-1].id]
        assert (shown.status, shown.message, shown.incident) == (CaseStatus.REGRESSED, EVIL, 1)
        assert grid.shown[2, grid.nights[-1].id].incident is None


def test_a_month_s_grid_holds_its_nights_alone(culprit: StoredBisection) -> None:  # noqa: F811
    fill_with_incident(culprit)
    with culprit.sessions() as session:
        january = views.month_grid(session, "nightly", "2025-01")
        assert [night.ordinal for night in january.nights] == list(range(1, 31))
        assert {night for _, night in january.shown} == {night.id for night in january.nights}
        empty = views.month_grid(session, "nightly", "2024-12")
        assert (empty.nights, empty.cells, empty.shown, empty.newest) == ([], [], {}, {})


def test_cells_are_told_apart_by_what_they_do_not_share(culprit: StoredBisection) -> None:  # noqa: F811
    fill_nights(culprit.sessions, nights=1, cases=3, environment=1000)
    with culprit.sessions.begin() as session:
        grid = views.newest_grid(session, "nightly")
        assert grid.folder == "examples/"
        assert grid.distinguishing_parts(grid.cells[0]) == [grid.cells[0].platform]
        grid.cells[0].tolerance, grid.cells[1].branch = "loose", "next"
        assert grid.distinguishing_parts(grid.cells[0]) == [grid.cells[0].platform, "loose", "main"]


def test_a_case_counts_its_runs_and_takes_seconds_from_real_builds(
    culprit: StoredBisection,  # noqa: F811
) -> None:
    fill_with_incident(culprit)
    with culprit.sessions.begin() as session:
        runs = session.scalars(select(CaseRunRow).where(CaseRunRow.cell_id == 1)).all()
        for run, seconds in zip(runs, (8.0, 2.0, 4.0), strict=False):
            run.build_source, run.build_seconds = BuildSource.BUILT, seconds
        session.flush()
        view = views.case_view(session, 1)
        assert [result.night_id for result, _ in view.results] == list(range(40, 0, -1))
        assert [number for _, number in view.results] == [1, *[None] * 39]
        assert view.build_seconds == 4.0
        assert view.run_seconds == median(run.run_seconds for run in runs)
        assert [commit for commit, _, _ in view.timings] == [run.commit for run in runs]
        assert sum(view.counts.values()) == 40
        assert view.counts[CaseStatus.REGRESSED] == 1
        assert view.flaky_nights == view.counts.get(CaseStatus.FLAKY, 0) == view.failures
        assert view.logs[40] == runs[-1].log
        assert view.runs == 40 + 3 * view.failures
        shown = [(month.name, month.length, len(month.days)) for month in view.calendar]
        assert shown == [("2025-02", 28, 10), ("2025-01", 31, 30)]


def test_the_chart_of_a_case_tells_runs_without_a_result_from_those_that_failed(
    culprit: StoredBisection,  # noqa: F811
    tmp_path: Path,
) -> None:
    fill_with_incident(culprit)
    with culprit.sessions.begin() as session:
        runs = session.scalars(select(CaseRunRow).where(CaseRunRow.cell_id == 2)).all()
        verdicts = (Verdict.UNKNOWN, Verdict.BUILD_ERROR, Verdict.MISMATCH)
        for run, verdict in zip(runs, verdicts, strict=False):
            run.verdict, run.commit = verdict, sha(verdict)
    site = tmp_path / "site"
    write_site(culprit.sessions, site)
    case = next(site.glob("jobs/*/case-2.html")).read_text(encoding="utf-8")
    for verdict, judged in zip(
        verdicts, ("could not be judged", "could not be judged", "failed as asked"), strict=True
    ):
        assert re.search(f"<title>{sha(verdict)[:10]}: [0-9.e-]+, {judged}</title>", case)


def test_a_commit_s_page_tells_runs_without_a_result_from_those_that_failed(
    culprit: StoredBisection,  # noqa: F811
) -> None:
    fill_with_incident(culprit)
    with culprit.sessions.begin() as session:
        runs = session.scalars(select(CaseRunRow).where(CaseRunRow.night_id == 3)).all()
        for run, verdict in zip(runs, (Verdict.UNKNOWN, Verdict.MISMATCH, Verdict.PASS), strict=True):
            run.verdict = verdict
        session.flush()
        page = Site(session).pages[commit_address("pypto", runs[0].commit)].make().decode()
    assert re.findall('<b class="(\\w+)" aria-hidden="true">(.)</b> (\\w+)</td>', page) == [
        ("good", "✓", "pass"),
        ("bad", "✕", "mismatch"),
        ("skip", "?", "unknown"),
    ]


def test_open_incidents_come_before_closed_ones(culprit: StoredBisection) -> None:  # noqa: F811
    fill_with_incident(culprit)
    with culprit.sessions.begin() as session:
        first, _ = views.incident(session, "nightly", 1)
        for ordinal, closed in ((2, 3), (3, None), (4, 5)):
            session.add(
                IncidentRow(
                    job="nightly",
                    ordinal=ordinal,
                    repository="compiler",
                    culprit=sha(f"c{ordinal}"),
                    subject=f"Subject {ordinal}",
                    confidence=None,
                    bisection_id=first.bisection_id,
                    opened_night_id=1,
                    closed_night_id=closed,
                )
            )
        session.flush()
        assert [each.ordinal for each in views.incidents(session, "nightly")] == [3, 1, 4, 2]
        assert views.incident(session, "nightly", 3)[0].culprit == sha("c3")

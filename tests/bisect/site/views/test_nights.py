"""Pages of nightly jobs: the grid, months, cases, incidents; hostile names inject nothing."""

from pathlib import Path

from sqlalchemy import select, update

from benchmarks.site.year import fill_nights
from precision_bisect.bisect.site.folder import write_site
from precision_bisect.store.tables.bisections import BisectionRow
from precision_bisect.store.tables.nights import CaseResultRow, CellRow, IncidentRow, NightRow, RegressionRow
from precision_bisect.store.vocabulary import CaseStatus
from tests.bisect.report.conftest import culprit  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection, sha
from tests.bisect.site.test_folder import EVIL, check_pages


def test_nights_cases_and_incidents_have_pages(culprit: StoredBisection, tmp_path: Path) -> None:  # noqa: F811
    fill_with_incident(culprit)
    site = tmp_path / "site"
    write_site(culprit.sessions, site)
    check_pages(site)
    front = (site / "index.html").read_text(encoding="utf-8")
    assert "✕ open" in front
    assert front.count('<a class="cell') == 30 * 3  # the newest nights alone
    months = sorted(file.name for file in (site / "jobs").glob("*-2025-*.html"))
    assert len(months) == 2
    incident = next(site.glob("jobs/*/incident-1.html")).read_text(encoding="utf-8")
    assert "99.93 %" in incident
    assert "Reduced build" in incident
    case = next(site.glob("jobs/*/case-1.html")).read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in case
    assert case.count('id="night-') == 40
    assert case.count('href="#night-') == 40  # the calendar


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

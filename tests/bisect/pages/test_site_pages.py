"""The pages of a store by address: which there are, and what one that cannot be read takes away."""

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from precision_bisect.bisect.pages.render import (
    BISECTIONS,
    INDEX,
    bisection_address,
    case_address,
    commit_address,
    incident_address,
    job_address,
    month_address,
    reduced_build_address,
    script_address,
    task_graph_address,
)
from precision_bisect.bisect.pages.site import Site
from precision_bisect.runner.localization import link_back
from precision_bisect.store.tables import BisectionRow, IncidentRow
from tests.bisect.pages.test_night_pages import fill_with_incident
from tests.bisect.report.conftest import culprit, nothing_run  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection, sha


@pytest.fixture
def session(culprit: StoredBisection) -> Iterator[Session]:  # noqa: F811
    with culprit.sessions() as session:
        yield session


def text(session: Session, address: str) -> str:
    return Site(session).pages[address].make().decode()


def make_unreadable(session: Session) -> None:
    session.execute(update(BisectionRow).values(request={"schema_version": 99, "output": "/nowhere"}))


def test_every_address_of_a_bisection_is_there_and_no_other(
    culprit: StoredBisection,  # noqa: F811
    session: Session,
) -> None:
    pages = Site(session).pages
    commits = {f"c{number}" for number in range(7)}
    assert {*pages} == {
        INDEX,
        BISECTIONS,
        bisection_address(culprit.name),
        script_address(culprit.name, "good"),
        script_address(culprit.name, "bad"),
        *(commit_address("compiler", sha(name)) for name in commits),
    }
    for unknown in ("", "/", "../store.sqlite", bisection_address("another"), job_address("nightly")):
        assert unknown not in pages


def test_scripts_are_plain_text_and_pages_are_html(culprit: StoredBisection, session: Session) -> None:  # noqa: F811
    pages = Site(session).pages
    script = pages[script_address(culprit.name, "bad")]
    assert script.content == "text/plain; charset=utf-8"
    assert script.make().startswith(b"#!")
    assert sha("c5").encode() in script.make()
    page = pages[bisection_address(culprit.name)]
    assert page.content == "text/html; charset=utf-8"
    assert b"Subject of c5" in page.make()


def test_an_unreadable_bisection_says_so_and_leaves_the_others(
    culprit: StoredBisection,  # noqa: F811
    session: Session,
) -> None:
    make_unreadable(session)
    assert f"Bisection {culprit.name} cannot be shown" in text(session, bisection_address(culprit.name))
    script = text(session, script_address(culprit.name, "good"))
    assert script == "# this bisection cannot be read; its page says why\nexit 1\n"
    assert "Subject of c5" in text(session, commit_address("compiler", sha("c5")))
    assert culprit.name in text(session, BISECTIONS)


def test_a_path_breaks_behind_its_slashes_and_underscores(culprit: StoredBisection, session: Session) -> None:  # noqa: F811
    pieces = (culprit.request.case or "").replace("/", "/<wbr>").replace("_", "_<wbr>")
    assert "<wbr>" in pieces
    assert f"<dt>Case</dt><dd>{pieces}</dd>" in text(session, bisection_address(culprit.name))


def test_a_side_that_no_run_showed_has_a_script_that_fails(nothing_run: StoredBisection) -> None:  # noqa: F811
    with nothing_run.sessions() as session:
        script = text(session, script_address(nothing_run.name, "good"))
    assert script == "# no run of this bisection was judged good, so there is nothing to repeat\nexit 1\n"


def test_what_lies_beside_a_report_has_addresses_too(
    culprit: StoredBisection,  # noqa: F811
    session: Session,
) -> None:
    report = culprit.request.output
    report.mkdir()
    linked = link_back(b"<aside><h1>4 tasks</h1>", "report.md", "Back to the report")
    (report / "task_graph.html").write_bytes(linked)
    page = Site(session).pages[task_graph_address(culprit.name)]
    back = bisection_address(culprit.name).removeprefix("bisections/")
    assert re.findall('href="(.*?)"', page.make().decode()) == [back]
    assert page.make().endswith(b"<h1>4 tasks</h1>")
    assert page.policy.startswith("sandbox allow-scripts; ")
    assert reduced_build_address(culprit.name) not in Site(session).pages


def test_a_job_s_nights_cases_and_incidents_have_pages(
    culprit: StoredBisection,  # noqa: F811
    session: Session,
) -> None:
    fill_with_incident(culprit)
    pages = Site(session).pages
    assert {address for address in pages if address.startswith("jobs/")} == {
        job_address("nightly"),
        *(month_address("nightly", month) for month in ("2025-01", "2025-02")),
        *(case_address("nightly", cell) for cell in (1, 2, 3)),
        incident_address("nightly", 1),
    }
    incident = text(session, incident_address("nightly", 1))
    assert "99.93 %" in incident
    assert job_address("nightly").rpartition("/")[2] in incident
    assert "It came back" not in incident


def test_an_incident_that_came_back_links_the_closed_one(
    culprit: StoredBisection,  # noqa: F811
    session: Session,
) -> None:
    fill_with_incident(culprit)
    with culprit.sessions.begin() as writing:
        first = writing.scalars(select(IncidentRow)).one()
        first.closed_night_id = first.opened_night_id
        kept = ("job", "repository", "culprit", "subject", "confidence", "bisection_id", "opened_night_id")
        writing.add(IncidentRow(ordinal=2, **{name: getattr(first, name) for name in kept}))
    again = text(session, incident_address("nightly", 2))
    assert 'It came back: the same change was <a href="' in again
    assert (
        f'{incident_address("nightly", 1).rpartition("/")[2]}">incident #1</a> before, which was closed'
        in again
    )

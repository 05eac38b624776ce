"""A bisection in the store: begun, found again, driven by one process alone, and concluded."""

import os
import platform
import re
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.bisect.ask.earlier_runs import earlier_runs
from precision_bisect.bisect.ask.question import BisectRequest, Plan
from precision_bisect.bisect.drive import session
from precision_bisect.bisect.drive.session import StoredBisection, open_sessions
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.listing import list_bisections, session_reader
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.report.report_builder import make_report
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.bisections import EarlierRunJournal
from precision_bisect.store.database import sqlite_url
from precision_bisect.store.durable_files import read_document, write_document
from precision_bisect.store.tables import BisectionRow
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.bisect.drive.small_request import small_request
from tests.runner.small_stack import SmallStack


@pytest.fixture
def sessions(tmp_path: Path) -> sessionmaker[Session]:
    """A store of this test alone."""
    return open_sessions(sqlite_url(tmp_path / "store.sqlite"))


@pytest.fixture
def plan(small: SmallStack) -> Plan:
    """A question about two commits of the tool."""
    good = small.tool.git("rev-parse", "HEAD")
    bad = small.tool.commit("fault", {"tool.txt": "wrong\n"})
    request = small_request(small, small.workspace(), good, bad)
    return Plan(name="first", is_named=True, request=request, range=None, notices=("mind this",))


def concluded(outcome: BisectionOutcome) -> Conclusion:
    return Conclusion(outcome=outcome, message="it is over")


def test_a_name_that_another_process_takes_meanwhile_is_not_free(
    plan: Plan, sessions: sessionmaker[Session], home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(request: BisectRequest, runs: EarlierRunJournal) -> None:
        monkeypatch.setattr(session, "earlier_runs", earlier_runs)
        StoredBisection.begin(plan, sessions=sessions, home=home)

    monkeypatch.setattr(session, "earlier_runs", take)
    with pytest.raises(UserError, match="--name first: expected a name of its own, found a bisection"):
        StoredBisection.begin(plan, sessions=sessions, home=home)


def test_what_was_begun_is_found_with_its_request(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    found = StoredBisection.find("first", sessions=sessions, home=home)
    assert found.request == plan.request
    assert found.directory == begun.directory == home.bisections / "first"


def test_a_question_of_a_later_version_is_the_users_error(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    with sessions.begin() as database:
        later = {"schema_version": 99}
        database.get_one(BisectionRow, begun.journal.bisection).request = later
    with pytest.raises(UserError, match=r"bisection first: .*99"):
        _ = StoredBisection.find("first", sessions=sessions, home=home).request


def test_without_a_name_the_newest_unfinished_one_is_found(
    plan: Plan, sessions: sessionmaker[Session], home: Home, small: SmallStack
) -> None:
    def newest() -> str:
        return StoredBisection.newest_of(small.tool.path, sessions=sessions, home=home).name

    for name in ("first", "second", "third"):
        StoredBisection.begin(replace(plan, name=name), sessions=sessions, home=home)
    third = StoredBisection.find("third", sessions=sessions, home=home)
    third.conclude(concluded(BisectionOutcome.CULPRIT))
    assert newest() == "second"
    StoredBisection.find("second", sessions=sessions, home=home).conclude(concluded(BisectionOutcome.BUDGET))
    # One whose budget was spent is not finished.
    assert newest() == "second"


def test_a_record_of_a_later_version_stands_in_no_other_one_s_way(
    plan: Plan, sessions: sessionmaker[Session], home: Home, small: SmallStack
) -> None:
    for name in ("first", "second"):
        StoredBisection.begin(replace(plan, name=name), sessions=sessions, home=home)
    with sessions.begin() as session:
        row = session.scalars(select(BisectionRow).where(BisectionRow.name == "second")).one()
        row.request = {**row.request, "of_a_later_version": True}
    assert StoredBisection.newest_of(small.tool.path, sessions=sessions, home=home).name == "first"


def test_without_a_name_those_of_other_checkouts_are_left_alone(
    plan: Plan, sessions: sessionmaker[Session], home: Home, tmp_path: Path
) -> None:
    typed_in = tmp_path / "typed in" / "below"
    typed_in.mkdir(parents=True)
    (typed_in.parent / ".git").mkdir()
    request = plan.request.model_copy(update={"folder": typed_in})
    StoredBisection.begin(replace(plan, request=request), sessions=sessions, home=home)
    StoredBisection.begin(replace(plan, name="second"), sessions=sessions, home=home)
    assert StoredBisection.newest_of(typed_in.parent, sessions=sessions, home=home).name == "first"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(
        UserError, match=f"of {elsewhere} that is unfinished, found only of other .* second, first;"
    ):
        StoredBisection.newest_of(elsewhere, sessions=sessions, home=home)


def test_one_that_is_not_there_or_has_ended_is_refused(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    with pytest.raises(UserError, match="that is unfinished, found none;"):
        StoredBisection.newest_of(Path.cwd(), sessions=sessions, home=home)
    with pytest.raises(UserError, match="--resume gone: expected a bisection in the store, found none;"):
        StoredBisection.find("gone", sessions=sessions, home=home)
    StoredBisection.begin(plan, sessions=sessions, home=home).conclude(concluded(BisectionOutcome.CULPRIT))
    with pytest.raises(UserError, match=r"--resume firts: .* found none: did you mean first\?"):
        StoredBisection.find("firts", sessions=sessions, home=home)
    with pytest.raises(
        UserError, match=r"expected an unfinished bisection, found one that ended \(culprit found\)"
    ):
        StoredBisection.find("first", sessions=sessions, home=home)


def test_a_name_that_is_taken_says_what_can_be_done_with_the_other(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    with pytest.raises(UserError, match=f"or go on with that: --resume {plan.name}$"):
        StoredBisection.begin(plan, sessions=sessions, home=home)
    begun.conclude(concluded(BisectionOutcome.CULPRIT))
    with pytest.raises(UserError, match=f"or see that: report {plan.name}$"):
        StoredBisection.begin(plan, sessions=sessions, home=home)


def test_a_second_driver_is_refused_until_the_first_has_gone(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    first = StoredBisection.begin(plan, sessions=sessions, home=home)
    second = StoredBisection.find("first", sessions=sessions, home=home)
    other = StoredBisection.begin(replace(plan, name="other"), sessions=sessions, home=home)
    refused = pytest.raises(UserError, match="bisection first: expected to be its only driver")
    with first.lock(), other.lock(), refused, second.lock():
        raise AssertionError("two drivers at once")
    with second.lock():
        assert (second.directory / "driver.lock").exists()


def test_why_it_has_not_ended_is_noted(plan: Plan, sessions: sessionmaker[Session], home: Home) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    host = platform.node()

    def told() -> tuple[str, str]:
        """In the list, and in its report."""
        with sessions() as session:
            (listed,) = list_bisections(session_reader(session))
            return listed.ended, make_report(load_rows(session, plan.name)).message

    def drive(error: BaseException) -> None:
        with suppress(KeyboardInterrupt, UserError, OperationalError), begun.record_drive():
            raise error

    assert told()[0] == "not finished"
    with begun.record_drive():
        ended, message = told()
    assert ended.startswith(f"running on {host} since ")
    assert ended.endswith(f", process {os.getpid()}")
    assert message.startswith(f"{ended}; 0 runs so far; if it does not run, go on with ")
    for error, why in (
        (KeyboardInterrupt(), "interrupted 20"),
        (UserError("bad abc: expected\na run"), "bad abc: expected a run"),
        (OperationalError("SELECT 1", {}, OSError("idle-session\ntimeout")), "idle-session timeout"),
    ):
        drive(error)
        ended, message = told()
        assert ended.startswith(f"not finished: {why}")
        assert message.startswith(why)
        assert "; 0 runs so far; go on with " in message
        begun = StoredBisection.find(plan.name, sessions=sessions, home=home)
    # Killed: its process is gone, or another one has its number, which began later.
    with subprocess.Popen(["true"]) as gone:
        pass
    for process, seconds in ((gone.pid, 0.0), (os.getpid(), 1e9)):
        begun.journal.begin_drive(host=host, process=process, seconds=seconds)
        assert told()[0].startswith(f"not finished: killed on {host}, where it ran since ")
    begun.journal.begin_drive(host="another", process=os.getpid(), seconds=0.0)
    assert re.fullmatch(r"running on another since .* UTC, or killed there", told()[0])
    with begun.record_drive():
        begun.conclude(concluded(BisectionOutcome.NO_CULPRIT))
    assert told() == ("no commit of the range explains it", "it is over")


def test_what_a_person_waited_is_all_starts_with_what_came_before_and_after(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    with begun.record_drive(seconds=100.0):
        pass
    with begun.record_drive(seconds=50.0):
        begun.conclude(concluded(BisectionOutcome.NO_CULPRIT))
    with sessions() as session:
        assert (make_report(load_rows(session, plan.name)).timing.waited or 0) >= 150


def test_a_store_that_cannot_be_opened_is_the_users_error(tmp_path: Path) -> None:
    for url in (sqlite_url(tmp_path), "no store"):
        with pytest.raises(UserError):
            open_sessions(url)


@pytest.mark.parametrize(("unit", "gallop"), [("days", True), ("commits", True), (None, False)])
def test_a_request_of_an_earlier_version_is_read(plan: Plan, unit: str | None, gallop: bool) -> None:
    old = {**write_document(plan.request), "schema_version": 1, "gallop": unit, "end_runs": 5}
    assert read_document(BisectRequest, old) == plan.request.model_copy(update={"gallop": gallop})

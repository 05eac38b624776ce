"""A bisection in the store: begun, found again, driven by one process alone, and concluded."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.bisect.plan.question import Plan
from precision_bisect.bisect.result import Conclusion
from precision_bisect.bisect.run.budget import BudgetSpentError
from precision_bisect.bisect.run.driven import question_of
from precision_bisect.bisect.run.session import StoredBisection, _Alone, open_sessions
from precision_bisect.bisect.run.view.progress import Progress
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.database import sqlite_url
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.bisect.run.small_request import small_request
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


def test_what_was_begun_is_found_with_its_request(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    found = StoredBisection.find("first", sessions=sessions, home=home)
    assert found.request == plan.request
    assert found.directory == begun.directory == home.bisections / "first"


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
    with pytest.raises(
        UserError, match=r"expected an unfinished bisection, found one that ended \(culprit\)"
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


def test_a_store_that_cannot_be_opened_is_the_users_error(tmp_path: Path) -> None:
    for url in (sqlite_url(tmp_path), "no store"):
        with pytest.raises(UserError):
            open_sessions(url)


def test_a_budget_of_runs_is_spent_after_as_many(
    plan: Plan, sessions: sessionmaker[Session], home: Home
) -> None:
    begun = StoredBisection.begin(plan, sessions=sessions, home=home)
    alone = _Alone(begun, cast(Progress, None), None, most_runs=2)
    alone.permit()
    alone.permit()
    with pytest.raises(BudgetSpentError, match="its budget of 2 runs is spent"):
        alone.permit()


def test_how_often_ends_are_run_reaches_the_engine(plan: Plan) -> None:
    assert question_of(plan.request).end_runs is None
    assert question_of(plan.request.model_copy(update={"end_runs": 5})).end_runs == 5

"""Nights that are cut short, doubled, or missed; and builds that bisections share."""

import sqlite3
import time
from datetime import datetime, tzinfo
from typing import Any, Self

import pytest

from precision_bisect.bisect.nightly import matrix
from tests.support.hold import Hold
from tests.system.nightly.month import BF16, ROUNDING, Month

pytestmark = pytest.mark.long


def ask(month: Month, query: str) -> list[Any]:
    with sqlite3.connect(month.directory / "home" / "state" / "store.sqlite") as connection:
        return connection.execute(query).fetchall()


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {
        case["case"].removeprefix("cases/small_").removesuffix(".py"): case["status"]
        for case in report["cases"]
        if case["platform"] == "a2a3sim"
    }


class Clock(datetime):
    """Every look at it is a minute later."""

    looks = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        cls.looks += 1
        return cls.fromtimestamp(time.time() + 60 * cls.looks, tz)


def test_a_budget_stops_in_a_bisection_and_the_next_night_goes_on(
    month: Month, monkeypatch: pytest.MonkeyPatch
) -> None:
    month.only("round", "half")
    assert month.night() == 0
    for step in range(3):
        month.work(f"Add: before {step}")
    wanted = month.plant(ROUNDING, "Update: rounding")
    for step in range(3):
        month.work(f"Add: behind {step}")
    # Eight runs of the matrix (two cases fail three times, and their last good commit runs again), and as many more.
    monkeypatch.setattr(matrix, "datetime", Clock)
    assert month.night(budget=16 * 60) == 7
    monkeypatch.undo()
    cut = month.report(2)
    assert cut["incidents"] == []
    assert any("budget" in note for note in cut["notes"])
    first = ask(month, "select id, outcome from bisections")
    runs = ask(month, "select content, run from probes where state = 'finished'")
    assert {outcome for _, outcome in first} == {"budget"}
    assert runs  # one of them had begun

    month.write_docs("Docs: another day")
    assert month.night() == 8
    (incident,) = month.report(3)["incidents"]
    assert incident["culprit"] == wanted
    assert len(incident["cases"]) == 2
    # It is the same bisection, and what it had run was not run again.
    assert ask(month, "select id from bisections where outcome = 'culprit'")[0][0] == first[0][0]
    again = ask(
        month, f"select content, run from probes where bisection_id = {first[0][0]} and state = 'finished'"
    )
    assert set(runs) < set(again)
    assert len(again) == len(set(again))
    # One culprit of two cases: both together build what one search of seven commits does, whichever builds it.
    built = ask(month, "select content from probes where build_source = 'built'")
    assert len(built) == len(set(built)) <= 3


def test_a_device_s_runs_are_counted_in_bisections_and_in_a_start_that_was_killed(month: Month) -> None:
    month.only("matmul")
    assert month.night() == 0
    month.work("Add: before")
    month.plant(BF16, "Update: narrower accumulators")
    month.work("Add: behind")
    month.limit_runs("a2a3sim", 8)
    month.kill_in_bisection()
    assert month.night() == 7
    cut = month.report(2)
    assert cut["attempts"] == 2
    (note,) = cut["notes"]
    assert "2 commits of minipto are left" in note
    assert "are used up" in note
    assert cut["incidents"] == []
    # Three runs of the case at the head, its last good commit, and four of the bisection, of which one was killed.
    assert ask(month, "select count(*) from case_runs where night_id = 2")[0][0] == 4
    assert ask(month, "select count(*), sum(attempt) from probes where state = 'finished'") == [(3, 4)]
    assert ask(month, "select outcome from bisections") == [("budget",)]
    month.limit_runs("a2a3sim", 99)
    assert month.night() == 8
    assert len(month.report(3)["incidents"]) == 1
    assert ask(month, "select outcome from bisections") == [("culprit",)]


def test_of_two_starts_one_runs_and_nights_that_were_missed_do_no_harm(month: Month) -> None:
    month.only("matmul")
    hold = Hold(month.directory)
    running = month.start()
    hold.wait(running)
    second = month.start()
    _, said = second.communicate()
    assert second.returncode == 0
    assert "another process runs this job" in said
    assert running.poll() is None
    hold.let_go()
    assert running.wait() == 0
    assert len(ask(month, "select id from nights")) == 1

    # Several days without a night: what happened in them is one range.
    culprit = month.plant(BF16, "Update: narrower accumulators")
    for day in range(3):
        month.work(f"Add: day {day}")
    assert month.night() == 7
    report = month.report(2)
    assert statuses(report)["matmul"] == "regressed"
    assert [incident["culprit"] for incident in report["incidents"]] == [culprit]


def test_a_good_end_is_looked_for_where_history_was_rewritten(
    month: Month, capsys: pytest.CaptureFixture[str]
) -> None:
    month.only("matmul")
    month.work("Add: what will be taken back")
    assert month.night() == 0
    capsys.readouterr()
    month.rewrite(1)
    for day in range(2):
        month.work(f"Add: before {day}")
    culprit = month.plant(BF16, "Update: narrower accumulators")
    for day in range(2):
        month.work(f"Add: behind {day}")
    assert month.night(quiet=True) == 7
    said = capsys.readouterr()
    assert said.err == ""
    assert "night 2 of" in said.out
    report = month.report(2)
    assert [incident["culprit"] for incident in report["incidents"]] == [culprit]
    # 0, 1 and 2 commits back fail, 4 passes: the range is what lies between.
    (case,) = report["incidents"][0]["cases"]
    assert case["first_bad"] == report["heads"]["main"]
    assert case["last_good"] not in (case["first_bad"], culprit)

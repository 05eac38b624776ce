"""A few nights, and thirty: exactly the right incidents, with the right culprits, whatever dies on the way."""

import json
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from precision_bisect.bisect.pages.views import range_beliefs
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.store.database import open_read_only, sqlite_url
from precision_bisect.store.tables import BisectionRow
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.system.nightly.month import BF16, FP16, INT8, ROUNDING, Month


def contents_by_bisection(month: Month) -> tuple[dict[int, set[str]], dict[int, list[str]]]:
    """The contents that each bisection ran, and of which builds were really made for it."""
    ran: defaultdict[int, set[str]] = defaultdict(set)
    built: defaultdict[int, list[str]] = defaultdict(list)
    with sqlite3.connect(month.directory / "home" / "state" / "store.sqlite") as connection:
        rows = connection.execute(
            "select bisection_id, content, build_source from probes order by bisection_id"
        )
        for bisection, content, source in rows:
            ran[bisection].add(content)
            if source == "built":
                built[bisection].append(content)
    return ran, built


def check_flaky_case(month: Month, report: dict[str, Any], before: dict[str, int]) -> None:
    """It counts its own runs, so that what each night must say is known."""
    for case in report["cases"]:
        platform = case["platform"]
        runs = month.flaky_runs(platform) - before[platform]
        if case["case"] != "cases/small_flaky.py" or case["status"] == "infrastructure":
            continue
        first_fails = runs > 0 and (before[platform] + 1) % 3 == 0
        found = (case["status"], case["runs"], case["failures"])
        assert found == ("flaky", 2, 1) if first_fails else found == ("passed", runs, 0), report["night"]
        assert runs == case["runs"]


def check_alternating_case(report: dict[str, Any]) -> None:
    """It fails every other time from night 24 until it is mended in night 28."""
    (case,) = (
        case
        for case in report["cases"]
        if (case["case"], case["platform"]) == ("cases/small_alternating.py", "a2a3sim")
    )
    night = report["night"]
    assert case["status"] == ("regressed" if night == 24 else "known" if 24 < night < 28 else "passed"), night
    if night == 27:  # It passes at a new commit, and is run again: the run before it failed.
        assert (case["runs"], case["failures"]) == (2, 1)
    if night == 28:
        assert (case["runs"], case["failures"]) >= (8, 0)


def check_beliefs(month: Month) -> None:
    """What pages say of each commit is what the search said when it named the culprit."""
    with open_read_only(sqlite_url(month.directory / "home" / "state" / "store.sqlite"))() as session:
        for name in session.scalars(
            select(BisectionRow.name).where(BisectionRow.outcome == BisectionOutcome.CULPRIT)
        ):
            rows = load_rows(session, name)
            assert rows.conclusion is not None
            (culprit,) = rows.conclusion.culprits
            belief = range_beliefs(rows)[-1]
            assert belief is not None
            assert dict(belief.commits)[culprit.commit] == pytest.approx(culprit.confidence, abs=1e-9)


def test_a_fault_is_an_incident_until_it_is_mended(month: Month) -> None:
    month.only("round", "matmul")
    assert month.night() == 0
    month.work("Add: before")
    culprit = month.plant(ROUNDING, "Update: rounding")
    month.work("Add: behind")
    assert month.night() == 7
    assert month.night() == 8
    assert month.night(fail_on="new") == 0
    fix = month.mend(ROUNDING, "Fix: round to even again")
    assert month.night() == 0
    (incident,) = month.incidents()
    assert (incident["culprit"], incident["opened_night"]) == (culprit, 2)
    assert (incident["closed_night"], incident["fixed_by"]) == (5, fix)
    check_beliefs(month)


@pytest.mark.long
def test_a_case_that_cannot_be_run_makes_the_night_fail_with_a_line(
    month: Month, capfd: pytest.CaptureFixture[str]
) -> None:
    month.only("round")
    month.config.write_text(
        month.config.read_text().replace('"cases/small_round.py"', '"cases/smal_round.py"')
    )
    assert month.night() == 9
    said = capfd.readouterr().out
    assert "  1 untested\n" in said
    (line,) = (line for line in said.splitlines() if line.startswith("could not be run: "))
    assert line.startswith(
        "could not be run: cases/smal_round.py on a2a3sim (default, main): unknown (case missing): "
        "no cases/smal_round.py at this commit"
    )


@pytest.mark.long
def test_a_case_that_gets_to_no_result_says_its_last_line_and_its_log(
    month: Month, capfd: pytest.CaptureFixture[str]
) -> None:
    month.only("round")
    month.begin_case("cases/small_round.py", "import no_such_module")
    assert month.night() == 9
    why = "unknown: exit code 1, it printed: ModuleNotFoundError: No module named 'no_such_module'"
    said = capfd.readouterr().out.splitlines()
    (place,) = (place for place, line in enumerate(said) if line.startswith("could not be run: "))
    assert said[place].endswith(why)
    log = said[place + 1].removeprefix("  log: ")
    assert Path(log).is_file()
    folder = next((month.directory / "nights").glob("*/night-*"))
    (told,) = json.loads((folder / "night.json").read_text())["cases"]
    assert (told["message"], told["log"]) == (why, log)
    for name in ("night.md", "junit.xml"):
        text = (folder / name).read_text()
        assert "No module named" in text
        assert Path(log).name in text


def a_day(month: Month, night: int) -> str:
    """What a team commits before a night; the commit that breaks a case or mends it, where there is one."""
    match night:
        case 4:
            for step in range(5):
                month.work(f"Add: step {step}")
            commit = month.plant(ROUNDING, "Refactor: <script>alert(1)</script> ``` | $(reboot)")
            month.work("Add: one more")
        case 12:
            month.work("Add: before the fix")
            commit = month.mend(ROUNDING, "Fix: round to even again")
            month.work("Add: behind the fix")
        case 16:
            month.work("Add: before")
            commit = month.plant(FP16, "Update: narrow accumulators")
            month.work("Add: behind")
        case 20:
            month.work("Add: before the other")
            commit = month.plant(BF16, "Update: narrower accumulators")
        case 24:
            month.work("Add: before the last")
            commit = month.plant(INT8, "Update: accumulate as floats")
        case 26 | 27:
            commit = month.work(f"Add: day {night}")
        case 28:
            commit = month.mend(INT8, "Fix: accumulate as integers again")
        case _:
            commit = month.write_docs(f"Docs: day {night}")
    return commit


@pytest.mark.long
def test_a_month(month: Month) -> None:
    commits: dict[int, str] = {}
    for night in range(1, 31):
        device = night not in (20, 21)
        commits[night] = a_day(month, night)
        before = {platform: month.flaky_runs(platform) for platform in ("a2a3sim", "a2a3")}
        if night == 16:
            month.kill_in_bisection()
        code = month.night(device=device)
        newly = night in (4, 16, 20, 22, 24)  # the board was dead in 20 and 21
        # In 21 nothing fails newly, and for the board nothing is known of a case.
        expected = 0 if night < 4 or 12 <= night < 16 else 7 if newly else 9 if night == 21 else 8
        assert code == expected, night
        report = month.report(night)
        check_flaky_case(month, report, before)
        check_alternating_case(report)
        if night == 16:
            assert report["attempts"] == 2
        if not device:
            dead = [case for case in report["cases"] if case["platform"] == "a2a3" and case["runs"] == 0]
            assert {case["status"] for case in dead} & {"infrastructure"} or night == 21

    incidents = month.incidents()
    assert {incident["culprit"] for incident in incidents} == {commits[night] for night in (4, 16, 20, 24)}
    assert len(incidents) == 4
    rounding, half, matmul, alternating = sorted(incidents, key=lambda incident: incident["opened_night"])
    assert (rounding["culprit"], rounding["opened_night"]) == (commits[4], 4)
    assert (rounding["closed_night"], rounding["fixed_by"]) == (12, commits[12])
    assert {(case["case"], case["platform"]) for case in rounding["cases"]} == {
        (f"cases/small_{name}.py", platform) for name in ("round", "half") for platform in ("a2a3sim", "a2a3")
    }
    assert (half["culprit"], half["opened_night"], half["open"]) == (commits[16], 16, True)
    assert len(half["cases"]) == 2
    assert (matmul["culprit"], matmul["opened_night"], matmul["open"]) == (commits[20], 20, True)
    assert {case["platform"] for case in matmul["cases"]} == {"a2a3sim", "a2a3"}
    assert (alternating["culprit"], alternating["opened_night"]) == (commits[24], 24)
    assert (alternating["closed_night"], alternating["fixed_by"]) == (28, commits[28])
    assert [case["platform"] for case in alternating["cases"]] == ["a2a3sim"]

    told = [json.loads(line) for line in (month.directory / "told.jsonl").read_text().splitlines()]
    events = [(each["night"], each["incident"]["number"], each["incident"]["event"]) for each in told]
    assert events == [
        (4, 1, "opened"),
        (12, 1, "closed"),
        (16, 2, "opened"),
        (20, 3, "opened"),
        (24, 4, "opened"),
        (28, 4, "closed"),
    ]

    check_beliefs(month)
    # The four of night 4 have one culprit: whichever asks for a commit first, the others run the same ones.
    ran, built = contents_by_bisection(month)
    of_night = [*ran][:4]
    made = [content for bisection in of_night for content in built[bisection]]
    assert made
    assert len(made) == len({*made})
    assert len(set[str]().union(*(ran[bisection] for bisection in of_night))) < 1.3 * len(ran[of_night[0]])

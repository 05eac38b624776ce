"""Stopped in every way, a bisection goes on as if nothing had happened."""

import math
import random
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from precision_bisect.demo.scenarios import Scenario
from tests.support.program import processes_at
from tests.support.quick import quick_first
from tests.system.conftest import DemoStack

KILLS = 6
CONFIDENCE = 0.99  # which is asked by default


def wait_for_a_run(process: "subprocess.Popen[str]", ordinal: int) -> str:
    """Read what the tool prints until it says that a run has started."""
    assert process.stderr is not None
    read: list[str] = []
    for line in process.stderr:
        read.append(line)
        if line.startswith(f"run {ordinal} "):
            return "".join(read)
    raise AssertionError(f"run {ordinal} never started: {''.join(read)}")


def is_noted(stack: DemoStack) -> bool:
    """Whether the store knows a bisection."""
    store = Path(stack.environment["PRECISION_BISECT_HOME"]) / "state" / "store.sqlite"
    if not store.is_file():
        return False
    with sqlite3.connect(store, timeout=30) as connection:
        tables = connection.execute("select name from sqlite_master where name = 'bisections'").fetchall()
        return bool(tables) and bool(connection.execute("select 1 from bisections").fetchall())


def resume_words(text: str) -> list[str]:
    """The command that the tool printed for going on."""
    (line,) = [line for line in text.splitlines() if "--resume" in line]
    return line[line.index("--resume") :].split()


def fastest_run(stack: DemoStack) -> float:
    """Seconds of the shortest finished run in the store; infinite without any."""
    store = Path(stack.environment["PRECISION_BISECT_HOME"]) / "state" / "store.sqlite"
    if not is_noted(stack):
        return math.inf
    with sqlite3.connect(store, timeout=30) as connection:
        (seconds,) = connection.execute(
            "select min(run_seconds) from probes where state = 'finished' and run_seconds > 0"
        ).fetchone()
    return math.inf if seconds is None else float(seconds)


def essence(report: dict[str, Any]) -> dict[str, Any]:
    """A report without times, places and names, nor which commits were run on the way how often: the seconds of builds
    and runs decide that."""
    culprits = [
        {key: culprit[key] for key in ("repository", "commit", "parent")} for culprit in report["culprits"]
    ]
    return {"outcome": report["outcome"], "culprits": culprits}


def verdicts(report: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str | None]]:
    """What each commit showed."""
    return {
        (probe["repository"], probe["commit"]): (probe["verdict"], probe["signature"])
        for probe in report["probes"]
    }


def no_commit_has_two_verdicts(report: dict[str, Any]) -> bool:
    """Whether all runs of each commit showed the same, in whatever phase."""
    shown: dict[tuple[str, str], set[tuple[str, str | None]]] = {}
    for probe in report["probes"]:
        key = (probe["repository"], probe["commit"])
        shown.setdefault(key, set()).update((run["verdict"], run["signature"]) for run in probe["runs"])
    return all(len(verdicts) == 1 for verdicts in shown.values())


def processes_of(stack: DemoStack) -> list[psutil.Process]:
    """What still runs with this stack's home in its environment."""
    return processes_at(stack.environment["PRECISION_BISECT_HOME"])


@pytest.mark.long
def test_killed_at_random_instants_it_reports_the_same(
    make: Callable[..., DemoStack], tmp_path: Path
) -> None:
    stack = make(Scenario.ACCUMULATE)
    assert stack.run(*stack.arguments, "--store", f"sqlite:///{tmp_path}/undisturbed.sqlite").code == 0
    undisturbed = stack.report()
    expected = essence(undisturbed)
    # Some instants fall before the driver has begun, some into a probe, some behind its end.
    runs = sum(len(probe["runs"]) for probe in undisturbed["probes"])
    latest = 2 * undisturbed["timing"]["run"] / runs
    shutil.rmtree(stack.output)

    before = stack.snapshot()
    rng = random.Random(11)
    kills = 0
    while True:
        process = stack.start(*(["--resume"] if is_noted(stack) else stack.arguments))
        try:
            out, err = process.communicate(timeout=rng.uniform(0.05, latest) if kills < KILLS else None)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            psutil.wait_procs(processes_of(stack), timeout=30)
            kills += 1
            # The machine may have become faster than it was undisturbed: all kills are to fall before the end.
            latest = min(latest, 2 * fastest_run(stack))
    assert kills == KILLS, f"it ended after {kills} kills: {out}"
    assert process.returncode == 0, err
    disturbed = stack.report()
    assert essence(disturbed) == expected
    both = verdicts(undisturbed).keys() & verdicts(disturbed).keys()
    assert len(both) >= 4
    assert {verdicts(disturbed)[each] == verdicts(undisturbed)[each] for each in both} == {True}
    assert no_commit_has_two_verdicts(disturbed)
    ordinals = [run["ordinal"] for probe in disturbed["probes"] for run in probe["runs"]]
    assert sorted(ordinals) == [*range(1, len(ordinals) + 1)]
    assert disturbed["culprits"][0]["confidence"] >= CONFIDENCE
    assert stack.snapshot() == before
    assert processes_of(stack) == []


@pytest.mark.parametrize(
    "number", quick_first([signal.SIGTERM, signal.SIGHUP]), ids=lambda number: number.name
)
def test_a_polite_kill_is_a_stop(number: signal.Signals, make: Callable[..., DemoStack]) -> None:
    stack = make(Scenario.TAIL)
    process = stack.start(*stack.arguments)
    wait_for_a_run(process, 1)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert resume_words(err)
    assert processes_of(stack) == []


@pytest.mark.long
def test_ctrl_c_records_nothing_and_says_how_to_go_on(make: Callable[..., DemoStack]) -> None:
    stack = make(Scenario.TAIL)
    before = stack.snapshot()
    process = stack.start(*stack.arguments)
    wait_for_a_run(process, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert processes_of(stack) == []
    assert stack.snapshot() == before
    done = stack.run(*resume_words(err))
    assert done.code == 0, done.err
    runs = [run for probe in stack.report()["probes"] for run in probe["runs"]]
    attempts = {run["ordinal"]: run["attempt"] for run in runs}
    assert (attempts[1], attempts[2]) == (1, 2)
    assert stack.report()["culprits"][0]["commit"] == stack.truth.culprits[0].commit


@pytest.mark.long
def test_two_drivers_of_one_bisection(make: Callable[..., DemoStack]) -> None:
    stack = make(Scenario.TAIL)
    process = stack.start(*stack.arguments)
    wait_for_a_run(process, 1)
    second = stack.run("--resume")
    assert second.code == 1
    assert "another process" in second.err
    process.send_signal(signal.SIGINT)
    process.communicate()

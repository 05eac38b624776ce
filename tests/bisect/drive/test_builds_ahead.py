"""While cases run, the loop has the build begun that is probably needed next."""

import itertools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest

from precision_bisect.bisect.ask.question import Plan
from precision_bisect.bisect.drive.loop import BudgetSpentError, Loop
from precision_bisect.bisect.drive.session import (
    DriveOptions,
    StoredBisection,
    _SoleTask,
    open_background_builder,
)
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe.pool import Activity, Event
from precision_bisect.runner.probe.probe import RUN_ACTIVITY, ProbeRequest
from precision_bisect.store.vocabulary import BuildSource, Judgement
from tests.bisect.drive.small_request import small_request
from tests.bisect.drive.test_driven import ToldProgress
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, asked, loaded_range
from tests.bisect.search.search_histories import line
from tests.runner.small_stack import CASE, SmallStack
from tests.support.stores import new_store


@dataclass
class TellingMachine(Machine):
    """Workers that tell when they have built and run the case."""

    told: set[int] = field(default_factory=set[int])

    def next_event(self, *, timeout: float | None) -> Event:
        for number in self.flying:
            if number not in self.told:
                self.told.add(number)
                return Activity(number, "slot 0", RUN_ACTIVITY)
        return super().next_event(timeout=timeout)


@dataclass
class Ahead:
    """What is built ahead: `begun` in order, `now` as long as nobody stops it."""

    begun: list[str] = field(default_factory=list[str])
    now: str | None = None
    on_begin: Callable[[str], None] = lambda content: None

    def begin(self, request: ProbeRequest) -> None:
        content = asked(request).target.content
        self.on_begin(content)
        self.begun.append(content)
        self.now = content

    def stop(self) -> None:
        self.now = None

    def catch_up(self) -> None:
        return None


def search(ahead: Ahead | None, *, jobs: int = 1, culprit: int = 37, watch: bool = False) -> SimulatedTask:
    """A line of 64 commits. `watch`: builds ahead are neither built already, nor go on beside a build."""
    machine = TellingMachine(jobs=jobs)
    loaded = loaded_range([*map(str, range(1, 65))], CommitGraph(line(64)), "0")
    simulated = SimulatedBisection(
        loaded=loaded,
        outcome=lambda content: Judgement.BAD if int(content) >= culprit else Judgement.GOOD,
        machine=machine,
        on_start=lambda *_: None,
    )
    if watch:
        assert ahead is not None

        def check(content: str) -> None:
            assert content not in machine.built
            assert machine.told.issuperset(machine.flying)

        ahead.on_begin = check
    task = SimulatedTask(simulated=simulated)
    Loop(machine, background_builder=ahead).run([task])
    return task


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_is_built_ahead_is_new_and_begun_while_cases_alone_run(jobs: int) -> None:
    ahead = Ahead()
    task = search(ahead, jobs=jobs, watch=True)
    assert task.culprit == "37"
    assert ahead.begun
    assert ahead.now is None


def test_one_worker_is_ahead_at_the_ends_and_at_about_half_of_the_steps() -> None:
    hits = builds = 0
    for culprit in range(3, 64, 6):
        ahead = Ahead()
        task = search(ahead, culprit=culprit)
        assert task.culprit == str(culprit)
        started = [*dict.fromkeys(task.simulated.started)]
        # Of the other end there is no doubt, nor of the first commit that is tried.
        assert [*ahead.begun[:2]] == started[1:3]
        hits += len({*ahead.begun} & {*started})
        builds += len(started)
    assert hits > 0.5 * builds


def test_runs_are_the_same_with_and_without() -> None:
    assert search(Ahead()).simulated.started == search(None).simulated.started


def test_a_builder_that_fails_is_told_once_and_does_without() -> None:
    def fail(content: str) -> None:
        raise UserError("the disk is full")

    task = search(Ahead(on_begin=fail))
    assert task.culprit == "37"
    assert task.simulated.notices == ["no longer building ahead: the disk is full"]


KEEPS = {"tools": {"cache": {"command": ["sh", "-c", "echo 1"], "keeps_objects": True}}}


def ahead_on(small: SmallStack, **options: Any) -> AbstractContextManager[object]:
    head = small.tool.git("rev-parse", "HEAD")
    request = small_request(small, small.workspace(), head, head)
    return open_background_builder(request, small.home, DriveOptions(**options))


def test_builds_are_begun_ahead_where_what_is_compiled_is_kept_and_the_case_may_be_disturbed(
    small: SmallStack,
) -> None:
    with ahead_on(small) as ahead:
        assert ahead is None
    small.environment = {"tools": {"cache": {**KEEPS["tools"]["cache"], "command": ["no-such-cache"]}}}
    with ahead_on(small) as ahead:
        assert ahead is None
    small.environment = KEEPS
    with ahead_on(small) as ahead:
        assert ahead is not None
    with ahead_on(small, backend="ray") as ahead:
        assert ahead is None
    small.platforms = {"sim": {"undisturbed": True}}
    with ahead_on(small) as ahead:
        assert ahead is None


def test_the_bad_end_is_built_while_the_good_end_runs(
    small: SmallStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The good end's case waits until the other build is made."""
    told, built = small.folder / "told", small.folder / "built"
    os.mkfifo(told)
    make = f"mkdir out; echo $(nice) $(cat tool/tool.txt) >> {built}; [ $(nice) = 0 ] || echo built > {told}"
    small.steps = {
        "make": {"command": ["sh", "-c", make], "cwd": "{slot}", "inputs": ["tool"], "outputs": ["out"]}
    }
    case = f"grep -q '^good 1$' {{tool}}/tool.txt && timeout 60 cat {told}; {CASE}"
    small.case = {"command": ["sh", "-c", case]}
    small.environment = KEEPS
    good = small.tool.git("rev-parse", "HEAD")
    bad = small.tool.commit("fault", {"tool.txt": "wrong\n"})
    plan = Plan(
        name="ahead",
        is_named=True,
        request=small_request(small, small.workspace(), good, bad),
        range=None,
        notices=(),
    )
    bisection = StoredBisection.begin(
        plan, sessions=new_store(small.folder / "store.sqlite"), home=small.home
    )
    runs = itertools.count()

    def check_budget(_task: _SoleTask) -> None:
        if next(runs) == 2:
            raise BudgetSpentError("both ends have run")

    monkeypatch.setattr(_SoleTask, "check_budget", check_budget)
    with bisection.lock():
        conclusion = bisection.drive(ToldProgress(), DriveOptions())
    assert [each.commit for each in conclusion.culprits] in ([bad], [])
    sources = {probe.commit: probe.build_source for probe in bisection.journal.probes.finished_probes()}
    assert sources == {good: BuildSource.BUILT, bad: BuildSource.CACHED}
    assert built.read_text().splitlines() == ["0 good 1", "19 wrong"]

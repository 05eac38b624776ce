"""Bisections that are driven together, on planted truths: all find their culprit, and each choice is the best of all.

The bisections are real but for git, processes and the store: a run costs a second, a build ten.
"""

import random
from collections.abc import Callable, Sequence
from itertools import chain, combinations
from math import inf

import numpy as np
import pytest

from precision_bisect.bisect.drive.loop import MAX_OPEN, Loop
from precision_bisect.bisect.engine.range_search import ExpectedGain
from precision_bisect.bisect.engine.runs import WantedProbe
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe.pool import Event, ProbeDelay
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement
from tests.bisect.engine.simulated import (
    BUILD,
    Machine,
    SimulatedBisection,
    SimulatedTask,
    loaded_range,
)
from tests.bisect.search.search_histories import line


def ignore(simulated: SimulatedBisection, wanted: WantedProbe) -> None:
    return None


def task(
    machine: Machine,
    commits: range,
    culprit: int,
    *,
    fails_before: float = 0.0,
    on_start: Callable[[SimulatedBisection, WantedProbe], None] = ignore,
    on_check_budget: Callable[[], None] = lambda: None,
) -> SimulatedTask:
    """A case that fails from its culprit on, over a stretch of a line of commits."""
    chance = random.Random(1)

    def outcome(content: str) -> Judgement:
        bad = int(content) >= culprit or chance.random() < fails_before
        return Judgement.BAD if bad else Judgement.GOOD

    names = [str(each) for each in commits]
    loaded = loaded_range(names, CommitGraph(line(len(names))), str(commits[0] - 1))
    simulated = SimulatedBisection(loaded=loaded, outcome=outcome, machine=machine, on_start=on_start)
    return SimulatedTask(simulated=simulated, on_check_budget=on_check_budget)


def drive(tasks: Sequence[SimulatedTask], **options: object) -> Machine:
    """All of them together, on the machine of the first; each has been given the same."""
    machine = tasks[0].simulated.machine
    Loop(machine, share_build_cost=True, **options).run(tasks)  # type: ignore[arg-type]
    assert not machine.flying
    assert all(each.released for each in tasks)
    return machine


@pytest.mark.long
def test_one_culprit_of_several_cases_takes_hardly_more_builds_than_of_one() -> None:
    chance = random.Random(11)
    together = single = 0
    for _ in range(4):
        machine, culprit = Machine(), chance.randrange(20, 40)
        ranges = [range(chance.randrange(2, 15), 41) for _ in range(3)]
        tasks = [task(machine, commits, culprit) for commits in ranges]
        drive(tasks)
        assert [each.culprit for each in tasks] == [str(culprit)] * 3
        # The good ends differ: each has to be built.
        ends = len({commits.start for commits in ranges}) - 1
        together += machine.builds - ends
        single += max(drive([task(Machine(), commits, culprit)]).builds for commits in ranges)
    assert together < 1.3 * single


@pytest.mark.long
def test_cases_with_culprits_of_their_own_are_found_for_less_than_one_by_one() -> None:
    chance = random.Random(12)
    together = separate = 0.0
    for _ in range(5):
        machine = Machine()
        culprits = [chance.randrange(1, 41) for _ in range(3)]
        tasks = [task(machine, range(1, 41), culprit) for culprit in culprits]
        drive(tasks)
        assert [each.culprit for each in tasks] == [*map(str, culprits)]
        together += machine.seconds
        separate += sum(drive([task(Machine(), range(1, 41), culprit)]).seconds for culprit in culprits)
    assert together < 0.75 * separate


def test_the_probes_of_searches_are_of_the_best_set_of_all_probes() -> None:
    """Of all sets of searches that may run a target together; now and then of one that is little worse, since what
    reruns and ends may still tell counts too."""
    chance = random.Random(13)
    shares: list[float] = []

    def promise_of(simulated: SimulatedBisection) -> ExpectedGain | None:
        return simulated.bisection.expected_gain(simulated.last)

    def check(chosen: SimulatedBisection, wanted: WantedProbe) -> None:
        own = promise_of(chosen)
        # The others that are asked at the same time: those that wait for a worker, too.
        others = [promise_of(each.simulated) for each in tasks if each.conclusion is None]
        promises = [each for each in others if each is not None]
        if own is None or not own.ends_differ or wanted.phase.value != "search":
            return
        if any(each.rate(np.ones(len(each.contents))) == inf for each in promises):
            return  # an answer that is to be confirmed goes first
        told = {
            content: [
                (each.bits[[*each.contents].index(content)], each.runs)
                for each in promises
                if content in each.contents
            ]
            for each in promises
            for content in each.contents
        }
        content = wanted.target.content
        best = max(best_rate(each, runs, chosen) for each, runs in told.items())
        mine = own.bits[[*own.contents].index(content)] / own.runs
        shares.append(min(mine, best_rate(content, told[content], chosen)) / best)

    def best_rate(content: str | None, runs: list[tuple[float, float]], chosen: SimulatedBisection) -> float:
        """Over every set of searches that run it."""
        build = 0.0 if content in chosen.machine.built else BUILD
        sets = chain.from_iterable(combinations(runs, size) for size in range(1, len(runs) + 1))
        return max(
            sum(bits for bits, _ in each) / (build + sum(seconds for _, seconds in each)) for each in sets
        )

    for _ in range(4):
        machine = Machine()
        culprits = [chance.randrange(10, 25) for _ in range(3)]
        tasks = [
            task(machine, range(chance.randrange(1, 8), 25), culprit, on_start=check) for culprit in culprits
        ]
        drive(tasks)
        assert [each.culprit for each in tasks] == [*map(str, culprits)]
    assert len(shares) > 20
    assert min(shares) > 0.5
    assert sum(share > 0.999 for share in shares) > 0.8 * len(shares)


def test_a_known_culprit_is_asked_about_first() -> None:
    machine = Machine()
    alone = task(machine, range(1, 65), 37)
    drive([alone], known_culprits=[("line", "37"), ("another", "3")])
    assert alone.culprit == "37"
    # What is run beside the commit and its parent lies around them, to confirm it.
    assert {*alone.simulated.started} >= {"0", "64", "37", "36"}
    assert all(abs(int(each) - 37) <= 4 for each in {*alone.simulated.started} - {"0", "64"})


def test_a_failure_that_comes_and_goes_does_not_hold_up_others() -> None:
    machine = Machine()
    flaky, sure = task(machine, range(1, 33), 9, fails_before=0.4), task(machine, range(1, 33), 20)
    drive([flaky, sure])
    assert (flaky.culprit, sure.culprit) == ("9", "20")


@pytest.mark.parametrize("jobs", [2, 3])
def test_several_workers_are_shared(jobs: int) -> None:
    machine = Machine(jobs=jobs)
    tasks = [task(machine, range(1, 33), culprit) for culprit in (5, 20, 29)]
    drive(tasks)
    assert [each.culprit for each in tasks] == ["5", "20", "29"]
    assert machine.most_at_once == jobs


@pytest.mark.long
def test_more_bisections_than_may_be_open_all_come_to_their_turn() -> None:
    machine = Machine()
    culprits = [1 + place % 4 for place in range(MAX_OPEN + 2)]
    tasks = [task(machine, range(1, 5), culprit) for culprit in culprits]
    drive(tasks)
    assert [each.culprit for each in tasks] == [*map(str, culprits)]


def test_an_interrupt_is_of_all_and_lets_go_what_is_held() -> None:
    machine = Machine()

    def check_budget() -> None:
        if machine.runs == 13:
            raise KeyboardInterrupt

    tasks = [task(machine, range(1, 33), 5, on_check_budget=check_budget) for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        Loop(machine, share_build_cost=True).run(tasks)
    assert all(each.released and each.conclusion is None for each in tasks)


def test_a_worker_s_error_ends_the_bisection_at_work_and_no_other() -> None:
    class Failing(Machine):
        def next_event(self, *, timeout: float | None) -> Event:
            if self.runs == 14:
                self.runs += 1
                raise UserError("the disk is full")
            return super().next_event(timeout=timeout)

    machine = Failing()
    tasks = [task(machine, range(1, 33), 5), task(machine, range(1, 33), 25)]
    drive(tasks)
    failed = [each for each in tasks if each.error is not None]
    assert [str(each.error) for each in failed] == ["the disk is full"]
    assert [each.culprit is None for each in tasks] == [each.error is not None for each in tasks]


def test_what_a_probe_waits_for_is_told_and_changes_nothing() -> None:
    class Late(Machine):
        told = False

        def next_event(self, *, timeout: float | None) -> Event:
            if not self.told:
                self.told = True
                return ProbeDelay(self.flying[0], "no worker has joined")
            return super().next_event(timeout=timeout)

    machine = Late()
    waiting = task(machine, range(1, 33), 5)
    drive([waiting])
    assert waiting.simulated.notices == ["no worker has joined"]
    assert waiting.culprit == "5"


def test_a_spent_budget_ends_with_what_is_known() -> None:
    machine = Machine()
    late = task(machine, range(1, 33), 5)
    late.deadline = 0.0
    sure = task(machine, range(1, 33), 25)
    drive([late, sure])
    assert late.conclusion is not None
    assert late.conclusion.outcome is BisectionOutcome.BUDGET
    assert sure.culprit == "25"

"""Searches that take turns on planted truths: all find their culprit, and each choice is the best of all there are.

The searches are those of any bisection, without git, processes or a store: a run costs a second, a build ten.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import inf
from typing import Any, cast

import numpy as np
import pytest

from precision_bisect.bisect.nightly.together import MOST_OPEN, Seat, Table, Task
from precision_bisect.bisect.run.company import Outlook
from precision_bisect.bisect.run.costs import Timings
from precision_bisect.bisect.search.choose.planner import Found
from precision_bisect.bisect.search.choose.rounds import Round, next_round
from precision_bisect.bisect.search.evidence.calibration import FEWEST_RUNS, next_end
from precision_bisect.bisect.search.evidence.knowledge import Observation, Outcome
from precision_bisect.bisect.search.evidence.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.evidence.rates import Rates
from precision_bisect.bisect.search.evidence.sharing import suspected_too
from precision_bisect.bisect.search.graph.graph import CommitGraph
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe.records import ProbeRequest
from precision_bisect.runner.probe.workers.pool import Event
from precision_bisect.runner.probe.workers.worker import Done
from tests.bisect.search.search_histories import line

BUILD, RUN = 10.0, 1.0
TIMINGS = Timings(run=RUN, anew=BUILD, again=0.0)


@dataclass
class Machine:
    """Workers that build and run in no time, and say how much they would have taken."""

    jobs: int = 1
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    builds: int = 0
    runs: int = 0
    most_at_once: int = 0
    flying: list[int] = field(default_factory=list[int])

    def begin(self, request: ProbeRequest) -> int:
        self.runs += 1
        self.flying.append(self.runs)
        self.most_at_once = max(self.most_at_once, len(self.flying))
        return self.runs

    def cancel(self, number: int) -> None:
        self.flying.remove(number)

    def next_event(self, *, timeout: float | None) -> Event:
        assert timeout is None
        return Done(self.flying.pop(self.chance.randrange(len(self.flying))), cast(Any, "a result"))

    @property
    def seconds(self) -> float:
        return BUILD * self.builds + RUN * self.runs


@dataclass(eq=False, kw_only=True)
class Search:
    """A case that fails from its culprit on, over a stretch of a line of commits."""

    machine: Machine
    commits: range
    culprit: int
    fails_before: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    check: Callable[["Search", int], None] = lambda search, node: None
    """Told of each run of the search, before it starts."""
    seen: list[Observation] = field(default_factory=list[Observation])
    known: Posterior | None = None
    found: int | None = None
    waiting: Callable[[], Outlook] | None = None

    def drive(self, seat: Seat) -> None:
        self.seat = seat
        self.graph = CommitGraph(line(len(self.commits)))
        self.turn([], before=2 * FEWEST_RUNS)
        while (end := next_end(self.posterior())) is not None:
            self.begin(end)
            seat.next_event(timeout=None)
            self.observe(end)
        flying: dict[int, tuple[int, bool]] = {}
        confirming: list[Observation] = []
        while self.found is None:
            nodes = [node for node, _ in flying.values()]
            if self.turn(nodes):
                step = self.step(nodes, confirming)
                if not isinstance(step, Round):
                    self.found = self.commits[step.culprit]
                    return
                for number in [[*flying][place] for place in step.cancel]:
                    seat.cancel(number)
                    del flying[number]
                for node in step.start:
                    if step.confirming is None:
                        self.check(self, node)
                    flying[self.begin(node)] = (node, step.confirming is not None)
            event = seat.next_event(timeout=None)
            node, confirms = flying.pop(event.number)
            seen = self.observe(node)
            confirming += [seen] if confirms else []

    def turn(self, in_flight: Sequence[int], before: int = 0) -> bool:
        self.waiting = lambda: self.look(in_flight, before)
        chosen = self.seat.turn(self.waiting)
        self.waiting = None
        return chosen

    def step(self, in_flight: Sequence[int], confirming: Sequence[Observation]) -> Round | Found:
        step = next_round(
            self.posterior(),
            confirming=confirming,
            in_flight=in_flight,
            workers=self.seat.jobs,
            costs=self.seat.costs(self.look(in_flight)),
        )
        assert isinstance(step, (Round, Found))
        return step

    def begin(self, node: int) -> int:
        self.seat.permit()
        content = self.content(node)
        self.machine.builds += content not in self.seat.built
        self.seat.built.add(content)
        return self.seat.begin(cast(ProbeRequest, None))

    def observe(self, node: int) -> Observation:
        bad = node != GOOD_END and self.commits[node] >= self.culprit
        fails = bad or self.chance.random() < self.fails_before
        self.seen.append(Observation(node, Outcome.BAD if fails else Outcome.GOOD))
        return self.seen[-1]

    def content(self, node: int) -> str:
        return str(self.commits[0] - 1 if node == GOOD_END else self.commits[node])

    def posterior(self) -> Posterior:
        known = self.known or Posterior.start(self.graph, Rates.unknown())
        for seen in self.seen[len(known.observations) :]:
            known = known.observe(seen)
        self.known = known
        rows = [
            np.array([suspects.get(str(commit), 0.0) for commit in self.commits])
            for suspects in self.seat.suspicions("line")
        ]
        weights = suspected_too(None, [each for each in rows if each.any()], commits=len(self.commits))
        return known if weights is None else replace(known, weights=weights)

    def look(self, in_flight: Sequence[int], before: int = 0) -> Outlook:
        contents = [self.content(node) for node in (*range(len(self.commits)), GOOD_END)]
        return Outlook(
            repository="line",
            commits=[str(commit) for commit in self.commits],
            posterior=self.posterior(),
            confidence=0.99,
            in_flight=in_flight,
            contents=contents,
            runs=RUN * (1 + before),
            builds=TIMINGS.builds(contents, self.seat.built),
            begun=not before,
        )


def task(search: Search, permit: Callable[[], None] = lambda: None) -> Task:
    return Task(drive=search.drive, permit=permit, timings=TIMINGS)


def drive(searches: Sequence[Search], permit: Callable[[], None] = lambda: None) -> Machine:
    """All of them together, on the machine of the first; each has been given the same."""
    machine = searches[0].machine
    Table(machine, built=set(), known=()).drive(task(each, permit) for each in searches)
    return machine


def alone(search: Search) -> Machine:
    """The same question, asked with nobody beside."""
    return drive([Search(machine=Machine(), commits=search.commits, culprit=search.culprit)])


def test_one_culprit_of_several_cases_takes_hardly_more_builds_than_of_one() -> None:
    chance = random.Random(11)
    together = single = 0
    for _ in range(4):
        machine, culprit = Machine(), chance.randrange(20, 40)
        searches = [
            Search(machine=machine, commits=range(chance.randrange(2, 15), 41), culprit=culprit)
            for _ in range(3)
        ]
        drive(searches)
        assert [search.found for search in searches] == [culprit] * 3
        # The good ends differ: each has to be built.
        ends = len({search.commits.start for search in searches}) - 1
        together += machine.builds - ends
        single += max(alone(search).builds for search in searches)
    assert together < 1.3 * single


def test_cases_with_culprits_of_their_own_are_found_for_less_than_one_by_one() -> None:
    chance = random.Random(12)
    together = separate = 0.0
    for _ in range(5):
        machine = Machine()
        searches = [
            Search(machine=machine, commits=range(1, 41), culprit=chance.randrange(1, 41)) for _ in range(3)
        ]
        drive(searches)
        assert [search.found for search in searches] == [search.culprit for search in searches]
        together += machine.seconds
        separate += sum(alone(search).seconds for search in searches)
    assert together < 0.75 * separate


def test_every_run_of_a_search_is_of_the_best_set_of_all_runs() -> None:
    chance = random.Random(13)
    checked = 0

    def check(chosen: Search, node: int) -> None:
        nonlocal checked
        outlooks = {each: each.waiting() for each in searches if each is not chosen and each.waiting}
        outlooks[chosen] = chosen.look([])
        if any(each.rate(np.ones(len(each.contents))) == inf for each in outlooks.values()):
            return  # an answer that is to be confirmed goes first
        told = {
            content: [
                (each.bits[[*each.contents].index(content)], each.runs)
                for each in outlooks.values()
                if content in each.contents
            ]
            for each in outlooks.values()
            for content in each.contents
        }
        best = max(best_rate(content, runs) for content, runs in told.items())
        own = outlooks[chosen]
        mine = own.bits[node] / own.runs
        assert min(mine, best_rate(chosen.content(node), told[chosen.content(node)])) == pytest.approx(best)
        checked += 1

    def best_rate(content: str | None, runs: list[tuple[float, float]]) -> float:
        """Over every set of searches that run it."""
        build = 0.0 if content in built else BUILD
        sets = chain.from_iterable(combinations(runs, size) for size in range(1, len(runs) + 1))
        return max(
            sum(bits for bits, _ in each) / (build + sum(seconds for _, seconds in each)) for each in sets
        )

    for _ in range(4):
        machine, built = Machine(), set[str]()
        searches = [
            Search(
                machine=machine,
                commits=range(chance.randrange(1, 8), 25),
                culprit=chance.randrange(10, 25),
                check=check,
            )
            for _ in range(3)
        ]
        Table(machine, built=built, known=()).drive(task(each) for each in searches)
        assert [search.found for search in searches] == [search.culprit for search in searches]
    assert checked > 20


def test_a_known_culprit_is_asked_about_first() -> None:
    machine = Machine()
    search = Search(machine=machine, commits=range(1, 65), culprit=37)
    Table(machine, built=set(), known=[("line", "37"), ("another", "3")]).drive([task(search)])
    assert search.found == 37
    assert {seen.commit for seen in search.seen} == {GOOD_END, 63, 36, 35}


def test_a_failure_that_comes_and_goes_does_not_hold_up_others() -> None:
    machine = Machine()
    flaky = Search(machine=machine, commits=range(1, 33), culprit=9, fails_before=0.4)
    sure = Search(machine=machine, commits=range(1, 33), culprit=20)
    drive([flaky, sure])
    assert (flaky.found, sure.found) == (9, 20)


@pytest.mark.parametrize("jobs", [2, 3])
def test_several_workers_are_shared(jobs: int) -> None:
    machine = Machine(jobs=jobs)
    searches = [Search(machine=machine, commits=range(1, 33), culprit=culprit) for culprit in (5, 20, 29)]
    drive(searches)
    assert [search.found for search in searches] == [5, 20, 29]
    assert machine.most_at_once == jobs
    assert not machine.flying


def test_more_bisections_than_seats_all_come_to_their_turn() -> None:
    machine = Machine()
    searches = [
        Search(machine=machine, commits=range(1, 5), culprit=1 + place % 4) for place in range(MOST_OPEN + 2)
    ]
    drive(searches)
    assert [search.found for search in searches] == [search.culprit for search in searches]


def test_an_end_of_one_is_no_end_of_others_and_an_interrupt_is_of_all() -> None:
    machine = Machine()
    ends: list[str] = []

    def stopped(seat: Seat) -> None:
        try:
            search.drive(seat)
        finally:
            ends.append("left")

    def permit() -> None:
        if machine.runs == 13:
            raise KeyboardInterrupt

    search = Search(machine=machine, commits=range(1, 33), culprit=5)
    other = Search(machine=machine, commits=range(1, 33), culprit=5)
    with pytest.raises(KeyboardInterrupt):
        Table(machine, built=set(), known=()).drive(
            [Task(drive=stopped, permit=permit, timings=TIMINGS), task(other, permit)]
        )
    assert ends == ["left"]
    assert other.found is None


def test_a_worker_s_error_ends_the_bisection_at_work_and_no_other() -> None:
    class Failing(Machine):
        def next_event(self, *, timeout: float | None) -> Event:
            if self.runs == 14:
                self.runs += 1
                raise UserError("the disk is full")
            return super().next_event(timeout=timeout)

    errors: list[str] = []

    def stopped(seat: Seat) -> None:
        try:
            first.drive(seat)
        except UserError as error:
            errors.append(str(error))

    machine = Failing()
    first = Search(machine=machine, commits=range(1, 33), culprit=5)
    other = Search(machine=machine, commits=range(1, 33), culprit=25)
    table = Table(machine, built=set(), known=())
    table.drive([Task(drive=stopped, permit=lambda: None, timings=TIMINGS), task(other)])
    assert errors == ["the disk is full"]
    assert first.found is None
    assert other.found == 25
    assert not machine.flying

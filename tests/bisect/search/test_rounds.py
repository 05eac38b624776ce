"""Any number of workers on one search: what they are given, what is taken from them, and how it ends."""

import random
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.decision import Answer, Round, Undecided, next_round
from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph, Floats, Window, Windows
from precision_bisect.bisect.search.halving import FoundCulprit, OnlySkipped
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior, is_compared_in_one_place, next_comparison_runs
from precision_bisect.bisect.search.rates import Rates
from tests.bisect.search.search_histories import branching, graphs, line, see_ends
from tests.support.quick import examples


class Workers:
    """Workers that finish in any order, on a history whose truth is known to them alone."""

    def __init__(
        self,
        graph: CommitGraph,
        culprit: int | None,
        *,
        workers: int,
        good: float = 0,
        bad: float = 1,
        seed: int = 0,
        skips: frozenset[int] = frozenset(),
        windows: Windows = NO_WINDOWS,
    ) -> None:
        self.graph, self.workers, self.skips, self.windows = graph, workers, skips, windows
        self.rng = random.Random(seed)
        fails = [culprit is not None and bool(graph.ancestors(c)[culprit]) for c in range(len(graph))]
        self.rates = [bad if failing else good for failing in fails] + [good]
        self.started: list[int] = []
        self.cancelled = self.rounds = 0

    def outcome(self, commit: int) -> Outcome:
        if commit in self.skips:
            return Outcome.SKIP
        return Outcome.BAD if self.rng.random() < self.rates[commit] else Outcome.GOOD

    def search(self, *, together: bool = False) -> Answer:
        """`together`: all runs in flight end at once; else one of them, whichever, at a time."""
        posterior = Posterior.start(self.graph, Rates.unknown())
        posterior = see_ends(posterior, lambda end: Observation(end, self.outcome(end)))
        flying: list[int] = []
        while True:
            step = next_round(
                posterior,
                in_flight=flying,
                workers=self.workers,
                windows=self.windows,
            )
            if not isinstance(step, Round):
                return step
            assert len(set(step.cancel)) == len(step.cancel)
            flying = [each for place, each in enumerate(flying) if place not in step.cancel]
            flying += step.start
            self.cancelled += len(step.cancel)
            self.started += step.start
            assert 0 < len(flying) <= self.workers
            assert len(self.started) < 2000
            self.rounds += step.confirming is None
            if not together:
                self.rng.shuffle(flying)
            for commit in flying if together else flying[:1]:
                posterior = posterior.observe(Observation(commit, self.outcome(commit)))
            flying = [] if together else flying[1:]


@settings(deadline=None, max_examples=examples(60))
@given(graphs(), st.integers(1, 5), st.data())
def test_any_number_of_workers_ends_at_the_culprit_whatever_ends_first(
    graph: CommitGraph, workers: int, data: st.DataObject
):
    culprit = data.draw(st.integers(0, graph.bad))
    skips = frozenset(data.draw(st.sets(st.integers(0, graph.bad)))) - {graph.bad}
    simulated = Workers(graph, culprit, workers=workers, skips=skips, seed=data.draw(st.integers(0, 99)))
    match simulated.search():
        case FoundCulprit(culprit=found):
            assert found == culprit
        case OnlySkipped(candidates=candidates):
            assert culprit in candidates
            assert skips & {*candidates, *(p for c in candidates for p in graph.parents[c])}
        case Undecided(suspects=suspects):
            # Too few could be tested to tell a culprit from a commit that fails for a reason of its own.
            assert culprit in suspects
            assert len(skips) >= 2
        case other:
            pytest.fail(f"no answer: {other}")


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_deterministic_line_is_split_into_one_part_more_than_there_are_workers(workers: int):
    n = 1024
    for culprit in (0, 300, 511, 777):
        simulated = Workers(CommitGraph(line(n)), culprit, workers=workers)
        assert simulated.search(together=True) == FoundCulprit(culprit)
        assert simulated.rounds <= ceil(log(n) / log(workers + 1)) + 1


def test_what_lost_its_value_is_cancelled():
    simulated = Workers(CommitGraph(line(256)), 77, workers=4)
    assert simulated.search() == FoundCulprit(77)
    assert simulated.cancelled > 0


def test_four_workers_find_the_culprit_of_flaky_histories():
    """Of a hundred seeds 96 are right, and 3 wrong."""
    right = wrong = 0
    for seed in range(10):
        rng = random.Random(seed)
        graph = CommitGraph(branching(48, 0.2, rng))
        culprit = rng.randrange(48)
        answer = Workers(graph, culprit, workers=4, good=0.1, bad=0.9, seed=seed).search()
        right += answer == FoundCulprit(culprit)
        wrong += isinstance(answer, FoundCulprit) and answer != FoundCulprit(culprit)
    assert right >= 8
    assert wrong <= 1


def test_several_workers_step_around_what_was_reverted_too():
    windows = Windows([Window(20, 23), Window(40, 42)])
    simulated = Workers(CommitGraph(line(64)), 60, workers=2, windows=windows)
    assert simulated.search() == FoundCulprit(60)
    assert not {20, 21, 22, 40, 41} & set(simulated.started)


def test_what_undoes_the_only_suspect_is_run_before_that_is_confirmed() -> None:
    simulated = Workers(CommitGraph(line(16)), 5, workers=1, windows=Windows([Window(5, 14)]))
    assert simulated.search() == FoundCulprit(5)
    assert 14 in simulated.started[:5]
    assert simulated.started.count(14) == 1
    plain = Workers(CommitGraph(line(16)), 5, workers=1)
    assert plain.search() == FoundCulprit(5)
    assert len(simulated.started) <= len(plain.started) + 1


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("culprit", [3, 30, 62])
def test_long_builds_do_not_have_the_same_commits_run_for_ever(workers: int, culprit: int) -> None:
    """A build takes 300 times as long as a run: reruns are cheap, and tell nothing of what belongs to commits."""
    graph = CommitGraph(line(64))
    posterior = Posterior.start(graph, Rates.unknown())
    posterior = see_ends(posterior, lambda end: Observation(end, Outcome.BAD if end == 63 else Outcome.GOOD))
    built, flying, now, runs = {63, GOOD_END}, list[tuple[float, int]](), 0.0, 0
    while True:
        costs = np.full(65, 30.0)
        costs[[*built]] = 0.1
        in_flight = [commit for _, commit in flying]
        step = next_round(posterior, in_flight=in_flight, workers=workers, costs=costs)
        if not isinstance(step, Round):
            assert step == FoundCulprit(culprit)
            assert runs < 40
            return
        flying = [run for place, run in enumerate(flying) if place not in step.cancel]
        flying += [(now + costs[commit], commit) for commit in step.start]
        now, ended = min(flying)
        flying.remove((now, ended))
        built.add(ended)
        runs += 1
        outcome = Outcome.BAD if ended >= culprit else Outcome.GOOD
        posterior = posterior.observe(Observation(ended, outcome))


def two_suspects() -> Posterior:
    """Of a line either 40 or 41 is to blame."""
    posterior = Posterior.start(CommitGraph(line(64)), Rates.unknown())
    posterior = see_ends(posterior, lambda end: Observation(end, Outcome.BAD if end == 63 else Outcome.GOOD))
    for commit in (31, 47, 39, 41):
        outcome = Outcome.BAD if commit > 40 else Outcome.GOOD
        posterior = posterior.observe(Observation(commit, outcome))
    return posterior


@pytest.mark.parametrize(
    "costs", [None, np.where(np.isin(np.arange(65), (31, 39, 41, 47, 63, 64)), 0.1, 30.0)]
)
def test_workers_who_have_nothing_left_to_search_run_what_confirms_the_answer(costs: Floats | None) -> None:
    posterior = two_suspects()
    step = next_round(posterior, workers=4, costs=costs)
    assert isinstance(step, Round)
    first, *ahead = step.start
    assert (first, len({*ahead})) == (40, 3)
    assert not {*ahead} & {seen.commit for seen in posterior.observations}
    again = next_round(posterior, in_flight=step.start, workers=4, costs=costs)
    assert again == Round(start=(), expected_steps=1.0)
    for outcome in (Outcome.GOOD, Outcome.BAD):
        found = next_round(
            posterior.observe(Observation(40, outcome)), in_flight=ahead, workers=4, costs=costs
        )
        assert isinstance(found, Round)
        assert found.cancel == ()


def test_workers_for_whom_others_wait_do_not() -> None:
    posterior = two_suspects()
    assert next_round(posterior, workers=4, ahead=False) == Round(start=(40,), expected_steps=1.0)
    assert next_round(posterior, workers=1) == Round(start=(40,), expected_steps=1.0)


def test_a_window_with_all_commits_before_it_starts_at_the_good_end():
    simulated = Workers(CommitGraph(line(4)), 0, workers=3, windows=Windows([Window(0, 2)]))
    assert simulated.search() == FoundCulprit(0)
    assert GOOD_END in simulated.started


def test_workers_in_step_come_to_compare_culprit_and_parent_in_one_place() -> None:
    """The one in slot 0 always ends before the one in slot 1: neither may keep to one commit for ever."""
    posterior = Posterior.start(CommitGraph(line(2)), Rates.unknown())
    for _ in range(5):
        for commit, outcome, slot in ((0, Outcome.GOOD, "1"), (1, Outcome.BAD, "0")):
            posterior = posterior.observe(Observation(commit, outcome, slot))
    fresh = 0
    flying: list[tuple[int, str]] = []
    free = ["1", "0"]
    while not is_compared_in_one_place(posterior, 1):
        assert fresh < 12
        while free:
            around = [commit for commit, _ in flying]
            started = next_comparison_runs(posterior, 1, in_flight=around, count=1)
            assert started
            flying += [(started[0], free.pop())]
        commit, slot = flying.pop(0)
        free.append(slot)
        fresh += 1
        seen = Observation(commit, Outcome.BAD if commit == 1 else Outcome.GOOD, slot)
        posterior = posterior.observe(seen)

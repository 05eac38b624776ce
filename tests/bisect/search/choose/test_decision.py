"""The whole search under noise, on simulated runs."""

import random
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.bisect.search.choose.batch import lost_their_value, next_runs
from precision_bisect.bisect.search.choose.confirmation import confirming_runs, next_confirming_runs
from precision_bisect.bisect.search.choose.decision import (
    Decision,
    EnvironmentMoved,
    NoCulprit,
    credible_set,
    next_run,
)
from precision_bisect.bisect.search.choose.planner import Found, OnlySkipped, Probe
from precision_bisect.bisect.search.evidence.calibration import ends_differ, next_end
from precision_bisect.bisect.search.evidence.knowledge import Observation, Outcome
from precision_bisect.bisect.search.evidence.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.evidence.rates import Rates
from precision_bisect.bisect.search.graph.graph import CommitGraph
from tests.bisect.search.search_histories import branching, graphs, line, search, truth, untestable


class Bench:
    """Runs commits of a history whose culprit (None: there is none) and rates are known to it alone."""

    def __init__(
        self,
        graph: CommitGraph,
        culprit: int | None,
        *,
        good: float,
        bad: float,
        seed: int,
        skips: frozenset[int] | set[int] = frozenset(),
    ) -> None:
        self.rng = random.Random(seed)
        self.graph, self.skips = graph, skips
        above = [
            culprit is not None and bool(graph.ancestors(commit)[culprit]) for commit in range(len(graph))
        ]
        self.rates = [bad if is_bad else good for is_bad in above] + [good]
        self.runs: list[int] = []

    def run(self, posterior: Posterior, commit: int) -> Posterior:
        self.runs.append(commit)
        failed = self.rng.random() < self.rates[commit]
        outcome = Outcome.SKIP if commit in self.skips else Outcome.BAD if failed else Outcome.GOOD
        return posterior.observe(Observation(commit, outcome))

    def calibrate(self, posterior: Posterior) -> Posterior:
        while (end := next_end(posterior)) is not None:
            posterior = self.run(posterior, end)
        self.runs.clear()
        return posterior

    def search(self, posterior: Posterior) -> tuple[Decision, Posterior]:
        while isinstance(decision := next_run(posterior), Probe):
            posterior = self.run(posterior, decision.commit)
            assert len(self.runs) < 2000
        return decision, posterior

    def search_and_confirm(self, posterior: Posterior) -> tuple[Decision, Posterior]:
        while True:
            decision, posterior = self.search(posterior)
            if not isinstance(decision, Found):
                return decision, posterior
            since = len(posterior.observations)
            while runs := next_confirming_runs(
                posterior, decision.culprit, fresh=posterior.observations[since:]
            ):
                posterior = self.run(posterior, runs[0])
            if posterior.belief.commits[decision.culprit] >= 0.99:
                return decision, posterior


@settings(deadline=None)
@given(graphs(), st.data())
def test_without_noise_and_skips_its_probes_are_those_of_the_certain_search(
    graph: CommitGraph, data: st.DataObject
):
    culprit = data.draw(st.integers(0, graph.bad))
    answer, tested = search(graph, truth(graph, culprit, set()))
    bench = Bench(graph, culprit, good=0, bad=1, seed=0)
    decision, _ = bench.search(bench.calibrate(Posterior.start(graph, Rates.unknown())))
    assert decision == answer == Found(culprit)
    assert bench.runs[: len(tested)] == tested
    # What follows are reruns of the answer and what lies next to it.
    assert len(bench.runs) <= len(tested) + 3 * (2 + len(graph.parents[culprit]))


@settings(deadline=None)
@given(graphs(), st.data())
def test_without_noise_an_answer_with_skips_holds_the_culprit(graph: CommitGraph, data: st.DataObject):
    culprit = data.draw(st.integers(0, graph.bad))
    skips = data.draw(st.sets(st.integers(0, graph.bad))) - {graph.bad}
    bench = Bench(graph, culprit, good=0, bad=1, seed=0, skips=skips)
    decision, _ = bench.search(bench.calibrate(Posterior.start(graph, Rates.unknown())))
    assert isinstance(decision, (Found, OnlySkipped))
    assert culprit in ([decision.culprit] if isinstance(decision, Found) else decision.candidates)


@pytest.mark.parametrize(("good", "bad"), [(0, 1), (0.05, 1), (0.2, 1), (0, 0.5), (0.1, 0.9), (0.2, 0.8)])
def test_flaky_histories_end_at_the_culprit(good: float, bad: float):
    n, seeds = 64, 12
    searched = 0
    for seed in range(seeds):
        rng = random.Random(seed)
        graph = CommitGraph(branching(n, rng.choice([0.0, 0.1, 0.3]), rng))
        culprit = rng.randrange(n)
        bench = Bench(graph, culprit, good=good, bad=bad, seed=seed)
        posterior = bench.calibrate(Posterior.start(graph, Rates.unknown()))
        decision, posterior = bench.search_and_confirm(posterior)
        assert decision == Found(culprit)
        searched += len(bench.runs)
    # Twice what the capacity of the channel allows (see the benchmark), and as much again to confirm.
    assert searched / seeds <= 4 * log2(n) / capacity(good, bad)


def capacity(good: float, bad: float) -> float:
    """Of the binary channel from good or bad to pass or fail, in bits, by search over the input."""

    def h(p: float) -> float:
        return -sum(q * log2(q) for q in (p, 1 - p) if q > 0)

    shares = np.linspace(0, 1, 1001)
    return max(h(b * bad + (1 - b) * good) - b * h(bad) - (1 - b) * h(good) for b in shares)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.8])
def test_no_commit_is_blamed_where_all_fail_alike(rate: float):
    graph = CommitGraph(line(32))
    for seed in range(8):
        bench = Bench(graph, None, good=rate, bad=rate, seed=seed)
        posterior = bench.calibrate(Posterior.start(graph, Rates.unknown()))
        if ends_differ(posterior):
            decision, _ = bench.search_and_confirm(posterior)
            assert not isinstance(decision, Found)


def test_a_first_fail_that_never_comes_again_does_not_make_the_ends_differ():
    graph = CommitGraph(line(32))
    seen = [Observation(31, Outcome.BAD)] + [Observation(end, Outcome.GOOD) for end in (GOOD_END, 31)] * 80
    posterior = Posterior.start(graph, Rates.unknown(), observations=seen)
    assert next_end(posterior) is None
    assert not ends_differ(posterior)


def test_an_environment_that_moves_for_good_is_blamed_on_none():
    graph = CommitGraph(line(64))
    bench = Bench(graph, 40, good=0, bad=1, seed=0)
    posterior = bench.calibrate(Posterior.start(graph, Rates.unknown()))
    posterior = bench.run(posterior, 31)
    bench.rates = [1.0] * 65
    decision, _ = bench.search_and_confirm(posterior)
    assert decision == EnvironmentMoved() or decision == NoCulprit()


def test_flaky_skips_end_at_the_culprit_or_the_skips_around_it():
    for seed in range(6):
        rng = random.Random(seed)
        graph = CommitGraph(branching(40, 0.1, rng))
        skips = untestable(40, 0.2, 4, rng)
        culprit = rng.randrange(40)
        bench = Bench(graph, culprit, good=0.1, bad=1, seed=seed, skips=skips)
        decision, _ = bench.search(bench.calibrate(Posterior.start(graph, Rates.unknown())))
        assert isinstance(decision, (Found, OnlySkipped))
        found = [decision.culprit] if isinstance(decision, Found) else decision.candidates
        assert culprit in found
        assert sum(commit not in skips for commit in found) <= 1


def test_a_cheap_commit_is_taken_for_a_little_less_information():
    graph = CommitGraph(line(64))
    costs = np.full(65, 650.0)
    costs[28] = 50.0
    step = next_run(Posterior.start(graph, Rates.unknown()), costs=costs)
    assert isinstance(step, Probe)
    assert step.commit == 28


def test_a_likely_commit_is_tested_first():
    weights = np.ones(64)
    weights[50] = 200.0
    step = next_run(Posterior.start(CommitGraph(line(64)), Rates.unknown(), weights=weights))
    assert isinstance(step, Probe)
    assert step.commit in (49, 50)


def test_an_end_that_could_not_be_tested_once_is_no_candidate_to_avoid():
    graph = CommitGraph(line(8))
    seen = [Observation(GOOD_END, Outcome.SKIP), Observation(3, Outcome.SKIP), Observation(3, Outcome.GOOD)]
    posterior = Posterior.start(graph, Rates.unknown(), observations=seen)
    assert posterior.skipped == frozenset()
    assert isinstance(next_run(posterior), Probe)


def test_credible_sets_are_the_fewest_commits():
    graph = CommitGraph(line(4))
    belief = Posterior.start(
        graph,
        Rates.known(good=0, bad=1),
        observations=[Observation(0, Outcome.GOOD), Observation(3, Outcome.BAD)],
    ).belief
    most = belief.commits.sum()
    assert set(credible_set(belief, most - 1e-9)) == {1, 2, 3}
    assert len(credible_set(belief, most / 2)) == 2


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_batch_divides_the_range(workers: int):
    n = 1024
    graph = CommitGraph(line(n))
    ends = [Observation(GOOD_END, Outcome.GOOD), Observation(n - 1, Outcome.BAD)] * 10
    rounds = []
    for culprit in (0, 300, 511, 512, 777, 1023):
        posterior = Posterior.start(graph, Rates.known(good=0, bad=1), observations=ends)
        test, taken = truth(graph, culprit, set()), 0
        while np.count_nonzero(posterior.belief.commits > 0) > 1:
            batch = next_runs(posterior, count=workers)
            assert len(set(batch)) == len(batch) <= workers
            for commit in batch:
                posterior = posterior.observe(Observation(commit, test(commit)))
            taken += 1
        assert posterior.belief.commits.argmax() == culprit
        rounds.append(taken)
    assert max(rounds) <= ceil(10 / log2(workers + 1)) + 1


def test_runs_in_flight_are_not_repeated_and_lose_their_value():
    graph = CommitGraph(line(64))
    ends = [Observation(GOOD_END, Outcome.GOOD), Observation(63, Outcome.BAD)] * 10
    posterior = Posterior.start(graph, Rates.known(good=0, bad=1), observations=ends)
    first = next_runs(posterior, count=2)
    beside = next_runs(posterior, count=2, in_flight=first)
    assert not set(first) & set(beside)
    assert lost_their_value(posterior, first + beside) == []
    after = posterior.observe(Observation(31, Outcome.BAD))
    assert lost_their_value(after, [15, 47, 7, 55]) == [1, 3]


def test_confirmation_takes_what_the_rates_ask_for():
    assert confirming_runs(good=0, bad=1) == 1
    assert confirming_runs(good=0, bad=0.5) == ceil(np.log(99) / np.log(2))
    assert (
        confirming_runs(good=0.1, bad=0.9)
        < confirming_runs(good=0.2, bad=0.8)
        < confirming_runs(good=0.4, bad=0.6)
    )
    with pytest.raises(ValueError, match="good < bad"):
        confirming_runs(good=0.5, bad=0.5)
    with pytest.raises(ValueError, match=r"between 0\.5 and 1"):
        confirming_runs(good=0, bad=1, confidence=1.0)


def test_confirmation_reruns_culprit_and_parent_in_turns_and_gives_up_on_a_wrong_one():
    graph = CommitGraph(line(8))
    bench = Bench(graph, 5, good=0, bad=1, seed=0)
    decision, posterior = bench.search(bench.calibrate(Posterior.start(graph, Rates.unknown())))
    assert decision == Found(5)
    failed = Observation(5, Outcome.BAD)
    assert next_confirming_runs(posterior, 5, fresh=[]) == [5]
    after = posterior.observe(failed)
    assert next_confirming_runs(after, 5, fresh=[failed]) == [4]
    # Beside a run of the culprit first the parent, and no more than its rates can ask for.
    beside = next_confirming_runs(posterior, 5, fresh=[], in_flight=[5], count=8)
    assert beside is not None
    assert beside[0] == 4
    assert len(beside) < 8
    wrong = posterior.observe(Observation(5, Outcome.GOOD))
    assert wrong.belief.commits[5] < 0.99
    assert next_confirming_runs(wrong, 5, fresh=[Observation(5, Outcome.GOOD)]) is None


def test_each_parent_of_a_merge_must_pass_again():
    graph = CommitGraph([[], [0], [0], [1, 2], [3]])
    bench = Bench(graph, 3, good=0, bad=1, seed=0)
    decision, posterior = bench.search(bench.calibrate(Posterior.start(graph, Rates.unknown())))
    assert decision == Found(3)
    seen = [Observation(3, Outcome.BAD), Observation(1, Outcome.GOOD)]
    for each in [*seen, *seen, *seen]:
        posterior = posterior.observe(each)
    assert next_confirming_runs(posterior, 3, fresh=seen) == [2]


def test_the_parent_of_a_root_is_the_good_end():
    graph = CommitGraph(line(3))
    bench = Bench(graph, 0, good=0, bad=1, seed=0)
    decision, posterior = bench.search(bench.calibrate(Posterior.start(graph, Rates.unknown())))
    assert decision == Found(0)
    failed = Observation(0, Outcome.BAD)
    assert next_confirming_runs(posterior.observe(failed), 0, fresh=[failed]) == [GOOD_END]


def test_ends_run_in_turns_and_longer_if_flaky():
    graph = CommitGraph(line(4))

    def runs_of_ends(good: float, bad: float) -> list[int]:
        bench = Bench(graph, 0, good=good, bad=bad, seed=1)
        posterior = Posterior.start(graph, Rates.unknown())
        while (end := next_end(posterior)) is not None:
            posterior = bench.run(posterior, end)
        return bench.runs

    assert runs_of_ends(0, 1) == [GOOD_END, 3] * 5
    assert len(runs_of_ends(0, 0.7)) == 40
    assert len(runs_of_ends(0.5, 0.5)) == 160


def test_a_hundred_thousand_commits_are_decided_under_noise():
    graph = CommitGraph(branching(100_000, 0.1, random.Random(1)))
    ends = [Observation(GOOD_END, Outcome.GOOD), Observation(graph.bad, Outcome.BAD)] * 20
    posterior = Posterior.start(
        graph, Rates.unknown(), observations=[*ends, Observation(graph.bad, Outcome.GOOD)]
    )
    first = next_run(posterior)
    assert isinstance(first, Probe)
    second = next_run(posterior.observe(Observation(first.commit, Outcome.SKIP)))
    assert isinstance(second, Probe)
    assert abs(second.commit - first.commit) > 100

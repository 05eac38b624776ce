"""The whole search under noise, on simulated runs."""

import random
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import Observation, Outcome, credible_set
from precision_bisect.bisect.search.decision import (
    Decision,
    EnvironmentMoved,
    NoCulprit,
    PendingCulprit,
    Undecided,
    next_run,
    next_runs,
    worthless_runs,
)
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import FoundCulprit, OnlySkipped, Probe, expected_steps
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.bisect.search.testability import BlamedFile
from tests.bisect.search.search_histories import (
    branching,
    broken_header,
    graphs,
    line,
    search,
    see_ends,
    truth,
    untestable,
)
from tests.support.quick import quick_first


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
        blamed: tuple[BlamedFile, ...] = (),
    ) -> None:
        self.rng = random.Random(seed)
        self.graph, self.skips, self.blamed = graph, skips, blamed
        above = [
            culprit is not None and bool(graph.ancestors(commit)[culprit]) for commit in range(len(graph))
        ]
        self.rates = [bad if is_bad else good for is_bad in above] + [good]
        self.runs: list[int] = []

    def outcome(self, commit: int) -> Observation:
        self.runs.append(commit)
        failed = self.rng.random() < self.rates[commit]
        outcome = Outcome.SKIP if commit in self.skips else Outcome.BAD if failed else Outcome.GOOD
        return Observation(commit, outcome, blamed=self.blamed if outcome is Outcome.SKIP else ())

    def run(self, posterior: Posterior, commit: int) -> Posterior:
        return posterior.observe(self.outcome(commit))

    def see_ends(self, posterior: Posterior) -> Posterior:
        seen = see_ends(posterior, self.outcome)
        self.runs.clear()
        return seen

    def search(self, posterior: Posterior) -> tuple[Decision, Posterior]:
        while isinstance(decision := next_run(posterior), Probe | PendingCulprit):
            commit = decision.commit if isinstance(decision, Probe) else decision.missing[0]
            posterior = self.run(posterior, commit)
            assert len(self.runs) < 2000
        return decision, posterior


def named_or_left(decision: Decision) -> tuple[int, ...]:
    """The commit that is named, or those that are left."""
    match decision:
        case FoundCulprit(culprit=culprit):
            return (culprit,)
        case OnlySkipped(candidates=candidates):
            return candidates
        case Undecided(suspects=suspects):
            return suspects
        case other:
            pytest.fail(f"no answer: {other}")


@settings(deadline=None)
@given(graphs(), st.data())
def test_without_noise_and_skips_its_probes_are_those_of_the_certain_search(
    graph: CommitGraph, data: st.DataObject
):
    culprit = data.draw(st.integers(0, graph.bad))
    answer, tested = search(graph, truth(graph, culprit, set()))
    bench = Bench(graph, culprit, good=0, bad=1, seed=0)
    decision, _ = bench.search(bench.see_ends(Posterior.start(graph, Rates.unknown())))
    assert decision == answer == FoundCulprit(culprit)
    assert bench.runs[: len(tested)] == tested
    # What follows are reruns of the answer and what lies next to it.
    assert len(bench.runs) <= len(tested) + 8 * (2 + len(graph.parents[culprit]))


@settings(deadline=None)
@given(graphs(), st.data())
def test_without_noise_an_answer_with_skips_holds_the_culprit(graph: CommitGraph, data: st.DataObject):
    culprit = data.draw(st.integers(0, graph.bad))
    skips = data.draw(st.sets(st.integers(0, graph.bad))) - {graph.bad}
    bench = Bench(graph, culprit, good=0, bad=1, seed=0, skips=skips)
    decision, _ = bench.search(bench.see_ends(Posterior.start(graph, Rates.unknown())))
    assert culprit in named_or_left(decision)
    # Where the culprit or too few others can be tested, it cannot be told from a commit that fails for its own reason.
    assert culprit in skips or len(skips) >= 2 or not isinstance(decision, Undecided)


@pytest.mark.parametrize(
    ("good", "bad"),
    quick_first([(0, 1), (0.05, 1), (0.1, 0.9), (0.2, 1), (0, 0.5), (0.2, 0.8)], 3),
)
def test_flaky_histories_end_at_the_culprit(good: float, bad: float):
    n, seeds = 64, 12
    searched = right = wrong = 0
    for seed in range(seeds):
        rng = random.Random(seed)
        graph = CommitGraph(branching(n, rng.choice([0.0, 0.1, 0.3]), rng))
        culprit = rng.randrange(n)
        bench = Bench(graph, culprit, good=good, bad=bad, seed=seed)
        posterior = bench.see_ends(Posterior.start(graph, Rates.unknown()))
        decision, posterior = bench.search(posterior)
        right += decision == FoundCulprit(culprit)
        wrong += isinstance(decision, FoundCulprit) and decision != FoundCulprit(culprit)
        searched += len(bench.runs)
    # At a confidence of .99 one in a hundred may be wrong.
    assert wrong <= 1
    # The rest are told with their suspects: a few runs that contradict each other may belong to their commits.
    assert right >= 8
    # Twice what the capacity of the channel allows (see the benchmark), and as much again to confirm.
    assert searched / seeds <= 4 * log2(n) / capacity(good, bad) + 6


def capacity(good: float, bad: float) -> float:
    """Of the binary channel from good or bad to pass or fail, in bits, by search over the input."""

    def h(p: float) -> float:
        return -sum(q * log2(q) for q in (p, 1 - p) if q > 0)

    shares = np.linspace(0, 1, 1001)
    return max(h(b * bad + (1 - b) * good) - b * h(bad) - (1 - b) * h(good) for b in shares)


@pytest.mark.parametrize("rate", quick_first([0.05, 0.2, 0.5, 0.8]))
def test_no_commit_is_blamed_where_all_fail_alike(rate: float):
    graph = CommitGraph(line(32))
    accused = 0
    for seed in range(8):
        bench = Bench(graph, None, good=rate, bad=rate, seed=seed)
        posterior = bench.see_ends(Posterior.start(graph, Rates.unknown()))
        decision, _ = bench.search(posterior)
        accused += isinstance(decision, FoundCulprit)
    assert accused <= 1


@pytest.mark.long
def test_an_environment_that_moves_for_good_is_blamed_on_none():
    graph = CommitGraph(line(64))
    bench = Bench(graph, 40, good=0, bad=1, seed=0)
    posterior = bench.see_ends(Posterior.start(graph, Rates.unknown()))
    posterior = bench.run(posterior, 31)
    bench.rates = [1.0] * 65
    decision, _ = bench.search(posterior)
    assert isinstance(decision, EnvironmentMoved | NoCulprit | Undecided)


def test_flaky_skips_end_at_the_culprit_or_the_skips_around_it():
    for seed in range(6):
        rng = random.Random(seed)
        graph = CommitGraph(branching(40, 0.1, rng))
        skips = untestable(40, 0.2, 4, rng)
        culprit = rng.randrange(40)
        bench = Bench(graph, culprit, good=0.1, bad=1, seed=seed, skips=skips)
        decision, _ = bench.search(bench.see_ends(Posterior.start(graph, Rates.unknown())))
        found = named_or_left(decision)
        assert culprit in found
        if not isinstance(decision, Undecided):
            assert sum(commit not in skips for commit in found) <= 1


@pytest.mark.parametrize("length", [150, 450])
def test_a_wall_that_holds_the_culprit_is_the_answer_however_long_it_is(length: int):
    wall = range(100, 100 + length)
    file = broken_header(600, wall)
    bench = Bench(CommitGraph(line(600)), 120, good=0, bad=1, seed=0, skips={*wall}, blamed=(file,))
    decision, _ = bench.search(bench.see_ends(Posterior.start(bench.graph, Rates.unknown())))
    assert decision == OnlySkipped((*wall, wall.stop))
    assert len(bench.runs) <= 30


def test_steps_are_told_of_what_can_be_tested_beside_a_wall():
    wall = range(4, 500)
    file = broken_header(504, wall)
    bench = Bench(CommitGraph(line(504)), 503, good=0, bad=1, seed=0)
    posterior = bench.see_ends(Posterior.start(bench.graph, Rates.unknown()))
    for commit in (100, 200, 300):
        posterior = posterior.observe(Observation(commit, Outcome.SKIP, blamed=(file,)))
    decision = next_run(posterior)
    assert isinstance(decision, Probe)
    assert decision.expected_steps == expected_steps(4 + 4)


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
    assert posterior.skipped_commits == frozenset()
    assert isinstance(next_run(posterior), Probe)


def test_credible_sets_are_the_fewest_commits():
    graph = CommitGraph(line(4))
    belief = Posterior.start(
        graph,
        Rates.from_values(good=0, bad=1),
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
        posterior = Posterior.start(graph, Rates.from_values(good=0, bad=1), observations=ends)
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
    posterior = Posterior.start(graph, Rates.from_values(good=0, bad=1), observations=ends)
    first = next_runs(posterior, count=2)
    beside = next_runs(posterior, count=2, in_flight=first)
    assert not set(first) & set(beside)
    assert worthless_runs(posterior, first + beside) == []
    after = posterior.observe(Observation(31, Outcome.BAD))
    assert worthless_runs(after, [15, 47, 7, 55]) == [1, 3]


@pytest.mark.long
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

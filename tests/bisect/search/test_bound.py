"""How long it is worth to go on: whatever the world does, a search ends within its bound."""

import random
from math import log2

import numpy as np
import pytest

from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.decision import (
    PendingCulprit,
    Probe,
    capacity,
    is_worth_waiting,
    max_runs,
    next_run,
)
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from tests.bisect.search.search_histories import branching, line
from tests.support.quick import quick_first

MOST = 1000


def entropy(p: float) -> float:
    return -sum(q * log2(q) for q in (p, 1 - p) if q > 0)


@pytest.mark.parametrize(("good", "bad"), [(0.0, 1.0), (0.0, 0.5), (0.1, 0.9), (0.0, 0.05), (0.2, 1.0)])
def test_the_capacity_is_the_most_that_any_share_of_bad_commits_lets_a_run_tell(
    good: float, bad: float
) -> None:
    told = [
        entropy(b * bad + (1 - b) * good) - b * entropy(bad) - (1 - b) * entropy(good)
        for b in np.linspace(0, 1, 2001)
    ]
    assert capacity(good, bad) == pytest.approx(max(told), abs=1e-5)


@pytest.mark.parametrize("number", quick_first(range(150), 8))
def test_every_search_ends_within_its_bound_whatever_each_commit_does(number: int) -> None:
    rng = random.Random(number)
    graph = CommitGraph(branching(rng.randrange(2, 14), rng.choice([0.0, 0.3]), rng))
    rates = [rng.choice([0.0, 1.0, rng.random()]) for _ in range(len(graph) + 1)]
    posterior = Posterior.start(graph, Rates.unknown())
    for commit, outcome in ((GOOD_END, Outcome.GOOD), (graph.bad, Outcome.BAD)):
        posterior = posterior.observe(Observation(commit, outcome))
    while isinstance(decision := next_run(posterior), Probe | PendingCulprit):
        assert len(posterior.observations) <= MOST
        commit = decision.commit if isinstance(decision, Probe) else decision.missing[0]
        failed = rng.random() < rates[commit]
        posterior = posterior.observe(Observation(commit, Outcome.BAD if failed else Outcome.GOOD))
    assert max_runs(posterior) <= MOST


@pytest.mark.parametrize("culprit", [0, 3, 11])
def test_a_search_ends_where_each_commit_can_be_judged_once(culprit: int) -> None:
    """As where it was built on a machine that is gone. A rerun that cannot be judged changes nothing that is known."""
    posterior = Posterior.start(CommitGraph(line(12)), Rates.unknown())
    for commit, outcome in ((GOOD_END, Outcome.GOOD), (11, Outcome.BAD)):
        posterior = posterior.observe(Observation(commit, outcome))
    while isinstance(decision := next_run(posterior), Probe | PendingCulprit):
        assert len(posterior.observations) <= max_runs(posterior)
        commit = decision.commit if isinstance(decision, Probe) else decision.missing[0]
        first = Outcome.BAD if commit >= culprit else Outcome.GOOD
        seen = commit in {seen.commit for seen in posterior.observations}
        posterior = posterior.observe(Observation(commit, Outcome.SKIP if seen else first))
    assert int(np.argmax(posterior.belief.commits)) == culprit


def test_a_bad_end_is_waited_for_as_long_as_the_ends_probably_differ() -> None:
    posterior = Posterior.start(CommitGraph(line(16)), Rates.unknown())
    posterior = posterior.observe(Observation(GOOD_END, Outcome.GOOD))
    for _ in range(100):
        posterior = posterior.observe(Observation(15, Outcome.GOOD))
        if not is_worth_waiting(posterior, bad=True, for_failure=True, confidence=0.99):
            break
    assert posterior.belief.commits.sum() < 0.5 < posterior.belief.no_culprit + posterior.belief.environment
    # A failure in one of 10 runs is missed by so many passes with 12 % at most, and no search's worth of runs is spent.
    assert 20 <= posterior.tally(15)[1] <= 36


def test_a_good_end_that_fails_is_waited_for_for_three_runs_and_longer_where_the_bad_one_passes_too() -> None:
    def failures(bad_end: list[Outcome]) -> int:
        posterior = Posterior.start(CommitGraph(line(16)), Rates.unknown())
        for outcome in bad_end:
            posterior = posterior.observe(Observation(15, outcome))
        for count in range(1, 50):
            posterior = posterior.observe(Observation(GOOD_END, Outcome.BAD))
            if not is_worth_waiting(posterior, bad=False, for_failure=False, confidence=0.99):
                return count
        return 50

    assert failures([Outcome.BAD]) == 3
    assert failures([Outcome.BAD, Outcome.GOOD, Outcome.BAD]) > 3


def test_an_end_is_waited_for_within_the_bound_of_the_confidence_that_is_asked() -> None:
    posterior = Posterior.start(CommitGraph(line(16)), Rates.unknown())
    posterior = posterior.observe(Observation(15, Outcome.BAD))
    while len(posterior.observations) < max_runs(posterior):
        failed = len(posterior.observations) % 2
        posterior = posterior.observe(Observation(GOOD_END, Outcome.BAD if failed else Outcome.GOOD))
    usual, surer = (
        is_worth_waiting(posterior, bad=True, for_failure=False, confidence=confidence)
        for confidence in (0.99, 1 - 1e-9)
    )
    assert (usual, surer) == (False, True)

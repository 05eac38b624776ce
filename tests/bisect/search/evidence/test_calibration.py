"""Ends that several workers measure at once."""

import random

import pytest

from precision_bisect.bisect.search.evidence.calibration import ends_differ, next_end
from precision_bisect.bisect.search.evidence.knowledge import Observation, Outcome
from precision_bisect.bisect.search.evidence.posterior import GOOD_END, Posterior
from precision_bisect.bisect.search.evidence.rates import Rates
from precision_bisect.bisect.search.graph.graph import CommitGraph
from tests.bisect.search.search_histories import line


def measure(workers: int, seed: int, *, good: float, bad: float) -> tuple[Posterior, dict[int, int]]:
    """Run the ends of a line with some workers, which finish in any order; and how often each end was run."""
    chance = random.Random(seed)
    posterior = Posterior.start(CommitGraph(line(16)), Rates.unknown())
    runs = {GOOD_END: 0, posterior.graph.bad: 0}
    in_flight: list[int] = []
    while True:
        while len(in_flight) < workers:
            end = next_end(posterior, in_flight=in_flight)
            if end is None:
                break
            in_flight.append(end)
        if not in_flight:
            return posterior, runs
        done = in_flight.pop(chance.randrange(len(in_flight)))
        runs[done] += 1
        failed = chance.random() < (good if done == GOOD_END else bad)
        posterior = posterior.observe(Observation(done, Outcome.BAD if failed else Outcome.GOOD))


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 64])
def test_any_number_of_workers_runs_sure_ends_as_often_as_one(workers: int) -> None:
    for seed in range(5):
        posterior, runs = measure(workers, seed, good=0, bad=1)
        assert ends_differ(posterior)
        assert set(runs.values()) == {5}


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_ends_that_come_and_go_are_run_until_they_differ(workers: int) -> None:
    for seed in range(5):
        posterior, runs = measure(workers, seed, good=0.1, bad=0.8)
        assert ends_differ(posterior)
        seen = {(each.commit, each.outcome) for each in posterior.observations}
        # By luck an end that comes and goes may show one face only.
        fewest = 5 if len(seen) == 2 else 20
        assert fewest <= min(runs.values()) <= max(runs.values()) <= fewest + workers


def test_ends_that_are_equal_come_to_an_end() -> None:
    posterior, runs = measure(4, 0, good=0.5, bad=0.5)
    assert not ends_differ(posterior)
    assert set(runs.values()) == {80}

"""No more tests than the real git takes."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from precision_bisect.bisect.search.belief import Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from tests.bisect.search.git_bisect import GitBisect
from tests.bisect.search.search_histories import branching, count_by_culprit, truth, untestable
from tests.support.quick import quick_first

EXIT_CODES = {Outcome.GOOD: 0, Outcome.BAD: 1, Outcome.SKIP: 125}


@dataclass(frozen=True)
class History:
    parents: list[list[int]]
    times: list[int]
    skips: set[int]

    @property
    def graph(self) -> CommitGraph:
        return CommitGraph(self.parents, self.times)


def history(seed: int, *, with_skips: bool) -> History:
    """Sizes 5 to 29, merges or none; dates in order, many alike, or from clocks that differ a little.

    (From clocks that differ a lot, git's own walk lists commits that a pass has cleared.)
    """
    rng = random.Random(seed)
    n = rng.randrange(5, 30)
    parents = branching(n, rng.choice([0.0, 0.1, 0.3]), rng)
    times = {
        "in order": [10 * commit for commit in range(n)],
        "alike": [commit // 6 for commit in range(n)],
        "clocks": [10 * commit + rng.randrange(-15, 15) for commit in range(n)],
    }[rng.choice(["in order", "in order", "alike", "clocks"])]
    earliest = min(times)
    skips = untestable(n, rng.choice([0.1, 0.2, 0.3]), rng.choice([1, 3, 8]), rng) if with_skips else set()
    return History(parents, [time - earliest + 1 for time in times], skips)


def git_count_by_culprit(git: GitBisect, known: History) -> list[int]:
    """How many tests git takes for each position of the culprit; each state is asked for once."""
    graph = known.graph
    reach = [set(np.flatnonzero(graph.ancestors(commit)).tolist()) for commit in range(len(graph))]
    taken = [0] * len(graph)
    todo = [(graph.bad, frozenset[int](), frozenset[int](), set(range(len(graph))), 0)]
    while todo:
        bad, goods, skips, culprits, tests = todo.pop()
        if not culprits:
            continue
        alone = len(reach[bad].difference(*(reach[good] for good in goods))) == 1
        chosen = None if alone else git.choice(bad, goods, skips)
        if chosen is None:
            for culprit in culprits:
                taken[culprit] = tests
        elif chosen in known.skips:
            todo.append((bad, goods, skips | {chosen}, culprits, tests + 1))
        else:
            todo.append((chosen, goods, skips, culprits & reach[chosen], tests + 1))
            todo.append((bad, goods | {chosen}, skips, culprits - reach[chosen], tests + 1))
    return taken


@pytest.mark.parametrize("seed", quick_first(range(80), 6))
def test_without_skips_every_culprit_takes_as_many_tests_as_with_git(seed: int, tmp_path: Path):
    known = history(seed, with_skips=False)
    git = GitBisect(tmp_path / "history", known.parents, known.times)
    assert count_by_culprit(known.graph, set()) == git_count_by_culprit(git, known)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(4))
def test_with_skips_histories_take_fewer_tests_than_with_git(batch: int, tmp_path: Path):
    """In sum, since no choice wins on every history: which neighbours of a skip can be tested is luck."""
    ours: list[list[int]] = []
    gits: list[list[int]] = []
    for seed in range(50 * batch, 50 * (batch + 1)):
        known = history(seed, with_skips=True)
        ours.append(count_by_culprit(known.graph, known.skips))
        gits.append(git_count_by_culprit(GitBisect(tmp_path / str(seed), known.parents, known.times), known))
    assert sum(map(np.mean, ours)) < sum(map(np.mean, gits))
    assert sum(map(max, ours)) <= sum(map(max, gits))


@pytest.mark.long
def test_clustered_skips_cost_at_most_half_of_what_they_cost_git(tmp_path: Path):
    """Counted over the culprits that can be told: they and their parents can be tested."""
    extra_ours = extra_gits = 0
    for seed in range(12):
        rng = random.Random(seed)
        n, cluster = 100, rng.choice([10, 15, 20])
        parents = branching(n, rng.choice([0.0, 0.1]), rng)
        known = History(parents, list(range(1, n + 1)), untestable(n, 0.3, cluster, rng))
        told = [c for c in range(n) if not known.skips & {c, *parents[c]}]
        without = count_by_culprit(known.graph, set())
        ours = count_by_culprit(known.graph, known.skips)
        gits = git_count_by_culprit(GitBisect(tmp_path / str(seed), known.parents, known.times), known)
        extra_ours += sum(ours[c] - without[c] for c in told)
        extra_gits += sum(gits[c] - without[c] for c in told)
    assert extra_ours <= extra_gits / 2


@pytest.mark.parametrize("seed", quick_first(range(6), 2))
def test_git_bisect_run_counts_as_git_driven_step_by_step(seed: int, tmp_path: Path):
    known = history(seed, with_skips=seed % 2 == 0)
    git = GitBisect(tmp_path / "history", known.parents, known.times)
    counted = git_count_by_culprit(git, known)
    for culprit in random.Random(seed).sample(range(len(known.graph)), 2):
        outcome = truth(known.graph, culprit, known.skips)
        assert (
            git.run([EXIT_CODES[outcome(commit)] for commit in range(len(known.graph))]) == counted[culprit]
        )

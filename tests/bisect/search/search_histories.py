"""Random histories with a known truth, and the number of tests that a search takes on them."""

import random
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import Knowledge, Observation, Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import FoundCulprit, OnlySkipped, Probe, next_step
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.testability import BlamedFile

Parents = list[list[int]]


def line(n: int) -> Parents:
    return [[] if commit == 0 else [commit - 1] for commit in range(n)]


def broken_header(commits: int, wall: range) -> BlamedFile:
    """A file that an error in `wall` names, and that holds the line of the error there alone."""
    fails = np.array([commit in wall for commit in range(commits + 1)])
    return BlamedFile("a.hpp", versions=fails.astype(np.int64), fails=fails)


def branching(n: int, merge_rate: float, rng: random.Random) -> Parents:
    """A trunk with branches that fork off and are merged, all joined at the end (by an octopus, often)."""
    parents: Parents = [[]]
    heads = [0]
    while len(parents) < n - 1:
        commit, chance = len(parents), rng.random()
        if chance < merge_rate and len(heads) > 1:
            parents.append([heads[0], heads.pop(rng.randrange(1, len(heads)))])
            heads[0] = commit
        elif chance < 2 * merge_rate:
            parents.append([rng.choice(heads)])
            heads.append(commit)
        else:
            branch = rng.randrange(len(heads))
            parents.append([heads[branch]])
            heads[branch] = commit
    if n > 1:
        parents.append(heads)
    return parents


def untestable(n: int, share: float, cluster: int, rng: random.Random) -> set[int]:
    """About `share` of the commits but the bad end, in stretches of `cluster`."""
    skips: set[int] = set()
    while len(skips) < share * (n - 1):
        start = rng.randrange(1 - cluster, n - 1)
        skips |= {commit for commit in range(start, start + cluster) if 0 <= commit < n - 1}
    return skips


@st.composite
def graphs(draw: st.DrawFn, max_size: int = 12) -> CommitGraph:
    """Any graph, criss-cross merges, octopuses and several roots included."""
    n = draw(st.integers(1, max_size))
    parents: Parents = []
    for commit in range(n):
        earlier = st.integers(0, commit - 1) if commit else st.nothing()
        parents.append(draw(st.lists(earlier, max_size=3, unique=True)) if commit else [])
    loose = set(range(n - 1)).difference(*parents)
    parents[-1] = list(dict.fromkeys([*parents[-1], *sorted(loose)]))
    times = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    return CommitGraph(parents, times)


def ancestors(parents: Parents | tuple[tuple[int, ...], ...], commit: int) -> set[int]:
    """By recursion, as a check on the graph's own."""
    return {commit}.union(*(ancestors(parents, parent) for parent in parents[commit]))


def truth(graph: CommitGraph, culprit: int, skips: set[int]) -> Callable[[int], Outcome]:
    """The outcome of each commit if `culprit` broke it and all its descendants."""
    return lambda commit: (
        Outcome.SKIP if commit in skips else Outcome.BAD if graph.ancestors(commit)[culprit] else Outcome.GOOD
    )


def search(
    graph: CommitGraph, test: Callable[[int], Outcome]
) -> tuple[FoundCulprit | OnlySkipped, list[int]]:
    """Runs a search to its end: the answer, and the commits tested."""
    knowledge = Knowledge.start(graph)
    tested: list[int] = []
    while isinstance(step := next_step(knowledge), Probe):
        assert step.commit not in tested
        tested.append(step.commit)
        knowledge = knowledge.observe(Observation(step.commit, test(step.commit)))
    return step, tested


def see_ends(posterior: Posterior, run: Callable[[int], Observation], *, most: int = 200) -> Posterior:
    """The posterior once each end has shown what it stands for, the good one first, or was run so often."""
    for end, wanted in ((GOOD_END, Outcome.GOOD), (posterior.graph.bad, Outcome.BAD)):
        for _ in range(most):
            seen = run(end)
            posterior = posterior.observe(seen)
            if seen.outcome in {wanted, Outcome.SKIP}:
                break
    return posterior


def count_by_culprit(graph: CommitGraph, skips: set[int]) -> list[int]:
    """The number of tests for each position of the culprit; common beginnings are planned once."""
    reach = [graph.ancestors(commit) for commit in range(len(graph))]
    taken = [0] * len(graph)
    todo = [(Knowledge.start(graph), list(range(len(graph))), 0)]
    while todo:
        knowledge, culprits, tests = todo.pop()
        step = next_step(knowledge)
        if not isinstance(step, Probe):
            for culprit in culprits:
                taken[culprit] = tests
            continue
        for outcome, those in (
            (Outcome.SKIP, culprits if step.commit in skips else []),
            (Outcome.BAD, [c for c in culprits if step.commit not in skips and reach[step.commit][c]]),
            (Outcome.GOOD, [c for c in culprits if step.commit not in skips and not reach[step.commit][c]]),
        ):
            if those:
                todo.append((knowledge.observe(Observation(step.commit, outcome)), those, tests + 1))
    return taken

"""The real git, asked for its choices one by one; each verdict from one run or from five."""

from collections.abc import Callable
from functools import cache
from math import comb
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from benchmarks.search.ours import Answer
from benchmarks.search.world import World
from precision_bisect.bisect.search.evidence.knowledge import Outcome
from tests.bisect.search.git_bisect import GitBisect


def search(world: World, *, repeats: int) -> Answer:
    """`git bisect run` with a script that runs the case `repeats` times.

    The script calls bad what the better of the two rates explains: as good as such a script can be made.
    """
    graph, cell = world.graph, world.cell
    fails_for_bad = _fails_for_bad(repeats, cell.good, cell.bad)
    choices = _choices(graph.parents)
    bad, goods, skips, seconds = graph.bad, frozenset[int](), frozenset[int](), 0.0
    while (commit := choices(bad, goods, skips)) is not None:
        outcomes: list[Outcome] = []
        while len(outcomes) < repeats and Outcome.SKIP not in outcomes:
            seconds += world.seconds(commit)
            outcomes.append(world.run(commit))
        if Outcome.SKIP in outcomes:
            skips |= {commit}
        elif outcomes.count(Outcome.BAD) >= fails_for_bad:
            bad = commit
        else:
            goods |= {commit}
    cleared = np.zeros(len(graph), dtype=np.bool_)
    for good in goods:
        cleared |= graph.ancestors(good)
    alone = int((graph.ancestors(bad) & ~cleared).sum()) == 1
    return Answer(
        culprit=bad if alone else None,
        claimed=1.0 if alone else 0.0,
        probes=world.probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=seconds,
    )


def _fails_for_bad(repeats: int, good: float, bad: float) -> int:
    """The fewest fails of `repeats` that are likelier of a bad commit than of a good one."""

    def likelihood(rate: float, fails: int) -> float:
        return comb(repeats, fails) * rate**fails * (1 - rate) ** (repeats - fails)

    return next(k for k in range(repeats + 1) if likelihood(bad, k) > likelihood(good, k))


@cache
def _choices(
    parents: tuple[tuple[int, ...], ...],
) -> Callable[[int, frozenset[int], frozenset[int]], int | None]:
    """What git chooses in each state of this history; each state is asked for once."""
    git = GitBisect(
        Path(mkdtemp(prefix="bench-git-")) / "history", [*map(list, parents)], [*range(1, len(parents) + 1)]
    )
    return cache(git.choice)

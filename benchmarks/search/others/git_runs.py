"""The real git, asked for its choices one by one; each verdict from one run or from five. It believes both ends."""

from collections.abc import Callable
from functools import cache
from math import comb
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.outsider.world import Bench, Shown
from benchmarks.search.answer import Answer, answer
from benchmarks.search.cells import Cell
from tests.bisect.search.git_bisect import GitBisect


def search(cell: Cell, bench: Bench, *, repeats: int) -> Answer:
    """`git bisect run` with a script that runs the case `repeats` times.

    The script calls bad what the better of the two rates explains, where there are two: as good as such a script can be
    made; else what most runs show.
    """
    history = bench.world.history
    fails_for_bad = (repeats + 1) // 2 if cell.rates is None else _fails_for_bad(repeats, *cell.rates)
    choices = _choices(history.parents)
    bad, goods, skips = history.end, frozenset[int](), frozenset[int]()
    while (commit := choices(bad, goods, skips)) is not None:
        shown: list[Shown] = []
        while len(shown) < repeats and {*shown} <= {Shown.PASS, Shown.FAIL}:
            shown.append(bench.run(commit))
        if not {*shown} <= {Shown.PASS, Shown.FAIL}:
            skips |= {commit}
        elif shown.count(Shown.FAIL) >= fails_for_bad:
            bad = commit
        else:
            goods |= {commit}
    return answer(bench, None if skips else bad)


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

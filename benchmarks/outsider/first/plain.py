"""Worlds of chance alone, and those in which nothing broke."""

from random import Random

from benchmarks.outsider.history import History, any_history, line, size, tangle
from benchmarks.outsider.world import Ending, Run, Shown, World, by_rates, one_culprit

_NO_CHANGE = (Ending.REFUSED, Ending.NONE)


def rates(rng: Random, good: float, bad: float, history: History | None = None) -> World:
    """Two rates."""
    return _simple(rng, history or any_history(rng), good, bad)


def large_tangle(rng: Random) -> World:
    """300 commits that merge one another, no chance."""
    return _simple(rng, tangle(rng, 300), 0.0, 1.0)


def large_line(rng: Random) -> World:
    """300 commits in line."""
    return _simple(rng, line(300), 0.1, 0.7)


def at_the_edge(rng: Random) -> World:
    """The first commit of the range is to blame, or the last."""
    history = line(size(rng))
    return _simple(rng, history, 0.1, 0.8, culprit=rng.choice([0, history.end]))


def tiny(rng: Random) -> World:
    """One to four commits in line."""
    return _simple(rng, line(rng.randint(1, 4)), 0.1, 0.8)


def nothing_broke(rng: Random, choices: tuple[float, ...], history: History | None = None) -> World:
    """All commits fail with one rate."""
    rate = rng.choice(choices)
    history = history or any_history(rng)
    return World(
        history=history,
        shows=by_rates(rate, rate, ()),
        bad=frozenset(),
        answers=frozenset(),
        fine=_NO_CHANGE,
    )


def nothing_broke_boards(rng: Random) -> World:
    """Runs go to two boards in turns, unseen. One of them always fails; no commit has a fault."""
    broken = rng.randrange(2)
    history = any_history(rng)

    def shows(run: Run) -> Shown:
        return Shown.FAIL if run.now % 2 == broken else Shown.PASS

    return World(history=history, shows=shows, bad=frozenset(), answers=frozenset(), fine=_NO_CHANGE)


def nothing_broke_layout(rng: Random) -> World:
    """Of all commits, three in ten always fail by their memory layout, the bad end among them, the good one not."""
    history = any_history(rng)
    unlucky = {commit for commit in range(history.end) if rng.random() < 0.3} | {history.end}
    return World(
        history=history,
        shows=by_rates(0.0, 1.0, unlucky),
        bad=frozenset(),
        answers=frozenset(),
        fine=(*_NO_CHANGE, Ending.WITHOUT),
    )


def _simple(rng: Random, history: History, good: float, bad: float, culprit: int | None = None) -> World:
    faulty, answers = one_culprit(rng, history, culprit)
    return World(history=history, shows=by_rates(good, bad, faulty), bad=faulty, answers=answers)

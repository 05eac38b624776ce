"""Simulated histories with faults that come, go, meet and come again. `good` and `bad` are fail rates of commits."""

from random import Random

from benchmarks.outsider.history import GOOD, History, feature_branches, line, size, tangle
from benchmarks.outsider.world import World, by_rates

_BEFORE = -2
"""A commit from before the good end, where the fault was not mended yet."""


def toggled(rng: Random, good: float, bad: float, *, times: int, history: History | None = None) -> World:
    """A line that breaks and is mended so many times, and then breaks for good."""
    history = history or line(size(rng, 4 * times + 4))
    changes = sorted(rng.sample(range(len(history)), 2 * times + 1))
    faulty = frozenset(
        commit for commit in range(len(history)) if sum(change <= commit for change in changes) % 2
    )
    return _world(history, faulty, good, bad)


def revert_of_a_revert(rng: Random) -> World:
    """Broken for one to three commits, twice, and then for good."""
    history = line(size(rng, 24))
    begins = sorted(rng.sample(range(0, len(history), 6), 3))
    spells = [range(begin, begin + rng.randint(1, 3)) for begin in begins[:2]]
    faulty = frozenset(
        commit
        for commit in range(len(history))
        if commit >= begins[2] or any(commit in spell for spell in spells)
    )
    return _world(history, faulty, 0.02, 0.95)


def picked_twice(rng: Random, good: float, bad: float, *, most: int = 30) -> World:
    """Two branches from the good end, each of which holds its own copy of the culprit, are merged."""
    one, other, tail = (rng.randint(3, most) for _ in range(3))
    history = _fork_and_join(one, other, tail)
    culprits = rng.randrange(one), one + rng.randrange(other)
    return _world(history, history.below(*culprits), good, bad)


def two_anywhere(rng: Random) -> World:
    """A tangle, in which either of two commits breaks it; the one makes it fail in 6 of 10 runs, the other in 9."""
    history = tangle(rng, size(rng, 12))
    one, other = rng.sample(range(len(history)), 2)
    strong, faulty = history.below(other), history.below(one, other)

    def rate(commit: int) -> float:
        return 0.9 if commit in strong else 0.6 if commit in faulty else 0.0

    return World(
        history=history,
        shows=lambda run: run.fails(rate(run.commit)),
        bad=faulty,
        # Where one descends from the other, it still raised the rate, or it was the first.
        answers=frozenset({one, other}) if rate(one) != rate(other) else history.breaks(faulty),
    )


def needs_both(rng: Random, good: float, bad: float) -> World:
    """A graph that fails where two changes meet: most often at merges, often at several."""
    history = tangle(rng, size(rng, 16)) if rng.random() < 0.5 else feature_branches(rng, size(rng, 16))
    one, other = rng.sample(range(len(history)), 2)
    return _world(history, history.below(one) & history.below(other), good, bad)


def merge_breaks(rng: Random, good: float, bad: float) -> World:
    """Two good branches whose merge fails."""
    one, other, tail = (rng.randint(3, 40) for _ in range(3))
    history = _fork_and_join(one, other, tail)
    return _world(history, history.below(one + other), good, bad)


def unfixed_branch(rng: Random, *, most: int = 30) -> World:
    """A branch from before the good end still has the fault that was mended there. Its merge passes, for the main line
    has the mend; later the main line breaks."""
    main, branch, tail = rng.randint(3, 2 * most // 3), rng.randint(4, most), rng.randint(4, most)
    history = _fork_and_join(main, branch, tail, forked=True)
    culprit = rng.choice([*range(main), *range(main + branch + 1, len(history))])
    unfixed = frozenset({_BEFORE, *range(main, main + branch)})
    return _world(history, history.below(culprit) | unfixed, 0.0, 1.0)


def mend_lost_by_merge(rng: Random) -> World:
    """A branch from before the good end still has the fault that was mended there, and its merge drops the mend."""
    main, branch, tail = rng.randint(3, 30), rng.randint(3, 30), rng.randint(2, 30)
    history = _fork_and_join(main, branch, tail, forked=True)
    merge = main + branch
    faulty = frozenset({_BEFORE, *range(main, merge)}) | history.below(merge)
    return World(history=history, shows=by_rates(0.0, 1.0, faulty), bad=faulty, answers=frozenset({merge}))


def mended_elsewhere(rng: Random, history: History | None = None) -> World:
    """A graph: one commit breaks it, a later one mends it for what holds that, and a third one breaks it again."""
    if history is None:
        history = feature_branches(rng, size(rng, 24)) if rng.random() < 0.5 else tangle(rng, size(rng, 24))
    while True:
        first, mend, last = sorted(rng.sample(range(len(history)), 3))
        if mend in history.below(first):
            break
    faulty = (history.below(first) - history.below(mend)) | history.below(last)
    return _world(history, faulty, 0.0, 0.95)


def _world(history: History, faulty: frozenset[int], good: float, bad: float) -> World:
    """Every commit that is bad, and none of whose parents is, may be named."""
    return World(
        history=history,
        shows=by_rates(good, bad, faulty),
        bad=faulty,
        answers=history.breaks(faulty),
    )


def _fork_and_join(one: int, other: int, tail: int, *, forked: bool = False) -> History:
    """Two lines from the good end, the second one from before it where it is `forked`; their merge; and a line."""
    parents: list[tuple[int, ...]] = [
        () if place in (0, one) else (place - 1,) for place in range(one + other)
    ]
    parents.append((one - 1, one + other - 1))
    parents += [(one + other + place,) for place in range(tail)]
    return History(parents=tuple(parents), forks={one: _BEFORE if forked else GOOD})

"""Worlds made by their histories: very short and long ones, merges, and faults that meet in them."""

from random import Random

from benchmarks.outsider.history import GOOD, History, line, size
from benchmarks.outsider.world import Ending, World, by_rates, one_culprit

BEFORE = -2
"""A commit from before the good end, from which an old branch comes."""


def tiny(rng: Random) -> World:
    """One, two or three commits, a fault that shows in some runs, and a flake of old."""
    history = line(rng.randint(1, 3))
    bad, answers = one_culprit(rng, history)
    shows = by_rates(rng.uniform(0.05, 0.2), rng.uniform(0.45, 0.85), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def thousands(rng: Random) -> World:
    """Two or three thousand commits, and a fault that shows in about every other run."""
    history = line(rng.randint(2000, 3000))
    bad, answers = one_culprit(rng, history)
    shows = by_rates(rng.uniform(0, 0.02), rng.uniform(0.4, 0.8), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def octopuses(rng: Random) -> World:
    """Topics are merged many at a time; the culprit is a commit, or half the time a merge of good ones."""
    parents: list[tuple[int, ...]] = [()]
    least = size(rng, 20, 200)
    while len(parents) < least:
        base, heads = len(parents) - 1, list[int]()
        for _ in range(rng.randint(2, 7)):
            for step in range(rng.randint(1, 4)):
                before = len(parents) - 1 if step else base
                parents.append((before,))
            heads.append(len(parents) - 1)
        parents.append((base, *heads))
    history = History(parents=(*parents, (len(parents) - 1,)))
    merges = [commit for commit, several in enumerate(history.parents) if len(several) > 1]
    bad, answers = one_culprit(rng, history, rng.choice(merges) if rng.random() < 0.5 else None)
    shows = by_rates(rng.uniform(0, 0.08), rng.uniform(0.5, 1), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def _side_branch(main: int, fork: int, length: int, merge: int) -> tuple[History, range]:
    """A line of `main` commits and a branch from `fork` into the main commit `merge`; the branch's commits follow
    `fork`. Where `fork` is the good end, the branch comes from before it."""
    branch = range(fork + 1, fork + 1 + length)
    parents: list[tuple[int, ...]] = [(place - 1,) if place else () for place in range(fork + 1)]
    parents += [(place - 1,) if place > branch.start or fork >= 0 else () for place in branch]
    places = [*range(fork + 1), *range(branch.stop, main + length)]
    for at in range(fork + 1, main):
        first = [places[at - 1]] if at else []
        parents.append((*first, branch[-1]) if at == merge else tuple(first))
    return History(parents=tuple(parents), forks={branch.start: BEFORE} if fork == GOOD else {}), branch


def branch_with_its_own_flake(rng: Random) -> World:
    """A long branch is flaky for a reason of its own, which its merge ends; the culprit lies on the main line."""
    main = size(rng, 20, 150)
    fork = rng.randrange(main // 3)
    merge = rng.randrange(fork + 2, main)
    history, branch = _side_branch(main, fork, rng.randint(8, 50), merge)
    culprit = rng.choice([commit for commit in range(fork + 1, len(history)) if commit not in branch])
    bad, answers = one_culprit(rng, history, culprit)
    good, flake, fault = rng.uniform(0, 0.03), rng.uniform(0.15, 0.4), rng.uniform(0.6, 1)

    return World(
        history=history,
        shows=lambda run: run.fails(fault if run.commit in bad else flake if run.commit in branch else good),
        bad=bad,
        answers=answers,
    )


def faults_that_cancel(rng: Random) -> World:
    """Of two faults on two branches each fails alone, and both together pass, until one of them is mended."""
    main = size(rng, 20, 120)
    fork, one, merge, mends = sorted(rng.sample(range(main), 4))
    history, branch = _side_branch(main, fork, rng.randint(3, 40), merge)
    shift = len(branch)
    other = rng.choice(branch)
    with_one, with_other = history.below(one + shift), history.below(other) - history.below(mends + shift)
    bad = with_one ^ with_other
    shows = by_rates(0, rng.uniform(0.5, 1), bad)
    return World(history=history, shows=shows, bad=bad, answers=history.breaks(bad))


def merge_loses_a_fix(rng: Random) -> World:
    """A branch from before the fix that the good end has is merged, and the merge takes its side and loses the fix.

    The merge has a bad parent, and is the answer all the same: the main line had the fix up to it. To say that no
    commit in the range brought the fault is right as well.
    """
    main = size(rng, 12, 120)
    merge = rng.randrange(1, main)
    history, branch = _side_branch(main, GOOD, rng.randint(3, 30), merge)
    bad, rate = history.below(branch[0]), rng.uniform(0.6, 1)

    return World(
        history=history,
        shows=lambda run: run.fails(rate if run.commit in bad or run.commit == BEFORE else 0),
        bad=bad,
        answers=frozenset({merge + len(branch)}),
        fine=(Ending.NONE, Ending.REFUSED),
    )


def branch_from_before_the_fix(rng: Random) -> World:
    """A branch from before the fix that the good end has fails until it is merged; the culprit is elsewhere, later."""
    main = size(rng, 16, 120)
    merge = rng.randrange(1, main - 2)
    history, branch = _side_branch(main, GOOD, rng.randint(3, 30), merge)
    after, answers = one_culprit(rng, history, rng.randrange(merge + 1, main) + len(branch))
    bad, rate = after | frozenset(branch), rng.uniform(0.6, 1)

    return World(
        history=history,
        shows=lambda run: run.fails(rate if run.commit in bad or run.commit == BEFORE else 0),
        bad=bad,
        answers=answers,
    )

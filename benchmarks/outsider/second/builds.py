"""Worlds in which what is built, or whether it is, has a part in what runs show."""

from collections.abc import Collection
from random import Random

from benchmarks.outsider.history import any_history, line, size
from benchmarks.outsider.world import Ending, Run, Shown, Shows, World, one_culprit


def unless_broken(broken: Collection[int], good: float, bad: float, faulty: Collection[int]) -> Shows:
    """Chance alone, with a rate of the good and one of the bad commits, but where these commits do not build."""

    def shows(run: Run) -> Shown:
        return Shown.SKIP if run.commit in broken else run.fails(bad if run.commit in faulty else good)

    return shows


def stale_object(rng: Random) -> World:
    """Now and then a build leaves the object of the commit before in place, and so do all runs of it in a row."""
    history = any_history(rng, 8, 150)
    bad, answers = one_culprit(rng, history)
    stale, built = rng.uniform(0.05, 0.15), list[int]()

    def shows(run: Run) -> Shown:
        fresh = run.previous != run.commit and run.chance.random() >= stale
        if run.previous is None or fresh or not built:
            built[:] = [run.commit]
        return Shown.FAIL if built[0] in bad else Shown.PASS

    return World(history=history, shows=shows, bad=bad, answers=answers)


def header_without_dependency(rng: Random) -> World:
    """The culprit changes a header that the build does not follow: from one commit to another the old object stays,
    unless a commit between them touched its source. Both ends did, so that to come from there always builds."""
    history = line(size(rng, 12, 200))
    bad, answers = one_culprit(rng, history, rng.randrange(1, len(history) - 1))
    share = rng.uniform(0.1, 0.3)
    touching = {commit for commit in range(len(history)) if rng.random() < share} - answers | {0, history.end}
    built = list[int]()

    def shows(run: Run) -> Shown:
        if run.previous is None:
            built[:] = [run.commit]
        else:
            first, last = sorted((run.previous, run.commit))
            if any(first < commit <= last for commit in touching):
                built[:] = [run.commit]
        return Shown.FAIL if built[0] in bad else Shown.PASS

    return World(history=history, shows=shows, bad=bad, answers=answers)


def each_build_is_a_draw(rng: Random) -> World:
    """Each build lays memory out by chance, and it is this that shows or hides the fault: runs in a row agree."""
    history = any_history(rng, 8, 150)
    bad, answers = one_culprit(rng, history)
    good, fault, drawn = rng.uniform(0, 0.03), rng.uniform(0.4, 0.75), list[Shown]()

    def shows(run: Run) -> Shown:
        if run.previous != run.commit:
            drawn[:] = [run.fails(fault if run.commit in bad else good)]
        return drawn[0]

    return World(history=history, shows=shows, bad=bad, answers=answers)


def bad_builds_kept(rng: Random) -> World:
    """A few good commits, but no parent of the culprit, were built wrongly once, and a cache keeps those builds."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history, rng.randrange(len(history) // 3, len(history)))
    share = rng.uniform(0.03, 0.07)
    spared = {parent for culprit in answers for parent in history.parents[culprit]}
    wrong = {commit for commit in range(len(history)) if rng.random() < share}
    failing = bad | (wrong - spared)
    rate = rng.choice([1.0, 0.9])

    def shows(run: Run) -> Shown:
        return run.fails(rate if run.commit in failing else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def option_on_and_off(rng: Random) -> World:
    """A fault shows only with a build option, which is on at first, goes off, and comes on twice behind the fault.

    The commit with the fault may be named as well as those that switch the option on behind it.
    """
    history = line(size(rng, 16, 200))
    _, culprit, on, off_again, last_on = sorted(rng.sample(range(1, len(history)), 5))
    bad = frozenset(range(on, off_again)) | frozenset(range(last_on, len(history)))
    shows = unless_broken((), 0, rng.uniform(0.5, 1), bad)
    return World(history=history, shows=shows, bad=bad, answers=frozenset({culprit, on, last_on}))


def culprit_breaks_the_build(rng: Random) -> World:
    """The culprit also breaks the build, and commits behind it mend that: what builds again only shows the fault."""
    history = line(size(rng, 12, 200))
    bad, answers = one_culprit(rng, history, rng.randrange(len(history) - 1))
    (culprit,) = answers
    broken = range(culprit, min(culprit + rng.randint(1, 12), history.end))
    shows = unless_broken(broken, rng.uniform(0, 0.08), rng.uniform(0.5, 1), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def culprit_mends_the_build(rng: Random) -> World:
    """For a while nothing builds, and the commit that mends this brings the fault with it."""
    history = line(size(rng, 12, 200))
    bad, answers = one_culprit(rng, history, rng.randrange(2, len(history)))
    (culprit,) = answers
    broken = range(max(0, culprit - rng.randint(1, 20)), culprit)
    shows = unless_broken(broken, rng.uniform(0, 0.08), rng.uniform(0.5, 1), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def crashed_at_first(rng: Random) -> World:
    """A fault mostly crashed the run until an assertion was taken out; since then the same fault is a mismatch.

    The commit that took it out may be named too: with it the mismatch begins.
    """
    history = line(size(rng, 12, 200))
    culprit, quiet = sorted(rng.sample(range(1, len(history)), 2))
    bad, rate = history.below(culprit), rng.uniform(0.6, 1)

    def shows(run: Run) -> Shown:
        shown = run.fails(rate if run.commit in bad else 0)
        return Shown.CRASH if shown is Shown.FAIL and run.commit < quiet else shown

    return World(history=history, shows=shows, bad=bad, answers=frozenset({culprit, quiet}))


def merge_trains(rng: Random) -> World:
    """Commits land in trains of which only the last one builds, so that the train is all that can be found."""
    history = line(size(rng, 40, 400))
    bad, answers = one_culprit(rng, history)
    building, last = set[int](), -1
    while last < history.end:
        last = min(last + rng.randint(3, 25), history.end)
        building.add(last)
    broken = frozenset(range(len(history))) - building
    shows = unless_broken(broken, rng.uniform(0, 0.08), rng.uniform(0.5, 0.95), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def dependency_without_a_pin(rng: Random) -> World:
    """In the middle of the search a package is released with which the older commits fail as well."""
    history = line(size(rng, 16, 250))
    bad, answers = one_culprit(rng, history, rng.randrange(3, len(history)))
    (culprit,) = answers
    ready, released, rate = rng.randrange(1, culprit + 1), rng.randint(4, 25), rng.uniform(0.7, 1)

    def shows(run: Run) -> Shown:
        outdated = run.now >= released and run.commit < ready
        return run.fails(rate if outdated or run.commit in bad else 0)

    fine = (Ending.NONE, Ending.REFUSED)
    return World(history=history, shows=shows, bad=bad, answers=answers, fine=fine)


def odd_addresses(rng: Random) -> World:
    """A fault shows only where a buffer's address is odd, and about every other commit moves that, innocently.

    It shows at the culprit, so that running all commits tells which one it is. A later one that happens to move the
    buffer is no answer: the fault is in the code before it too.
    """
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history, rng.randrange(len(history) - 2))
    odd = {commit for commit in range(len(history)) if rng.random() < 0.5} | answers | {history.end}
    rate = rng.uniform(0.7, 1)

    def shows(run: Run) -> Shown:
        return run.fails(rate if run.commit in bad and run.commit in odd else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)

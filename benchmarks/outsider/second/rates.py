"""Worlds whose failures are chance alone, at rates that follow the commits in ways of their own."""

import math
from collections.abc import Sequence
from random import Random

from benchmarks.outsider.history import GOOD, any_history, line, size
from benchmarks.outsider.world import Ending, Run, Shown, Shows, World, by_rates, one_culprit

NOTHING_BROKE = (Ending.NONE, Ending.REFUSED)


def by_place(rates: Sequence[float]) -> Shows:
    """Chance alone, with the good end's rate first and each commit's behind it."""
    return lambda run: run.fails(rates[run.commit + 1])


def stairs(commits: int, first: float, steps: dict[int, float]) -> list[float]:
    """The good end's rate and each commit's on a line, where these commits change it to these."""
    rates = [first]
    for commit in range(commits):
        rates.append(steps.get(commit, rates[-1]))
    return rates


def walk(rng: Random, start: float, pace: float, low: float, high: float, places: int) -> list[float]:
    """A random walk that is kept between two bounds."""
    found = [start]
    while len(found) < places:
        found.append(min(high, max(low, found[-1] + rng.gauss(0, pace))))
    return found


def always(rng: Random) -> World:
    """One commit broke it, and every run tells the truth."""
    history = any_history(rng, 1, 300)
    bad, answers = one_culprit(rng, history)
    return World(history=history, shows=by_rates(0, 1, bad), bad=bad, answers=answers)


def plain_flake(rng: Random) -> World:
    """One commit broke it, and its fault shows in about every other run."""
    history = any_history(rng, 8, 200)
    bad, answers = one_culprit(rng, history)
    return World(history=history, shows=by_rates(0, rng.uniform(0.4, 0.8), bad), bad=bad, answers=answers)


def flaky_for_ever(rng: Random) -> World:
    """Nothing broke: the case has always been flaky, equally at all commits."""
    history = any_history(rng, 8, 200)
    rate = rng.uniform(0.08, 0.6)
    shows = by_rates(rate, rate, ())
    return World(history=history, shows=shows, bad=frozenset(), answers=frozenset(), fine=NOTHING_BROKE)


def lucky_good_end(rng: Random) -> World:
    """Nothing broke: the case has always been flaky, but the first few runs of the good end happen to pass."""
    history = any_history(rng, 8, 200)
    rate, lucky = rng.uniform(0.2, 0.4), rng.randint(2, 6)

    def shows(run: Run) -> Shown:
        return run.fails(0 if run.commit == GOOD and run.nth < lucky else rate)

    return World(history=history, shows=shows, bad=frozenset(), answers=frozenset(), fine=NOTHING_BROKE)


def flakier(rng: Random) -> World:
    """A case that always was flaky became flakier by one commit, from about 0.3 to 0.5."""
    history = any_history(rng, 8, 120)
    bad, answers = one_culprit(rng, history)
    before = rng.uniform(0.2, 0.35)
    shows = by_rates(before, before + rng.uniform(0.18, 0.28), bad)
    return World(history=history, shows=shows, bad=bad, answers=answers)


def retries_land_later(rng: Random) -> World:
    """Behind the culprit the harness begins to retry failures, so that the same fault shows more rarely."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history, rng.randrange(len(history) - 3))
    retried = history.below(rng.choice(sorted(bad - answers)))
    rate, tries = rng.uniform(0.75, 0.95), rng.randint(2, 5)

    def shows(run: Run) -> Shown:
        return run.fails((rate**tries if run.commit in retried else rate) if run.commit in bad else 0)

    return World(history=history, shows=shows, bad=bad, answers=answers)


def louder_case(rng: Random) -> World:
    """A commit makes the case try more shapes: the old flake and, wherever it landed, the new fault show more often."""
    history = any_history(rng, 12, 200)
    bad, answers = one_culprit(rng, history)
    louder = history.below(rng.randrange(len(history)))
    flake, fault, shapes = rng.uniform(0.01, 0.05), rng.uniform(0.3, 0.5), rng.randint(3, 5)

    def shows(run: Run) -> Shown:
        once = fault if run.commit in bad else flake
        return run.fails(1 - (1 - once) ** (shapes if run.commit in louder else 1))

    return World(history=history, shows=shows, bad=bad, answers=answers)


def half_mended(rng: Random) -> World:
    """A commit breaks it for every run, and a fix-up at once behind it makes that a rather rare failure."""
    history = line(size(rng, 8, 200))
    culprit = rng.randrange(len(history) - 2)
    bad, answers = one_culprit(rng, history, culprit)
    steps = {culprit: rng.uniform(0.85, 1), culprit + rng.randint(1, 2): rng.uniform(0.15, 0.35)}
    return World(history=history, shows=by_place(stairs(len(history), 0, steps)), bad=bad, answers=answers)


def old_flake_mended(rng: Random) -> World:
    """The good end is flaky, a commit mends that, and a later one brings a fault of its own."""
    history = line(size(rng, 12, 200))
    mended = rng.randrange(1, len(history) // 2)
    culprit = rng.randrange(mended + 1, len(history))
    bad, answers = one_culprit(rng, history, culprit)
    steps = {mended: 0.0, culprit: rng.uniform(0.5, 0.9)}
    rates = stairs(len(history), rng.uniform(0.15, 0.3), steps)
    return World(history=history, shows=by_place(rates), bad=bad, answers=answers)


def wandering_rates(rng: Random) -> World:
    """Each commit's rate is near its neighbour's, below 0.2 up to the culprit and above 0.6 from there."""
    history = line(size(rng, 16, 250))
    culprit = rng.randrange(len(history))
    bad, answers = one_culprit(rng, history, culprit)
    before = walk(rng, -3, 0.4, -4.5, -1.5, culprit + 1)
    behind = walk(rng, 1.5, 0.4, 0.5, 4, len(history) - culprit)
    rates = [1 / (1 + math.exp(-odds)) for odds in [*before, *behind]]
    return World(history=history, shows=by_place(rates), bad=bad, answers=answers)

"""Worlds in which each run has an error, and fails where that is above the tolerance, 1."""

from collections.abc import Sequence
from random import Random
from statistics import NormalDist

from benchmarks.outsider.history import History, line, size
from benchmarks.outsider.second.rates import by_place, walk
from benchmarks.outsider.world import Ending, Shows, World, one_culprit

NOBODY = (Ending.NONE, Ending.WITHOUT, Ending.GAVE_UP)


def by_error(errors: Sequence[float], noise: float) -> Shows:
    """Failures of runs whose errors spread by so much around these, the good end's first."""
    return by_place([1 - NormalDist(error, noise).cdf(1) for error in errors])


def nobody(history: History, shows: Shows) -> World:
    """A world in which no commit is to blame more than any other."""
    return World(history=history, shows=shows, bad=frozenset(), answers=frozenset(), fine=NOBODY)


def step_on_a_walk(rng: Random) -> World:
    """The error goes up and down a little with each commit, and one commit lifts it over the tolerance."""
    history = line(size(rng, 12, 200))
    culprit = rng.randrange(len(history))
    bad, answers = one_culprit(rng, history, culprit)
    errors = walk(rng, rng.uniform(0.55, 0.8), 0.03, 0.5, 0.88, len(history) + 1)
    lift = rng.uniform(0.45, 0.6)
    lifted = [error + (lift if place > culprit else 0) for place, error in enumerate(errors)]
    return World(history=history, shows=by_error(lifted, 0.08), bad=bad, answers=answers)


def creeping(rng: Random) -> World:
    """The error creeps over the tolerance, by as much with each of many commits, so that nobody is to blame."""
    history = line(size(rng, 60, 250))
    low, high = rng.uniform(0.6, 0.75), rng.uniform(1.25, 1.4)
    errors = [low + (high - low) * place / len(history) for place in range(len(history) + 1)]
    return nobody(history, by_error(errors, rng.uniform(0.08, 0.15)))


def on_the_edge(rng: Random) -> World:
    """The error has always wandered about the tolerance, and the ends happen to lie on either side of it."""
    history = line(size(rng, 40, 200))
    errors = walk(rng, 0.96, 0.02, 0.9, 1.1, len(history) + 1)
    while errors[-1] < 1.03:
        errors = walk(rng, 0.96, 0.02, 0.9, 1.1, len(history) + 1)
    return nobody(history, by_error(errors, 0.05))


def tightened(rng: Random) -> World:
    """A commit tightens the tolerance too far, and later ones pass or fail by errors that are like their neighbours'.

    It fails itself, so that running all commits tells which one it is. A later one whose error happens to rise again
    is no answer: as much was allowed before.
    """
    history = line(size(rng, 16, 200))
    bad, answers = one_culprit(rng, history, rng.randrange(len(history) - 2))
    (tight,) = answers
    errors = [rng.gauss(0, 1)]
    while len(errors) <= len(history):
        errors.append(0.7 * errors[-1] + rng.gauss(0, 0.7))
    failing = [place > tight and error > -0.4 for place, error in enumerate(errors)]
    failing[tight + 1] = failing[-1] = True
    return World(
        history=history, shows=by_place([float(fails) for fails in failing]), bad=bad, answers=answers
    )

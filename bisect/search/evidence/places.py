"""Whether runs in one place share its trouble: a bad board or slot fails all that runs there."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from math import exp, lgamma

from .knowledge import Observation, Outcome

_PLACES_MATTER = 0.05
_STEPS = 20


def shared_trouble(observations: Iterable[Observation]) -> float:
    """How probable it is that places matter, from 0 to 1 in steps of a twentieth.

    Only commits that ran in several places tell: either all runs of such a commit fail at one rate, or in each
    place at a rate of its own, all rates Beta(1/2, 1/2) beforehand. With a single place, or without a sign that they
    differ, it is 0: reruns are then as good as fresh runs.
    """
    fails: defaultdict[int, Counter[str]] = defaultdict(Counter)
    passes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for seen in observations:
        if seen.place is not None and seen.outcome is not Outcome.SKIP:
            (fails if seen.outcome is Outcome.BAD else passes)[seen.commit][seen.place] += 1
    odds = 0.0
    for commit in {*fails, *passes}:
        places = {*fails[commit], *passes[commit]}
        if len(places) > 1:
            apart = sum(log_one_rate(fails[commit][place], passes[commit][place]) for place in places)
            odds += apart - log_one_rate(fails[commit].total(), passes[commit].total())
    matter = 1 / (1 + exp(min(700.0, -odds)) * (1 - _PLACES_MATTER) / _PLACES_MATTER)
    return round(matter * _STEPS) / _STEPS if matter > _PLACES_MATTER * 2 else 0.0


def fresh_runs(runs: int, shared: float) -> float:
    """How many fresh runs so many reruns of one commit in one place count for.

    k / (1 + (k - 1) shared): the design effect of samples in clusters (Kish, Survey Sampling, 1965, section 5.4), with
    `shared` the correlation of two of them.
    """
    return runs / (1 + (runs - 1) * shared) if runs else 0.0


@lru_cache(maxsize=1 << 16)
def log_one_rate(fails: float, passes: float) -> float:
    """Log evidence of these counts at one unknown rate, Beta(1/2, 1/2) beforehand."""
    return lgamma(fails + 0.5) + lgamma(passes + 0.5) - lgamma(fails + passes + 1) - 2 * lgamma(0.5)

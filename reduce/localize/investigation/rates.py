"""How many runs it takes until a build that never fails can be told from one that fails as often as another."""

from __future__ import annotations

import itertools
import math

NOT_BY_CHANCE = 0.01
"""What a build that fails as often as the failing one may have for a chance to pass in all of its runs."""
RATE_THAT_SHOWS = 0.25
"""The least rate of a failure that a build which passes is run for, where its tasks do not wait for each other."""
_ALWAYS = 3
"""Runs of a build that failed in each of them after which a run of the other one tells as much."""


def chance_of_silence(*, failed: int, runs: int, passes: int) -> float:
    """The chance that a build passes `passes` times in a row though it fails as often as one that failed in `failed` of
    `runs`: over all rates that these runs leave possible, each as likely as any other before them.

    >>> round(chance_of_silence(failed=4, runs=4, passes=4), 4), chance_of_silence(failed=0, runs=0, passes=1)
    (0.0079, 0.5)
    """
    passed = runs - failed
    return math.prod((passed + turn) / (runs + 1 + turn) for turn in range(1, passes + 1))


def passes_that_tell(*, failed: int, runs: int) -> int:
    """How often a build has to pass to be told from one that failed in `failed` of `runs`, which is once or more.

    >>> passes_that_tell(failed=4, runs=4), passes_that_tell(failed=3, runs=6)
    (4, 12)
    """
    return next(
        passes
        for passes in itertools.count(1)
        if chance_of_silence(failed=failed, runs=runs, passes=passes) <= NOT_BY_CHANCE
    )


def failing_is_next(*, failed: int, runs: int, passes: int) -> bool:
    """Of two builds in turns, the failing one in `failed` of `runs`, the good one right in all its `passes`: whether
    the next run is the failing build's, until they are told apart. One that always fails needs few runs.

    >>> [failing_is_next(failed=runs, runs=runs, passes=passes) for runs, passes in ((1, 1), (1, 2), (3, 4))]
    [False, True, False]
    """
    return runs < max(passes, 1) and not failed == runs >= _ALWAYS


def told_apart(*, failed: int, runs: int, passes: int) -> bool:
    """Whether the good build would have shown that it fails as often.

    >>> told_apart(failed=3, runs=3, passes=4), told_apart(failed=3, runs=3, passes=5)
    (False, True)
    """
    return chance_of_silence(failed=failed, runs=runs, passes=passes) <= NOT_BY_CHANCE


def passes_that_show(rate: float) -> int:
    """How often a build has to pass so that a failure in this share of its runs would hardly have stayed hidden: the
    least n for which (1 - rate)^n is at most `NOT_BY_CHANCE`.

    >>> passes_that_show(0.25), passes_that_show(0.5)
    (17, 7)
    """
    return math.ceil(math.log(NOT_BY_CHANCE) / math.log1p(-rate))

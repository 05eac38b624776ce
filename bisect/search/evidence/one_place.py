"""Whether a culprit and its parents were told apart by their commits, and not by where they ran."""

from collections import Counter
from collections.abc import Sequence

from .knowledge import Outcome
from .posterior import Posterior

_MOST_TURNS = 24
"""Of each commit, to see them in one place."""


def compared_in_one_place(posterior: Posterior, culprit: int) -> bool:
    """Whether it is seen that not the place alone makes the culprit fail and its parents pass.

    For each parent: the culprit failed and it passed in one place, or each of them in two; or places are not known.
    """
    fails = _places(posterior, culprit, Outcome.BAD)
    for parent in posterior.compared_with(culprit):
        passes = _places(posterior, parent, Outcome.GOOD)
        if fails and passes and not fails & passes and min(len(fails), len(passes)) < 2:
            return False
    return True


def next_to_compare(
    posterior: Posterior, culprit: int, *, in_flight: Sequence[int], count: int
) -> list[int] | None:
    """Up to `count` of the culprit and its parents to run again, those first that ran least often; None once each has
    run 24 times and was not seen in one place with the other."""
    around = (culprit, *posterior.compared_with(culprit))
    runs = Counter(seen.commit for seen in posterior.counted if seen.outcome is not Outcome.SKIP)
    if all(runs[commit] >= _MOST_TURNS for commit in around):
        return None
    runs.update(in_flight)
    last = in_flight[-1] if in_flight else posterior.counted[-1].commit
    chosen: list[int] = []
    for _ in range(count):
        # The last one goes first: else two workers in step would each keep to one commit, and the two never be
        # compared in one place.
        commit = min(around, key=lambda commit: (runs[commit], commit != last))
        chosen.append(commit)
        runs[commit] += 1
        last = commit
    return chosen


def _places(posterior: Posterior, commit: int, outcome: Outcome) -> set[str]:
    """Where a commit had that outcome; nothing if one of these places is not known."""
    seen = {seen.place for seen in posterior.counted if (seen.commit, seen.outcome) == (commit, outcome)}
    return set() if None in seen else {place for place in seen if place is not None}

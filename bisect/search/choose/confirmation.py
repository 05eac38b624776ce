"""Reruns of the culprit and its parent, in turns, once the search has named it."""

from collections import Counter
from collections.abc import Sequence
from math import ceil, inf, log

from ..evidence.knowledge import Observation, Outcome
from ..evidence.posterior import GOOD_END, Posterior
from .decision import rerun_worth

_MOST_TURNS = 24
"""Of each commit, to see them in one place."""


def next_confirming_runs(
    posterior: Posterior,
    culprit: int,
    *,
    fresh: Sequence[Observation],
    in_flight: Sequence[int] = (),
    count: int = 1,
    confidence: float = 0.99,
) -> list[int] | None:
    """The commits to rerun next: the culprit, its parents that can be tested, or `GOOD_END` if it has none, in turns.

    None once the culprit has failed and each of the parents has passed again, they were compared in one place, and
    the culprit's probability is ten times nearer to 1 than was asked for; or once it has dropped below what was
    asked for, and the search goes on; or where more runs could tell nothing.

    `fresh` are the runs that were made to confirm, `in_flight` the commits of those that are being made. Of up
    to `count` at most as many come back as the rates ask for, so none if enough are in flight.
    """
    around = confirmed_by(posterior, culprit)
    probability = float(posterior.belief.commits[culprit])
    if probability < confidence:
        return None
    wanted = {(commit, Outcome.BAD if commit == culprit else Outcome.GOOD) for commit in around}
    seen_again = wanted <= {(seen.commit, seen.outcome) for seen in fresh}
    compared = compared_in_one_place(posterior, culprit)
    if seen_again and compared and probability >= confirmed_at(confidence):
        return None
    if not rerun_worth(posterior)[list(around)].any():
        return None
    if not compared and all(count >= _MOST_TURNS for count in _turns(around, fresh)):
        return None
    started = [*(seen.commit for seen in fresh), *in_flight]
    runs, flying = Counter(started), Counter(in_flight)
    at_once = _at_once(posterior, culprit)
    chosen: list[int] = []
    while len(chosen) < count:
        open_to = [commit for commit in around if flying[commit] < at_once]
        if not open_to:
            break
        # The last one goes first in the next turn: else two workers in step would each keep to one commit, and the
        # two never be compared in one place.
        last = started[-1:]
        commit = min(open_to, key=lambda commit: (runs[commit], [commit] != last))
        chosen.append(commit)
        started.append(commit)
        runs[commit] += 1
        flying[commit] += 1
    return chosen


def confirmed_at(confidence: float) -> float:
    """The probability at which a culprit found with `confidence` is confirmed: ten times nearer to 1."""
    return 1 - (1 - confidence) / 10


def confirmed_by(posterior: Posterior, culprit: int) -> tuple[int, ...]:
    """The commits whose reruns confirm a culprit: itself, and each parent that can be tested; else `GOOD_END`."""
    parents = [commit for commit in posterior.graph.parents[culprit] if commit not in posterior.skipped]
    return (culprit, *(parents or [GOOD_END]))


def compared_in_one_place(posterior: Posterior, culprit: int) -> bool:
    """Whether it is seen that not the place alone makes the culprit fail and its parents pass.

    For each parent: the culprit failed and it passed in one place, or each of them in two; or places are not known.
    """
    fails = _places(posterior, culprit, Outcome.BAD)
    for parent in confirmed_by(posterior, culprit)[1:]:
        passes = _places(posterior, parent, Outcome.GOOD)
        if fails and passes and not fails & passes and min(len(fails), len(passes)) < 2:
            return False
    return True


def _places(posterior: Posterior, commit: int, outcome: Outcome) -> set[str]:
    """Where a commit had that outcome; nothing if one of these places is not known."""
    seen = {seen.place for seen in posterior.observations if (seen.commit, seen.outcome) == (commit, outcome)}
    return set() if None in seen else {place for place in seen if place is not None}


def _turns(around: Sequence[int], fresh: Sequence[Observation]) -> list[int]:
    return [sum(seen.commit == commit for seen in fresh) for commit in around]


def _at_once(posterior: Posterior, culprit: int) -> int:
    """How many runs of one commit are worth making before the first of them is known."""
    good = float(posterior.belief.fail_if_good[culprit])
    bad = float(posterior.belief.fail_if_bad[culprit])
    return confirming_runs(good=good, bad=bad) if good < bad else 1


def confirming_runs(*, good: float, bad: float, confidence: float = 0.99) -> int:
    """How many runs each of culprit and parent, in turns, are expected to confirm a culprit.

    good, bad: fail rates of good and bad commits. Runs of the culprit must tell its rate from the good one,
    those of the parent its rate from the bad one, each at odds of `confidence`: n D >= log(odds), with
    D the divergence of the two rates (expected sample number of Wald, Sequential Analysis, 1947).
    Raises ValueError unless 0 <= good < bad <= 1 and 0.5 < confidence < 1.
    """
    if not 0 <= good < bad <= 1:
        raise ValueError(f"expected fail rates 0 <= good < bad <= 1, found good {good}, bad {bad}")
    if not 0.5 < confidence < 1:
        raise ValueError(f"expected a confidence between 0.5 and 1, found {confidence}")
    slowest = min(_divergence(bad, good), _divergence(good, bad))
    return max(1, ceil(log(confidence / (1 - confidence)) / slowest))


def _divergence(true: float, other: float) -> float:
    """Kullback-Leibler divergence of one run at rate `true` from one at rate `other`, in nats."""
    divergence = 0.0
    for p, q in ((true, other), (1 - true, 1 - other)):
        if p > 0:
            divergence += p * log(p / q) if q > 0 else inf
    return divergence

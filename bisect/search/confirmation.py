"""Reruns of the culprit and its parent, in turns, once the search has named it."""

from math import ceil, inf, log

from .knowledge import Outcome
from .posterior import GOOD_END, Posterior


def next_confirming_run(
    posterior: Posterior, culprit: int, *, since: int, confidence: float = 0.99
) -> int | None:
    """The commit to rerun next: the culprit, a parent of it, or `GOOD_END` for a parent on the good side.

    None once the culprit has failed and a parent has passed again, and the culprit's probability is ten times
    nearer to 1 than was asked for; or once it has dropped below what was asked for, and the search goes
    on. `since` is the number of observations at the time when the culprit was named.
    """
    fresh = posterior.observations[since:]
    parents = posterior.graph.parents[culprit] or (GOOD_END,)
    probability = float(posterior.belief.commits[culprit])
    if probability < confidence:
        return None
    seen_again = any(seen.commit == culprit and seen.outcome is Outcome.BAD for seen in fresh) and any(
        seen.commit in parents and seen.outcome is Outcome.GOOD for seen in fresh
    )
    if seen_again and probability >= 1 - (1 - confidence) / 10:
        return None
    runs = [seen.commit for seen in fresh]
    return min((culprit, *parents), key=runs.count)


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

"""How often the two ends must run to tell that they differ, and by how much."""

from collections.abc import Sequence

from .knowledge import Outcome
from .posterior import GOOD_END, Posterior

FEWEST_RUNS = 5
"""Of each end."""
_FLAKY_RUNS = 20
_MOST_RUNS = 80


def next_end(posterior: Posterior, *, in_flight: Sequence[int] = (), confidence: float = 0.99) -> int | None:
    """The end to run next, `GOOD_END` or the bad end, in turns; None once no more are needed beside those in flight.

    Each end is run 5 times; 20 times if one of them both passed and failed, since rates measured here save
    runs of every commit later; and further, to 80, until the ends differ with the confidence asked for.
    Skips do not count: the caller must stop if an end cannot be tested.
    """
    bad = posterior.graph.bad
    outcomes: dict[int, list[Outcome]] = {GOOD_END: [], bad: []}
    for seen in posterior.observations:
        if seen.commit in outcomes and seen.outcome is not Outcome.SKIP:
            outcomes[seen.commit].append(seen.outcome)
    flaky = any(len(set(seen)) > 1 for seen in outcomes.values())
    runs = min(map(len, outcomes.values()))
    fewest = _FLAKY_RUNS if flaky else FEWEST_RUNS
    if runs >= _MOST_RUNS or (runs >= fewest and ends_differ(posterior, confidence=confidence)):
        return None
    started = {end: len(seen) + in_flight.count(end) for end, seen in outcomes.items()}
    end = GOOD_END if started[GOOD_END] <= started[bad] else bad
    return end if started[end] < (fewest if runs < fewest else _MOST_RUNS) else None


def ends_differ(posterior: Posterior, *, confidence: float = 0.99) -> bool:
    """Whether some commit of the range is to blame with that confidence."""
    return float(posterior.belief.commits.sum()) >= confidence

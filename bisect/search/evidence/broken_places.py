"""Places whose outcomes are their own: a bad board or a stale slot shows the same, whatever commit runs there."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from math import inf, log

import numpy as np

from ..graph.graph import CommitGraph
from ..graph.window import Window
from ..model.explanation import explain
from ..model.groups import Groups
from ..model.rates import Rates
from .knowledge import Observation, Outcome
from .places import log_one_rate

_BROKEN = 0.01
"""That a place is broken, before its first run."""
_ALL_FAIL, _ALL_PASS = 0.5, 0.25
"""Of the broken ones: those in which each run fails, or passes. In others one rate holds for all commits."""
_AHEAD = 2
"""Places that are taken to be broken beside those that are likely to be, to see whether they are so together."""


def broken_places(
    graph: CommitGraph,
    rates: Rates,
    observations: Sequence[Observation],
    *,
    windows: Sequence[Window] = (),
    no_culprit: float,
) -> frozenset[str]:
    """The places that are more likely broken than not, found one after the other; one place at least is not.

    A place is broken if its runs are better explained by the place alone, whatever their commits, and all others by a
    culprit (or, with chance `no_culprit`, by one rate), than all of them by a culprit.
    """
    judged = [seen for seen in observations if seen.outcome is not Outcome.SKIP]
    groups = reduce(
        lambda groups, commit: groups.split(graph, commit),
        dict.fromkeys(seen.commit for seen in judged),
        Groups.start(graph),
    )

    def log_evidence(broken: Collection[str]) -> float:
        tallies = dict.fromkeys(groups.below, (0.0, 0.0))
        for seen in judged:
            if seen.place not in broken:
                fails, passes = tallies[seen.commit]
                failed = seen.outcome is Outcome.BAD
                tallies[seen.commit] = (fails + failed, passes + (not failed))
        culprit = explain(graph, groups, tallies, rates, windows=windows).evidence_of_culprit
        alike = log_one_rate(*np.sum([*tallies.values()], axis=0).tolist())
        rest = float(np.logaddexp(log(1 - no_culprit) + culprit, log(no_culprit) + alike))
        return rest + sum(
            _log_own(seen.outcome for seen in judged if seen.place == place) for place in broken
        )

    places = {seen.place for seen in judged if seen.place is not None}
    found = likeliest = frozenset[str]()
    before, most = log_evidence(found), 0.0
    # What one broken place leaves unexplained, a second one may explain.
    while len(left := places - found) > 1 and len(found) - len(likeliest) < _AHEAD:
        with_it = {place: log_evidence(found | {place}) for place in sorted(left)}
        found |= {max(with_it, key=lambda place: with_it[place])}
        log_odds = max(with_it.values()) - before + len(found) * log(_BROKEN / (1 - _BROKEN))
        if log_odds > most:
            likeliest, most = found, log_odds
    return likeliest


def _log_own(outcomes: Iterable[Outcome]) -> float:
    """Log evidence of the outcomes in a place that is broken."""
    seen = Counter(outcomes)
    fails, passes = seen[Outcome.BAD], seen[Outcome.GOOD]
    same = (0.0 if passes else _ALL_FAIL) + (0.0 if fails else _ALL_PASS)
    other = log(1 - _ALL_FAIL - _ALL_PASS) + log_one_rate(fails, passes)
    return float(np.logaddexp(log(same) if same else -inf, other))

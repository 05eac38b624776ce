"""How the outcomes of one commit hang together: by the rate of its side alone, or by something of its own.

Reruns of one commit are independent only where nothing but chance tells them apart. Memory layout, the order of a
reduction, or another failure at a single commit make an outcome the commit's own. A model says how:

    P(f fails, p passes | rate x) = (1 - q) BB(f, p; x, k) + q BB(f, p; 1/2, 2b)

with q the chance that the outcome is the commit's own, BB the beta-binomial probability of one order of runs
(x^f (1 - x)^p where k is infinite), k the concentration of the rates of a side's commits around x, and b = 0.2, so that
what is a commit's own is mostly the same in each run. However often a commit is rerun, its odds for one side are at
most about 2 / q: a contaminated likelihood (Huber, Robust Estimation of a Location Parameter, 1964).
Which model holds is inferred: its prior weight is part of the rates (`rates.py`).

A culprit, and its parents, are taken to show their own side with a chance `_TOLD` times as high to do otherwise: a
culprit that hides behind an outcome of its own could not be told by any search.
"""

from dataclasses import dataclass
from math import inf, lgamma, log

import numpy as np

from ..graph.graph import Floats

IMPOSSIBLE = -1e4
"""In place of the logarithm of 0: sums of it stay finite."""
_TOLD = 0.03
_OWN_SHAPE = 0.2


@dataclass(frozen=True, kw_only=True)
class OutcomeModel:
    """own: the chance q that a commit's outcome is its own. concentration: k, of the rates of a side's commits around
    the side's; infinite where they are equal."""

    own: float = 0.0
    concentration: float = inf

    def log_likelihood(self, rates: Floats, *, fails: float, passes: float, told: bool = False) -> Floats:
        """Of a commit's runs, at each rate of its side. told: whether it is a culprit or a parent of it."""
        own = self.own * (_TOLD if told else 1.0)
        side = _at_rates(rates, fails, passes, self.concentration)
        if not own:
            return side
        return np.logaddexp(log(1 - own) + side, log(own) + _own(fails, passes))


def _own(fails: float, passes: float) -> float:
    shape = _OWN_SHAPE
    return (
        lgamma(fails + shape)
        + lgamma(passes + shape)
        - lgamma(fails + passes + 2 * shape)
        - 2 * lgamma(shape)
        + lgamma(2 * shape)
    )


def _at_rates(rates: Floats, fails: float, passes: float, concentration: float) -> Floats:
    result = np.full(len(rates), IMPOSSIBLE)
    inner = (rates > 0) & (rates < 1)
    if concentration == inf:
        result[inner] = fails * np.log(rates[inner]) + passes * np.log1p(-rates[inner])
    else:
        result[inner] = [_beta_binomial(fails, passes, rate, concentration) for rate in rates[inner].tolist()]
    if not fails:
        result[rates == 0] = 0.0
    if not passes:
        result[rates == 1] = 0.0
    return result


def _beta_binomial(fails: float, passes: float, rate: float, concentration: float) -> float:
    bad, good = rate * concentration, (1 - rate) * concentration
    return (
        lgamma(fails + bad)
        + lgamma(passes + good)
        - lgamma(fails + passes + concentration)
        - lgamma(bad)
        - lgamma(good)
        + lgamma(concentration)
    )

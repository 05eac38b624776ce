"""What is known of the rates of failing of good and bad commits, and how the outcomes of one commit hang together.

`Rates` is the joint distribution of the two rates, and `fit` integrates both out. Reruns of one commit are independent
only where nothing but chance tells them apart. Memory layout, the order of a reduction, or another failure at a single
commit make an outcome the commit's own. An `OutcomeModel` says how:

    P(f fails, p passes | rate x) = (1 - q) BB(f, p; x, k) + q BB(f, p; 1/2, 2b)

with q the chance that the outcome is the commit's own and BB the beta-binomial probability of one order of runs (x^f (1
- x)^p where k is infinite). k is the concentration of the rates of a side's commits around x. b = 0.2, so that what is
a commit's own is mostly the same in each run. However often a commit is rerun, its odds for one side are at most about
2 / q. (A contaminated likelihood; Huber, Robust Estimation of a Location Parameter, 1964.) Which model holds is
inferred: its prior weight is part of the rates.

A culprit, and its parents, are assumed to show their own side: the chance q is `_CULPRIT_OWN_FACTOR` times as high for
them. No search could find a culprit that hides behind an outcome of its own.
"""

from dataclasses import dataclass
from math import inf, lgamma, log
from typing import NamedTuple

import numpy as np

from .graph import Floats

IMPOSSIBLE = -1e4
"""This finite number stands in place of the logarithm of 0. Sums of it stay finite."""
_CULPRIT_OWN_FACTOR = 0.03
"""A culprit's outcome, or its parent's, is its own this many times as often as another commit's. No search could find a
culprit that hides."""
_OWN_SHAPE = 0.2
"""An outcome that is a commit's own has a Beta distribution of this shape b. At 0.2 it is mostly the same in each
run."""


@dataclass(frozen=True, kw_only=True)
class OutcomeModel:
    """A model of how the outcomes of one commit hang together.

    own: the chance q that a commit's outcome is its own. concentration: k, of the rates of a side's commits around the
    side's; infinite where they are equal.
    """

    own: float = 0.0
    concentration: float = inf

    def log_likelihood(self, rates: Floats, *, fails: float, passes: float, told: bool = False) -> Floats:
        """Return the log likelihood of a commit's runs, at each rate of its side.

        told: whether it is a culprit or a parent of it.
        """
        own = self.own * (_CULPRIT_OWN_FACTOR if told else 1.0)
        side = _side_log_likelihood(rates, fails, passes, self.concentration)
        if not own:
            return side
        return np.logaddexp(log(1 - own) + side, log(own) + _own_log_likelihood(fails, passes))


def _own_log_likelihood(fails: float, passes: float) -> float:
    shape = _OWN_SHAPE
    return (
        lgamma(fails + shape)
        + lgamma(passes + shape)
        - lgamma(fails + passes + 2 * shape)
        - 2 * lgamma(shape)
        + lgamma(2 * shape)
    )


def _side_log_likelihood(rates: Floats, fails: float, passes: float, concentration: float) -> Floats:
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


_NODES = 64
"""Integrals use this number of Gauss-Chebyshev nodes. With 64, integrals over Beta(1/2, 1/2) are exact up to 127 runs
of each kind."""
_BOTH_DETERMINISTIC = 0.6
"""That good commits never fail and bad ones always do has this prior weight."""
_GOOD_NEVER_FAILS = 0.2
"""That good commits never fail, and bad ones fail at an unknown rate, has this prior weight."""
_BAD_ALWAYS_FAILS = 0.08
"""That bad commits always fail, and good ones at an unknown rate, has this prior weight. In the remaining case both
rates are unknown."""
_SELDOM_DETERMINISTIC = 0.2
"""For runs that must not decide too early, a rate is 0 or 1 with this chance. A high one trusts the first runs."""
_MODELS = (
    (OutcomeModel(), 0.9),
    (OutcomeModel(own=0.25), 0.08),
    (OutcomeModel(concentration=4.0), 0.02),
)


@dataclass(frozen=True, eq=False)
class Rates:
    """What is expected of runs: a joint distribution of a = P(fail | good) and r = P(fail | bad) on a grid.

    It also holds how outcomes of one commit hang together, as models, each with its weight. good: values of a, shape
    [j]. bad: values of r, shape [k]. weight: their joint probability, shape [j, k].
    """

    good: Floats
    bad: Floats
    weight: Floats
    models: tuple[tuple[OutcomeModel, float], ...] = _MODELS
    grows: float = 0.05
    """The chance that a fault which does not fail in every run fails the more often the later the commit
    (`hypotheses.explain_growing_faults`)."""

    @classmethod
    def unknown(cls) -> "Rates":
        """Return the rates where nothing is known but that bad commits fail more often than good ones.

        They are a mixture of three cases:

        1. Both rates are deterministic, a = 0 and r = 1.
        2. One of them is deterministic, the other Beta(1/2, 1/2).
        3. Neither is: both are Beta(1/2, 1/2) with a < r.
        """
        angles = (np.arange(_NODES) + 0.5) * np.pi / (2 * _NODES)
        nodes = np.sin(angles) ** 2
        good, bad = np.concatenate([[0.0], nodes]), np.concatenate([nodes, [1.0]])
        weight = np.zeros((_NODES + 1, _NODES + 1))
        # On the diagonal, half of the cell has r above a.
        general = 0.5 * ((nodes > nodes[:, None]) + 0.0 + (nodes >= nodes[:, None]))
        deterministic, never, always = _BOTH_DETERMINISTIC, _GOOD_NEVER_FAILS, _BAD_ALWAYS_FAILS
        weight[1:, :-1] = (1 - deterministic - never - always) * general / general.sum()
        weight[0, :-1] = never / _NODES
        weight[1:, -1] = always / _NODES
        weight[0, -1] = deterministic
        return cls(good, bad, weight)

    @classmethod
    def cautious(cls) -> "Rates":
        """Return rates as `unknown`, for runs that must not decide too early.

        Each rate is deterministic with probability 1/5 alone, else Beta(1/2, 1/2).
        """
        unknown = cls.unknown()
        slab = np.full(_NODES, (1 - _SELDOM_DETERMINISTIC) / _NODES)
        sure = np.array([_SELDOM_DETERMINISTIC])
        weight = np.outer(np.concatenate([sure, slab]), np.concatenate([slab, sure]))
        above = (unknown.bad > unknown.good[:, None]) + 0.0 + (unknown.bad >= unknown.good[:, None])
        return cls(unknown.good, unknown.bad, weight * above / (weight * above).sum())

    @classmethod
    def from_values(cls, *, good: float, bad: float) -> "Rates":
        """Return given rates. Outcomes belong to no commit, and no fault grows.

        Raises ValueError unless 0 <= good < bad <= 1.
        """
        if not 0 <= good < bad <= 1:
            raise ValueError(f"expected fail rates 0 <= good < bad <= 1, found good {good}, bad {bad}")
        return cls(np.array([good]), np.array([bad]), np.ones((1, 1)), ((OutcomeModel(), 1.0),), grows=0.0)


class Fit(NamedTuple):
    """How rates explain counts, per row: log evidence, and the mean of each rate given the counts."""

    log_evidence: Floats
    good: Floats
    bad: Floats


def fit(
    rates: Rates, *, good_fails: Floats, good_passes: Floats, bad_fails: Floats, bad_passes: Floats
) -> Fit:
    """Integrate both rates out, given runs of good and of bad commits. All arrays have shape [m].

    Where the counts are impossible, log evidence is -inf and the means are those without any run.
    """
    log_good = _log_power(rates.good, good_fails) + _log_power(1 - rates.good, good_passes)
    log_bad = _log_power(rates.bad, bad_fails) + _log_power(1 - rates.bad, bad_passes)
    # Each row is scaled by its best node, against underflow. A row without any is impossible.
    top = log_good.max(axis=1), log_bad.max(axis=1)
    possible = np.isfinite(top[0] + top[1])
    good = np.exp(np.where(possible, log_good.T - np.where(possible, top[0], 0), 0).T)
    bad = np.exp(np.where(possible, log_bad.T - np.where(possible, top[1], 0), 0).T)
    of_good = good @ rates.weight
    total = (of_good * bad).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_evidence = np.where(possible, top[0] + top[1] + np.log(total), -np.inf)
    total = np.where(total > 0, total, np.inf)
    return Fit(
        log_evidence=log_evidence,
        good=(((good * rates.good) @ rates.weight) * bad).sum(axis=1) / total,
        bad=(of_good * bad * rates.bad).sum(axis=1) / total,
    )


def _log_power(base: Floats, exponent: Floats) -> Floats:
    """Return exponent * log(base) for each pair, shape [len(exponent), len(base)], with 0^0 = 1."""
    with np.errstate(divide="ignore"):
        log_base = np.log(base)
    power = exponent[:, None] * np.where(np.isneginf(log_base), 0, log_base)
    return np.where(np.isneginf(log_base) & (exponent[:, None] > 0), -np.inf, power)

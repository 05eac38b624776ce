"""What is known of the two rates of failing: of good commits, and of bad ones."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..graph.graph import Floats

# Gauss-Chebyshev nodes: with this many, integrals over Beta(1/2, 1/2) are exact up to 127 runs of each kind.
_NODES = 64
_DETERMINISTIC = 0.2


@dataclass(frozen=True, eq=False)
class Rates:
    """A joint distribution of a = P(fail | good) and r = P(fail | bad), on a grid.

    good: values of a, shape [j]. bad: values of r, shape [k]. weight: their joint probability, shape [j, k].
    """

    good: Floats
    bad: Floats
    weight: Floats

    @classmethod
    def unknown(cls) -> "Rates":
        """Nothing is known but that bad commits fail more often than good ones.

        Each rate is deterministic (0 for good, 1 for bad commits) with probability 1/5, else Beta(1/2, 1/2).
        """
        angles = (np.arange(_NODES) + 0.5) * np.pi / (2 * _NODES)
        nodes = np.sin(angles) ** 2
        good, bad = np.concatenate([[0.0], nodes]), np.concatenate([nodes, [1.0]])
        slab = np.full(_NODES, (1 - _DETERMINISTIC) / _NODES)
        weight = np.outer(np.concatenate([[_DETERMINISTIC], slab]), np.concatenate([slab, [_DETERMINISTIC]]))
        # On the diagonal half of the cell has r above a.
        weight *= 0.5 * ((bad > good[:, None]) + 0.0 + (bad >= good[:, None]))
        return cls(good, bad, weight / weight.sum())

    @classmethod
    def known(cls, *, good: float, bad: float) -> "Rates":
        """Both rates are given. Raises ValueError unless 0 <= good < bad <= 1."""
        if not 0 <= good < bad <= 1:
            raise ValueError(f"expected fail rates 0 <= good < bad <= 1, found good {good}, bad {bad}")
        return cls(np.array([good]), np.array([bad]), np.ones((1, 1)))


class Fit(NamedTuple):
    """How rates explain counts, per row: log evidence, and the mean of each rate given the counts."""

    log_evidence: Floats
    good: Floats
    bad: Floats


def fit(
    rates: Rates, *, good_fails: Floats, good_passes: Floats, bad_fails: Floats, bad_passes: Floats
) -> Fit:
    """Integrates both rates out, given runs of good and of bad commits. All arrays have shape [m].

    Where the counts are impossible, log evidence is -inf and the means are those without any run.
    """
    log_good = _log_power(rates.good, good_fails) + _log_power(1 - rates.good, good_passes)
    log_bad = _log_power(rates.bad, bad_fails) + _log_power(1 - rates.bad, bad_passes)
    # Scaled by the best node of each, against underflow; a row without any is impossible.
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
    """exponent * log(base) for each pair, shape [len(exponent), len(base)], with 0^0 = 1."""
    with np.errstate(divide="ignore"):
        log_base = np.log(base)
    power = exponent[:, None] * np.where(np.isneginf(log_base), 0, log_base)
    return np.where(np.isneginf(log_base) & (exponent[:, None] > 0), -np.inf, power)

"""What is known of the two rates of failing: of good commits, and of bad ones."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..graph.graph import Floats
from .outcome_models import OutcomeModel

# Gauss-Chebyshev nodes: with this many, integrals over Beta(1/2, 1/2) are exact up to 127 runs of each kind.
_NODES = 64
_BOTH_DETERMINISTIC = 0.6
_GOOD_NEVER_FAILS = 0.2
_BAD_ALWAYS_FAILS = 0.08
"""The prior weights of rates 0 and 1, of a = 0 with r unknown, of r = 1 with a unknown; both are unknown else."""
_SELDOM_DETERMINISTIC = 0.2
_MODELS = (
    (OutcomeModel(), 0.9),
    (OutcomeModel(own=0.25), 0.08),
    (OutcomeModel(concentration=4.0), 0.02),
)


@dataclass(frozen=True, eq=False)
class Rates:
    """What is expected of runs: a joint distribution of a = P(fail | good) and r = P(fail | bad) on a grid, and how
    outcomes of one commit hang together, each model with its weight.

    good: values of a, shape [j]. bad: values of r, shape [k]. weight: their joint probability, shape [j, k].
    """

    good: Floats
    bad: Floats
    weight: Floats
    models: tuple[tuple[OutcomeModel, float], ...] = _MODELS
    grows: float = 0.05
    """That a fault which does not fail in every run fails the more often the later the commit (`growing.py`)."""

    @classmethod
    def unknown(cls) -> "Rates":
        """Nothing is known but that bad commits fail more often than good ones.

        A mixture: both rates deterministic, a = 0 and r = 1; one of them deterministic, the other Beta(1/2, 1/2);
        neither, both Beta(1/2, 1/2) with a < r.
        """
        angles = (np.arange(_NODES) + 0.5) * np.pi / (2 * _NODES)
        nodes = np.sin(angles) ** 2
        good, bad = np.concatenate([[0.0], nodes]), np.concatenate([nodes, [1.0]])
        weight = np.zeros((_NODES + 1, _NODES + 1))
        # On the diagonal half of the cell has r above a.
        general = 0.5 * ((nodes > nodes[:, None]) + 0.0 + (nodes >= nodes[:, None]))
        deterministic, never, always = _BOTH_DETERMINISTIC, _GOOD_NEVER_FAILS, _BAD_ALWAYS_FAILS
        weight[1:, :-1] = (1 - deterministic - never - always) * general / general.sum()
        weight[0, :-1] = never / _NODES
        weight[1:, -1] = always / _NODES
        weight[0, -1] = deterministic
        return cls(good, bad, weight)

    @classmethod
    def cautious(cls) -> "Rates":
        """As `unknown`, where runs tell what may not be told too early: each rate is deterministic with probability 1/5
        alone, else Beta(1/2, 1/2)."""
        unknown = cls.unknown()
        slab = np.full(_NODES, (1 - _SELDOM_DETERMINISTIC) / _NODES)
        sure = np.array([_SELDOM_DETERMINISTIC])
        weight = np.outer(np.concatenate([sure, slab]), np.concatenate([slab, sure]))
        above = (unknown.bad > unknown.good[:, None]) + 0.0 + (unknown.bad >= unknown.good[:, None])
        return cls(unknown.good, unknown.bad, weight * above / (weight * above).sum())

    @classmethod
    def known(cls, *, good: float, bad: float) -> "Rates":
        """Both rates are given, outcomes belong to no commit, and no fault grows. Raises ValueError unless 0 <= good <
        bad <= 1."""
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

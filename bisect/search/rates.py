"""The fail rates of good and bad commits, and how the outcomes of one commit are related.

`Rates` is the joint prior distribution of both rates, and `fit` integrates them out. Reruns of one commit need not be
independent. Memory layout, the order of a reduction, or another failure at a single commit may fix its outcome.
`OutcomeModel` describes that, and the prior weights of several models are part of `Rates`. `learn_rates` moves the
prior by what was seen of the case before, which `EarlierRuns` counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, lgamma, log
from typing import NamedTuple

import numpy as np

from .graph import Floats

IMPOSSIBLE = -1e4
"""A finite number in place of the logarithm of 0, so that sums stay finite."""
_CULPRIT_OWN_FACTOR = 0.03
"""The outcome of a culprit or of its parent is its own this many times as often as that of another commit. No search
could find a culprit whose own outcome hides it."""
_OWN_SHAPE = 0.2
"""An outcome that is a commit's own has a Beta distribution with this shape b. At 0.2 it is mostly the same in each
run."""


@dataclass(frozen=True, kw_only=True)
class OutcomeModel:
    """A model of how the outcomes of one commit are related.

    With x the fail rate of the commit's side,

        P(f fails, p passes | x) = (1 - q) BB(f, p; x, k) + q BB(f, p; 1/2, 2b)

    BB is the beta-binomial probability of one order of runs, which is x^f (1 - x)^p where k is infinite. b is
    `_OWN_SHAPE`. However often a commit is rerun, its odds for one side are at most about 2 / q. (A contaminated
    likelihood; Huber, Robust Estimation of a Location Parameter, 1964.)

    own: q, the chance that a commit's outcome is its own.
    concentration: k, of the rates of a side's commits around x; infinite where all are equal.
    """

    own: float = 0.0
    concentration: float = inf

    def log_likelihood(
        self, rates: Floats, *, fails: float, passes: float, near_culprit: bool = False
    ) -> Floats:
        """Return the log likelihood of a commit's runs, at each rate of its side.

        near_culprit: whether it is the culprit or a parent of it, which are assumed to show their own side.
        """
        own = self.own * (_CULPRIT_OWN_FACTOR if near_culprit else 1.0)
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
"""The number of Gauss-Chebyshev nodes of an integral. With 64, integrals over Beta(1/2, 1/2) are exact up to 127 runs
of each kind."""
_BOTH_DETERMINISTIC = 0.6
"""The prior weight of the case that good commits never fail and bad ones always do."""
_GOOD_NEVER_FAILS = 0.2
"""The prior weight of the case that good commits never fail, and bad ones fail at an unknown rate."""
_BAD_ALWAYS_FAILS = 0.08
"""The prior weight of the case that bad commits always fail, and good ones fail at an unknown rate. In the remaining
case both rates are unknown."""
_SELDOM_DETERMINISTIC = 0.2
"""The chance that a rate is 0 or 1 in `Rates.cautious`. A high one trusts the first runs."""
_MODELS = (
    (OutcomeModel(), 0.9),
    (OutcomeModel(own=0.25), 0.08),
    (OutcomeModel(concentration=4.0), 0.02),
)


@dataclass(frozen=True, eq=False)
class Rates:
    """A joint distribution of a = P(fail | good) and r = P(fail | bad) on a grid, with the models of outcomes.

    good: values of a, shape [j].
    bad: values of r, shape [k].
    weight: their joint probability, shape [j, k].
    models: the models of outcomes, each with its prior weight.
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
        """Return the prior that knows only that bad commits fail more often than good ones.

        It is a mixture of three cases:

        1. Both rates are deterministic, a = 0 and r = 1.
        2. One of them is deterministic, the other has the distribution Beta(1/2, 1/2).
        3. Both have the distribution Beta(1/2, 1/2) with a < r.
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
        """Return a prior as `unknown`, for decisions that a few runs must not make.

        Each rate is deterministic with probability 1/5 alone, and otherwise has the distribution Beta(1/2, 1/2).
        """
        unknown = cls.unknown()
        slab = np.full(_NODES, (1 - _SELDOM_DETERMINISTIC) / _NODES)
        sure = np.array([_SELDOM_DETERMINISTIC])
        weight = np.outer(np.concatenate([sure, slab]), np.concatenate([slab, sure]))
        above = (unknown.bad > unknown.good[:, None]) + 0.0 + (unknown.bad >= unknown.good[:, None])
        return cls(unknown.good, unknown.bad, weight * above / (weight * above).sum())

    @classmethod
    def from_values(cls, *, good: float, bad: float) -> "Rates":
        """Return known rates. Outcomes belong to no commit, and no fault grows.

        Raises `ValueError` unless 0 <= good < bad <= 1.
        """
        if not 0 <= good < bad <= 1:
            raise ValueError(f"expected fail rates 0 <= good < bad <= 1, found good {good}, bad {bad}")
        return cls(np.array([good]), np.array([bad]), np.ones((1, 1)), ((OutcomeModel(), 1.0),), grows=0.0)


class Fit(NamedTuple):
    """How well rates explain counts: the log evidence of each row, and the mean of each rate given its counts."""

    log_evidence: Floats
    good: Floats
    bad: Floats


def fit(
    rates: Rates, *, good_fails: Floats, good_passes: Floats, bad_fails: Floats, bad_passes: Floats
) -> Fit:
    """Integrate both rates out, given runs of good and of bad commits. All arrays have shape [m].

    A row of impossible counts has log evidence -inf, and its means have no meaning.
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


@dataclass(frozen=True, kw_only=True)
class RunTally:
    """A number of commits that each had so many failures and passes."""

    failures: int
    passes: int
    commits: int


@dataclass(frozen=True, kw_only=True)
class FlakyShare:
    """The number of flaky cases, or of flaky faults, among all that were seen.

    A case is flaky if it failed at a presumably good commit. A fault is flaky if it passed at a presumably bad one.
    """

    flaky: int = 0
    all: int = 0


@dataclass(frozen=True, kw_only=True)
class EarlierRuns:
    """The runs and faults that the store has of a case on its platform, and of the other cases of its stack."""

    good: tuple[RunTally, ...] = ()
    """The runs of the case at presumably good commits."""
    faults: FlakyShare = FlakyShare()
    """The earlier faults of the case."""
    other_cases: FlakyShare = FlakyShare()
    other_faults: FlakyShare = FlakyShare()


_FLOOR = 0.05
"""The learned rates keep this share of the shipped ones, so that no rate is excluded."""
_PRIOR_STRENGTH = 4.0
"""The previous level counts as this many cases or faults, so that a few measured ones do not outweigh it."""
_FITTING_ROUNDS = 20
"""The rows and columns of the rates are scaled in turn this many times. Fewer rounds leave the shares inexact."""


def learn_rates(shipped: Rates, earlier: EarlierRuns) -> Rates:
    """Return the rates that a search begins from. There are three levels, each the prior of the next.

    1. The shipped rates.
    2. Other cases of the stack. They show how often a case, or a fault, is flaky at all.
    3. Earlier runs of the case itself. Presumably good commits show the rate of good commits, and whether outcomes
       belong to commits (`OutcomeModel`). Earlier faults show only how often a fault always
       fails, because another fault may have another rate.

    >>> passed = EarlierRuns(good=(RunTally(failures=0, passes=1, commits=400),))
    >>> before, after = Rates.unknown(), learn_rates(Rates.unknown(), passed)
    >>> bool(after.weight[0].sum() > before.weight[0].sum()), bool(after.weight[before.weight > 0].all())
    (True, True)
    """
    learned = _fit_shares(shipped, good=[earlier.other_cases], bad=[earlier.other_faults, earlier.faults])
    learned = _add_good_commits(learned, earlier.good)
    models = tuple(
        (model, (1 - _FLOOR) * weight + _FLOOR * before)
        for (model, weight), (_, before) in zip(learned.models, shipped.models, strict=True)
    )
    return replace(shipped, weight=(1 - _FLOOR) * learned.weight + _FLOOR * shipped.weight, models=models)


def _fit_shares(rates: Rates, *, good: Iterable[FlakyShare], bad: Iterable[FlakyShare]) -> Rates:
    """Return the rates with learned chances that good commits never fail and that bad ones always do.

    The other weights stay in proportion.
    """
    never = _posterior_share(float(rates.weight[0].sum()), good)
    always = _posterior_share(float(rates.weight[:, -1].sum()), bad)
    weight = rates.weight
    for _ in range(_FITTING_ROUNDS):
        weight = _scale_row(weight.T, -1, always).T
        weight = _scale_row(weight, 0, never)
    return replace(rates, weight=weight)


def _posterior_share(share: float, levels: Iterable[FlakyShare]) -> float:
    """Return the share of cases that are not flaky, after each level was seen: the mean of a Beta posterior."""
    for level in levels:
        share = (_PRIOR_STRENGTH * share + level.all - level.flaky) / (_PRIOR_STRENGTH + level.all)
    return share


def _scale_row(weight: Floats, row: int, share: float) -> Floats:
    """Return the weights with one row scaled to the sum `share`, and the other rows to the sum `1 - share`."""
    others = np.ones(len(weight), dtype=np.bool_)
    others[row] = False
    scaled = weight.copy()
    scaled[row] *= share / weight[row].sum()
    scaled[others] *= (1 - share) / weight[others].sum()
    return scaled


def _add_good_commits(rates: Rates, good: Iterable[RunTally]) -> Rates:
    """Return the rates after the runs of presumably good commits."""
    models = [model for model, _ in rates.models]
    log_likelihoods = np.zeros((len(models), len(rates.good)))
    for tally in good:
        fails, passes = float(tally.failures), float(tally.passes)
        for row, model in zip(log_likelihoods, models, strict=True):
            row += tally.commits * model.log_likelihood(rates.good, fails=fails, passes=passes)
    prior = np.array([weight for _, weight in rates.models])
    joint = prior[:, None] * np.exp(log_likelihoods - log_likelihoods.max())
    weight = joint.sum(axis=0)[:, None] * rates.weight
    posterior = joint @ rates.weight.sum(axis=1)
    posterior /= posterior.sum()
    return replace(
        rates,
        weight=weight / weight.sum(),
        models=tuple(zip(models, posterior.tolist(), strict=True)),
    )

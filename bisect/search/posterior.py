"""How probable it is that each commit, none, or the environment is to blame, given runs that may be flaky."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma, log
from typing import NamedTuple

import numpy as np

from .graph import CommitGraph, Floats, Integers, Mask
from .knowledge import Observation, Outcome
from .rates import Rates, fit

GOOD_END = -1
"""The commit number of the good end, in observations."""

_NO_CULPRIT = 0.2
_ENVIRONMENT = 0.02
# Reruns in one place share its trouble: k of them tell as much as k / (1 + (k - 1) * this) fresh runs
# (the design effect of cluster samples; Kish, Survey Sampling, 1965, section 5.4).
_SHARED = 0.2


@dataclass(frozen=True)
class Belief:
    """Probabilities of the hypotheses, and the chance that a further run fails under each.

    commits[c] is the probability that c is to blame; then a run fails with chance fail_if_bad[c] at c and
    its descendants, with fail_if_good[c] elsewhere. Arrays have shape [n]; all probabilities sum to 1.
    """

    commits: Floats
    fail_if_bad: Floats
    fail_if_good: Floats
    no_culprit: float
    fail_if_no_culprit: float
    environment: float
    fail_if_environment: float


class _Run(NamedTuple):
    """A run that passed or failed, and how many fresh runs it counts for."""

    commit: int
    failed: bool
    weight: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """The state of a search under noise. Made by `start` and `observe`.

    The hypotheses are: commit c broke the case, so that c and its descendants fail at rate r, all others at
    rate a < r; no commit of the range did, and all fail at one rate; some commit did, but at some moment the
    environment moved, and since then all fail at one rate. Rates are integrated out. A skip says nothing
    of the culprit. Observations must come in the order of the runs, and those of the two ends interleaved: else
    a moved environment cannot be told from a culprit.

    weights: how likely each commit is to blame beforehand, in any unit; shape [n]; None if equally.
    observations: all, in order.
    """

    graph: CommitGraph
    rates: Rates
    weights: Floats | None
    observations: tuple[Observation, ...]
    _runs: tuple[_Run, ...]
    _below: dict[int, Mask]

    @classmethod
    def start(
        cls,
        graph: CommitGraph,
        rates: Rates,
        *,
        weights: Floats | None = None,
        observations: Iterable[Observation] = (),
    ) -> "Posterior":
        """The state after `observations`; `weights` are the prior weights of the commits.

        Raises ValueError if a weight is not positive: a prior may cost runs, never the truth.
        """
        if weights is not None and (weights.shape != (len(graph),) or not (weights > 0).all()):
            raise ValueError(f"expected {len(graph)} positive prior weights, one a commit, found {weights}")
        posterior = cls(graph, rates, weights, (), (), {})
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    def observe(self, observation: Observation) -> "Posterior":
        """The state after one more run, of a commit of the graph or of `GOOD_END`."""
        observations = (*self.observations, observation)
        if observation.outcome is Outcome.SKIP:
            return replace(self, observations=observations)
        commit = observation.commit
        below = self._below
        if commit not in below:
            none = np.zeros(len(self.graph), dtype=np.bool_)
            below = below | {commit: none if commit == GOOD_END else self.graph.ancestors(commit)}
        run = _Run(commit, observation.outcome is Outcome.BAD, self._weight(observation))
        return replace(self, observations=observations, _runs=(*self._runs, run), _below=below)

    def _weight(self, observation: Observation) -> float:
        """What one more run in the same place adds to the fresh runs that they count for together."""
        if observation.place is None:
            return 1.0
        before = sum(
            (other.commit, other.place) == (observation.commit, observation.place)
            for other in self.observations
            if other.outcome is not Outcome.SKIP
        )
        return _effective(before + 1) - _effective(before)

    @cached_property
    def skipped(self) -> frozenset[int]:
        """The commits that were never tested because they could not be."""
        tested = {seen.commit for seen in self.observations if seen.outcome is not Outcome.SKIP}
        return frozenset(seen.commit for seen in self.observations) - tested

    @cached_property
    def belief(self) -> Belief:
        """What the runs so far make of the prior."""
        of_commit, members = self._alike
        weights = np.ones(len(self.graph)) if self.weights is None else self.weights
        prior = np.bincount(of_commit, weights / weights.sum())

        # Row t of each table is after the first t runs.
        failed, weight = np.array([(run.failed, run.weight) for run in self._runs]).reshape(-1, 2).T
        fails, passes = _cumulated(failed * weight), _cumulated((1 - failed) * weight)
        bad_fails, bad_passes = (
            _cumulated(members * (failed * weight)),
            _cumulated(members * ((1 - failed) * weight)),
        )
        fitted = fit(
            self.rates,
            good_fails=np.maximum(fails - bad_fails, 0).ravel(),
            good_passes=np.maximum(passes - bad_passes, 0).ravel(),
            bad_fails=bad_fails.ravel(),
            bad_passes=bad_passes.ravel(),
        )
        log_groups = np.log(prior)[:, None] + fitted.log_evidence.reshape(bad_fails.shape)
        moved = _log_sum(log_groups, axis=0) + _log_one_rate(fails[-1] - fails, passes[-1] - passes)
        logs = np.concatenate(
            [
                log(1 - _NO_CULPRIT - _ENVIRONMENT) + log_groups[:, -1],
                [log(_NO_CULPRIT) + _log_one_rate(fails[-1:], passes[-1:])[0]],
                log(_ENVIRONMENT) - log(max(1, len(moved) - 1)) + moved[:-1],
            ]
        )
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        groups, no_culprit, moments = np.split(mass, [len(prior), len(prior) + 1])
        rates_since = _mean_rate(fails[-1] - fails[:-1], passes[-1] - passes[:-1])
        return Belief(
            commits=(groups / prior)[of_commit] * weights / weights.sum(),
            fail_if_bad=fitted.bad.reshape(bad_fails.shape)[of_commit, -1],
            fail_if_good=fitted.good.reshape(bad_fails.shape)[of_commit, -1],
            no_culprit=float(no_culprit[0]),
            fail_if_no_culprit=float(_mean_rate(fails[-1], passes[-1])),
            environment=float(moments.sum()),
            fail_if_environment=float(moments @ rates_since / moments.sum()) if moments.any() else 0.5,
        )

    @property
    def _alike(self) -> tuple[Integers, Floats]:
        """Groups the commits that the runs treat alike.

        Returns the group of each commit, shape [n], and for each group which runs are of bad commits if one
        of the group is to blame, shape [groups, runs].
        """
        # Random labels: two groups get the same sum with a probability below 1e-9.
        labels = np.random.default_rng(0).integers(1, 1 << 52, len(self._below))
        sums = np.zeros(len(self.graph), dtype=np.int64)
        for label, below in zip(labels, self._below.values(), strict=True):
            sums += label * below
        _, representatives, of_commit = np.unique(sums, return_index=True, return_inverse=True)
        members = [self._below[run.commit][representatives] for run in self._runs]
        return of_commit, np.array(members, dtype=np.float64).reshape(-1, len(representatives)).T


def _cumulated(weights: Floats) -> Floats:
    """Sums along the last axis, with the sum of nothing in front."""
    return np.concatenate([np.zeros((*weights.shape[:-1], 1)), np.cumsum(weights, axis=-1)], axis=-1)


def _log_sum(logs: Floats, *, axis: int) -> Floats:
    top = logs.max(axis=axis)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(logs - top).sum(axis=axis))


def _effective(runs: int) -> float:
    return runs / (1 + (runs - 1) * _SHARED) if runs else 0.0


def _log_one_rate(fails: Floats, passes: Floats) -> Floats:
    """Log evidence of these counts at one unknown rate, Beta(1/2, 1/2) beforehand."""
    return np.array(
        [
            lgamma(f + 0.5) + lgamma(p + 0.5) - lgamma(f + p + 1) - 2 * lgamma(0.5)
            for f, p in zip(fails, passes, strict=True)
        ]
    )


def _mean_rate(fails: Floats, passes: Floats) -> Floats:
    return (fails + 0.5) / (fails + passes + 1)

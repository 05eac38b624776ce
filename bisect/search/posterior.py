"""How probable it is that each commit, none, or the environment is to blame, given runs that may be flaky."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma, log

import numpy as np

from .graph import CommitGraph, Floats
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


@dataclass(frozen=True, eq=False)
class Posterior:
    """The state of a search under noise. Made by `start` and `observe`.

    The hypotheses are: commit c broke the case, so that c and its descendants fail at rate r, all others at
    rate a < r; no commit of the range did, and all fail at one rate; the environment moved at
    some moment, and only the time of a run matters. Rates are integrated out. A skip says nothing of the
    culprit. Observations must come in the order of the runs, and those of the two ends interleaved: else the
    environment cannot be told from a culprit.

    weights: how likely each commit is to blame beforehand, in any unit; shape [n]; None if equally.
    bad_fails, bad_passes: the runs that were of bad commits if c is to blame; shape [n].
    runs: the passes and fails in order: whether it failed, and how many fresh runs it counts for.
    observations: all, in order.
    """

    graph: CommitGraph
    rates: Rates
    weights: Floats | None
    bad_fails: Floats
    bad_passes: Floats
    runs: tuple[tuple[bool, float], ...]
    observations: tuple[Observation, ...]

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
        zeros = np.zeros(len(graph))
        posterior = cls(graph, rates, weights, zeros, zeros, (), ())
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    def observe(self, observation: Observation) -> "Posterior":
        """The state after one more run, of a commit of the graph or of `GOOD_END`."""
        observations = (*self.observations, observation)
        if observation.outcome is Outcome.SKIP:
            return replace(self, observations=observations)
        failed = observation.outcome is Outcome.BAD
        weight = self._weight(observation)
        bad_fails, bad_passes = self.bad_fails, self.bad_passes
        if observation.commit != GOOD_END:
            counted = weight * self.graph.ancestors(observation.commit)
            bad_fails, bad_passes = (
                (bad_fails + counted, bad_passes) if failed else (bad_fails, bad_passes + counted)
            )
        return replace(
            self,
            bad_fails=bad_fails,
            bad_passes=bad_passes,
            runs=(*self.runs, (failed, weight)),
            observations=observations,
        )

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
        fails = sum(weight for failed, weight in self.runs if failed)
        passes = sum(weight for failed, weight in self.runs if not failed)
        # Hypotheses that give the same counts are fitted once; there are few, as few commits have runs.
        counts, of_commit = np.unique(self.bad_fails + 1j * self.bad_passes, return_inverse=True)
        fitted = fit(
            self.rates,
            good_fails=np.maximum(fails - counts.real, 0),
            good_passes=np.maximum(passes - counts.imag, 0),
            bad_fails=counts.real,
            bad_passes=counts.imag,
        )
        no_culprit = _log_one_rate(fails, passes)
        environment, fail_if_environment = self._environment()
        weights = np.ones(len(self.graph)) if self.weights is None else self.weights
        prior = (1 - _NO_CULPRIT - _ENVIRONMENT) * weights / weights.sum()
        log_commits = np.log(prior) + fitted.log_evidence[of_commit]
        log_others = np.array([log(_NO_CULPRIT) + no_culprit, log(_ENVIRONMENT) + environment])
        top = max(float(log_commits.max()), float(log_others.max()))
        commits, others = np.exp(log_commits - top), np.exp(log_others - top)
        total = commits.sum() + others.sum()
        return Belief(
            commits=commits / total,
            fail_if_bad=fitted.bad[of_commit],
            fail_if_good=fitted.good[of_commit],
            no_culprit=float(others[0] / total),
            fail_if_no_culprit=_mean_rate(fails, passes),
            environment=float(others[1] / total),
            fail_if_environment=fail_if_environment,
        )

    def _environment(self) -> tuple[float, float]:
        """Log evidence of one rate before some moment between two runs and another after; the rate at present."""
        if len(self.runs) < 2:
            return 0.0, _mean_rate(0, 0)
        failed, weight = np.array(self.runs, dtype=np.float64).T
        fails, passes = np.cumsum(failed * weight), np.cumsum((1 - failed) * weight)
        splits = [(f, p, fails[-1] - f, passes[-1] - p) for f, p in zip(fails[:-1], passes[:-1], strict=True)]
        logs = np.array(
            [_log_one_rate(f, p) + _log_one_rate(later_f, later_p) for f, p, later_f, later_p in splits]
        )
        rates = [_mean_rate(later_f, later_p) for _, _, later_f, later_p in splits]
        weights = np.exp(logs - logs.max())
        return float(logs.max() + log(weights.mean())), float(np.average(rates, weights=weights))


def _effective(runs: int) -> float:
    return runs / (1 + (runs - 1) * _SHARED) if runs else 0.0


def _log_one_rate(fails: float, passes: float) -> float:
    """Log evidence of these counts at one unknown rate, Beta(1/2, 1/2) beforehand."""
    return lgamma(fails + 0.5) + lgamma(passes + 0.5) - lgamma(fails + passes + 1) - 2 * lgamma(0.5)


def _mean_rate(fails: float, passes: float) -> float:
    return (fails + 0.5) / (fails + passes + 1)

"""How probable it is that each commit, none, or the environment is to blame, given runs that may be flaky."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma, log
from typing import NamedTuple

import numpy as np

from .graph import CommitGraph, Floats, Integers, Mask
from .knowledge import Observation, Outcome
from .rates import Fit, Rates, fit

GOOD_END = -1
"""The commit number of the good end, in observations."""

# What is expected before the first run. At Google four ranges in ten had no culprit (Henderson et al., Flake Aware
# Culprit Finding, ICST 2023); here both ends were seen to differ once before anyone asks.
_NO_CULPRIT = 0.2
_ENVIRONMENT = 0.01
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


class _Groups(NamedTuple):
    """The commits in groups that the runs cannot tell apart: each tested commit has all of a group below or none.

    below: for each tested commit, which commits are its ancestors; shape [n].
    of_commit: the group of each commit; shape [n].
    representatives, prior: for each group one of its commits, and the probability of all; shape [groups].
    """

    below: dict[int, Mask]
    of_commit: Integers
    representatives: Integers
    prior: Floats

    @classmethod
    def start(cls, graph: CommitGraph) -> "_Groups":
        """One group."""
        none = np.zeros(len(graph), dtype=np.int64)
        return cls({}, none, np.zeros(1, dtype=np.int64), np.ones(1))

    def split(self, graph: CommitGraph, weights: Floats | None, commit: int) -> "_Groups":
        """Splits each group by whether it is below `commit`."""
        below = np.zeros(len(graph), dtype=np.bool_) if commit == GOOD_END else graph.ancestors(commit)
        _, representatives, of_commit = np.unique(
            2 * self.of_commit + below, return_index=True, return_inverse=True
        )
        prior = np.bincount(of_commit, weights=_prior(graph, weights)).astype(np.float64)
        return _Groups(self.below | {commit: below}, of_commit, representatives, prior)


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
    _groups: _Groups
    _evidence_before: tuple[float, ...]

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
        posterior = cls(graph, rates, weights, (), (), _Groups.start(graph), ())
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    def observe(self, observation: Observation) -> "Posterior":
        """The state after one more run, of a commit of the graph or of `GOOD_END`."""
        observations = (*self.observations, observation)
        if observation.outcome is Outcome.SKIP:
            return replace(self, observations=observations)
        failed = observation.outcome is Outcome.BAD
        groups = self._groups
        if observation.commit not in groups.below:
            groups = groups.split(self.graph, self.weights, observation.commit)
        return replace(
            self,
            observations=observations,
            _runs=(*self._runs, _Run(observation.commit, failed, self._weight(observation))),
            _groups=groups,
            _evidence_before=(*self._evidence_before, self._evidence_of_culprit),
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
        """The commits of the graph that were never tested because they could not be."""
        tested = {seen.commit for seen in self.observations if seen.outcome is not Outcome.SKIP}
        return frozenset(seen.commit for seen in self.observations) - tested - {GOOD_END}

    @cached_property
    def belief(self) -> Belief:
        """What the runs so far make of the prior."""
        groups, fitted = self._groups, self._fitted
        fails, passes = self._since
        moments = np.array(self._evidence_before) + _log_one_rate(fails[:-1], passes[:-1])
        logs = np.concatenate(
            [
                log(1 - _NO_CULPRIT - _ENVIRONMENT) + np.log(groups.prior) + fitted.log_evidence,
                log(_NO_CULPRIT) + _log_one_rate(fails[:1], passes[:1]),
                # Before the first run the environment can move unseen: this is the prior then.
                log(_ENVIRONMENT) + (moments - log(len(moments)) if len(moments) else np.zeros(1)),
            ]
        )
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        commits, no_culprit, moved = np.split(mass, [len(groups.prior), len(groups.prior) + 1])
        since = _mean_rate(fails, passes)[: len(moved)]
        return Belief(
            commits=(commits / groups.prior)[groups.of_commit] * _prior(self.graph, self.weights),
            fail_if_bad=fitted.bad[groups.of_commit],
            fail_if_good=fitted.good[groups.of_commit],
            no_culprit=float(no_culprit[0]),
            fail_if_no_culprit=float(since[0]),
            environment=float(moved.sum()),
            fail_if_environment=float(moved @ since / moved.sum()) if moved.any() else 0.5,
        )

    @cached_property
    def _since(self) -> tuple[Floats, Floats]:
        """Fails and passes from each run on, and, last, of no run."""
        fails = [run.weight * run.failed for run in self._runs]
        passes = [run.weight * (not run.failed) for run in self._runs]
        return np.cumsum([0.0, *fails[::-1]])[::-1], np.cumsum([0.0, *passes[::-1]])[::-1]

    @cached_property
    def _fitted(self) -> Fit:
        """The rates, for each group of commits, if one of it is to blame."""
        bad_fails, bad_passes = np.zeros(len(self._groups.prior)), np.zeros(len(self._groups.prior))
        for run in self._runs:
            is_bad = self._groups.below[run.commit][self._groups.representatives]
            (bad_fails if run.failed else bad_passes)[is_bad] += run.weight
        fails, passes = self._since
        return fit(
            self.rates,
            good_fails=np.maximum(fails[0] - bad_fails, 0),
            good_passes=np.maximum(passes[0] - bad_passes, 0),
            bad_fails=bad_fails,
            bad_passes=bad_passes,
        )

    @property
    def _evidence_of_culprit(self) -> float:
        """Log evidence of some commit being to blame, whichever."""
        return _log_sum(np.log(self._groups.prior) + self._fitted.log_evidence)


def _prior(graph: CommitGraph, weights: Floats | None) -> Floats:
    return np.full(len(graph), 1 / len(graph)) if weights is None else weights / weights.sum()


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + log(np.exp(logs - top).sum()) if np.isfinite(top) else top


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

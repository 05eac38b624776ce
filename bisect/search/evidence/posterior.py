"""How probable it is that each commit, none, or the environment is to blame, given runs that may be flaky."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import NamedTuple

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask
from .blamed_file import BlamedFile
from .knowledge import Observation, Outcome
from .places import fresh_runs, log_one_rate, shared_trouble
from .rates import Fit, Rates, fit

GOOD_END = -1
"""The commit number of the good end, in observations."""

# What is expected before the first run. At Google four ranges in ten had no culprit (Henderson et al., Flake Aware
# Culprit Finding, ICST 2023); here both ends were seen to differ once before anyone asks.
_NO_CULPRIT = 0.2
_ENVIRONMENT = 0.01


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


class _Groups(NamedTuple):
    """The commits in groups that the runs cannot tell apart: each tested commit has all of a group below or none.

    below: for each tested commit, which commits are its ancestors; shape [n].
    of_commit: the group of each commit; shape [n].
    representatives, prior: for each group one of its commits, and the probability of all; shape [groups].
    fails, passes: for each group the runs of tested commits that have it below; shape [groups].
    """

    below: dict[int, Mask]
    of_commit: Integers
    representatives: Integers
    prior: Floats
    fails: Floats
    passes: Floats

    @classmethod
    def start(cls, graph: CommitGraph) -> "_Groups":
        """One group."""
        none = np.zeros(len(graph), dtype=np.int64)
        return cls({}, none, np.zeros(1, dtype=np.int64), np.ones(1), np.zeros(1), np.zeros(1))

    def split(self, graph: CommitGraph, commit: int) -> "_Groups":
        """Splits each group by whether it is below `commit`."""
        below = np.zeros(len(graph), dtype=np.bool_) if commit == GOOD_END else graph.ancestors(commit)
        _, representatives, of_commit = np.unique(
            2 * self.of_commit + below, return_index=True, return_inverse=True
        )
        prior = np.bincount(of_commit) / len(graph)
        before = self.of_commit[representatives]
        return _Groups(
            below=self.below | {commit: below},
            of_commit=of_commit,
            representatives=representatives,
            prior=prior,
            fails=self.fails[before],
            passes=self.passes[before],
        )

    def with_run(self, commit: int, *, failed: bool, weight: float) -> "_Groups":
        """With one more run of a tested commit, which counts for `weight` fresh ones."""
        counted = weight * self.below[commit][self.representatives]
        return (
            self._replace(fails=self.fails + counted)
            if failed
            else self._replace(passes=self.passes + counted)
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """The state of a search under noise. Made by `start` and `observe`.

    The hypotheses are: commit c broke the case, so that c and its descendants fail at rate r, all others at
    rate a < r; no commit of the range did, and all fail at one rate; some commit did, but at some moment the
    environment moved, and since then all fail at one rate. Rates are integrated out. A skip says nothing
    of the culprit. Once places are seen to matter, reruns of a commit in one place count for less than fresh ones
    (`places.shared_trouble`). Observations must come in the order of the runs, and those of the two ends
    interleaved: else a moved environment cannot be told from a culprit.

    weights: how likely each commit is thought to be to blame beforehand, in any unit; shape [n]; None if equally.
    They guide what is run (`guess`) and have no say in what is claimed (`belief`): wrong ones cost runs alone.
    observations: all, in order.
    shared: how much reruns in one place share, from 0 to 1.
    """

    graph: CommitGraph
    rates: Rates
    weights: Floats | None
    observations: tuple[Observation, ...]
    shared: float
    _groups: _Groups
    _fails: tuple[float, ...]
    _passes: tuple[float, ...]
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

        Raises ValueError if a weight is not positive: no commit may be left out.
        """
        if weights is not None and (weights.shape != (len(graph),) or not (weights > 0).all()):
            raise ValueError(f"expected {len(graph)} positive prior weights, one a commit, found {weights}")
        posterior = cls._before(graph, rates, weights, shared=0.0)
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    @classmethod
    def _before(
        cls, graph: CommitGraph, rates: Rates, weights: Floats | None, *, shared: float
    ) -> "Posterior":
        """The state before any run."""
        return cls(graph, rates, weights, (), shared, _Groups.start(graph), (), (), ())

    def observe(self, observation: Observation) -> "Posterior":
        """The state after one more run, of a commit of the graph or of `GOOD_END`."""
        observations = (*self.observations, observation)
        shared = shared_trouble(observations)
        if shared == self.shared:
            return self._count(observation)
        posterior = self._before(self.graph, self.rates, self.weights, shared=shared)
        for seen in observations:
            posterior = posterior._count(seen)
        return posterior

    def _count(self, observation: Observation) -> "Posterior":
        observations = (*self.observations, observation)
        if observation.outcome is Outcome.SKIP:
            return replace(self, observations=observations)
        failed = observation.outcome is Outcome.BAD
        weight = self.weight_of_rerun(observation.commit, observation.place)
        groups = self._groups
        if observation.commit not in groups.below:
            groups = groups.split(self.graph, observation.commit)
        return replace(
            self,
            observations=observations,
            _groups=groups.with_run(observation.commit, failed=failed, weight=weight),
            _fails=(*self._fails, weight if failed else 0.0),
            _passes=(*self._passes, 0.0 if failed else weight),
            _evidence_before=(*self._evidence_before, self._evidence_of_culprit),
        )

    def weight_of_rerun(self, commit: int, place: str | None) -> float:
        """How many fresh runs one more run of a commit in a place counts for."""
        if place is None or not self.shared:
            return 1.0
        before = sum(
            (other.commit, other.place) == (commit, place)
            for other in self.observations
            if other.outcome is not Outcome.SKIP
        )
        return fresh_runs(before + 1, self.shared) - fresh_runs(before, self.shared)

    @cached_property
    def skipped(self) -> frozenset[int]:
        """The commits of the graph that were never tested because they could not be."""
        tested = {seen.commit for seen in self.observations if seen.outcome is not Outcome.SKIP}
        return frozenset(seen.commit for seen in self.observations) - tested - {GOOD_END}

    @cached_property
    def blamed(self) -> dict[int, tuple[BlamedFile, ...]]:
        """The files that the errors of skipped commits name."""
        return {seen.commit: seen.blamed for seen in self.observations if seen.blamed}

    @cached_property
    def belief(self) -> Belief:
        """What the runs so far tell, all commits alike beforehand."""
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
            commits=(commits / groups.prior)[groups.of_commit] / len(self.graph),
            fail_if_bad=fitted.bad[groups.of_commit],
            fail_if_good=fitted.good[groups.of_commit],
            no_culprit=float(no_culprit[0]),
            fail_if_no_culprit=float(since[0]),
            environment=float(moved.sum()),
            fail_if_environment=float(moved @ since / moved.sum()) if moved.any() else 0.5,
        )

    @cached_property
    def guess(self) -> Belief:
        """The belief with the commits by their prior weights: to choose what to run."""
        belief = self.belief
        if self.weights is None:
            return belief
        commits = belief.commits * self.weights
        return replace(belief, commits=commits * (belief.commits.sum() / commits.sum()))

    @cached_property
    def _since(self) -> tuple[Floats, Floats]:
        """Fails and passes from each run on, and, last, of no run."""
        return np.cumsum([0.0, *self._fails[::-1]])[::-1], np.cumsum([0.0, *self._passes[::-1]])[::-1]

    @cached_property
    def _fitted(self) -> Fit:
        """The rates, for each group of commits, if one of it is to blame."""
        groups = self._groups
        return fit(
            self.rates,
            good_fails=np.maximum(sum(self._fails) - groups.fails, 0),
            good_passes=np.maximum(sum(self._passes) - groups.passes, 0),
            bad_fails=groups.fails,
            bad_passes=groups.passes,
        )

    @property
    def _evidence_of_culprit(self) -> float:
        """Log evidence of some commit being to blame, whichever."""
        return _log_sum(np.log(self._groups.prior) + self._fitted.log_evidence)


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + log(np.exp(logs - top).sum()) if np.isfinite(top) else top


def _log_one_rate(fails: Floats, passes: Floats) -> Floats:
    return np.array([log_one_rate(f, p) for f, p in zip(fails.tolist(), passes.tolist(), strict=True)])


def _mean_rate(fails: Floats, passes: Floats) -> Floats:
    return (fails + 0.5) / (fails + passes + 1)

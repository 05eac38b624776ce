"""How probable it is that each commit, none, or the environment is to blame, given runs that may be flaky."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log

import numpy as np

from ..graph.graph import CommitGraph, Floats
from ..graph.window import Window
from ..model.explanation import Explanation, explain
from ..model.groups import GOOD_END, Groups
from ..model.rates import Rates
from .belief import Belief, Prior, Reruns, credible_set
from .blamed_file import BlamedFile
from .broken_places import broken_places
from .knowledge import Knowledge, Observation, Outcome
from .places import fresh_runs, log_one_rate, shared_trouble
from .testability import out_of_reach, skip_probability

# What is expected before the first run. At Google four ranges in ten had no culprit (Henderson et al., Flake Aware
# Culprit Finding, ICST 2023), but most cases are no flakes, and both ends were seen to differ once before anyone asks.
_NO_CULPRIT = 0.04
_ALL_PASS, _ALL_FAIL = 0.03, 0.1
"""That no run fails, though someone saw the bad end do so; or that each does, for a case or a machine is broken. By the
first a bad end that passes is waited for 24 runs; it would be 66 with 0.01."""
_ENVIRONMENT = 0.002
_IN_PLAY = 0.999
"""Of the belief in commits: the fewest that hold so much of it are left to be searched."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The state of a search under noise. Made by `start` and `observe`.

    The hypotheses are: commit c broke the case, so that c and its descendants fail at rate r, all others at
    rate a < r; no commit of the range did, and all fail at one rate; some commit did, but at some moment the
    environment moved, and since then all fail at one rate. Rates are integrated out, and so is how far outcomes belong
    to commits (`model/explanation.py`). A skip says nothing of the culprit. Once places are seen to matter, reruns of a
    commit in one place count for less than fresh ones (`places.shared_trouble`). Observations must come in the order of
    the runs: else a moved environment cannot be told from a culprit.

    weights: how likely each commit is thought to be to blame beforehand, in any unit; shape [n]; None if equally.
    They guide what is run (`guess`) and have no say in what is claimed (`belief`): wrong ones cost runs alone.
    prior: what runs of another kind told beforehand, and has its say in what is claimed; None: all commits are alike.
    observations: all, in order.
    windows: between a change and its undoing.
    shared: how much reruns in one place share, from 0 to 1.
    broken: places whose outcomes are their own; what ran there counts for nothing.
    """

    graph: CommitGraph
    rates: Rates
    weights: Floats | None
    windows: tuple[Window, ...]
    observations: tuple[Observation, ...]
    shared: float
    _groups: Groups
    prior: Prior | None = None
    broken: frozenset[str] = frozenset()
    _tallies: Mapping[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    _fails: tuple[float, ...] = ()
    _passes: tuple[float, ...] = ()
    _evidence_before: tuple[float, ...] = ()

    @classmethod
    def start(
        cls,
        graph: CommitGraph,
        rates: Rates,
        *,
        weights: Floats | None = None,
        prior: Prior | None = None,
        windows: Sequence[Window] = (),
        observations: Iterable[Observation] = (),
    ) -> "Posterior":
        """The state after `observations`; `weights` are the prior weights of the commits.

        Raises ValueError if a weight is not positive: no commit may be left out.
        """
        if weights is not None and (weights.shape != (len(graph),) or not (weights > 0).all()):
            raise ValueError(f"expected {len(graph)} positive prior weights, one a commit, found {weights}")
        posterior = cls(graph, rates, weights, tuple(windows), (), 0.0, Groups.start(graph), prior)
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    def observe(self, observation: Observation) -> "Posterior":
        """The state after one more run, of a commit of the graph or of `GOOD_END`."""
        observations = (*self.observations, observation)
        broken: frozenset[str] = frozenset()
        shared = shared_trouble(observations)
        if shared:
            broken = broken_places(
                self.graph, self.rates, observations, windows=self.windows, no_culprit=_NO_CULPRIT
            )
            shared = shared_trouble(seen for seen in observations if seen.place not in broken)
        if (shared, broken) == (self.shared, self.broken):
            return self._count(observation)
        start = Groups.start(self.graph)
        posterior = Posterior(
            self.graph,
            self.rates,
            self.weights,
            self.windows,
            (),
            shared,
            start,
            prior=self.prior,
            broken=broken,
        )
        for seen in observations:
            posterior = posterior._count(seen)
        return posterior

    def _count(self, observation: Observation) -> "Posterior":
        observations = (*self.observations, observation)
        if observation.outcome is Outcome.SKIP or observation.place in self.broken:
            return replace(self, observations=observations)
        failed = observation.outcome is Outcome.BAD
        weight = self.weight_of_rerun(observation.commit, observation.place) / observation.alike
        fails, passes = (weight, 0.0) if failed else (0.0, weight)
        before = self._tallies.get(observation.commit, (0.0, 0.0))
        return replace(
            self,
            observations=observations,
            _groups=self._groups.split(self.graph, observation.commit),
            _tallies={**self._tallies, observation.commit: (before[0] + fails, before[1] + passes)},
            _fails=(*self._fails, fails),
            _passes=(*self._passes, passes),
            _evidence_before=(*self._evidence_before, self._explanation.evidence_of_culprit),
        )

    def weight_of_rerun(self, commit: int, place: str | None) -> float:
        """How many fresh runs one more run of a commit in a place counts for."""
        if place is None or not self.shared:
            return 1.0
        before = sum(
            (other.commit, other.place) == (commit, place)
            for other in self.counted
            if other.outcome is not Outcome.SKIP
        )
        return fresh_runs(before + 1, self.shared) - fresh_runs(before, self.shared)

    def tally(self, commit: int) -> tuple[float, float]:
        """How many fails and passes of a commit (or `GOOD_END`) count."""
        return self._tallies.get(commit, (0.0, 0.0))

    def chance_to_fail(self, commit: int) -> float:
        """That one more run of a commit (or of `GOOD_END`) that ran before fails."""
        belief, groups = self.belief, self._groups
        shares = np.bincount(groups.of_commit, weights=belief.commits)
        others = (
            belief.no_culprit * belief.fail_if_no_culprit,
            belief.environment * belief.fail_if_environment,
        )
        return float(shares @ self._explanation.reruns[commit]) + sum(others)

    @cached_property
    def counted(self) -> tuple[Observation, ...]:
        """The observations that were not made in a broken place."""
        return tuple(seen for seen in self.observations if seen.place not in self.broken)

    @cached_property
    def skipped(self) -> frozenset[int]:
        """The commits of the graph that were never tested because they could not be."""
        return frozenset(seen.commit for seen in self.counted) - self._judged_runs.keys() - {GOOD_END}

    @cached_property
    def blamed(self) -> dict[int, tuple[BlamedFile, ...]]:
        """The files that the errors of skipped commits name."""
        return {seen.commit: seen.blamed for seen in self.counted if seen.blamed}

    @cached_property
    def certain(self) -> Knowledge | None:
        """The runs as certain knowledge; None if they contradict each other, or the rates are known to be others."""
        if self.rates.good[0] > 0 or self.rates.bad[-1] < 1 or self.tally(GOOD_END)[0]:
            return None
        try:
            known = Knowledge.start(self.graph, [seen for seen in self.counted if seen.commit != GOOD_END])
        except ValueError:
            return None
        return None if known.unexplained_fails else known

    @cached_property
    def testable(self) -> Floats:
        """The chance that each commit and, last, `GOOD_END` can be tested. Shape [n + 1]."""
        chance = np.ones(len(self.graph) + 1)
        if self.skipped:
            chance[:-1] -= skip_probability(self.graph, self._tried, self.blamed)
            chance[[*self.out_of_reach]] = 0.0
        for commit, lost in self.lost_reruns.items():
            chance[commit] *= self._judged_runs[commit] / (self._judged_runs[commit] + lost)
        return chance

    @cached_property
    def lost_reruns(self) -> Counter[int]:
        """How many runs of each commit (or of `GOOD_END`) could not be judged, though others of it were."""
        skips = (seen.commit for seen in self.counted if seen.outcome is Outcome.SKIP)
        return Counter(commit for commit in skips if commit in self._judged_runs)

    @cached_property
    def _judged_runs(self) -> Counter[int]:
        return Counter(seen.commit for seen in self.counted if seen.outcome is not Outcome.SKIP)

    @cached_property
    def out_of_reach(self) -> frozenset[int]:
        """The commits that were skipped, or would all but surely have to be."""
        if not self.skipped:
            return self.skipped
        commits = self.belief.commits
        among = np.zeros(len(commits), dtype=np.bool_)
        among[[*credible_set(self.belief, _IN_PLAY * float(commits.sum()))]] = True
        beyond = out_of_reach(self.graph, self._tried, self.blamed, among=among)
        return self.skipped | frozenset(np.flatnonzero(beyond).tolist())

    @property
    def _tried(self) -> dict[int, bool]:
        """The commits that were tried, the bad end among them, and whether they had to be skipped."""
        tried = {seen.commit: False for seen in self.counted if seen.commit != GOOD_END}
        return tried | {self.graph.bad: False} | dict.fromkeys(self.skipped, True)

    def compared_with(self, culprit: int) -> tuple[int, ...]:
        """The commits that must pass where a culprit fails: its parents that can be tested; else `GOOD_END`."""
        parents = tuple(commit for commit in self.graph.parents[culprit] if commit not in self.skipped)
        return parents or (GOOD_END,)

    @cached_property
    def belief(self) -> Belief:
        """What the runs so far tell, all commits alike beforehand, or as probable as `prior` says."""
        groups, explanation = self._groups, self._explanation
        fails, passes = self._since
        moments = np.array(self._evidence_before) + _log_moved(fails[:-1], passes[:-1])
        alike = self._alike
        some = 1 - _NO_CULPRIT - _ALL_PASS - _ALL_FAIL - _ENVIRONMENT
        logs = np.concatenate(
            [
                log(some) + np.log(groups.share) + explanation.log_evidence,
                [np.logaddexp(log(_NO_CULPRIT) + log_one_rate(*self.seen), alike.log_evidence)],
                # Before the first run the environment can move unseen: this is the prior then.
                log(_ENVIRONMENT) + (moments - log(len(moments)) if len(moments) else np.zeros(1)),
            ]
        )
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        commits, no_culprit, moved = np.split(mass, [len(groups.share), len(groups.share) + 1])
        since = _mean_rate(fails, passes)[: len(moved)]
        belief = Belief(
            commits=(commits / groups.share)[groups.of_commit] / len(self.graph),
            fail_if_bad=explanation.fail_if_bad[groups.of_commit],
            fail_if_good=explanation.fail_if_good[groups.of_commit],
            no_culprit=float(no_culprit[0]),
            fail_if_no_culprit=alike.mean_with(log(_NO_CULPRIT) + log_one_rate(*self.seen), float(since[0])),
            environment=float(moved.sum()),
            fail_if_environment=float(moved @ since / moved.sum()) if moved.any() else 0.5,
            reruns=Reruns(groups.of_commit, explanation.reruns),
        )
        return belief if self.prior is None else belief.beginning_with(self.prior)

    @cached_property
    def guess(self) -> Belief:
        """The belief with the commits by their prior weights: to choose what to run."""
        belief = self.belief
        if self.weights is None:
            return belief
        commits = belief.commits * self.weights
        return replace(belief, commits=commits * (belief.commits.sum() / commits.sum()))

    @property
    def seen(self) -> tuple[float, float]:
        """How many fails and passes count, of all commits and `GOOD_END`."""
        return sum(self._fails), sum(self._passes)

    @property
    def _alike(self) -> "_Alike":
        fails, passes = self.seen
        return _Alike(0.0 if fails else _ALL_PASS, 0.0 if passes else _ALL_FAIL)

    @cached_property
    def _since(self) -> tuple[Floats, Floats]:
        """Fails and passes from each run on, and, last, of no run."""
        return np.cumsum([0.0, *self._fails[::-1]])[::-1], np.cumsum([0.0, *self._passes[::-1]])[::-1]

    @cached_property
    def _explanation(self) -> Explanation:
        """How each group of commits explains the runs, if one of it is to blame."""
        return explain(self.graph, self._groups, self._tallies, self.rates, windows=self.windows)


@dataclass(frozen=True)
class _Alike:
    """The chances of runs that all pass, or all fail, as far as these are possible."""

    all_pass: float
    all_fail: float

    @property
    def log_evidence(self) -> float:
        total = self.all_pass + self.all_fail
        return log(total) if total else -np.inf

    def mean_with(self, log_other: float, rate: float) -> float:
        """The chance that a run fails, where the fail rate is unknown with this log evidence, and this mean."""
        other = exp(log_other)
        return (self.all_fail + other * rate) / (self.all_pass + self.all_fail + other)


def _log_moved(fails: Floats, passes: Floats) -> Floats:
    """Log evidence of what came after the environment moved: half of the time it lets everything fail, or pass."""
    alike = np.where((fails == 0) | (passes == 0), log(0.25), -np.inf)
    return np.logaddexp(alike, log(0.5) + _log_one_rate(fails, passes))


def _log_one_rate(fails: Floats, passes: Floats) -> Floats:
    return np.array([log_one_rate(f, p) for f, p in zip(fails.tolist(), passes.tolist(), strict=True)])


def _mean_rate(fails: Floats, passes: Floats) -> Floats:
    return (fails + 0.5) / (fails + passes + 1)

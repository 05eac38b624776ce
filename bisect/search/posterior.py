"""How probable it is that each commit, none, or the environment is to blame, given runs that may be flaky.

`Posterior` is the state of a search. Runs in one place may share its trouble: `shared_trouble` judges whether they do,
and `fresh_runs` gives a rerun there less weight. `broken_places` finds places whose outcomes are their own, as a bad
board or a stale slot shows the same, whatever commit runs there. `is_compared_in_one_place` says whether a culprit and
its parents were told apart by their commits, and not by where they ran.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from math import exp, inf, lgamma, log

import numpy as np

from .belief import Belief, Knowledge, Observation, Outcome, Prior, Reruns, credible_set
from .graph import CommitGraph, Floats, Window
from .hypotheses import GOOD_END, Explanation, Groups, explain
from .rates import Rates
from .testability import Cause, out_of_reach, skip_probability

_PLACES_MATTER = 0.05
"""The place of a run, such as a host, changes with this prior chance how often it fails."""
_ROUNDING_STEPS = 20
"""The chance that places matter is rounded to one part in this many. A few runs tell it no more exactly."""


def shared_trouble(observations: Iterable[Observation]) -> float:
    """Return how probable it is that places matter, from 0 to 1 in steps of a twentieth.

    Only commits that ran in several places count. Either all runs of such a commit fail at one rate, or in each place
    at a rate of its own. All rates are Beta(1/2, 1/2) beforehand. With a single place, or without a sign that they
    differ, it is 0: reruns are then as good as fresh runs.
    """
    fails: defaultdict[int, Counter[str]] = defaultdict(Counter)
    passes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for seen in observations:
        if seen.place is not None and seen.outcome is not Outcome.SKIP:
            (fails if seen.outcome is Outcome.BAD else passes)[seen.commit][seen.place] += 1
    odds = 0.0
    for commit in {*fails, *passes}:
        places = {*fails[commit], *passes[commit]}
        if len(places) > 1:
            apart = sum(log_one_rate(fails[commit][place], passes[commit][place]) for place in places)
            odds += apart - log_one_rate(fails[commit].total(), passes[commit].total())
    matter = 1 / (1 + exp(min(700.0, -odds)) * (1 - _PLACES_MATTER) / _PLACES_MATTER)
    return round(matter * _ROUNDING_STEPS) / _ROUNDING_STEPS if matter > _PLACES_MATTER * 2 else 0.0


def fresh_runs(runs: int, shared: float) -> float:
    """Return how many fresh runs so many reruns of one commit in one place count for.

    k / (1 + (k - 1) shared) is the design effect of samples in clusters (Kish, Survey Sampling, 1965, section 5.4).
    `shared` is the correlation of two of them.
    """
    return runs / (1 + (runs - 1) * shared) if runs else 0.0


@lru_cache(maxsize=1 << 16)
def log_one_rate(fails: float, passes: float) -> float:
    """Return the log evidence of these counts at one unknown rate, Beta(1/2, 1/2) beforehand."""
    return lgamma(fails + 0.5) + lgamma(passes + 0.5) - lgamma(fails + passes + 1) - 2 * lgamma(0.5)


_BROKEN_PLACE_CHANCE = 0.01
"""A place is assumed to be broken with this probability before its first run."""

_ALL_FAIL_AT_PLACE, _ALL_PASS_AT_PLACE = 0.5, 0.25
"""The shares of broken places in which each run fails, or each run passes. In the others one rate holds for all
commits."""
_EXTRA_PLACES = 2
"""The search assumes this many places to be broken beside the likely ones, to see whether they are broken together."""


def broken_places(
    graph: CommitGraph,
    rates: Rates,
    observations: Sequence[Observation],
    *,
    windows: Sequence[Window] = (),
    no_culprit: float,
) -> frozenset[str]:
    """Return the places that are more likely broken than not, found one after the other. At least one place is not
    broken.

    A place is broken if two parts explain the runs better than a culprit explains all of them. The place alone explains
    its own runs, whatever their commits. A culprit (or, with chance `no_culprit`, one rate) explains all others.
    """
    judged = [seen for seen in observations if seen.outcome is not Outcome.SKIP]
    groups = reduce(
        lambda groups, commit: groups.split(graph, commit),
        dict.fromkeys(seen.commit for seen in judged),
        Groups.start(graph),
    )

    def log_evidence(broken: Collection[str]) -> float:
        tallies = dict.fromkeys(groups.below, (0.0, 0.0))
        for seen in judged:
            if seen.place not in broken:
                fails, passes = tallies[seen.commit]
                failed = seen.outcome is Outcome.BAD
                tallies[seen.commit] = (fails + failed, passes + (not failed))
        culprit = explain(graph, groups, tallies, rates, windows=windows).evidence_of_culprit
        alike = log_one_rate(*np.sum([*tallies.values()], axis=0).tolist())
        rest = float(np.logaddexp(log(1 - no_culprit) + culprit, log(no_culprit) + alike))
        return rest + sum(
            _log_own(seen.outcome for seen in judged if seen.place == place) for place in broken
        )

    places = {seen.place for seen in judged if seen.place is not None}
    found = likeliest = frozenset[str]()
    before, most = log_evidence(found), 0.0
    # What one broken place leaves unexplained, a second one may explain.
    while len(left := places - found) > 1 and len(found) - len(likeliest) < _EXTRA_PLACES:
        with_it = {place: log_evidence(found | {place}) for place in sorted(left)}
        found |= {max(with_it, key=lambda place: with_it[place])}
        log_odds = (
            max(with_it.values())
            - before
            + len(found) * log(_BROKEN_PLACE_CHANCE / (1 - _BROKEN_PLACE_CHANCE))
        )
        if log_odds > most:
            likeliest, most = found, log_odds
    return likeliest


def _log_own(outcomes: Iterable[Outcome]) -> float:
    """Return the log evidence of the outcomes in a place that is broken."""
    seen = Counter(outcomes)
    fails, passes = seen[Outcome.BAD], seen[Outcome.GOOD]
    same = (0.0 if passes else _ALL_FAIL_AT_PLACE) + (0.0 if fails else _ALL_PASS_AT_PLACE)
    other = log(1 - _ALL_FAIL_AT_PLACE - _ALL_PASS_AT_PLACE) + log_one_rate(fails, passes)
    return float(np.logaddexp(log(same) if same else -inf, other))


_NO_CULPRIT = 0.04
"""Before the first run, no commit is to blame with this probability. At Google four ranges in ten had no culprit
(Henderson et al., Flake Aware Culprit Finding, ICST 2023). Here most cases are not flaky, and both ends were seen to
differ before anyone asks."""
_ALL_PASS, _ALL_FAIL = 0.03, 0.1
"""With the first probability no run fails, though someone saw the bad end do so. The second is that each run fails,
because a case or a machine is broken. With the first, a bad end that passes is waited for 24 runs; with 0.01 it would
be 66."""
_ENVIRONMENT = 0.002
"""Before the first run, the environment changed in between with this probability. A larger one would doubt each flaky
end."""
_SEARCHED_SHARE = 0.999
"""The commits that are left to be searched are the fewest that hold this share of the belief in commits."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The state of a search under noise. Made by `start` and `observe`.

    There are three kinds of hypotheses:

    1. Commit c broke the case: c and its descendants fail at rate r, all others at rate a < r.
    2. No commit of the range did, and all fail at one rate.
    3. Some commit did, but at some moment the environment moved, and since then all fail at one rate.

    Rates are integrated out, and so is how far outcomes belong to commits (`hypotheses.Explanation`). A skip says
    nothing of the culprit. Once places are seen to matter, reruns of a commit in one place count for less than fresh
    ones (`shared_trouble`). Observations must come in the order of the runs: else a moved environment cannot be told
    from a culprit.

    weights: how likely each commit is thought to be to blame beforehand, in any unit; shape [n]; None if equally. They
    guide what is run (`guess`) and have no say in what is claimed (`belief`): wrong ones cost runs alone.
    prior: what runs of another kind told beforehand. It has its say in what is claimed. None: all commits are alike.
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
        """Return the state after `observations`. `weights` are the prior weights of the commits.

        Raises ValueError if a weight is not positive: no commit may be left out.
        """
        if weights is not None and (weights.shape != (len(graph),) or not (weights > 0).all()):
            raise ValueError(f"expected {len(graph)} positive prior weights, one a commit, found {weights}")
        posterior = cls(graph, rates, weights, tuple(windows), (), 0.0, Groups.start(graph), prior)
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    def observe(self, observation: Observation) -> "Posterior":
        """Return the state after one more run, of a commit of the graph or of `GOOD_END`."""
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
        weight = self.rerun_weight(observation.commit, observation.place) / observation.alike
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

    def rerun_weight(self, commit: int, place: str | None) -> float:
        """Return how many fresh runs one more run of a commit in a place counts for."""
        if place is None or not self.shared:
            return 1.0
        before = sum(
            (other.commit, other.place) == (commit, place)
            for other in self.counted_observations
            if other.outcome is not Outcome.SKIP
        )
        return fresh_runs(before + 1, self.shared) - fresh_runs(before, self.shared)

    def tally(self, commit: int) -> tuple[float, float]:
        """Return how many fails and passes of a commit (or `GOOD_END`) count."""
        return self._tallies.get(commit, (0.0, 0.0))

    def chance_to_fail(self, commit: int) -> float:
        """Return the chance that one more run of a commit (or of `GOOD_END`) that ran before fails."""
        belief, groups = self.belief, self._groups
        shares = np.bincount(groups.of_commit, weights=belief.commits)
        others = (
            belief.no_culprit * belief.fail_if_no_culprit,
            belief.environment * belief.fail_if_environment,
        )
        return float(shares @ self._explanation.reruns[commit]) + sum(others)

    @cached_property
    def counted_observations(self) -> tuple[Observation, ...]:
        """Return the observations that were not made in a broken place."""
        return tuple(seen for seen in self.observations if seen.place not in self.broken)

    @cached_property
    def skipped_commits(self) -> frozenset[int]:
        """Return the commits of the graph that were never tested because they could not be."""
        return (
            frozenset(seen.commit for seen in self.counted_observations)
            - self._judged_runs.keys()
            - {GOOD_END}
        )

    @cached_property
    def blamed_causes(self) -> dict[int, tuple[Cause, ...]]:
        """Return the files that the errors of skipped commits name."""
        return {seen.commit: seen.blamed for seen in self.counted_observations if seen.blamed}

    @cached_property
    def certain(self) -> Knowledge | None:
        """Return the runs as certain knowledge. Return None if they contradict each other, or the rates are known to
        differ from 0 and 1."""
        if self.rates.good[0] > 0 or self.rates.bad[-1] < 1 or self.tally(GOOD_END)[0]:
            return None
        try:
            known = Knowledge.start(
                self.graph, [seen for seen in self.counted_observations if seen.commit != GOOD_END]
            )
        except ValueError:
            return None
        return None if known.unexplained_fails else known

    @cached_property
    def testable(self) -> Floats:
        """Return the chance that each commit and, last, `GOOD_END` can be tested. Shape [n + 1]."""
        chance = np.ones(len(self.graph) + 1)
        if self.skipped_commits:
            chance[:-1] -= skip_probability(self.graph, self._tried_commits, self.blamed_causes)
            chance[[*self.out_of_reach]] = 0.0
        for commit, lost in self.lost_reruns.items():
            chance[commit] *= self._judged_runs[commit] / (self._judged_runs[commit] + lost)
        return chance

    @cached_property
    def lost_reruns(self) -> Counter[int]:
        """Return how many runs of each commit (or of `GOOD_END`) could not be judged, though others of it were."""
        skips = (seen.commit for seen in self.counted_observations if seen.outcome is Outcome.SKIP)
        return Counter(commit for commit in skips if commit in self._judged_runs)

    @cached_property
    def _judged_runs(self) -> Counter[int]:
        return Counter(seen.commit for seen in self.counted_observations if seen.outcome is not Outcome.SKIP)

    @cached_property
    def out_of_reach(self) -> frozenset[int]:
        """Return the commits that were skipped, or would all but surely have to be."""
        if not self.skipped_commits:
            return self.skipped_commits
        commits = self.belief.commits
        among = np.zeros(len(commits), dtype=np.bool_)
        among[[*credible_set(self.belief, _SEARCHED_SHARE * float(commits.sum()))]] = True
        beyond = out_of_reach(self.graph, self._tried_commits, self.blamed_causes, among=among)
        return self.skipped_commits | frozenset(np.flatnonzero(beyond).tolist())

    @property
    def _tried_commits(self) -> dict[int, bool]:
        """Return the commits that were tried, the bad end among them, and whether they had to be skipped."""
        tried = {seen.commit: False for seen in self.counted_observations if seen.commit != GOOD_END}
        return tried | {self.graph.bad: False} | dict.fromkeys(self.skipped_commits, True)

    def comparison_commits(self, culprit: int) -> tuple[int, ...]:
        """Return the commits that must pass where a culprit fails: its parents that can be tested, else `GOOD_END`."""
        parents = tuple(
            commit for commit in self.graph.parents[culprit] if commit not in self.skipped_commits
        )
        return parents or (GOOD_END,)

    @cached_property
    def belief(self) -> Belief:
        """Return what the runs so far tell. Beforehand all commits are alike, or as probable as `prior` says."""
        groups, explanation = self._groups, self._explanation
        fails, passes = self._totals_since
        moments = np.array(self._evidence_before) + _log_environment_moved(fails[:-1], passes[:-1])
        alike = self._uniform_outcomes
        some = 1 - _NO_CULPRIT - _ALL_PASS - _ALL_FAIL - _ENVIRONMENT
        logs = np.concatenate(
            [
                log(some) + np.log(groups.share) + explanation.log_evidence,
                [np.logaddexp(log(_NO_CULPRIT) + log_one_rate(*self.run_totals), alike.log_evidence)],
                # Before the first run the environment can move unseen. Its evidence is the prior then.
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
            fail_if_no_culprit=alike.mean_with(
                log(_NO_CULPRIT) + log_one_rate(*self.run_totals), float(since[0])
            ),
            environment=float(moved.sum()),
            fail_if_environment=float(moved @ since / moved.sum()) if moved.any() else 0.5,
            reruns=Reruns(groups.of_commit, explanation.reruns),
        )
        return belief if self.prior is None else belief.with_prior(self.prior)

    @cached_property
    def guess(self) -> Belief:
        """Return the belief with the commits by their prior weights. It chooses what to run."""
        belief = self.belief
        if self.weights is None:
            return belief
        commits = belief.commits * self.weights
        return replace(belief, commits=commits * (belief.commits.sum() / commits.sum()))

    @property
    def run_totals(self) -> tuple[float, float]:
        """Return how many fails and passes count, of all commits and `GOOD_END`."""
        return sum(self._fails), sum(self._passes)

    @property
    def _uniform_outcomes(self) -> "_UniformOutcomes":
        fails, passes = self.run_totals
        return _UniformOutcomes(0.0 if fails else _ALL_PASS, 0.0 if passes else _ALL_FAIL)

    @cached_property
    def _totals_since(self) -> tuple[Floats, Floats]:
        """Return the fails and passes from each run on. The last entry is that of no run."""
        return np.cumsum([0.0, *self._fails[::-1]])[::-1], np.cumsum([0.0, *self._passes[::-1]])[::-1]

    @cached_property
    def _explanation(self) -> Explanation:
        """Return how each group of commits explains the runs, if one of it is to blame."""
        return explain(self.graph, self._groups, self._tallies, self.rates, windows=self.windows)


@dataclass(frozen=True)
class _UniformOutcomes:
    """The chances that all runs pass, or all fail, as far as these are possible."""

    all_pass: float
    all_fail: float

    @property
    def log_evidence(self) -> float:
        total = self.all_pass + self.all_fail
        return log(total) if total else -np.inf

    def mean_with(self, log_other: float, rate: float) -> float:
        """Return the chance that a run fails, where the fail rate is unknown with this log evidence, and this mean."""
        other = exp(log_other)
        return (self.all_fail + other * rate) / (self.all_pass + self.all_fail + other)


def _log_environment_moved(fails: Floats, passes: Floats) -> Floats:
    """Return the log evidence of what came after the environment moved. Half of the time it lets everything fail, or
    pass."""
    alike = np.where((fails == 0) | (passes == 0), log(0.25), -np.inf)
    return np.logaddexp(alike, log(0.5) + _log_one_rate(fails, passes))


def _log_one_rate(fails: Floats, passes: Floats) -> Floats:
    return np.array([log_one_rate(f, p) for f, p in zip(fails.tolist(), passes.tolist(), strict=True)])


def _mean_rate(fails: Floats, passes: Floats) -> Floats:
    return (fails + 0.5) / (fails + passes + 1)


_MOST_TURNS = 24
"""Each commit is run at most this often to see the culprit and its parent in one place."""


def is_compared_in_one_place(posterior: Posterior, culprit: int) -> bool:
    """Return whether the place alone is excluded as the reason that the culprit fails and its parents pass.

    For each parent, the culprit failed and the parent passed in one place, or each of them in two. Places that are not
    known count as compared.
    """
    fails = _places(posterior, culprit, Outcome.BAD)
    for parent in posterior.comparison_commits(culprit):
        passes = _places(posterior, parent, Outcome.GOOD)
        if fails and passes and not fails & passes and min(len(fails), len(passes)) < 2:
            return False
    return True


def next_comparison_runs(
    posterior: Posterior, culprit: int, *, in_flight: Sequence[int], count: int
) -> list[int] | None:
    """Return up to `count` of the culprit and its parents to run again, those first that ran least often.

    Return None once each has run 24 times and was not seen in one place with the other.
    """
    around = (culprit, *posterior.comparison_commits(culprit))
    runs = Counter(seen.commit for seen in posterior.counted_observations if seen.outcome is not Outcome.SKIP)
    if all(runs[commit] >= _MOST_TURNS for commit in around):
        return None
    runs.update(in_flight)
    last = in_flight[-1] if in_flight else posterior.counted_observations[-1].commit
    chosen: list[int] = []
    for _ in range(count):
        # Of equal counts the last commit goes first. Otherwise two workers in step would each keep to one commit, and
        # the two would never be compared in one place.
        commit = min(around, key=lambda commit: (runs[commit], commit != last))
        chosen.append(commit)
        runs[commit] += 1
        last = commit
    return chosen


def _places(posterior: Posterior, commit: int, outcome: Outcome) -> set[str]:
    """Return where a commit had that outcome. Return nothing if one of these places is not known."""
    seen = {
        seen.place
        for seen in posterior.counted_observations
        if (seen.commit, seen.outcome) == (commit, outcome)
    }
    return set() if None in seen else {place for place in seen if place is not None}

"""The probability that each commit, none, or the environment is to blame, given runs that may be flaky.

`Posterior` is the state of a search. `shared_trouble` estimates whether the place of a run, such as a host, changes how
often it fails. `fresh_runs` then gives reruns in one place less weight. `broken_places` finds places where runs end the
same whatever commit ran there, such as a bad board or a stale slot. `is_compared_in_one_place` says whether a culprit
and its parents differ by their commits, and not by where they ran.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from math import exp, inf, lgamma, log

import numpy as np

from .belief import Belief, Knowledge, Observation, Outcome, Prior, Reruns, credible_set
from .graph import NO_WINDOWS, CommitGraph, Floats, Windows
from .hypotheses import GOOD_END, Explanation, Groups, explain
from .rates import Rates
from .testability import Cause, out_of_reach, skip_probability

_PLACES_MATTER = 0.05
"""The prior chance that the place of a run changes how often it fails."""
_ROUNDING_STEPS = 20
"""The chance that places matter is rounded to one part in this many, because a few runs determine it no more
exactly."""


def shared_trouble(observations: Iterable[Observation]) -> float:
    """Return the probability that places matter, from 0 to 1 in steps of a twentieth.

    Only commits that ran in several places count. Either all runs of such a commit fail at one rate, or the rate
    differs by place. All rates have the prior Beta(1/2, 1/2). Without a sign of different rates the result is 0, so
    that reruns count as fresh runs.
    """
    fails: defaultdict[int, Counter[str]] = defaultdict(Counter)
    passes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for seen in observations:
        if seen.place is not None and seen.outcome is not Outcome.SKIP:
            (fails if seen.outcome is Outcome.BAD else passes)[seen.commit][seen.place] += 1
    log_odds = 0.0
    for commit in {*fails, *passes}:
        places = {*fails[commit], *passes[commit]}
        if len(places) > 1:
            by_place = sum(log_one_rate(fails[commit][place], passes[commit][place]) for place in places)
            log_odds += by_place - log_one_rate(fails[commit].total(), passes[commit].total())
    matter = 1 / (1 + exp(min(700.0, -log_odds)) * (1 - _PLACES_MATTER) / _PLACES_MATTER)
    return round(matter * _ROUNDING_STEPS) / _ROUNDING_STEPS if matter > _PLACES_MATTER * 2 else 0.0


def fresh_runs(runs: int, shared: float) -> float:
    """Return the number of fresh runs that `runs` reruns of one commit in one place count for.

    k / (1 + (k - 1) shared) is the design effect of samples in clusters (Kish, Survey Sampling, 1965, section 5.4).
    `shared` is the correlation of two such reruns.
    """
    return runs / (1 + (runs - 1) * shared) if runs else 0.0


@lru_cache(maxsize=1 << 16)
def log_one_rate(fails: float, passes: float) -> float:
    """Return the log evidence of counts at one unknown rate with the prior Beta(1/2, 1/2)."""
    return lgamma(fails + 0.5) + lgamma(passes + 0.5) - lgamma(fails + passes + 1) - 2 * lgamma(0.5)


_BROKEN_PLACE_CHANCE = 0.01
"""The prior probability that a place is broken."""

_ALL_FAIL_AT_PLACE, _ALL_PASS_AT_PLACE = 0.5, 0.25
"""The shares of broken places in which every run fails, and in which every run passes. In all others the runs fail at
one rate, whatever their commits."""
_EXTRA_PLACES = 2
"""The search continues with this many places beyond the likely ones, because some are only seen to be broken
together."""


def broken_places(
    graph: CommitGraph,
    rates: Rates,
    observations: Sequence[Observation],
    *,
    windows: Windows = NO_WINDOWS,
    no_culprit: float,
) -> frozenset[str]:
    """Return the places that are more likely broken than not, found one after the other.

    At least one place is not broken.

    A place counts as broken if that explains the runs better than a culprit alone does. The runs in a broken place do
    not depend on their commits. All other runs are explained by a culprit or, with chance `no_culprit`, by one rate.
    """
    judged = [seen for seen in observations if seen.outcome is not Outcome.SKIP]
    groups = reduce(
        lambda groups, commit: groups.split(graph, commit),
        dict.fromkeys(seen.commit for seen in judged),
        Groups.start(graph),
    )

    def log_evidence(broken: Collection[str]) -> float:
        tallies = dict.fromkeys(groups.ancestor_masks, (0.0, 0.0))
        for seen in judged:
            if seen.place not in broken:
                fails, passes = tallies[seen.commit]
                failed = seen.outcome is Outcome.BAD
                tallies[seen.commit] = (fails + failed, passes + (not failed))
        culprit = explain(graph, groups, tallies, rates, windows=windows).evidence_of_culprit
        one_rate = log_one_rate(*np.sum([*tallies.values()], axis=0).tolist())
        elsewhere = float(np.logaddexp(log(1 - no_culprit) + culprit, log(no_culprit) + one_rate))
        return elsewhere + sum(
            _log_broken(seen.outcome for seen in judged if seen.place == place) for place in broken
        )

    places = {seen.place for seen in judged if seen.place is not None}
    prior_log_odds = log(_BROKEN_PLACE_CHANCE / (1 - _BROKEN_PLACE_CHANCE))
    found = likeliest = frozenset[str]()
    none_broken, best_log_odds = log_evidence(found), 0.0
    # Two broken places may explain what neither of them explains alone.
    while len(left := places - found) > 1 and len(found) - len(likeliest) < _EXTRA_PLACES:
        evidence = {place: log_evidence(found | {place}) for place in sorted(left)}
        next_place = max(evidence, key=lambda place: evidence[place])
        found |= {next_place}
        log_odds = evidence[next_place] - none_broken + len(found) * prior_log_odds
        if log_odds > best_log_odds:
            likeliest, best_log_odds = found, log_odds
    return likeliest


def _log_broken(outcomes: Iterable[Outcome]) -> float:
    """Return the log evidence of the outcomes in one broken place."""
    seen = Counter(outcomes)
    fails, passes = seen[Outcome.BAD], seen[Outcome.GOOD]
    same = (0.0 if passes else _ALL_FAIL_AT_PLACE) + (0.0 if fails else _ALL_PASS_AT_PLACE)
    other = log(1 - _ALL_FAIL_AT_PLACE - _ALL_PASS_AT_PLACE) + log_one_rate(fails, passes)
    return float(np.logaddexp(log(same) if same else -inf, other))


_NO_CULPRIT = 0.04
"""The prior probability that no commit is to blame. At Google four ranges in ten had no culprit (Henderson et al.,
Flake Aware Culprit Finding, ICST 2023). Here most cases are not flaky, and somebody saw both ends differ."""
_ALL_PASS, _ALL_FAIL = 0.03, 0.1
"""The prior probabilities that no run fails, and that every run fails. Nothing fails where the user saw another
failure, and everything fails on a broken machine. With the first, a bad end that passes is rerun up to 24 times. With
0.01 it would be 66 times."""
_ENVIRONMENT = 0.002
"""The prior probability that the environment changed during the search. A larger one would doubt each flaky end."""
_SEARCHED_SHARE = 0.999
"""The commits that are still to be searched are the fewest that hold this share of the belief in commits."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The state of a search with flaky runs. Made by `start` and `observe`.

    There are three kinds of hypotheses:

    1. Commit c broke the case: c and its descendants fail at rate r, all others at rate a < r.
    2. No commit of the range did, and all fail at one rate.
    3. Some commit did, but at some moment the environment changed, and since then all fail at one rate.

    The rates are integrated out, and so is the extent to which outcomes belong to commits (`hypotheses.Explanation`). A
    skip says nothing about the culprit. Observations must come in the order of the runs, which distinguishes a changed
    environment from a culprit.

    weights: the prior suspicion of each commit, in any unit; shape [n]; None if equal. It guides which commits are run
    (`guess`), but does not count in the answer (`belief`). So wrong weights only cost runs.
    prior: what runs of another kind showed beforehand, which does count in the answer. None: all commits are alike.
    observations: all observations, in order.
    windows: the stretches between a change and its undoing.
    shared: the correlation of reruns in one place, from 0 to 1 (`shared_trouble`).
    broken: the places whose runs do not count.
    """

    graph: CommitGraph
    rates: Rates
    weights: Floats | None
    windows: Windows
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
        windows: Windows = NO_WINDOWS,
        observations: Iterable[Observation] = (),
    ) -> "Posterior":
        """Return the state after `observations`.

        Raises `ValueError` if a weight is not positive, because no commit may be excluded.
        """
        if weights is not None and (weights.shape != (len(graph),) or not (weights > 0).all()):
            raise ValueError(f"expected {len(graph)} positive prior weights, one a commit, found {weights}")
        posterior = cls(graph, rates, weights, windows, (), 0.0, Groups.start(graph), prior)
        for observation in observations:
            posterior = posterior.observe(observation)
        return posterior

    def observe(self, observation: Observation) -> "Posterior":
        """Return the state after one more run of a commit of the graph, or of `GOOD_END`."""
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
        weight = self.rerun_weight(observation.commit, observation.place) / observation.commit_count
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
        """Return the number of fresh runs that one more run of a commit in a place counts for."""
        if place is None or not self.shared:
            return 1.0
        before = sum(
            (other.commit, other.place) == (commit, place)
            for other in self.counted_observations
            if other.outcome is not Outcome.SKIP
        )
        return fresh_runs(before + 1, self.shared) - fresh_runs(before, self.shared)

    def tally(self, commit: int) -> tuple[float, float]:
        """Return the number of fails and passes of a commit (or `GOOD_END`) that count."""
        return self._tallies.get(commit, (0.0, 0.0))

    def chance_to_fail(self, commit: int) -> float:
        """Return the chance that one more run of a commit (or of `GOOD_END`) that ran before fails."""
        belief, groups = self.belief, self._groups
        shares = np.bincount(groups.group_of_commit, weights=belief.commits)
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
        """Return the commits of the graph that were tried and never judged."""
        return (
            frozenset(seen.commit for seen in self.counted_observations)
            - self._judged_runs.keys()
            - {GOOD_END}
        )

    @cached_property
    def blamed_causes(self) -> dict[int, tuple[Cause, ...]]:
        """Return the causes that the errors of skipped commits name."""
        return {seen.commit: seen.blamed for seen in self.counted_observations if seen.blamed}

    @cached_property
    def certain(self) -> Knowledge | None:
        """Return the runs as certain knowledge.

        None if they contradict each other, or if the rates are known not to be 0 and 1.
        """
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
        """Return how many runs of each commit (or of `GOOD_END`) could not be judged although others of it could."""
        skips = (seen.commit for seen in self.counted_observations if seen.outcome is Outcome.SKIP)
        return Counter(commit for commit in skips if commit in self._judged_runs)

    @cached_property
    def _judged_runs(self) -> Counter[int]:
        return Counter(seen.commit for seen in self.counted_observations if seen.outcome is not Outcome.SKIP)

    @cached_property
    def out_of_reach(self) -> frozenset[int]:
        """Return the commits that were skipped, or that almost surely would be."""
        if not self.skipped_commits:
            return self.skipped_commits
        commits = self.belief.commits
        among = np.zeros(len(commits), dtype=np.bool_)
        among[[*credible_set(self.belief, _SEARCHED_SHARE * float(commits.sum()))]] = True
        beyond = out_of_reach(self.graph, self._tried_commits, self.blamed_causes, among=among)
        return self.skipped_commits | frozenset(np.flatnonzero(beyond).tolist())

    @property
    def _tried_commits(self) -> dict[int, bool]:
        """Return whether each tried commit, the bad end among them, had to be skipped."""
        tried = {seen.commit: False for seen in self.counted_observations if seen.commit != GOOD_END}
        return tried | {self.graph.bad: False} | dict.fromkeys(self.skipped_commits, True)

    def comparison_commits(self, culprit: int) -> tuple[int, ...]:
        """Return the commits that must pass where a culprit fails: its testable parents, or else `GOOD_END`."""
        parents = tuple(
            commit for commit in self.graph.parents[culprit] if commit not in self.skipped_commits
        )
        return parents or (GOOD_END,)

    @cached_property
    def belief(self) -> Belief:
        """Return the belief after the runs so far. Beforehand all commits are alike, or as probable as `prior` says."""
        groups, explanation = self._groups, self._explanation
        fails, passes = self._totals_since
        moments = np.array(self._evidence_before) + _log_environment_moved(fails[:-1], passes[:-1])
        uniform = self._uniform_outcomes
        some_culprit = 1 - _NO_CULPRIT - _ALL_PASS - _ALL_FAIL - _ENVIRONMENT
        logs = np.concatenate(
            [
                log(some_culprit) + np.log(groups.share) + explanation.log_evidence,
                [np.logaddexp(log(_NO_CULPRIT) + log_one_rate(*self.run_totals), uniform.log_evidence)],
                # Before the first run, the evidence of a changed environment is its prior.
                log(_ENVIRONMENT) + (moments - log(len(moments)) if len(moments) else np.zeros(1)),
            ]
        )
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        commits, no_culprit, moved = np.split(mass, [len(groups.share), len(groups.share) + 1])
        since = _mean_rate(fails, passes)[: len(moved)]
        belief = Belief(
            commits=(commits / groups.share)[groups.group_of_commit] / len(self.graph),
            fail_if_bad=explanation.fail_if_bad[groups.group_of_commit],
            fail_if_good=explanation.fail_if_good[groups.group_of_commit],
            no_culprit=float(no_culprit[0]),
            fail_if_no_culprit=uniform.mean_with(
                log(_NO_CULPRIT) + log_one_rate(*self.run_totals), float(since[0])
            ),
            environment=float(moved.sum()),
            fail_if_environment=float(moved @ since / moved.sum()) if moved.any() else 0.5,
            reruns=Reruns(groups.group_of_commit, explanation.reruns),
        )
        return belief if self.prior is None else belief.apply_prior(self.prior)

    @cached_property
    def guess(self) -> Belief:
        """Return the belief with the commits weighted by `weights`. It chooses what to run."""
        belief = self.belief
        if self.weights is None:
            return belief
        commits = belief.commits * self.weights
        return replace(belief, commits=commits * (belief.commits.sum() / commits.sum()))

    @property
    def run_totals(self) -> tuple[float, float]:
        """Return the number of fails and passes that count, over all commits and `GOOD_END`."""
        return sum(self._fails), sum(self._passes)

    @property
    def _uniform_outcomes(self) -> "_UniformOutcomes":
        fails, passes = self.run_totals
        return _UniformOutcomes(0.0 if fails else _ALL_PASS, 0.0 if passes else _ALL_FAIL)

    @cached_property
    def _totals_since(self) -> tuple[Floats, Floats]:
        """Return the fails and passes from each run on. The last entry, after all runs, is 0."""
        return np.cumsum([0.0, *self._fails[::-1]])[::-1], np.cumsum([0.0, *self._passes[::-1]])[::-1]

    @cached_property
    def _explanation(self) -> Explanation:
        """Return how well each group of commits explains the runs."""
        return explain(self.graph, self._groups, self._tallies, self.rates, windows=self.windows)


@dataclass(frozen=True)
class _UniformOutcomes:
    """The prior chances that all runs pass, or all fail. A chance is 0 once a run contradicts it."""

    all_pass: float
    all_fail: float

    @property
    def log_evidence(self) -> float:
        total = self.all_pass + self.all_fail
        return log(total) if total else -np.inf

    def mean_with(self, log_other: float, rate: float) -> float:
        """Return the chance that a run fails, averaged with a hypothesis of this log evidence and fail rate."""
        other = exp(log_other)
        return (self.all_fail + other * rate) / (self.all_pass + self.all_fail + other)


def _log_environment_moved(fails: Floats, passes: Floats) -> Floats:
    """Return the log evidence of the runs since the environment changed.

    With chance 1/4 each, all of them fail or all pass. Otherwise they fail at one rate.
    """
    uniform = np.where((fails == 0) | (passes == 0), log(0.25), -np.inf)
    return np.logaddexp(uniform, log(0.5) + _log_one_rate(fails, passes))


def _log_one_rate(fails: Floats, passes: Floats) -> Floats:
    return np.array([log_one_rate(f, p) for f, p in zip(fails.tolist(), passes.tolist(), strict=True)])


def _mean_rate(fails: Floats, passes: Floats) -> Floats:
    return (fails + 0.5) / (fails + passes + 1)


_MAX_COMPARISON_RUNS = 24
"""Each commit is run at most this often to see the culprit and its parent in one place."""


def is_compared_in_one_place(posterior: Posterior, culprit: int) -> bool:
    """Return whether the place can be excluded as the reason that the culprit fails and its parents pass.

    That is so if, for each parent, the culprit failed and the parent passed in one place, or each of them did in two
    places. Unknown places are taken as compared.
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
    """Return up to `count` of the culprit and its parents to run again, those with the fewest runs first.

    None once each has run 24 times without a comparison in one place.
    """
    compared = (culprit, *posterior.comparison_commits(culprit))
    runs = Counter(seen.commit for seen in posterior.counted_observations if seen.outcome is not Outcome.SKIP)
    if all(runs[commit] >= _MAX_COMPARISON_RUNS for commit in compared):
        return None
    runs.update(in_flight)
    last = in_flight[-1] if in_flight else posterior.counted_observations[-1].commit
    chosen: list[int] = []
    for _ in range(count):
        # Of equal counts the last commit goes first. Otherwise two workers in lockstep would each run one commit only,
        # and no place would see both.
        commit = min(compared, key=lambda commit: (runs[commit], commit != last))
        chosen.append(commit)
        runs[commit] += 1
        last = commit
    return chosen


def _places(posterior: Posterior, commit: int, outcome: Outcome) -> set[str]:
    """Return the places where a commit had an outcome. Empty if one of them is not known."""
    seen = {
        seen.place
        for seen in posterior.counted_observations
        if (seen.commit, seen.outcome) == (commit, outcome)
    }
    return set() if None in seen else {place for place in seen if place is not None}

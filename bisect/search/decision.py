"""What any number of workers run next, which runs in flight are no longer worth it, or the answer.

`next_round` is the entry: it returns a `Round`, or an `Answer`. `next_run` decides for one worker, whether runs agree
with each other or not. `next_runs` chooses what several workers run at once, and `runs_ahead` finds work for idle ones.
A run is worth what it is expected to tell by its cost. `most_runs` bounds a search, so that every search ends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Literal, TypeAlias

import numpy as np

from .belief import Belief, JointInformation, Outcome, credible_set, entropy, information_gain
from .graph import CommitGraph, Floats, Mask, Window
from .halving import (
    FoundCulprit,
    OnlySkipped,
    Probe,
    last_revert,
    next_step,
    sidestep,
    sidestep_batch,
    suspicion,
)
from .hypotheses import GOOD_END
from .posterior import Posterior, is_compared_in_one_place, next_comparison_runs

_IDEAL_MULTIPLE = 4.0
"""A search may take this many times the runs of an ideal one. A smaller factor ends searches that would find the
culprit."""
_EXTRA_RUNS = 20.0
"""A search may take this many runs more, because few runs scatter widely around their mean."""
_MAX_RUNS = 1000
"""No search takes more runs than this, however close the rates are. Nobody would wait for more."""
_LEAST_CAPACITY = 0.01
"""A run is assumed to tell at least this many bits. With almost equal rates the quotient would leave all bounds."""
_LONGEST_WAIT_FOR_FAILURE = 100.0
"""At most this many runs are expected until an end fails that should. A search of a failure as rare takes several times
as many."""
_LONGEST_WAIT_FOR_PASS = 20.0
"""At most this many runs are expected until an end passes that should. The limit is lower than for a failure, because
the user said that the end passes, not that it passes now and then."""


def most_runs(posterior: Posterior, *, confidence: float = 0.99) -> int:
    """Return the most runs that a search may take: four times what an ideal search would take, and 20.

    The ideal search is taken at the rates as they are known so far. C is the capacity of one run. No search takes by
    much fewer than (log2 n + log2 1 / (1 - confidence)) / C runs. The source is Burnashev, Data Transmission over a
    Discrete Channel with Feedback, 1976. Where the world is not as modelled the posterior need never settle, and this
    bound ends the search. It is at most 1,000, whatever the rates.
    """
    belief = posterior.belief
    weight = belief.commits / max(float(belief.commits.sum()), 1e-12)
    good, bad = float(weight @ belief.fail_if_good), float(weight @ belief.fail_if_bad)
    bits = log2(len(posterior.graph) + 1) - log2(1 - confidence)
    return int(
        min(_MAX_RUNS, _EXTRA_RUNS + _IDEAL_MULTIPLE * bits / max(_LEAST_CAPACITY, capacity(good, bad)))
    )


def runs_left(posterior: Posterior, *, confidence: float = 0.99) -> int:
    """Return how many more runs the search may take.

    A commit that cannot be tested takes none. A rerun that could not be judged, of a commit that can be tested, takes
    one.
    """
    judged = sum(1 / seen.alike for seen in posterior.observations if seen.outcome is not Outcome.SKIP)
    return most_runs(posterior, confidence=confidence) - round(judged) - posterior.lost_reruns.total()


def worth_waiting(posterior: Posterior, *, bad: bool, for_failure: bool) -> bool:
    """Return whether to wait for the bad end to show what it stands for (`bad`), else for the good one. Each must have
    run.

    for_failure: whether a failure is waited for; a pass, else.

    Where the bad end fails in the next run with chance p, 1 / p runs are expected until it does. With every pass it
    becomes less likely that the failure is a flaky one, and that there is one at all. As long as it is likelier than
    not that there is, a failure is waited for to the bound of the search.
    """
    if runs_left(posterior) < 1:
        return False
    belief = posterior.belief
    if for_failure and belief.commits.sum() > belief.no_culprit + belief.environment:
        return True
    chance = posterior.chance_to_fail(posterior.graph.bad) if bad else 1 - posterior.chance_to_fail(GOOD_END)
    return chance * (_LONGEST_WAIT_FOR_FAILURE if for_failure else _LONGEST_WAIT_FOR_PASS) > 1


def capacity(good: float, bad: float) -> float:
    """Return the bits that one run can tell of which side its commit is on, at the best share of bad ones.

    This is the capacity of the binary channel with these fail rates. With s = (H(bad) - H(good)) / (bad - good) the
    best chance to fail is 1 / (1 + 2^s). Then C = log2(1 + 2^s) - s (1 - good) - H(good). The source is Cover and
    Thomas, Elements of Information Theory, section 7.1. The Z-channel is good = 0.

    >>> round(capacity(0.0, 1.0), 6), round(capacity(0.0, 0.5), 4), capacity(0.5, 0.5)
    (1.0, 0.3219, 0.0)
    """
    if abs(bad - good) < 1e-9:
        return 0.0
    entropies = [_entropy(good), _entropy(bad)]
    slope = (entropies[1] - entropies[0]) / (bad - good)
    return max(0.0, float(np.logaddexp2(0.0, slope)) - slope * (1 - good) - entropies[0] + 0.0)


def _entropy(p: float) -> float:
    return -sum(q * log2(q) for q in (p, 1 - p) if q > 0)


@dataclass(frozen=True)
class NoCulprit:
    """No commit of the range explains the runs. All of them fail at one rate."""


@dataclass(frozen=True)
class EnvironmentMoved:
    """The runs changed with time, whatever commit they were of."""


@dataclass(frozen=True)
class PendingCulprit:
    """The culprit has the confidence. It is the answer once each commit in `missing` has shown its side."""

    culprit: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Undecided:
    """No run promises enough information. `suspects` hold the culprit with the confidence asked for.

    why: "nothing tells" where no run tells them apart any more. "bound" where as many runs were made as the search may
    take (`most_runs`).
    """

    suspects: tuple[int, ...]
    why: Literal["nothing tells", "bound"] = "nothing tells"


Decision: TypeAlias = (
    Probe | PendingCulprit | FoundCulprit | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided
)

_LEAST_INFORMATION = 1e-9
"""Information in bits is not divided by less than this, because no run may tell anything."""
_LEAST_SHARE = 0.2
"""A run that tells a smaller part than this of what the best one tells is not made, however cheap. Reruns of a commit
whose outcome may be its own are cheap and tell less and less."""
_EACH_SIDE = 3
"""This many runs must fail, and as many must pass, before a culprit is named, so that one flaky run cannot decide."""

_OTHER_LINE_WORTH = 0.1
"""A run of a commit that is not comparable with the only suspect counts this much of its information."""
_NEARLY_ALL = 0.999
"""Commits that hold this share of the belief are grouped. The rest count one by one, as they hardly change the
entropy."""
_MAX_GROUPED_COMMITS = 10_000
"""At most this many commits beyond an untestable stretch are compared to find those that no test can tell apart. Their
sets of ancestors take n^2 / 8 bytes."""


def next_run(posterior: Posterior, *, confidence: float = 0.99, costs: Floats | None = None) -> Decision:
    """Return the commit (or `GOOD_END`) whose next run promises the most information by its cost, or the answer.

    The search is that of `halving.next_step` as long as every run agrees with rates of 0 and 1, and these are not
    excluded. After its answer, or once runs contradict each other, a run's value is the mutual information of the
    culprit and the run. It counts by the chance that the commit can be tested, and by its cost. Commits that never ran,
    reruns, and the ends are treated alike. A commit is the answer once it has the confidence, has failed itself, and
    each of its parents that can be tested has passed.

    costs: of one run of each commit and, last, of `GOOD_END`, in any unit; shape [n + 1]; equal by default.

    A search ends with what is known once it has made `most_runs`. It ends too where it is expected to need more than
    these allow until the entropy that is left is what the confidence leaves.
    """
    if posterior.certain is not None:
        step = next_step(
            posterior.certain, weights=posterior.weights, costs=None if costs is None else costs[:-1]
        )
        if isinstance(step, Probe):
            return step
    answer = _answer(posterior, confidence)
    left = runs_left(posterior, confidence=confidence)
    if isinstance(answer, FoundCulprit):
        missing = runs_to_confirm(posterior, answer.culprit)
        if missing and left < 1:
            return Undecided(credible_set(posterior.belief, confidence), "bound")
        if missing:
            return PendingCulprit(answer.culprit, missing)
    if answer is not None:
        return answer
    gain = information_gain(posterior.graph, posterior.guess)
    best = best_by_cost(gain * worth(posterior), costs)
    most = float((gain * posterior.testable * rerun_worth(posterior)).max())
    lacking = entropy_left(posterior) - _entropy_at(confidence, len(posterior.graph))
    least_runs = lacking / max(most, _LEAST_INFORMATION)
    if left < 1 or least_runs > left:
        return Undecided(credible_set(posterior.belief, confidence), "bound" if left < 1 else "nothing tells")
    commit = GOOD_END if best == len(posterior.graph) else best
    return Probe(commit, None, None if posterior.certain is not None else least_runs)


def best_by_cost(information: Floats, costs: Floats | None) -> int:
    """Return the run that tells most by its cost, of those that tell a fair part of what the best one does."""
    value = information if costs is None else information / costs
    return int(np.argmax(np.where(information >= _LEAST_SHARE * information.max(), value, -1.0)))


def runs_to_confirm(posterior: Posterior, culprit: int) -> tuple[int, ...]:
    """Return what must run before a culprit is named: itself where it never failed, and the parents that never passed.

    Only parents that can be tested count. More runs must fail, or pass, where fewer than three did, of all commits. For
    a flaky failure one run of each end tells nothing, however far a range of one commit narrows it down.
    """
    compared = posterior.comparison_commits(culprit)
    missing = tuple(parent for parent in compared if not posterior.tally(parent)[1])
    failed, passed = posterior.run_totals
    if passed < _EACH_SIDE and not missing:
        missing = compared[:1]
    return missing if posterior.tally(culprit)[0] and failed >= _EACH_SIDE else (*missing, culprit)


def worth(posterior: Posterior) -> Floats:
    """Return what the information of one run of each commit and, last, of `GOOD_END` counts for. Shape [n + 1].

    That is the chance that it can be had. It is less where reruns share their trouble, and little for a commit beside
    the only suspect's line.
    """
    value = posterior.testable * rerun_worth(posterior)
    certain = posterior.certain
    if certain is not None and certain.suspects.sum() == 1:
        value[~comparable_commits(posterior.graph, int(np.argmax(certain.suspects)))] *= _OTHER_LINE_WORTH
    return value


def comparable_commits(graph: CommitGraph, culprit: int) -> Mask:
    """Return the commits that tell whether a commit is to blame, whatever lies on lines beside it. Shape [n + 1].

    These are its ancestors, itself, its descendants, and `GOOD_END`. Another line may have the same fault, and says
    little of this one.
    """
    comparable = np.append(graph.ancestors(culprit), True)
    descends = np.zeros(len(graph), dtype=np.bool_)
    descends[culprit] = True
    for commit in range(culprit + 1, len(graph)):
        descends[commit] = any(descends[parent] for parent in graph.parents[commit])
    comparable[:-1] |= descends
    return comparable


def rerun_worth(posterior: Posterior) -> Floats:
    """Return how many fresh runs one more run of each commit and, last, of `GOOD_END` counts for. Shape [n + 1].

    The run is in one of the places so far, whichever.
    """
    worth = np.ones(len(posterior.graph) + 1)
    if posterior.shared:
        places = {seen.place for seen in posterior.counted_observations}
        # GOOD_END is -1, the last place.
        for commit in {seen.commit for seen in posterior.counted_observations}:
            worth[commit] = np.mean([posterior.rerun_weight(commit, place) for place in places])
    return worth


def _answer(
    posterior: Posterior, confidence: float
) -> FoundCulprit | OnlySkipped | NoCulprit | EnvironmentMoved | None:
    """Return the hypothesis that has reached the confidence, if any.

    Commits that no test can tell apart count as one.
    """
    belief = posterior.belief
    if belief.no_culprit + belief.environment >= confidence:
        return NoCulprit() if belief.no_culprit > belief.environment else EnvironmentMoved()
    if belief.commits.sum() < confidence:
        return None
    likeliest = int(np.argmax(belief.commits))
    if belief.commits[likeliest] >= confidence and likeliest not in posterior.skipped_commits:
        return FoundCulprit(likeliest)
    beyond = posterior.out_of_reach
    # No test tells apart only those that it cannot reach and their children.
    if beyond and belief.commits[[*posterior.graph.with_children(beyond)]].sum() >= confidence:
        likely = credible_set(belief, 1 - (1 - confidence) / 10)
        for together in _indistinguishable(posterior.graph, likely, beyond):
            if belief.commits[together].sum() >= confidence:
                return OnlySkipped(tuple(sorted(together)))
    return None


def _indistinguishable(
    graph: CommitGraph, commits: tuple[int, ...], skipped: frozenset[int]
) -> list[list[int]]:
    """Split `commits` into those that no commit outside of `skipped` has some, not all, of as ancestors.

    Such a group holds no more than one commit outside of `skipped`, a child of one that is in it. A run of its own
    tells each other commit from all the rest.
    """
    beside = graph.with_children(skipped)
    together = [commit for commit in commits if commit in beside]
    if len(together) > _MAX_GROUPED_COMMITS:
        return [[commit] for commit in commits]
    bit = {commit: 1 << place for place, commit in enumerate(together)}
    above: list[int] = []
    for commit, parents in enumerate(graph.parents):
        reached = bit.get(commit, 0)
        for parent in parents:
            reached |= above[parent]
        above.append(reached)
    seen_together = {reached for commit, reached in enumerate(above) if commit not in skipped}
    groups: dict[tuple[bool, ...], list[int]] = {}
    for commit in together:
        groups.setdefault(tuple(mask & bit[commit] > 0 for mask in seen_together), []).append(commit)
    return [*groups.values(), *([commit] for commit in commits if commit not in beside)]


def _entropy_at(confidence: float, commits: int) -> float:
    """Return the most entropy, in bits, that is left where one of so many commits has a confidence (Fano's
    inequality)."""
    return float(entropy(np.array(confidence))) + (1 - confidence) * log2(max(1, commits))


def entropy_left(posterior: Posterior) -> float:
    """Return the entropy over all hypotheses, in bits. Commits that no test can tell apart count as one."""
    belief = posterior.guess
    commits = belief.commits
    if posterior.skipped_commits:
        likely = credible_set(belief, _NEARLY_ALL)
        groups = _indistinguishable(posterior.graph, likely, posterior.out_of_reach)
        rest = np.delete(commits, list(likely))
        commits = np.array([*(commits[together].sum() for together in groups), *rest])
    every = np.array([*commits, belief.no_culprit, belief.environment])
    every = every[every > 0]
    return float(-(every * np.log2(every)).sum())


_LEAST_BITS = 0.01
"""A run is assumed to tell at least this many bits, so that the number of runs expected stays finite."""


def expected_bits(posterior: Posterior) -> Floats:
    """Return the information of one run of each commit and, last, of `GOOD_END`, by the chance that it can be had.
    Shape [n + 1]."""
    return information_gain(posterior.graph, planning_belief(posterior)) * worth(posterior)


def planning_belief(posterior: Posterior) -> Belief:
    """Return the belief. While the runs agree with rates of 0 and 1, return what it would be at these rates."""
    certain = posterior.certain
    if certain is None or certain.suspects.sum() == 1:
        return posterior.guess
    weights = suspicion(certain, posterior.weights)
    return Belief(
        commits=weights / weights.sum(),
        fail_if_bad=np.ones(len(weights)),
        fail_if_good=np.zeros(len(weights)),
        no_culprit=0.0,
        fail_if_no_culprit=0.0,
        environment=0.0,
        fail_if_environment=0.0,
    )


def runs_expected(posterior: Posterior, *, confidence: float) -> tuple[float, float]:
    """Return how many more runs a search takes at the rates as they are known so far, and how many with certain runs.

    H is the entropy that is left, and C the capacity of one run, as of `most_runs`. The first is (H + log2 1 / (1 -
    confidence)) / C. The second is H: so many runs would halve what is left where each run told the truth.
    """
    belief, left = posterior.belief, entropy_left(posterior)
    weight = belief.commits / max(float(belief.commits.sum()), 1e-12)
    bits = capacity(float(weight @ belief.fail_if_good), float(weight @ belief.fail_if_bad))
    return (left - log2(1 - confidence)) / max(bits, _LEAST_BITS), left


_WORTHLESS = 0.05
"""A run that tells less than this part of what the best run tells is not started, or cancelled."""
_EXCHANGES = 2
"""Each chosen commit is exchanged this many times for a better one. Two rounds turn a half and a quarter into
thirds."""
_MOST_CANDIDATES = 128
"""A batch is chosen among at most this many commits. A choice among all takes time in proportion to the range."""


def next_runs(
    posterior: Posterior, *, count: int, in_flight: Sequence[int] = (), costs: Floats | None = None
) -> list[int]:
    """Return up to `count` commits (or `GOOD_END`) to run beside those in flight.

    The choice is greedy at first: each adds the most information to those before it and those in flight, by its cost.
    Then each is exchanged for the best beside all others, twice, which turns a half and a quarter into thirds. Fewer
    come back if no run adds any. Call it while `next_run` gives a probe.

    Of a large range 128 commits are considered: of each 128th of the belief below them, the best one alone.
    """
    choice = _Choice.from_posterior(posterior, planning_belief(posterior), worth(posterior), costs, in_flight)
    chosen = choice.choose(count, in_flight)
    for place in [*range(len(chosen))] * (_EXCHANGES if len(chosen) > 1 else 0):
        best = choice.best_addition([*in_flight, *chosen[:place], *chosen[place + 1 :]])
        if best is not None:
            chosen[place] = best
    return chosen


def runs_ahead(
    posterior: Posterior,
    *,
    count: int,
    in_flight: Sequence[int],
    under_way: Iterable[int],
    costs: Floats | None = None,
) -> list[int]:
    """Return up to `count` commits that never ran, for workers who have nothing left to search.

    These runs will confirm the culprit that is about to be found, whichever it is. Those `under_way` already go first.

    As long as runs agree with rates of 0 and 1 the search takes these for given. A few suspects are then work for a few
    workers only. The confidence does not take them for given, and would wait for builds in the end.
    """
    fresh = worth(posterior)
    fresh[[seen.commit for seen in posterior.counted_observations]] = 0.0
    if posterior.certain is not None:
        for suspect in np.flatnonzero(posterior.certain.suspects).tolist():
            fresh[~comparable_commits(posterior.graph, suspect)] = 0.0
    choice = _Choice.from_posterior(posterior, posterior.guess, fresh, costs, [*in_flight, *under_way])
    chosen: list[int] = []
    for commit in under_way:
        if len(chosen) < count and choice.adds(commit, [*in_flight, *chosen]):
            chosen.append(commit)
    return [*chosen, *choice.choose(count - len(chosen), [*in_flight, *chosen])]


@dataclass(frozen=True, eq=False)
class _Choice:
    """Commits (or `GOOD_END`) among which is chosen, what runs of them tell beside each other, what that is worth, and
    what each costs.

    A run that adds less than `least` is not started.
    """

    commits: list[int]
    joint: JointInformation
    worths: Floats
    costs: Floats | None
    least: float

    @classmethod
    def from_posterior(
        cls,
        posterior: Posterior,
        belief: Belief,
        worths: Floats,
        costs: Floats | None,
        in_flight: Iterable[int],
    ) -> "_Choice":
        """Return the choice among all commits by a belief. `worths` and `costs` have shape [n + 1]."""
        weight = worths if costs is None else worths / costs
        commits = [*dict.fromkeys([*_batch_candidates(posterior, belief, weight), *in_flight])]
        joint = JointInformation.from_belief(posterior.graph, belief, commits)
        of_these = worths[commits]
        least = _WORTHLESS * float(np.max(joint.added_information([]) * of_these)) if commits else 0.0
        return cls(commits, joint, of_these, None if costs is None else costs[commits], least)

    def choose(self, count: int, others: Sequence[int]) -> list[int]:
        """Return up to so many, each the best beside runs of others and those before it. Return fewer where none adds
        anything."""
        chosen: list[int] = []
        while len(chosen) < count and (best := self.best_addition([*others, *chosen])) is not None:
            chosen.append(best)
        return chosen

    def best_addition(self, others: Sequence[int]) -> int | None:
        """Return the best by its cost beside runs of others. Return None where none adds anything."""
        if not self.commits:
            return None
        information = self.joint.added_information(others) * self.worths
        best = best_by_cost(information, self.costs)
        return self.commits[best] if information[best] > self.least else None

    def adds(self, commit: int, others: Sequence[int]) -> bool:
        """Return whether a run of one of the commits adds anything to runs of others."""
        place = self.commits.index(commit)
        return bool((self.joint.added_information(others) * self.worths)[place] > self.least)


def _batch_candidates(posterior: Posterior, belief: Belief, weight: Floats) -> list[int]:
    """Return the commits (or `GOOD_END`) among which a batch is chosen. Each alone tells most at its share of
    belief."""
    value = information_gain(posterior.graph, belief) * weight
    useful = np.flatnonzero(value > 0)
    if len(useful) > _MOST_CANDIDATES:
        share = np.append(posterior.graph.ancestor_sums(belief.commits), 0.0)[useful]
        part = np.clip((share * _MOST_CANDIDATES).astype(np.int64), 0, _MOST_CANDIDATES)
        best_last = np.argsort(value[useful], kind="stable")
        best = np.full(_MOST_CANDIDATES + 1, -1, dtype=np.int64)
        best[part[best_last]] = useful[best_last]
        useful = best[best >= 0]
    return [GOOD_END if commit == len(posterior.graph) else commit for commit in useful.tolist()]


def best_rate(posterior: Posterior, *, costs: Floats, in_flight: Sequence[int] = ()) -> float:
    """Return the most information that one more run adds to those in flight, by its cost. `costs` as of `next_runs`."""
    value = expected_bits(posterior) / costs
    if in_flight:
        weight = worth(posterior) / costs
        belief = planning_belief(posterior)
        considered = [*dict.fromkeys([*_batch_candidates(posterior, belief, weight), *in_flight])]
        joint = JointInformation.from_belief(posterior.graph, belief, considered)
        value = joint.added_information(in_flight) * weight[considered]
    return float(value.max())


def worthless_runs(posterior: Posterior, in_flight: Sequence[int]) -> list[int]:
    """Return the places in `in_flight` of runs to cancel. They now tell less than a twentieth of what the best run
    would."""
    information = information_gain(posterior.graph, planning_belief(posterior))
    # GOOD_END is -1, the last place.
    return [
        place
        for place, commit in enumerate(in_flight)
        if information[commit] < _WORTHLESS * information.max()
    ]


_LIKELY = 0.9
"""Runs confirm a commit as the culprit once its probability is this. Before that, they search."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Start runs of the commits in `start`, and cancel those at the places `cancel` of the runs in flight.

    confirming: the culprit that the runs confirm; None while it is searched. expected_steps: about how many tests the
    search still takes, one after the other. least_runs: as of `halving.Probe`.
    """

    start: tuple[int, ...]
    cancel: tuple[int, ...] = ()
    confirming: int | None = None
    expected_steps: float | None = None
    least_runs: float | None = None


Answer: TypeAlias = FoundCulprit | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided


def next_round(
    posterior: Posterior,
    *,
    in_flight: Sequence[int] = (),
    workers: int = 1,
    confidence: float = 0.99,
    costs: Floats | None = None,
    windows: Sequence[Window] = (),
    ahead: bool = True,
) -> Round | Answer:
    """Return the next runs, or the answer. A culprit is the answer only once it and its parents were run, and compared
    in one place.

    in_flight: the commits whose runs are not finished; with none, at least one run is started. costs: as of `next_run`.
    windows: what the certain search steps around. ahead: workers that the search has no use for run what will confirm
    its answer; nobody else waits for them.
    """
    decision = next_run(posterior, confidence=confidence, costs=costs)
    undone = _untried_revert(posterior, decision, windows)
    if undone is not None and runs_left(posterior, confidence=confidence) > 0:
        kept, lost = _split(in_flight, {undone})
        return Round(start=() if kept else (undone,), cancel=lost, expected_steps=1.0)
    if isinstance(decision, Probe):
        searched = _search(posterior, decision, in_flight, workers, costs, windows)
        return _fill_idle_workers(searched, posterior, in_flight, workers, costs) if ahead else searched
    if not isinstance(decision, PendingCulprit | FoundCulprit):
        return decision
    kept, lost = _split(in_flight, {decision.culprit, *posterior.comparison_commits(decision.culprit)})
    if isinstance(decision, PendingCulprit):
        missing = [commit for commit in decision.missing if commit not in kept]
        start = tuple(missing[: max(0, workers - len(kept))])
        return Round(start=start, cancel=lost, confirming=decision.culprit)
    if is_compared_in_one_place(posterior, decision.culprit):
        return decision
    if runs_left(posterior, confidence=confidence) < 1:
        return Undecided(credible_set(posterior.belief, confidence), "bound")
    compare = next_comparison_runs(
        posterior, decision.culprit, in_flight=kept, count=max(0, workers - len(kept))
    )
    if compare is None:
        return Undecided(credible_set(posterior.belief, confidence))
    return Round(start=tuple(compare), cancel=lost, confirming=decision.culprit)


def _untried_revert(posterior: Posterior, decision: Decision, windows: Sequence[Window]) -> int | None:
    """Return the untried commit that undoes the culprit, to run it before any run is spent on confirmation.

    The culprit is the only suspect, or the commit that has the confidence.
    """
    culprit = None
    if isinstance(decision, PendingCulprit | FoundCulprit):
        culprit = decision.culprit
    elif isinstance(decision, Probe) and posterior.certain is not None:
        alone = next_step(posterior.certain)
        culprit = alone.culprit if isinstance(alone, FoundCulprit) else None
    if culprit is None:
        return None
    return last_revert(windows, {seen.commit for seen in posterior.counted_observations}, culprit)


def _search(
    posterior: Posterior,
    step: Probe,
    in_flight: Sequence[int],
    workers: int,
    costs: Floats | None,
    windows: Sequence[Window],
) -> Round:
    lost = worthless_runs(posterior, in_flight)
    kept = [commit for place, commit in enumerate(in_flight) if place not in lost]
    start = [step.commit]
    if workers > 1:
        start = next_runs(posterior, count=max(0, workers - len(kept)), in_flight=kept, costs=costs)
        # A batch leaves out what tells nothing beside the runs in flight. With none in flight, one is run.
        start = start or ([] if kept else [step.commit])
    certain = posterior.certain
    alone = None if certain is None else next_step(certain)
    if certain is not None and isinstance(alone, Probe):
        start = (
            [sidestep(certain, step.commit, windows)]
            if workers == 1
            else sidestep_batch(certain, start, windows, in_flight=kept)
        )
    return Round(
        start=tuple(start),
        cancel=tuple(lost),
        confirming=alone.culprit if isinstance(alone, FoundCulprit) else _likely_culprit(posterior),
        expected_steps=step.expected_steps,
        least_runs=step.least_runs,
    )


def _fill_idle_workers(
    searched: Round, posterior: Posterior, in_flight: Sequence[int], workers: int, costs: Floats | None
) -> Round:
    """Return the round with runs for idle workers, too. A search that takes its runs for certain leaves some idle."""
    kept = [commit for place, commit in enumerate(in_flight) if place not in searched.cancel]
    spare = workers - len(kept) - len(searched.start)
    if spare <= 0 or posterior.certain is None or searched.confirming is not None:
        return searched
    lost = {in_flight[place]: place for place in searched.cancel}
    beside = [*kept, *searched.start]
    ahead = runs_ahead(posterior, count=spare, in_flight=beside, under_way=lost, costs=costs)
    still = {lost[commit] for commit in ahead if commit in lost}
    return replace(
        searched,
        start=(*searched.start, *(commit for commit in ahead if commit not in lost)),
        cancel=tuple(place for place in searched.cancel if place not in still),
    )


def _likely_culprit(posterior: Posterior) -> int | None:
    """Return a commit that is probably to blame, though runs contradicted each other."""
    likeliest = int(posterior.belief.commits.argmax())
    return likeliest if posterior.belief.commits[likeliest] >= _LIKELY else None


def _split(in_flight: Sequence[int], wanted: set[int]) -> tuple[list[int], tuple[int, ...]]:
    """Return the commits in flight that are wanted, and the places of the others."""
    kept = [commit for commit in in_flight if commit in wanted]
    return kept, tuple(place for place, commit in enumerate(in_flight) if commit not in wanted)

"""Which commits to run next on any number of workers, which runs in flight to cancel, and when the answer is known.

`next_round` is the entry: it returns a `Round` or an `Answer`. `next_run` chooses the commit for one worker,
`next_runs` those for several at once, and `runs_ahead` finds work for idle workers. The value of a run is its expected
information per cost. `max_runs` bounds the number of runs, so that every search ends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Literal, TypeAlias

import numpy as np

from .belief import Belief, JointInformation, Outcome, credible_set, information_gain, scalar_entropy
from .graph import NO_WINDOWS, CommitGraph, Floats, Mask, Windows
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


@dataclass(frozen=True)
class NoCulprit:
    """The answer that no commit of the range explains the runs: all of them fail at one rate."""


@dataclass(frozen=True)
class EnvironmentMoved:
    """The answer that the runs changed with time, whatever their commits."""


@dataclass(frozen=True)
class PendingCulprit:
    """A culprit that has the confidence. It becomes the answer once each commit in `missing` has shown its side."""

    culprit: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Undecided:
    """The answer that no further run gives enough information.

    `suspects` contain the culprit with the asked confidence.

    why: "bound" where the search has made as many runs as it may (`max_runs`), otherwise "nothing tells".
    """

    suspects: tuple[int, ...]
    why: Literal["nothing tells", "bound"] = "nothing tells"


Decision: TypeAlias = (
    Probe | PendingCulprit | FoundCulprit | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided
)

Answer: TypeAlias = FoundCulprit | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided

_LIKELY = 0.9
"""Runs confirm a commit as the culprit once it has this probability. Before that, they search."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """The runs to start, and those to cancel by their places among the runs in flight.

    confirming: the culprit that the runs confirm; None while it is searched.
    expected_steps: about how many tests the search still takes, one after the other.
    min_runs: as in `halving.Probe`.
    """

    start: tuple[int, ...]
    cancel: tuple[int, ...] = ()
    confirming: int | None = None
    expected_steps: float | None = None
    min_runs: float | None = None


def next_round(
    posterior: Posterior,
    *,
    in_flight: Sequence[int] = (),
    workers: int = 1,
    confidence: float = 0.99,
    costs: Floats | None = None,
    windows: Windows = NO_WINDOWS,
    ahead: bool = True,
) -> Round | Answer:
    """Return the next runs, or the answer.

    A culprit is the answer only after it and its parents were run, and compared in one place.

    in_flight: the commits whose runs are not finished. If there are none, at least one run is started.
    costs: as in `next_run`.
    windows: the stretches between a change and its undoing, which a search without contradictions steps around.
    ahead: whether idle workers run commits that will confirm the answer. Nobody waits for these runs.
    """
    decision = next_run(posterior, confidence=confidence, costs=costs)
    revert = _untried_revert(posterior, decision, windows)
    if revert is not None and runs_left(posterior, confidence=confidence) > 0:
        kept, cancelled = _split_in_flight(in_flight, {revert})
        return Round(start=() if kept else (revert,), cancel=cancelled, expected_steps=1.0)
    if isinstance(decision, Probe):
        searched = _search(posterior, decision, in_flight, workers, costs, windows)
        return _fill_idle_workers(searched, posterior, in_flight, workers, costs) if ahead else searched
    if not isinstance(decision, PendingCulprit | FoundCulprit):
        return decision
    kept, cancelled = _split_in_flight(
        in_flight, {decision.culprit, *posterior.comparison_commits(decision.culprit)}
    )
    if isinstance(decision, PendingCulprit):
        missing = [commit for commit in decision.missing if commit not in kept]
        start = tuple(missing[: max(0, workers - len(kept))])
        return Round(start=start, cancel=cancelled, confirming=decision.culprit)
    if is_compared_in_one_place(posterior, decision.culprit):
        return decision
    if runs_left(posterior, confidence=confidence) < 1:
        return Undecided(credible_set(posterior.belief, confidence), "bound")
    compare = next_comparison_runs(
        posterior, decision.culprit, in_flight=kept, count=max(0, workers - len(kept))
    )
    if compare is None:
        return Undecided(credible_set(posterior.belief, confidence))
    return Round(start=tuple(compare), cancel=cancelled, confirming=decision.culprit)


def _untried_revert(posterior: Posterior, decision: Decision, windows: Windows) -> int | None:
    """Return the untried commit that undoes the culprit. It is run before any run is spent on confirmation.

    The culprit is here the only suspect, or the commit that has the confidence.
    """
    culprit = None
    if isinstance(decision, PendingCulprit | FoundCulprit):
        culprit = decision.culprit
    elif isinstance(decision, Probe) and posterior.certain is not None:
        certain_step = next_step(posterior.certain)
        culprit = certain_step.culprit if isinstance(certain_step, FoundCulprit) else None
    if culprit is None:
        return None
    return last_revert(windows, {seen.commit for seen in posterior.counted_observations}, culprit)


def _search(
    posterior: Posterior,
    step: Probe,
    in_flight: Sequence[int],
    workers: int,
    costs: Floats | None,
    windows: Windows,
) -> Round:
    """Return the round that searches on from `step`."""
    cancelled = worthless_runs(posterior, in_flight)
    kept = [commit for place, commit in enumerate(in_flight) if place not in cancelled]
    start = [step.commit]
    if workers > 1:
        start = next_runs(posterior, count=max(0, workers - len(kept)), in_flight=kept, costs=costs)
        # A batch may be empty even if no run is in flight.
        start = start or ([] if kept else [step.commit])
    certain = posterior.certain
    certain_step = None if certain is None else next_step(certain)
    if certain is not None and isinstance(certain_step, Probe):
        start = (
            [sidestep(certain, step.commit, windows)]
            if workers == 1
            else sidestep_batch(certain, start, windows, in_flight=kept)
        )
    return Round(
        start=tuple(start),
        cancel=tuple(cancelled),
        confirming=(
            certain_step.culprit if isinstance(certain_step, FoundCulprit) else _likely_culprit(posterior)
        ),
        expected_steps=step.expected_steps,
        min_runs=step.min_runs,
    )


def _fill_idle_workers(
    searched: Round, posterior: Posterior, in_flight: Sequence[int], workers: int, costs: Floats | None
) -> Round:
    """Return the round with further runs for workers that it leaves idle.

    Only a search whose runs agree leaves workers idle, because it takes its runs for certain. A run that the round
    cancels may continue as one of the further runs.
    """
    kept = [commit for place, commit in enumerate(in_flight) if place not in searched.cancel]
    idle = workers - len(kept) - len(searched.start)
    if idle <= 0 or posterior.certain is None or searched.confirming is not None:
        return searched
    place_of_cancelled = {in_flight[place]: place for place in searched.cancel}
    ahead = runs_ahead(
        posterior,
        count=idle,
        in_flight=[*kept, *searched.start],
        under_way=place_of_cancelled,
        costs=costs,
    )
    continued = {place_of_cancelled[commit] for commit in ahead if commit in place_of_cancelled}
    return replace(
        searched,
        start=(*searched.start, *(commit for commit in ahead if commit not in place_of_cancelled)),
        cancel=tuple(place for place in searched.cancel if place not in continued),
    )


def _likely_culprit(posterior: Posterior) -> int | None:
    """Return the commit that is probably to blame, although runs contradict each other."""
    likeliest = int(posterior.belief.commits.argmax())
    return likeliest if posterior.belief.commits[likeliest] >= _LIKELY else None


def _split_in_flight(in_flight: Sequence[int], wanted: set[int]) -> tuple[list[int], tuple[int, ...]]:
    """Return the commits in flight that are wanted, and the places of the others."""
    kept = [commit for commit in in_flight if commit in wanted]
    return kept, tuple(place for place, commit in enumerate(in_flight) if commit not in wanted)


_MIN_INFORMATION = 1e-9
"""No information, in bits, is taken as smaller than this in a quotient, because every run may give none."""

_MIN_SHARE = 0.2
"""A run that gives less than this share of the information of the best one is not made, however cheap. Reruns of a
commit whose outcome may be its own are cheap and give less and less."""

_EACH_SIDE = 3
"""At least this many runs must fail, and as many must pass, before a culprit is named. One flaky run cannot decide."""

_NEARLY_ALL = 0.999
"""Commits that hold this share of the belief are grouped. All others count one by one, because they hardly change the
entropy."""

_MAX_GROUPED_COMMITS = 10_000
"""At most this many commits are compared to find those that no test can distinguish. Their sets of ancestors take n^2 /
8 bytes."""


def next_run(posterior: Posterior, *, confidence: float = 0.99, costs: Floats | None = None) -> Decision:
    """Return the commit (or `GOOD_END`) whose next run gives most information per cost, or the answer.

    While every run agrees with rates of 0 and 1, and these are possible, the search is that of `halving.next_step`.
    After its answer, or once runs contradict each other, the information of a run is its mutual information with the
    culprit. It is weighted by the chance that the commit can be tested. New commits, reruns and the ends are treated
    alike.

    A commit is the answer once it has the confidence, has failed itself, and each of its testable parents has passed.
    The search ends undecided after `max_runs`. It also does so when it is expected to need more runs than that to reach
    the confidence.

    costs: of one run of each commit and, last, of `GOOD_END`, in any unit; shape [n + 1]; equal by default.
    """
    if posterior.certain is not None:
        step = next_step(
            posterior.certain, weights=posterior.weights, costs=None if costs is None else costs[:-1]
        )
        if isinstance(step, Probe):
            return step
    answer = _answer(posterior, confidence)
    left = runs_left(posterior, confidence=confidence)
    if isinstance(answer, FoundCulprit) and (missing := runs_to_confirm(posterior, answer.culprit)):
        if left < 1:
            return Undecided(credible_set(posterior.belief, confidence), "bound")
        return PendingCulprit(answer.culprit, missing)
    if answer is not None:
        return answer
    gain = information_gain(posterior.graph, posterior.guess)
    best = best_by_cost(gain * information_weights(posterior), costs)
    most_bits = float((gain * posterior.testable * rerun_weights(posterior)).max())
    missing_bits = entropy_left(posterior) - _entropy_at(confidence, len(posterior.graph))
    min_runs = missing_bits / max(most_bits, _MIN_INFORMATION)
    if left < 1 or min_runs > left:
        return Undecided(credible_set(posterior.belief, confidence), "bound" if left < 1 else "nothing tells")
    commit = GOOD_END if best == len(posterior.graph) else best
    return Probe(commit, None, None if posterior.certain is not None else min_runs)


def best_by_cost(information: Floats, costs: Floats | None) -> int:
    """Return the run with most information per cost, among those with a fair share of the greatest information."""
    value = information if costs is None else information / costs
    return int(np.argmax(np.where(information >= _MIN_SHARE * information.max(), value, -1.0)))


def runs_to_confirm(posterior: Posterior, culprit: int) -> tuple[int, ...]:
    """Return the commits to run before a culprit is named: itself if it never failed, and parents that never passed.

    Only testable parents count. The culprit or a parent is run again while fewer than three runs, of any commits,
    failed or passed. A flaky failure cannot be confirmed by one run of each, however few commits a range has.
    """
    compared = posterior.comparison_commits(culprit)
    missing = tuple(parent for parent in compared if not posterior.tally(parent)[1])
    failed, passed = posterior.run_totals
    if passed < _EACH_SIDE and not missing:
        missing = compared[:1]
    return missing if posterior.tally(culprit)[0] and failed >= _EACH_SIDE else (*missing, culprit)


def _answer(
    posterior: Posterior, confidence: float
) -> FoundCulprit | OnlySkipped | NoCulprit | EnvironmentMoved | None:
    """Return the hypothesis that has reached the confidence, if any.

    Commits that no test can distinguish count as one.
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
    # Only commits out of reach, and their children, can be indistinguishable.
    if beyond and belief.commits[[*posterior.graph.with_children(beyond)]].sum() >= confidence:
        likely = credible_set(belief, 1 - (1 - confidence) / 10)
        for together in _indistinguishable(posterior.graph, likely, beyond):
            if belief.commits[together].sum() >= confidence:
                return OnlySkipped(tuple(sorted(together)))
    return None


def _indistinguishable(
    graph: CommitGraph, commits: tuple[int, ...], skipped: frozenset[int]
) -> list[list[int]]:
    """Split `commits` into groups that no test can divide. `skipped` are the commits that cannot be tested.

    No testable commit has some but not all of a group among its ancestors. A group holds at most one testable commit, a
    child of a skipped one. All other testable commits stand alone.
    """
    unreachable = graph.with_children(skipped)
    grouped = [commit for commit in commits if commit in unreachable]
    if len(grouped) > _MAX_GROUPED_COMMITS:
        return [[commit] for commit in commits]
    bit = {commit: 1 << place for place, commit in enumerate(grouped)}
    ancestors: list[int] = []
    for commit, parents in enumerate(graph.parents):
        mask = bit.get(commit, 0)
        for parent in parents:
            mask |= ancestors[parent]
        ancestors.append(mask)
    testable_masks = {mask for commit, mask in enumerate(ancestors) if commit not in skipped}
    groups: dict[tuple[bool, ...], list[int]] = {}
    for commit in grouped:
        groups.setdefault(tuple(mask & bit[commit] > 0 for mask in testable_masks), []).append(commit)
    return [*groups.values(), *([commit] for commit in commits if commit not in bit)]


def _entropy_at(confidence: float, commits: int) -> float:
    """Return the greatest entropy left, in bits, when one of the commits has the confidence (Fano's inequality)."""
    return scalar_entropy(confidence) + (1 - confidence) * log2(max(1, commits))


def entropy_left(posterior: Posterior) -> float:
    """Return the entropy over all hypotheses, in bits. Commits that no test can distinguish count as one."""
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


_WORTHLESS = 0.05
"""A run that gives less than this share of the information of the best run is not started, or is cancelled."""

_EXCHANGES = 2
"""Each chosen commit is replaced by a better one this many times. Two rounds turn a half and a quarter into thirds."""

_MAX_CANDIDATES = 128
"""A batch is chosen among at most this many commits, because the time of a choice grows with their number."""


def next_runs(
    posterior: Posterior, *, count: int, in_flight: Sequence[int] = (), costs: Floats | None = None
) -> list[int]:
    """Return up to `count` commits (or `GOOD_END`) to run in addition to those in flight.

    Commits are chosen greedily: each adds the most information per cost to the runs before it and those in flight. Then
    each is twice replaced by the best addition to all others. Fewer commits are returned if no run adds information.

    In a large range only 128 commits are considered: the best one of each 128th of the belief. Requires that `next_run`
    returns a probe.
    """
    chooser = _BatchChooser.from_posterior(
        posterior, planning_belief(posterior), information_weights(posterior), costs, in_flight
    )
    chosen = chooser.choose(count, in_flight)
    for place in [*range(len(chosen))] * (_EXCHANGES if len(chosen) > 1 else 0):
        best = chooser.best_addition([*in_flight, *chosen[:place], *chosen[place + 1 :]])
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
    """Return up to `count` commits that never ran, for workers that have nothing left to search.

    These runs will confirm the culprit that is about to be found, whichever it is. Runs that are `under_way` go first.

    A search whose runs agree takes them for certain, and its few suspects occupy few workers. The confidence does not
    take them for certain, and would wait for these builds in the end.
    """
    fresh = information_weights(posterior)
    fresh[[seen.commit for seen in posterior.counted_observations]] = 0.0
    if posterior.certain is not None:
        for suspect in np.flatnonzero(posterior.certain.suspects).tolist():
            fresh[~comparable_commits(posterior.graph, suspect)] = 0.0
    chooser = _BatchChooser.from_posterior(posterior, posterior.guess, fresh, costs, [*in_flight, *under_way])
    chosen: list[int] = []
    for commit in under_way:
        if len(chosen) < count and chooser.is_useful(commit, [*in_flight, *chosen]):
            chosen.append(commit)
    return [*chosen, *chooser.choose(count - len(chosen), [*in_flight, *chosen])]


@dataclass(frozen=True, eq=False)
class _BatchChooser:
    """Chooses commits (or `GOOD_END`) whose runs together give most information.

    joint: the joint information of runs of `commits`.
    weights: the weight of the information of each commit.
    costs: of a run of each commit; None if equal.
    least: a run that adds less information than this is not started.
    """

    commits: list[int]
    joint: JointInformation
    weights: Floats
    costs: Floats | None
    least: float

    @classmethod
    def from_posterior(
        cls,
        posterior: Posterior,
        belief: Belief,
        weights: Floats,
        costs: Floats | None,
        in_flight: Iterable[int],
    ) -> "_BatchChooser":
        """Return the chooser among all commits for a belief. `weights` and `costs` have shape [n + 1]."""
        value = weights if costs is None else weights / costs
        commits = [*dict.fromkeys([*_batch_candidates(posterior, belief, value), *in_flight])]
        joint = JointInformation.from_belief(posterior.graph, belief, commits)
        candidate_weights = weights[commits]
        least = (
            _WORTHLESS * float(np.max(joint.added_information([]) * candidate_weights)) if commits else 0.0
        )
        return cls(commits, joint, candidate_weights, None if costs is None else costs[commits], least)

    def choose(self, count: int, others: Sequence[int]) -> list[int]:
        """Return up to `count` commits, each the best addition to runs of `others` and those before it."""
        chosen: list[int] = []
        while len(chosen) < count and (best := self.best_addition([*others, *chosen])) is not None:
            chosen.append(best)
        return chosen

    def best_addition(self, others: Sequence[int]) -> int | None:
        """Return the commit that adds most information per cost to runs of `others`. None where none adds enough."""
        if not self.commits:
            return None
        information = self.joint.added_information(others) * self.weights
        best = best_by_cost(information, self.costs)
        return self.commits[best] if information[best] > self.least else None

    def is_useful(self, commit: int, others: Sequence[int]) -> bool:
        """Return whether a run of one of the commits adds enough information to runs of `others`."""
        place = self.commits.index(commit)
        return bool((self.joint.added_information(others) * self.weights)[place] > self.least)


def _batch_candidates(posterior: Posterior, belief: Belief, weight: Floats) -> list[int]:
    """Return the commits (or `GOOD_END`) among which a batch is chosen: the best of each share of the belief."""
    value = information_gain(posterior.graph, belief) * weight
    useful = np.flatnonzero(value > 0)
    if len(useful) > _MAX_CANDIDATES:
        share = np.append(posterior.graph.ancestor_sums(belief.commits), 0.0)[useful]
        part = np.clip((share * _MAX_CANDIDATES).astype(np.int64), 0, _MAX_CANDIDATES)
        best_last = np.argsort(value[useful], kind="stable")
        best = np.full(_MAX_CANDIDATES + 1, -1, dtype=np.int64)
        best[part[best_last]] = useful[best_last]
        useful = best[best >= 0]
    return [GOOD_END if commit == len(posterior.graph) else commit for commit in useful.tolist()]


def best_information_rate(posterior: Posterior, *, costs: Floats, in_flight: Sequence[int] = ()) -> float:
    """Return the most information per cost that one more run adds to those in flight. `costs` are as in `next_runs`."""
    value = expected_bits(posterior) / costs
    if in_flight:
        weight = information_weights(posterior) / costs
        belief = planning_belief(posterior)
        considered = [*dict.fromkeys([*_batch_candidates(posterior, belief, weight), *in_flight])]
        joint = JointInformation.from_belief(posterior.graph, belief, considered)
        value = joint.added_information(in_flight) * weight[considered]
    return float(value.max())


def worthless_runs(posterior: Posterior, in_flight: Sequence[int]) -> list[int]:
    """Return the places in `in_flight` of runs to cancel: those below a twentieth of the best run's information."""
    information = information_gain(posterior.graph, planning_belief(posterior))
    # GOOD_END is -1, the last place.
    return [
        place
        for place, commit in enumerate(in_flight)
        if information[commit] < _WORTHLESS * information.max()
    ]


def expected_bits(posterior: Posterior) -> Floats:
    """Return the expected information of one run of each commit and, last, of `GOOD_END`. Shape [n + 1]."""
    return information_gain(posterior.graph, planning_belief(posterior)) * information_weights(posterior)


def planning_belief(posterior: Posterior) -> Belief:
    """Return the belief that chooses runs. While the runs agree with rates of 0 and 1, these rates are assumed."""
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


_OTHER_LINE_WORTH = 0.1
"""The information of a run counts this much if its commit is not comparable with the only suspect."""


def information_weights(posterior: Posterior) -> Floats:
    """Return the weight of the information of one run of each commit and, last, of `GOOD_END`. Shape [n + 1].

    It is the chance that the run can be judged. It is less for reruns in places that matter, and small for a commit on
    another line than the only suspect.
    """
    weights = posterior.testable * rerun_weights(posterior)
    certain = posterior.certain
    if certain is not None and certain.suspects.sum() == 1:
        weights[~comparable_commits(posterior.graph, int(np.argmax(certain.suspects)))] *= _OTHER_LINE_WORTH
    return weights


def comparable_commits(graph: CommitGraph, culprit: int) -> Mask:
    """Return the commits whose runs say whether `culprit` is to blame, as a mask with `GOOD_END` last. Shape [n + 1].

    These are its ancestors, itself, its descendants, and `GOOD_END`. A commit on another line may have the same fault,
    and says little.
    """
    comparable = np.append(graph.ancestors(culprit), True)
    descends = np.zeros(len(graph), dtype=np.bool_)
    descends[culprit] = True
    for commit in range(culprit + 1, len(graph)):
        descends[commit] = any(descends[parent] for parent in graph.parents[commit])
    comparable[:-1] |= descends
    return comparable


def rerun_weights(posterior: Posterior) -> Floats:
    """Return how many fresh runs one more run of each commit and, last, of `GOOD_END` counts for. Shape [n + 1].

    This is the mean over the places that made runs so far.
    """
    weights = np.ones(len(posterior.graph) + 1)
    if posterior.shared:
        places = {seen.place for seen in posterior.counted_observations}
        # GOOD_END is -1, the last place.
        for commit in {seen.commit for seen in posterior.counted_observations}:
            weights[commit] = np.mean([posterior.rerun_weight(commit, place) for place in places])
    return weights


_IDEAL_MULTIPLE = 4.0
"""A search may take this many times the runs of an ideal one. A smaller factor ends searches that would find the
culprit."""

_EXTRA_RUNS = 20.0
"""A search may take this many runs more, because the number of runs of short searches varies widely."""

_MAX_RUNS = 1000
"""No search takes more runs than this, however close the rates are. Nobody would wait for more."""

_MIN_BITS = 0.01
"""A run is assumed to give at least this many bits, so that quotients by it stay bounded."""

_MAX_WAIT_FOR_FAILURE = 100.0
"""An end that should fail is run until more than this many runs are expected until it does. A search for a failure as
rare takes several times as many."""

_MAX_WAIT_FOR_PASS = 20.0
"""An end that should pass is run until more than this many runs are expected until it does. The limit is lower than for
a failure, because the user said that the end passes, and not that it sometimes does."""


def max_runs(posterior: Posterior, *, confidence: float = 0.99) -> int:
    """Return the greatest number of runs of a search: four times that of an ideal search, plus 20, up to 1,000.

    Let C be the capacity of one run at the rates estimated so far. An ideal search takes about (log2 n + log2 1 / (1 -
    confidence)) / C runs. The source is Burnashev, Data Transmission over a Discrete Channel with Feedback, 1976. Where
    the world does not fit the model, the posterior may never settle, and this bound ends the search.
    """
    bits = log2(len(posterior.graph) + 1) - log2(1 - confidence)
    return int(min(_MAX_RUNS, _EXTRA_RUNS + _IDEAL_MULTIPLE * bits / _bits_per_run(posterior)))


def runs_left(posterior: Posterior, *, confidence: float = 0.99) -> int:
    """Return how many more runs the search may take.

    A commit that cannot be tested does not count. A rerun that could not be judged counts if other runs of its commit
    were.
    """
    judged = sum(1 / seen.commit_count for seen in posterior.observations if seen.outcome is not Outcome.SKIP)
    return max_runs(posterior, confidence=confidence) - round(judged) - posterior.lost_reruns.total()


def runs_expected(posterior: Posterior, *, confidence: float) -> tuple[float, float]:
    """Return how many more runs a search takes at the estimated rates, and how many if each run were certain.

    Let H be the entropy that is left, and C the capacity of one run. The first number is (H + log2 1 / (1 -
    confidence)) / C, and the second one is H.
    """
    left = entropy_left(posterior)
    return (left - log2(1 - confidence)) / _bits_per_run(posterior), left


def _bits_per_run(posterior: Posterior) -> float:
    """Return the capacity of one run at the rates estimated so far, in bits."""
    belief = posterior.belief
    share = belief.commits / max(float(belief.commits.sum()), 1e-12)
    return max(_MIN_BITS, capacity(float(share @ belief.fail_if_good), float(share @ belief.fail_if_bad)))


def capacity(good: float, bad: float) -> float:
    """Return how many bits one run can give about the side of its commit, at the best share of bad commits.

    This is the capacity of the binary channel with these fail rates. With s = (H(bad) - H(good)) / (bad - good) the
    best chance to fail is 1 / (1 + 2^s). Then C = log2(1 + 2^s) - s (1 - good) - H(good). (Cover and Thomas, Elements
    of Information Theory, section 7.1.) good = 0 is the Z-channel.

    >>> round(capacity(0.0, 1.0), 6), round(capacity(0.0, 0.5), 4), capacity(0.5, 0.5)
    (1.0, 0.3219, 0.0)
    """
    if abs(bad - good) < 1e-9:
        return 0.0
    entropies = [scalar_entropy(good), scalar_entropy(bad)]
    slope = (entropies[1] - entropies[0]) / (bad - good)
    return max(0.0, float(np.logaddexp2(0.0, slope)) - slope * (1 - good) - entropies[0] + 0.0)


def is_worth_waiting(posterior: Posterior, *, bad: bool, for_failure: bool, confidence: float) -> bool:
    """Return whether an end that has run should be run again until it shows the result that it stands for.

    bad: whether that is the bad end; otherwise it is the good end.
    for_failure: whether a failure is awaited; otherwise a pass.
    confidence: the confidence that the search needs, which bounds its runs.

    If the next run shows it with chance p, 1 / p runs are expected until it does. With each pass it becomes less likely
    that the failure is flaky, and that there is one at all. While a failure is likelier than not, it is awaited up to
    the bound of the search.
    """
    if runs_left(posterior, confidence=confidence) < 1:
        return False
    belief = posterior.belief
    if for_failure and belief.commits.sum() > belief.no_culprit + belief.environment:
        return True
    chance = posterior.chance_to_fail(posterior.graph.bad) if bad else 1 - posterior.chance_to_fail(GOOD_END)
    return chance * (_MAX_WAIT_FOR_FAILURE if for_failure else _MAX_WAIT_FOR_PASS) > 1

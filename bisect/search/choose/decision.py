"""What to run next, or the answer, when runs may be flaky."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..evidence.knowledge import Knowledge, Outcome
from ..evidence.posterior import GOOD_END, Belief, Posterior
from ..evidence.testability import out_of_reach, skip_probability
from ..graph.graph import CommitGraph, Floats
from .information import information_gain
from .planner import Found, OnlySkipped, Probe, next_step


@dataclass(frozen=True)
class NoCulprit:
    """No commit of the range explains the runs: all of them fail at one rate."""


@dataclass(frozen=True)
class EnvironmentMoved:
    """The runs changed with time, whatever commit they were of."""


@dataclass(frozen=True)
class Undecided:
    """No run promises enough information. `suspects` hold the culprit with the confidence asked for."""

    suspects: tuple[int, ...]


Decision: TypeAlias = Probe | Found | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided

_LEAST_INFORMATION = 1e-9
_LEAST_INFORMATION_IN_PLACES = 1e-3
"""Where places cannot be trusted, a search could go on for ever for less."""
_IN_PLAY = 0.01
"""Of the likeliest commit's probability: a commit with less is not searched."""
_MOST_STEPS = 2000.0
"""Expected still to come, where it may be that no commit is to blame. They grow as the rates of both ends, which
differed by luck, come together; rates that need as many could not have been measured at the ends either."""


def next_run(posterior: Posterior, *, confidence: float = 0.99, costs: Floats | None = None) -> Decision:
    """The commit (or `GOOD_END`) whose next run promises the most information by its cost, or the answer.

    As long as every run agrees with rates of 0 and 1, and these are not excluded, the search is that of
    `planner.next_step`; only its answer is then rerun until the confidence is reached. Once runs have
    contradicted each other, it is the mutual information of the culprit and the run, times the chance
    that it can be tested, by its cost. `costs`: of one run of each commit and, last, of `GOOD_END`, in any
    unit; shape [n + 1]; equal by default.
    """
    certain = as_if_certain(posterior)
    if certain is not None:
        step = next_step(certain, weights=posterior.weights, costs=None if costs is None else costs[:-1])
        if isinstance(step, Probe):
            return step
    answer = _answer(posterior, confidence)
    if answer is not None:
        return answer
    information = information_gain(posterior.graph, posterior.guess)
    information *= testable_chance(posterior) * rerun_worth(posterior)
    best = int(np.argmax(information if costs is None else information / costs))
    if information[best] < (_LEAST_INFORMATION_IN_PLACES if posterior.shared else _LEAST_INFORMATION):
        return Undecided(credible_set(posterior.belief, confidence))
    expected = _entropy_left(posterior.guess) / float(information[best])
    if expected > _MOST_STEPS and posterior.belief.no_culprit > 1 - confidence:
        return Undecided(credible_set(posterior.belief, confidence))
    return Probe(GOOD_END if best == len(posterior.graph) else best, max(1.0, expected))


def testable_chance(posterior: Posterior) -> Floats:
    """The chance that each commit and, last, `GOOD_END` can be tested. Shape [n + 1]."""
    chance = np.ones(len(posterior.graph) + 1)
    if posterior.skipped:
        chance[:-1] -= skip_probability(posterior.graph, _tried(posterior), posterior.blamed)
        chance[[*_out_of_reach(posterior)]] = 0.0
    return chance


def _tried(posterior: Posterior) -> dict[int, bool]:
    """The commits that were tried, the bad end among them, and whether they had to be skipped."""
    tried = {seen.commit: False for seen in posterior.observations if seen.commit != GOOD_END}
    return tried | {posterior.graph.bad: False} | dict.fromkeys(posterior.skipped, True)


def _out_of_reach(posterior: Posterior) -> frozenset[int]:
    """The commits that were skipped, or would all but surely have to be."""
    commits = posterior.belief.commits
    among = commits >= _IN_PLAY * commits.max()
    beyond = out_of_reach(posterior.graph, _tried(posterior), posterior.blamed, among=among)
    return posterior.skipped | frozenset(np.flatnonzero(beyond).tolist())


def rerun_worth(posterior: Posterior) -> Floats:
    """How many fresh runs one more run of each commit and, last, of `GOOD_END` counts for, in a place that is one of
    those so far, whichever. Shape [n + 1]."""
    worth = np.ones(len(posterior.graph) + 1)
    if posterior.shared:
        places = {seen.place for seen in posterior.observations}
        # GOOD_END is -1, the last place.
        for commit in {seen.commit for seen in posterior.observations}:
            worth[commit] = np.mean([posterior.weight_of_rerun(commit, place) for place in places])
    return worth


def credible_set(belief: Belief, confidence: float) -> tuple[int, ...]:
    """The fewest commits, most probable first, whose probabilities sum to `confidence`; all if none do."""
    order = np.argsort(-belief.commits, kind="stable")
    enough = int(np.searchsorted(np.cumsum(belief.commits[order]), confidence)) + 1
    return tuple(order[:enough].tolist())


def _answer(posterior: Posterior, confidence: float) -> Decision | None:
    """The hypothesis that has reached the confidence, if any; commits that no test can tell apart count as one.

    (Together there can be no more of them than the skipped ones and the next that could be tested.)
    """
    belief = posterior.belief
    if belief.no_culprit >= confidence:
        return NoCulprit()
    if belief.environment >= confidence:
        return EnvironmentMoved()
    if belief.commits.sum() < confidence:
        return None
    likeliest = int(np.argmax(belief.commits))
    if belief.commits[likeliest] >= confidence and likeliest not in posterior.skipped:
        return Found(likeliest)
    likely = credible_set(belief, 1 - (1 - confidence) / 10)
    beyond = _out_of_reach(posterior) if posterior.skipped else posterior.skipped
    if beyond and len(likely) <= len(beyond) + 2:
        for together in _indistinguishable(posterior.graph, likely, beyond):
            if belief.commits[together].sum() >= confidence:
                return OnlySkipped(tuple(sorted(together)))
    return None


def _indistinguishable(
    graph: CommitGraph, commits: tuple[int, ...], skipped: frozenset[int]
) -> list[list[int]]:
    """Splits `commits` into those that no commit outside of `skipped` has some, not all, of as ancestors."""
    bit = {commit: 1 << place for place, commit in enumerate(commits)}
    above: list[int] = []
    for commit, parents in enumerate(graph.parents):
        reached = bit.get(commit, 0)
        for parent in parents:
            reached |= above[parent]
        above.append(reached)
    seen_together = {reached for commit, reached in enumerate(above) if commit not in skipped}
    groups: dict[frozenset[int], list[int]] = {}
    for commit in commits:
        groups.setdefault(frozenset(mask for mask in seen_together if mask & bit[commit]), []).append(commit)
    return list(groups.values())


def _entropy_left(belief: Belief) -> float:
    """The entropy over all hypotheses, in bits."""
    every = np.array([*belief.commits, belief.no_culprit, belief.environment])
    every = every[every > 0]
    return float(-(every * np.log2(every)).sum())


def as_if_certain(posterior: Posterior) -> Knowledge | None:
    """The runs as certain knowledge; None if they contradict each other, or the rates are known to be others."""
    if posterior.rates.good[0] > 0 or posterior.rates.bad[-1] < 1:
        return None
    if any(seen.commit == GOOD_END and seen.outcome is Outcome.BAD for seen in posterior.observations):
        return None
    try:
        knowledge = Knowledge.start(
            posterior.graph, [seen for seen in posterior.observations if seen.commit != GOOD_END]
        )
    except ValueError:
        return None
    return None if knowledge.unexplained_fails else knowledge

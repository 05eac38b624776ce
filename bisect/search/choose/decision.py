"""What to run next, or the answer, when runs may be flaky."""

from dataclasses import dataclass
from math import log2
from typing import Literal, TypeAlias

import numpy as np

from ..evidence.belief import credible_set
from ..evidence.posterior import Posterior
from ..graph.graph import CommitGraph, Floats, Mask
from ..model.groups import GOOD_END
from .bound import runs_left
from .information import entropy, information_gain
from .planner import Found, OnlySkipped, Probe, next_step


@dataclass(frozen=True)
class NoCulprit:
    """No commit of the range explains the runs: all of them fail at one rate."""


@dataclass(frozen=True)
class EnvironmentMoved:
    """The runs changed with time, whatever commit they were of."""


@dataclass(frozen=True)
class ToShow:
    """The culprit has the confidence; it is the answer once each commit in `missing` has shown its side."""

    culprit: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Undecided:
    """No run promises enough information. `suspects` hold the culprit with the confidence asked for.

    why: whether no run tells them apart any more, or as many were made as the search may take (`bound.py`).
    """

    suspects: tuple[int, ...]
    why: Literal["nothing tells", "bound"] = "nothing tells"


Decision: TypeAlias = Probe | ToShow | Found | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided

_LEAST_INFORMATION = 1e-9
_LEAST_SHARE = 0.2
"""A run that tells a smaller part of what the best one does is not taken, however cheap: reruns of a commit whose
outcome may be its own are cheap and tell less and less."""
_EACH_SIDE = 3
"""So many runs fail, and so many pass, before a culprit is named."""
_BESIDE = 0.1
_NEARLY_ALL = 0.999
_MOST_TOGETHER = 10_000
"""So many commits beyond a wall are looked at for which of them no test can tell apart: their sets of ancestors take
n^2 / 8 bytes."""


def next_run(posterior: Posterior, *, confidence: float = 0.99, costs: Floats | None = None) -> Decision:
    """The commit (or `GOOD_END`) whose next run promises the most information by its cost, or the answer.

    As long as every run agrees with rates of 0 and 1, and these are not excluded, the search is that of
    `planner.next_step`. Once that has its answer, or runs have contradicted each other, it is the mutual information of
    the culprit and the run, times the chance that it can be tested, by its cost: of commits that never ran, of reruns,
    and of the ends alike. A commit is the answer once it has the confidence, has failed itself, and each of its parents
    that can be tested has passed. `costs`: of one run of each commit and, last, of `GOOD_END`, in any unit; shape
    [n + 1]; equal by default.

    A search ends with what is known once it has made `most_runs`, or is expected to need more than these allow until
    the entropy that is left is what the confidence leaves.
    """
    if posterior.certain is not None:
        step = next_step(
            posterior.certain, weights=posterior.weights, costs=None if costs is None else costs[:-1]
        )
        if isinstance(step, Probe):
            return step
    answer = _answer(posterior, confidence)
    left = runs_left(posterior, confidence=confidence)
    if isinstance(answer, Found):
        missing = not_shown(posterior, answer.culprit)
        if missing and left < 1:
            return Undecided(credible_set(posterior.belief, confidence), "bound")
        if missing:
            return ToShow(answer.culprit, missing)
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
    """The run that tells most by its cost, of those that tell a fair part of what the best one does."""
    value = information if costs is None else information / costs
    return int(np.argmax(np.where(information >= _LEAST_SHARE * information.max(), value, -1.0)))


def not_shown(posterior: Posterior, culprit: int) -> tuple[int, ...]:
    """What must run before a culprit is named with its parents: itself where it never failed, the parents that can be
    tested and never passed. Where fewer than three runs failed, or passed, of all commits, more of these must: of a
    failure that comes and goes one run of each end tells nothing, however far a range of one commit narrows it down."""
    compared = posterior.compared_with(culprit)
    missing = tuple(parent for parent in compared if not posterior.tally(parent)[1])
    failed, passed = posterior.seen
    if passed < _EACH_SIDE and not missing:
        missing = compared[:1]
    return missing if posterior.tally(culprit)[0] and failed >= _EACH_SIDE else (*missing, culprit)


def worth(posterior: Posterior) -> Floats:
    """What the information of one run of each commit and, last, of `GOOD_END` counts for. Shape [n + 1].

    That is the chance that it can be had; less where reruns share their trouble; and little of a commit beside the only
    suspect's line."""
    value = posterior.testable * rerun_worth(posterior)
    certain = posterior.certain
    if certain is not None and certain.suspects.sum() == 1:
        value[~comparable(posterior.graph, int(np.argmax(certain.suspects)))] *= _BESIDE
    return value


def comparable(graph: CommitGraph, culprit: int) -> Mask:
    """The commits that tell whether a commit is to blame, whatever lies on lines beside it: its ancestors, itself, its
    descendants, and `GOOD_END`. Another line may have the same fault, and says little of this one. Shape [n + 1]."""
    comparable = np.append(graph.ancestors(culprit), True)
    descends = np.zeros(len(graph), dtype=np.bool_)
    descends[culprit] = True
    for commit in range(culprit + 1, len(graph)):
        descends[commit] = any(descends[parent] for parent in graph.parents[commit])
    comparable[:-1] |= descends
    return comparable


def rerun_worth(posterior: Posterior) -> Floats:
    """How many fresh runs one more run of each commit and, last, of `GOOD_END` counts for, in a place that is one of
    those so far, whichever. Shape [n + 1]."""
    worth = np.ones(len(posterior.graph) + 1)
    if posterior.shared:
        places = {seen.place for seen in posterior.counted}
        # GOOD_END is -1, the last place.
        for commit in {seen.commit for seen in posterior.counted}:
            worth[commit] = np.mean([posterior.weight_of_rerun(commit, place) for place in places])
    return worth


def _answer(
    posterior: Posterior, confidence: float
) -> Found | OnlySkipped | NoCulprit | EnvironmentMoved | None:
    """The hypothesis that has reached the confidence, if any; commits that no test can tell apart count as one.

    (Together there can be no more of them than the skipped ones and the next that could be tested.)
    """
    belief = posterior.belief
    if belief.no_culprit + belief.environment >= confidence:
        return NoCulprit() if belief.no_culprit > belief.environment else EnvironmentMoved()
    if belief.commits.sum() < confidence:
        return None
    likeliest = int(np.argmax(belief.commits))
    if belief.commits[likeliest] >= confidence and likeliest not in posterior.skipped:
        return Found(likeliest)
    likely = credible_set(belief, 1 - (1 - confidence) / 10)
    beyond = posterior.out_of_reach
    if beyond and len(likely) <= len(beyond) + 2:
        for together in _indistinguishable(posterior.graph, likely, beyond):
            if belief.commits[together].sum() >= confidence:
                return OnlySkipped(tuple(sorted(together)))
    return None


def _indistinguishable(
    graph: CommitGraph, commits: tuple[int, ...], skipped: frozenset[int]
) -> list[list[int]]:
    """Splits `commits` into those that no commit outside of `skipped` has some, not all, of as ancestors.

    That is no more than one commit outside of `skipped`, a child of one that is in it: each is told from all others by
    a run of its own.
    """
    beside = graph.with_children(skipped)
    together = [commit for commit in commits if commit in beside]
    if len(together) > _MOST_TOGETHER:
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
    """The most entropy, in bits, that is left where one of so many commits has a confidence (Fano's inequality)."""
    return float(entropy(np.array(confidence))) + (1 - confidence) * log2(max(1, commits))


def entropy_left(posterior: Posterior) -> float:
    """The entropy over all hypotheses, in bits; commits that no test can tell apart count as one."""
    belief = posterior.guess
    commits = belief.commits
    if posterior.skipped:
        likely = credible_set(belief, _NEARLY_ALL)
        groups = _indistinguishable(posterior.graph, likely, posterior.out_of_reach)
        rest = np.delete(commits, list(likely))
        commits = np.array([*(commits[together].sum() for together in groups), *rest])
    every = np.array([*commits, belief.no_culprit, belief.environment])
    every = every[every > 0]
    return float(-(every * np.log2(every)).sum())

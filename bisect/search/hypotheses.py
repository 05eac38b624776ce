"""How well each hypothesis "commit c is to blame" explains the runs, with all unknown quantities integrated out.

`explain` is the entry. `Groups` joins the commits that the runs so far cannot distinguish. Under "c is to blame" a
commit v is bad where c is among its ancestors (v included), and good otherwise:

    P(runs | c) = sum over models M of P(M) sum over a, r of P(a, r)
                  prod over good v of L(v; a, M)  prod over bad v of L(v; r, M)

L is the likelihood of the runs of one commit (`rates.OutcomeModel`). The products split by side. Let A and B be the
sums of log L over good and bad commits. Then one matrix product over the grid of rates serves all groups of commits.
`second_changes` adds hypotheses in which two changes together explain the failures. `explain_growing_faults` adds
faults that fail the more often the later the commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log
from typing import NamedTuple

import numpy as np

from .graph import NO_WINDOWS, CommitGraph, Floats, Integers, Mask, Windows
from .rates import IMPOSSIBLE, OutcomeModel, Rates

GOOD_END = -1
"""The good end has this commit number in observations."""


class Groups(NamedTuple):
    """Groups of commits that the runs cannot distinguish.

    Each commit that ran descends from all commits of a group, or from none. A commit that was run is a group of its
    own, and so is each of its children. The reason is that a culprit and its parents are assumed to show their own side
    (`rates.OutcomeModel`).

    ancestor_masks: for each commit that was run, the mask of its ancestors; shape [n].
    group_of_commit: the group of each commit; shape [n].
    representatives: one commit of each group; shape [g].
    share: the share of all commits that each group holds; shape [g].
    """

    ancestor_masks: dict[int, Mask]
    group_of_commit: Integers
    representatives: Integers
    share: Floats

    @classmethod
    def start(cls, graph: CommitGraph) -> "Groups":
        """Return one group that holds all commits."""
        none = np.zeros(len(graph), dtype=np.int64)
        return cls({}, none, np.zeros(1, dtype=np.int64), np.ones(1))

    def split(self, graph: CommitGraph, commit: int) -> "Groups":
        """Return the groups after another commit was run."""
        if commit in self.ancestor_masks:
            return self
        below = np.zeros(len(graph), dtype=np.bool_)
        alone: tuple[int, ...] = ()
        if commit != GOOD_END:
            below = graph.ancestors(commit)
            alone = (commit, *graph.children[commit])
        part = np.zeros(len(graph), dtype=np.int64)
        part[list(alone)] = 2 * np.arange(1, len(alone) + 1)
        key = self.group_of_commit * (2 * len(alone) + 2) + part + below
        _, representatives, of_commit = np.unique(key, return_index=True, return_inverse=True)
        return Groups(
            ancestor_masks=self.ancestor_masks | {commit: below},
            group_of_commit=of_commit,
            representatives=representatives,
            share=np.bincount(of_commit) / len(graph),
        )

    def sides(self, graph: CommitGraph) -> tuple[list[int], Mask, Mask]:
        """Return the t commits that were run, and two masks of shape [t, g].

        The first mask says whether a commit is bad if the group holds the culprit. The second says whether the commit
        would be the culprit or a parent of it.
        """
        run = list(self.ancestor_masks)
        shape = len(run), len(self.representatives)
        bad, near_culprit = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for place, commit in enumerate(run):
            bad[place] = self.ancestor_masks[commit][self.representatives]
            if commit != GOOD_END:
                near_culprit[place, self.group_of_commit[[commit, *graph.children[commit]]]] = True
        return run, bad, near_culprit


_TINY = 1e-30
"""Smaller weights become 0, because float64 rounds them away when they are added to others."""
_UNLIKELY = 1e-7
"""Hypotheses that are less probable than this are ignored in predictions of reruns."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Holds what follows for each of g groups of commits if one commit of it is to blame.

    log_evidence: of all runs; shape [g].
    fail_if_good, fail_if_bad: the chance that a run fails, of a commit of that side that never ran; shape [g].
    evidence_of_culprit: log evidence that any commit is to blame.
    """

    log_evidence: Floats
    fail_if_good: Floats
    fail_if_bad: Floats
    evidence_of_culprit: float
    _sides: "_Sides"
    _weights: tuple[Floats, Floats]
    _culprit: Integers
    _growing: "tuple[GrowingFault, Floats] | None" = None
    """What follows if the fault grows, and the share of that hypothesis in the evidence of each group."""

    def add_growing_faults(self, growing: "GrowingFault | None", share: Floats) -> "Explanation":
        """Return the explanation extended by faults that grow. share: the share of all commits in each group."""
        if growing is None:
            return self
        log_evidence = np.logaddexp(self.log_evidence, growing.log_evidence)
        growing_share = np.exp(growing.log_evidence - log_evidence)
        return replace(
            self,
            log_evidence=log_evidence,
            fail_if_good=_mix(self.fail_if_good, growing.fail_if_good, growing_share),
            fail_if_bad=_mix(self.fail_if_bad, growing.fail_if_bad, growing_share),
            evidence_of_culprit=_log_sum(np.log(share) + log_evidence),
            _growing=(growing, growing_share),
        )

    @cached_property
    def reruns(self) -> Mapping[int, Floats]:
        """Return for each commit that ran the chance that one more run fails, if the culprit is in each group.

        Shape [g].
        """
        hypotheses = self._sides.reruns(*self._weights)
        summed = np.zeros((len(hypotheses), len(self.log_evidence)))
        np.add.at(summed.T, self._culprit, hypotheses.T)
        if self._growing is not None:
            growing, growing_share = self._growing
            summed = _mix(summed, growing.reruns, growing_share)
        return dict(zip(self._sides.run, np.clip(summed, 0.0, 1.0), strict=True))


def explain(
    graph: CommitGraph,
    groups: Groups,
    tallies: Mapping[int, tuple[float, float]],
    rates: Rates,
    *,
    windows: Windows = NO_WINDOWS,
) -> Explanation:
    """Return how well each group of commits explains the runs.

    tallies: the fails and passes of each commit that ran.
    windows: the stretches between a change and its undoing.
    """
    run, bad, near_culprit = groups.sides(graph)
    counts = np.array([tallies[commit] for commit in run]).reshape(-1, 2)
    second = second_changes(groups, bad, counts[:, 0], counts[:, 1], windows=windows)
    culprit = np.concatenate([np.arange(len(groups.share)), second.culprit])
    sides = _Sides(
        run=run,
        bad=np.concatenate([bad, second.bad], axis=1),
        near_culprit=near_culprit[:, culprit],
        tallies=tallies,
        ends=frozenset({GOOD_END, graph.bad}),
        rates=rates,
    )
    logs, of_good, of_bad = _integrate_rates(sides)
    logs[len(groups.share) :] += second.log_prior[:, None]
    top = np.full(len(groups.share), -np.inf)
    np.maximum.at(top, culprit, logs.max(axis=1))
    parts = np.exp(logs - top[culprit][:, None])
    total = np.bincount(culprit, weights=parts.sum(axis=1))
    # Shares of the evidence of the culprit, by model, and then by node.
    share = (parts / total[culprit][:, None])[..., None]
    # Tiny weights count as 0: subnormal numbers slow the processor down a hundredfold.
    weights = _drop_tiny(share * of_good), _drop_tiny(share * of_bad)
    log_evidence = top + np.log(total)
    own = np.array([model.own for model, _ in rates.models])[:, None]
    fresh_rates = [(1 - own) * nodes + own / 2 for nodes in (rates.good, rates.bad)]
    fail_if_good, fail_if_bad = (
        np.bincount(culprit, weights=(weight * chance).sum(axis=(1, 2))).astype(np.float64)
        for weight, chance in zip(weights, fresh_rates, strict=True)
    )
    evidence_of_culprit = _log_sum(np.log(groups.share) + log_evidence)
    mass = np.exp(np.log(groups.share) + log_evidence - evidence_of_culprit)[culprit] * parts.sum(axis=1)
    likely = np.flatnonzero(mass > _UNLIKELY * total[culprit])
    explanation = Explanation(
        log_evidence=log_evidence,
        fail_if_good=fail_if_good,
        fail_if_bad=fail_if_bad,
        evidence_of_culprit=evidence_of_culprit,
        _sides=replace(sides, bad=sides.bad[:, likely], near_culprit=sides.near_culprit[:, likely]),
        _weights=(weights[0][likely], weights[1][likely]),
        _culprit=culprit[likely],
    )
    return explanation.add_growing_faults(
        explain_growing_faults(graph, groups, bad, counts[:, 0], counts[:, 1], rates), groups.share
    )


@dataclass(frozen=True, eq=False)
class _Sides:
    """The side of each of the t commits that ran, under each of h hypotheses.

    bad: whether the commit is bad; shape [t, h].
    near_culprit: whether it is the culprit or a parent of it; shape [t, h].
    tallies: the fails and passes of each commit.
    ends: the commits whose outcomes cannot be their own, because they define the question.
    """

    run: list[int]
    bad: Mask
    near_culprit: Mask
    tallies: Mapping[int, tuple[float, float]]
    ends: frozenset[int]
    rates: Rates

    def _log_likelihoods(self, *, bad: bool, near_culprit: bool, extra_fails: float = 0.0) -> Floats:
        rows: list[Floats] = []
        for commit in self.run:
            fails, passes = self.tallies[commit]
            is_end = commit in self.ends
            rows.append(_likelihood(self.rates, fails + extra_fails, passes, bad, near_culprit, is_end))
        width = len(self.rates.models) * len(self.rates.bad if bad else self.rates.good)
        return np.array(rows).reshape(len(rows), width)

    def sums(self, *, bad: bool) -> Floats:
        """Return the sum of log L over the commits of one side. Shape [h, models, nodes]."""
        on_side = self.bad if bad else ~self.bad
        total = np.zeros(1)
        for near_culprit, commits in (
            (False, on_side & ~self.near_culprit),
            (True, on_side & self.near_culprit),
        ):
            logs = self._log_likelihoods(bad=bad, near_culprit=near_culprit)
            total = total + commits.T.astype(np.float64) @ logs
        return total.reshape(len(total), len(self.rates.models), -1)

    def reruns(self, good: Floats, bad: Floats) -> Floats:
        """Return the chance that one more run of each commit fails. Shape [t, h].

        good, bad: the weights of models and nodes under each hypothesis, by side; shape [h, models, nodes].
        """
        chance = np.zeros(self.bad.shape)
        for is_bad, weights in ((False, good), (True, bad)):
            flat = weights.reshape(len(weights), -1)
            for near_culprit in (False, True):
                ratio = np.exp(
                    self._log_likelihoods(bad=is_bad, near_culprit=near_culprit, extra_fails=1.0)
                    - self._log_likelihoods(bad=is_bad, near_culprit=near_culprit)
                )
                chance += np.where(
                    (self.bad == is_bad) & (self.near_culprit == near_culprit), ratio @ flat.T, 0.0
                )
        return chance


def _mix(base: Floats, other: Floats, share: Floats) -> Floats:
    return (1 - share) * base + share * other


def _drop_tiny(weights: Floats) -> Floats:
    return np.where(weights > _TINY, weights, 0.0)


def _integrate_rates(sides: _Sides) -> tuple[Floats, Floats, Floats]:
    """Return for each hypothesis and model the log evidence, and the share of each node in it, by side.

    The shapes are [h, models] for the evidence, and [h, models, nodes] for the shares of good and of bad commits.
    """
    rates = sides.rates
    logs = sides.sums(bad=False), sides.sums(bad=True)
    tops = logs[0].max(axis=2), logs[1].max(axis=2)
    of_good, of_bad = (np.exp(side - top[..., None]) for side, top in zip(logs, tops, strict=True))
    above = of_good @ rates.weight
    mass = (above * of_bad).sum(axis=2)
    scale = np.where(mass > 0, mass, 1.0)[..., None]
    evidence = np.where(mass > 0, tops[0] + tops[1] + np.log(scale[..., 0]), IMPOSSIBLE * len(sides.run))
    evidence += np.log([weight for _, weight in rates.models])
    return evidence, of_good * (of_bad @ rates.weight.T) / scale, of_bad * above / scale


@lru_cache(maxsize=1 << 12)
def _likelihood(
    rates: Rates, fails: float, passes: float, bad: bool, near_culprit: bool, end: bool
) -> Floats:
    """Return log L of a commit's runs for each model and node of a side, one after the other.

    The outcome of an end is never its own, because the ends define the question.
    """
    nodes = rates.bad if bad else rates.good
    return np.concatenate(
        [
            (OutcomeModel(concentration=model.concentration) if end else model).log_likelihood(
                nodes, fails=fails, passes=passes, near_culprit=near_culprit
            )
            for model, _ in rates.models
        ]
    )


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + log(np.exp(logs - top).sum()) if np.isfinite(top) else top


_UNFIXED_CHANGE_CHANCE = 0.3
"""The prior chance of a second change that nothing fixed before the end of the range. With a much higher one, flaky
commits alone would make two changes likely."""
_FIXED_CHANGE_CHANCE = 0.03
"""The prior chance of a second change that a later commit fixed. It is lower, because two events have to coincide."""
_REVERT_CHANCE, _RESTORE_CHANCE = 0.3, 0.1
"""The prior chances that the region between a commit and its undoing holds further bad commits, if something failed
there. The first is for a commit that says that it reverts, the second for one that only restores a file's content."""
_MAX_HYPOTHESES = 96
"""At most this many hypotheses of two changes, and at most this many regions, are considered. Each costs time in every
step."""

_MAX_CULPRITS = 32
"""Hypotheses of two changes are formed with this many culprits, those that explain most runs alone. Each is combined
with each region."""
_MAX_UNEXPLAINED = 5.0
"""Hypotheses that explain this many commits fewer than the best one are left out, because their posterior is almost
nothing."""


class SecondChanges(NamedTuple):
    """Hypotheses of two changes.

    culprit: the group of the culprit; shape [e].
    bad: which of the t commits that were run are bad; shape [t, e].
    log_prior: relative to the hypothesis of the culprit alone; shape [e].
    """

    culprit: Integers
    bad: Mask
    log_prior: Floats


def second_changes(
    groups: Groups, bad: Mask, fails: Floats, passes: Floats, *, windows: Windows = NO_WINDOWS
) -> SecondChanges:
    """Return the hypotheses of two changes that explain the runs best.

    Two changes may be needed where no single one explains all failures. A fault may be cherry-picked to a parallel
    line, or a range may be broken, fixed, and broken again. Then commits fail that do not descend from the culprit c.
    Such a hypothesis is c with a region of further bad commits, and its evidence counts for c. The region is the
    descendants of another commit, or those of an earlier commit that do not yet descend from its fix.

    If one culprit explains each failure, only regions between a change and its undoing are considered. Otherwise flaky
    commits alone would make two changes likely. A pair that explains the runs as one change does is left out.

    bad: as returned by `Groups.sides`.
    fails, passes: of the commits that were run; shape [t].
    windows: the stretches between a change and its undoing. The undoing hints that something was wrong between the two.
    """
    if not fails.any():
        return SecondChanges(np.zeros(0, dtype=np.int64), bad[:, :0], np.zeros(0))
    unexplained = ((fails > 0)[:, None] & ~bad).sum(axis=0)
    votes = (fails > 0).astype(np.float64) - (passes > 0)
    regions, priors = _undone_regions(groups, windows, fails)
    if unexplained.min() > 0:
        regions, priors = _merge_regions((regions, priors), _second_regions(bad, groups.share, votes))
    if not len(priors):
        return SecondChanges(np.zeros(0, dtype=np.int64), bad[:, :0], np.zeros(0))
    culprits = np.argsort(unexplained + ((passes > 0)[:, None] & bad).sum(axis=0), kind="stable")
    culprits = culprits[:_MAX_CULPRITS]
    # The score counts the commits that a pair calls bad: those that failed, less those that passed.
    by_culprit, by_region = bad[:, culprits].astype(np.float64), regions.astype(np.float64)
    score = (
        (votes @ by_culprit)[:, None]
        + (votes @ by_region)[None]
        - by_culprit.T @ (votes[:, None] * by_region)
    )
    # Each change of a pair must explain failures that the other does not.
    failed = (fails > 0)[:, None]
    needed = ((1 - by_culprit).T @ (failed * by_region) > 0) & ((failed * by_culprit).T @ (1 - by_region) > 0)
    score = np.where(needed, score, -np.inf)
    best = np.argsort(-score, axis=None, kind="stable")[:_MAX_HYPOTHESES]
    best = best[np.isfinite(score.ravel()[best]) & (score.ravel()[best] >= score.max() - _MAX_UNEXPLAINED)]
    of_culprit, of_region = np.unravel_index(best, score.shape)
    culprit, both = culprits[of_culprit], bad[:, culprits[of_culprit]] | regions[:, of_region]
    alone = {column.tobytes() for column in bad.T}
    new = np.array([column.tobytes() not in alone for column in both.T], dtype=np.bool_)
    return SecondChanges(culprit[new], both[:, new], np.log(priors[of_region[new]]))


def _second_regions(bad: Mask, share: Floats, votes: Floats) -> tuple[Mask, Floats]:
    """Return distinct regions of the commits that were run, and the chance of each. Shapes [t, k], [k].

    Regions with most failures and fewest passes come first.

    votes: 1 for a commit that failed, -1 for one that passed; shape [t].
    """
    signatures, place = np.unique(bad, axis=1, return_inverse=True)
    shares = np.bincount(place.ravel(), weights=share)
    begun = signatures.astype(np.float64)
    # The last column is for regions that were never fixed.
    score = np.append(
        (votes @ begun)[:, None] - begun.T @ (votes[:, None] * begun), (votes @ begun)[:, None], axis=1
    )
    chance = np.append(
        _FIXED_CHANGE_CHANCE * np.outer(shares, shares), _UNFIXED_CHANGE_CHANCE * shares[:, None], axis=1
    )
    fixed = np.append(signatures, np.zeros((len(bad), 1), dtype=np.bool_), axis=1)
    best = np.argsort(-score, axis=None, kind="stable")[:_MAX_HYPOTHESES]
    first, last = np.unravel_index(best, score.shape)
    return _merge_regions((signatures[:, first] & ~fixed[:, last], chance.ravel()[best].astype(np.float64)))


def _undone_regions(groups: Groups, windows: Windows, fails: Floats) -> tuple[Mask, Floats]:
    """Return the regions between commits and their undoing in which there was a failure, and the chance of each."""
    below = np.array([*groups.ancestor_masks.values()], dtype=np.bool_)
    is_declared = windows.is_declared_revert
    parts: list[tuple[Mask, Floats]] = []
    for of_kind, chance in ((is_declared, _REVERT_CHANCE), (~is_declared, _RESTORE_CHANCE)):
        undone = below[:, windows.start[of_kind]] & ~below[:, windows.end[of_kind]]
        regions: Mask = np.unique(undone[:, undone[fails > 0].any(axis=0)], axis=1)
        count = len(regions.T)
        parts.append((regions, np.full(count, chance / max(1, count), dtype=np.float64)))
    return _merge_regions(*parts)


def _merge_regions(*parts: tuple[Mask, Floats]) -> tuple[Mask, Floats]:
    """Return the distinct regions, each with the sum of its chances."""
    masks, of_mask = np.unique(
        np.concatenate([each for each, _ in parts], axis=1), axis=1, return_inverse=True
    )
    chance = np.concatenate([each for _, each in parts])
    return masks, np.bincount(of_mask.ravel(), weights=chance).astype(np.float64)


_GROWTH_SHAPES = ((0.05, 1.0), (0.05, 0.5), (0.3, 1.0))
"""Pairs of s and p (`explain_growing_faults`), all equally likely. A fault grows evenly from almost nothing, steeply at
first, or evenly from a share that the culprit brings at once."""
_HALF_WAY = 2
"""With this many commits to the bad end, a fault is half as likely to grow as with very many."""

_JOINED_NODES = 16
"""This many nodes of the grid of rates are joined into one for growing faults. Each hypothesis costs time for each
node."""

_NEVER, _NEARLY = 1e-300, 1e-15
"""A chance is at least the first number, and at most 1 minus the second one, so that logarithms stay finite."""


class GrowingFault(NamedTuple):
    """Holds what follows for each of g groups of commits if a fault that grows began in it.

    log_evidence: of all runs, including the prior of growth; shape [g].
    fail_if_good, fail_if_bad: the chance that a run fails, of a commit of that side that never ran; shape [g].
    reruns: the chance that one more run of each of t commits fails; shape [t, g].
    """

    log_evidence: Floats
    fail_if_good: Floats
    fail_if_bad: Floats
    reruns: Floats


def explain_growing_faults(
    graph: CommitGraph, groups: Groups, bad: Mask, fails: Floats, passes: Floats, rates: Rates
) -> GrowingFault | None:
    """Return how faults that grow explain the runs. None where the rates exclude such faults.

    The fail rate of a fault may grow with the commits that come after it, as sums drift or a race gets tighter. Such a
    fault seldom fails where it begins, and always at the bad end. Explained with one rate, it would seem to begin where
    its rate is half way up. Under "c began it" commit v, which builds on c, fails with rate

        a + (r - a) (s + (1 - s) x^p),  x = (v - c) / (end - c)

    with commits counted in the order of the range. Here a is the rate of good commits, r that of the bad end, and s the
    share that c brings.

    Growth is considered from the first run on. Many such faults would otherwise be named wrong before runs contradict
    each other. To exclude growth costs a plain search of 10 commits a fraction of a run, and one of 1,000 commits
    almost nothing.

    bad: as returned by `Groups.sides`.
    fails, passes: of the commits that were run; shape [t].
    """
    prior = rates.grows * float(rates.weight[:, rates.bad < 1].sum())
    if prior <= 0:
        return None
    pairs, weight = _coarse_rates(rates)
    variants = [(pair, progress) for progress in _growth_progress(graph, groups, bad) for pair in pairs]
    # Computed one by one, because an array of all, of shape [k, t, g], would be large.
    logs = np.array([_log_likelihood(_fail_chance(*each), fails, passes) for each in variants])
    logs += np.log(np.tile(weight, len(_GROWTH_SHAPES)) / len(_GROWTH_SHAPES))[:, None]
    top = logs.max(axis=0)
    parts = np.exp(logs - top)
    total = parts.sum(axis=0)
    share = parts / total
    good, last = np.tile(pairs, (len(_GROWTH_SHAPES), 1)).T
    reruns = np.zeros(bad.shape)
    for each, share_of_variant in zip(variants, share, strict=True):
        reruns += share_of_variant * _fail_chance(*each)
    return GrowingFault(
        log_evidence=np.log(prior) + top + np.log(total) + np.log(_growth_prior(graph, groups)),
        fail_if_good=good @ share,
        fail_if_bad=(good + last) / 2 @ share,
        reruns=reruns,
    )


def _growth_prior(graph: CommitGraph, groups: Groups) -> Floats:
    """Return how likely a fault of each group grows, relative to one that has a long way to go. Shape [g].

    The weight of a commit is d / (d + 2) with d commits to the bad end, one after another. A fault of the bad end does
    not grow. The parents of the bad end together have the weight of one commit. No commit lies between by which the
    runs could distinguish a fault of one of many parents from that of the merge.
    """
    left = np.maximum(graph.generations_left, _NEARLY)  # Its logarithm is taken.
    room = left / (left + _HALF_WAY)
    room[left == 1] /= max(1, (left == 1).sum())
    return np.bincount(groups.group_of_commit, weights=room) / np.bincount(groups.group_of_commit)


def _coarse_rates(rates: Rates) -> tuple[Floats, Floats]:
    """Return pairs of rates, shape [p, 2], and the weight of each, shape [p]. Rates 0 and 1 stay separate."""
    of_good = np.array([0, *range(1, len(rates.good), _JOINED_NODES)])
    of_bad = np.array([*range(0, len(rates.bad) - 1, _JOINED_NODES), len(rates.bad) - 1])
    weight = np.add.reduceat(np.add.reduceat(rates.weight, of_good, axis=0), of_bad, axis=1)
    good, bad = (
        np.add.reduceat(nodes, starts) / np.diff([*starts, len(nodes)])
        for nodes, starts in ((rates.good, of_good), (rates.bad, of_bad))
    )
    possible = np.nonzero(weight > 0)
    return np.stack([good[possible[0]], bad[possible[1]]], axis=1), weight[possible]


def _growth_progress(graph: CommitGraph, groups: Groups, bad: Mask) -> list[Floats]:
    """Return how far the fault has grown at the commits that ran. One array of shape [t, g] for each shape of growth.

    It is 0 at commits that do not build on the culprit.
    """
    count = np.bincount(groups.group_of_commit)
    begun = np.bincount(groups.group_of_commit, weights=np.arange(len(graph))) / count
    run = np.array([*groups.ancestor_masks])[:, None]
    # What the bad end began has all of its rate there.
    behind = np.where(begun < graph.bad, (run - begun) / np.maximum(graph.bad - begun, 1.0), 1.0)
    behind = np.clip(behind, 0.0, 1.0)
    return [np.where(bad, first + (1 - first) * behind**power, 0.0) for first, power in _GROWTH_SHAPES]


def _fail_chance(pair: Floats, progress: Floats) -> Floats:
    """Return the chance that a run fails. pair: the rates of good commits and of the bad end."""
    good, last = pair
    return np.clip(good + (last - good) * progress, _NEVER, 1 - _NEARLY)


def _log_likelihood(chance: Floats, fails: Floats, passes: Floats) -> Floats:
    return fails @ np.log(chance) + passes @ np.log1p(-chance)

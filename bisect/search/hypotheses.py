"""How well each hypothesis that some commit is to blame explains the runs, with all that is unknown integrated out.

`explain` is the entry. `Groups` joins the commits that the runs so far cannot tell apart. Under "c is to blame" a
commit v is bad where c is among its ancestors (v included), else good, and

    P(runs | c) = sum over models M of P(M) sum over a, r of P(a, r)
                  prod over good v of L(v; a, M)  prod over bad v of L(v; r, M)

with L the likelihood of the runs of one commit (`rates.OutcomeModel`). The products split by side. Let A and B be the
sums of log L over good and bad commits. Then one matrix product over the grid of rates does for all groups of commits.
Two more kinds of hypotheses stand beside these.

`second_changes`: where no single change explains all failures, two changes may. A fault may be cherry-picked to a
parallel line, and a range may be broken, fixed, and broken again. Then commits fail that do not have the culprit among
their ancestors. Such a hypothesis is a culprit c with a region of further bad commits, and it counts for c. The region
may be the descendants of another commit d, on a line beside it. Or it is those of an earlier one that are not yet
descendants of its fix. A region that no failure asks for is left out, and so is what explains the runs as one change
alone does. Where a commit undoes another, the region between the two is likely to be such a one. It was undone for a
reason, which some commits say and most do not.

`explain_growing_faults`: the rate of failing of a fault may grow with the commits that come after it. Sums may drift a
little more with each change, or a race may get tighter. Such faults fail seldom where they begin and always at the bad
end. As a fault of one rate, such a fault seems to begin where its rate is half way up. There commits before fail less
often than commits after, whatever the number of runs. Under "c began it" commit v of the range, which builds on c,
fails with rate

    a + (r - a) (s + (1 - s) x^p),  x = (v - c) / (end - c)

with commits counted in the order of the range. Here a is the rate of good commits, r that of the bad end, and s the
share that c brings. How a fault grows is not known: evenly from almost nothing, steeply at first, or evenly from a part
that c brings at once. It is considered from the first run on. To exclude it costs a plain search of 10 commits a part
of a run, and one of 1,000 next to none. By the time that runs contradict each other, many such faults would have been
named wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log
from typing import NamedTuple

import numpy as np

from .graph import CommitGraph, Floats, Integers, Mask, Window
from .rates import IMPOSSIBLE, OutcomeModel, Rates

GOOD_END = -1
"""The good end has this commit number in observations."""


class Groups(NamedTuple):
    """Groups of commits that the runs cannot tell apart: each run commit has all of a group among its ancestors, or
    none.

    A commit that was run, and each of its children, is a group of its own. To be to blame it must show its own side
    (`rates.OutcomeModel`).

    below: for each commit that was run, which commits are its ancestors; shape [n].
    of_commit: the group of each commit; shape [n].
    representatives, share: for each group one of its commits, and the share of all commits in it; shape [g].
    """

    below: dict[int, Mask]
    of_commit: Integers
    representatives: Integers
    share: Floats

    @classmethod
    def start(cls, graph: CommitGraph) -> "Groups":
        """Return one group that holds all commits."""
        none = np.zeros(len(graph), dtype=np.int64)
        return cls({}, none, np.zeros(1, dtype=np.int64), np.ones(1))

    def split(self, graph: CommitGraph, commit: int) -> "Groups":
        """Return the groups after another commit was run."""
        if commit in self.below:
            return self
        below = np.zeros(len(graph), dtype=np.bool_)
        alone: tuple[int, ...] = ()
        if commit != GOOD_END:
            below = graph.ancestors(commit)
            alone = (commit, *graph.children[commit])
        part = np.zeros(len(graph), dtype=np.int64)
        part[list(alone)] = 2 * np.arange(1, len(alone) + 1)
        key = self.of_commit * (2 * len(alone) + 2) + part + below
        _, representatives, of_commit = np.unique(key, return_index=True, return_inverse=True)
        return Groups(
            below=self.below | {commit: below},
            of_commit=of_commit,
            representatives=representatives,
            share=np.bincount(of_commit) / len(graph),
        )

    def sides(self, graph: CommitGraph) -> tuple[list[int], Mask, Mask]:
        """Return the t commits that were run, and two masks of shape [t, g] over each of them and each group.

        The first says whether the commit is bad if the group holds the culprit. The second says whether it is then the
        culprit or a parent of it.
        """
        run = list(self.below)
        shape = len(run), len(self.representatives)
        bad, told = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for place, commit in enumerate(run):
            bad[place] = self.below[commit][self.representatives]
            if commit != GOOD_END:
                told[place, self.of_commit[[commit, *graph.children[commit]]]] = True
        return run, bad, told


_SHAPES = ((0.05, 1.0), (0.05, 0.5), (0.3, 1.0))
"""All pairs of s and p are equally likely."""
_HALF_WAY = 2
"""With this many commits to the bad end, a fault is half as likely to grow as with very many."""

_COARSE = 16
"""This many nodes of the grid of rates are joined into one here, because each hypothesis of two changes costs time for
each."""

_NEVER, _NEARLY = 1e-300, 1e-15
"""A chance is at least the first number, and at most 1 less the second one. The logarithms of 0 would leave float64."""


class GrowingFault(NamedTuple):
    """Says for each of g groups of commits what follows if a fault that grows began in it.

    log_evidence: of all runs, and of its growing; shape [g].
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
    """Return how faults that grow explain the runs. Return None where none is expected.

    bad: as of `Groups.sides`. fails, passes: of the commits that were run; shape [t].
    """
    prior = rates.grows * float(rates.weight[:, rates.bad < 1].sum())
    if prior <= 0:
        return None
    pairs, weight = _coarse_rates(rates)
    kinds = [(pair, way) for way in _growth_shares(graph, groups, bad) for pair in pairs]
    # Kind by kind: all of them together, of shape [k, t, g], would be large.
    logs = np.array([_log_likelihood(_fail_chance(pair, way), fails, passes) for pair, way in kinds])
    logs += np.log(np.tile(weight, len(_SHAPES)) / len(_SHAPES))[:, None]
    top = logs.max(axis=0)
    parts = np.exp(logs - top)
    total = parts.sum(axis=0)
    share = parts / total
    good, last = np.tile(pairs, (len(_SHAPES), 1)).T
    reruns = np.zeros(bad.shape)
    for (pair, way), of_kind in zip(kinds, share, strict=True):
        reruns += of_kind * _fail_chance(pair, way)
    return GrowingFault(
        log_evidence=np.log(prior) + top + np.log(total) + np.log(_growth_prior(graph, groups)),
        fail_if_good=good @ share,
        fail_if_bad=(good + last) / 2 @ share,
        reruns=reruns,
    )


def _growth_prior(graph: CommitGraph, groups: Groups) -> Floats:
    """Return how likely a fault of each group grows, next to one that has a long way to go. Shape [g].

    It is d / (d + 2) with d commits to the bad end, one after another. What the bad end began does not grow. Its
    parents have the weight of one together. No commit lies between by which a fault of one of many could be told from
    that of the merge.
    """
    left = np.maximum(graph.generations_left, _NEARLY)  # Its logarithm is taken.
    room = left / (left + _HALF_WAY)
    room[left == 1] /= max(1, (left == 1).sum())
    return np.bincount(groups.of_commit, weights=room) / np.bincount(groups.of_commit)


def _coarse_rates(rates: Rates) -> tuple[Floats, Floats]:
    """Return pairs of rates, shape [p, 2], and the weight of each, shape [p]. Rates 0 and 1 are not joined with
    others."""
    of_good = np.array([0, *range(1, len(rates.good), _COARSE)])
    of_bad = np.array([*range(0, len(rates.bad) - 1, _COARSE), len(rates.bad) - 1])
    weight = np.add.reduceat(np.add.reduceat(rates.weight, of_good, axis=0), of_bad, axis=1)
    good, bad = (
        np.add.reduceat(nodes, starts) / np.diff([*starts, len(nodes)])
        for nodes, starts in ((rates.good, of_good), (rates.bad, of_bad))
    )
    possible = np.nonzero(weight > 0)
    return np.stack([good[possible[0]], bad[possible[1]]], axis=1), weight[possible]


def _growth_shares(graph: CommitGraph, groups: Groups, bad: Mask) -> list[Floats]:
    """Return how much of the growth the commits that ran have, as one array of shape [t, g] for each shape of growth.

    It is 0 where they do not build on the culprit.
    """
    count = np.bincount(groups.of_commit)
    begun = np.bincount(groups.of_commit, weights=np.arange(len(graph))) / count
    run = np.array([*groups.below])[:, None]
    # What the bad end began has all of its rate there.
    behind = np.where(begun < graph.bad, (run - begun) / np.maximum(graph.bad - begun, 1.0), 1.0)
    behind = np.clip(behind, 0.0, 1.0)
    return [np.where(bad, first + (1 - first) * behind**power, 0.0) for first, power in _SHAPES]


def _fail_chance(pair: Floats, way: Floats) -> Floats:
    """Return the chance that a run fails, so far on the way."""
    good, last = pair
    return np.clip(good + (last - good) * way, _NEVER, 1 - _NEARLY)


def _log_likelihood(chance: Floats, fails: Floats, passes: Floats) -> Floats:
    return fails @ np.log(chance) + passes @ np.log1p(-chance)


_UNFIXED_CHANGE_CHANCE = 0.3
"""A second change that nothing fixed before the end of the range has this prior chance. With a much higher one, flaky
commits alone would make two changes likely."""
_FIXED_CHANGE_CHANCE = 0.03
"""A second change that a later commit fixed has this prior chance. It is lower, because two events have to meet."""
_REVERTED, _BROUGHT_BACK = 0.3, 0.1
"""A region between a commit and its undoing in which something failed holds further bad commits with one of these
chances. The first is that of an undoing that says so. The second is that of one that only brings a file back to what
it was."""
_MOST = 96
"""There are at most this many hypotheses of two changes, and at most this many regions, because each costs time in
every step."""

_MOST_CULPRITS = 32
"""Hypotheses of two changes begin at this many culprits, those that explain most runs alone. Each pairs with each
region."""
_MOST_UNEXPLAINED = 5.0
"""Hypotheses that explain this many commits fewer than the best one are left out: their posterior is almost nothing."""


class SecondChanges(NamedTuple):
    """Hypotheses of two changes.

    culprit: the group of each; shape [e]. bad: which of the t commits that were run are bad under each; shape [t, e].
    log_prior: beside the culprit alone; shape [e].
    """

    culprit: Integers
    bad: Mask
    log_prior: Floats


def second_changes(
    groups: Groups, bad: Mask, fails: Floats, passes: Floats, *, windows: Sequence[Window] = ()
) -> SecondChanges:
    """Return the hypotheses of two changes that explain the runs best.

    Where one culprit would explain each failure, though not each pass, only regions that are known to be fixed count.
    Others would become likely by flaky commits alone. A pair that explains the runs as one change would is left out.

    bad: as of `Groups.sides`. fails, passes: of the commits that were run; shape [t]. windows: between a change and its
    undoing.
    """
    if not fails.any():
        return SecondChanges(np.zeros(0, dtype=np.int64), bad[:, :0], np.zeros(0))
    unexplained = ((fails > 0)[:, None] & ~bad).sum(axis=0)
    told = (fails > 0).astype(np.float64) - (passes > 0)
    regions, priors = _undone_regions(groups, windows, fails)
    if unexplained.min() > 0:
        regions, priors = _merge_regions((regions, priors), _regions(bad, groups.share, told))
    if not len(priors):
        return SecondChanges(np.zeros(0, dtype=np.int64), bad[:, :0], np.zeros(0))
    culprits = np.argsort(unexplained + ((passes > 0)[:, None] & bad).sum(axis=0), kind="stable")
    culprits = culprits[:_MOST_CULPRITS]
    # The score counts the commits that a pair calls bad: those that failed, less those that passed.
    inside, beside = bad[:, culprits].astype(np.float64), regions.astype(np.float64)
    score = (told @ inside)[:, None] + (told @ beside)[None] - inside.T @ (told[:, None] * beside)
    # Each change of a pair must explain failures that the other does not.
    failed = (fails > 0)[:, None]
    needed = ((1 - inside).T @ (failed * beside) > 0) & ((failed * inside).T @ (1 - beside) > 0)
    score = np.where(needed, score, -np.inf)
    best = np.argsort(-score, axis=None, kind="stable")[:_MOST]
    best = best[np.isfinite(score.ravel()[best]) & (score.ravel()[best] >= score.max() - _MOST_UNEXPLAINED)]
    of_culprit, of_region = np.unravel_index(best, score.shape)
    culprit, both = culprits[of_culprit], bad[:, culprits[of_culprit]] | regions[:, of_region]
    alone = {column.tobytes() for column in bad.T}
    new = np.array([column.tobytes() not in alone for column in both.T], dtype=np.bool_)
    return SecondChanges(culprit[new], both[:, new], np.log(priors[of_region[new]]))


def _regions(bad: Mask, share: Floats, told: Floats) -> tuple[Mask, Floats]:
    """Return different regions of the commits that were run, and the chance of each. Shapes [t, k], [k].

    Those that hold most failures and least passes come first. told: 1 for a commit that failed, -1 for one that passed;
    shape [t].
    """
    signatures, place = np.unique(bad, axis=1, return_inverse=True)
    shares = np.bincount(place.ravel(), weights=share)
    begun = signatures.astype(np.float64)
    # The last column is for regions that were never fixed.
    score = np.append(
        (told @ begun)[:, None] - begun.T @ (told[:, None] * begun), (told @ begun)[:, None], axis=1
    )
    chance = np.append(
        _FIXED_CHANGE_CHANCE * np.outer(shares, shares), _UNFIXED_CHANGE_CHANCE * shares[:, None], axis=1
    )
    mended = np.append(signatures, np.zeros((len(bad), 1), dtype=np.bool_), axis=1)
    best = np.argsort(-score, axis=None, kind="stable")[:_MOST]
    first, last = np.unravel_index(best, score.shape)
    return _merge_regions((signatures[:, first] & ~mended[:, last], chance.ravel()[best].astype(np.float64)))


def _undone_regions(groups: Groups, windows: Sequence[Window], fails: Floats) -> tuple[Mask, Floats]:
    """Return the regions between commits and their undoing in which there was a failure, and the chance of each."""
    below = np.array([*groups.below.values()], dtype=np.bool_)
    parts: list[tuple[Mask, Floats]] = []
    for reverted, chance in ((True, _REVERTED), (False, _BROUGHT_BACK)):
        ends = [(window.start, window.end) for window in windows if window.reverted is reverted]
        start, end = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        undone = below[:, start] & ~below[:, end]
        regions: Mask = np.unique(undone[:, undone[fails > 0].any(axis=0)], axis=1)
        count = len(regions.T)
        parts.append((regions, np.full(count, chance / max(1, count), dtype=np.float64)))
    return _merge_regions(*parts)


def _merge_regions(*parts: tuple[Mask, Floats]) -> tuple[Mask, Floats]:
    """Return different regions, and the chance of each."""
    masks, of_mask = np.unique(
        np.concatenate([each for each, _ in parts], axis=1), axis=1, return_inverse=True
    )
    chance = np.concatenate([each for _, each in parts])
    return masks, np.bincount(of_mask.ravel(), weights=chance).astype(np.float64)


_TINY = 1e-30
"""Smaller weights become 0. Beside the others, float64 rounds them away."""
_UNLIKELY = 1e-7
"""Hypotheses that are less probable than this do not count in what reruns would show."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Says for each of g groups of commits what follows if one commit of it is to blame.

    log_evidence: of all runs; shape [g].
    fail_if_good, fail_if_bad: the chance that a run fails, of a commit of that side that never ran; shape [g].
    reruns: for each commit that ran, the chance that one more run of it fails; shape [g].
    evidence_of_culprit: log evidence that some commit is to blame, whichever.
    """

    log_evidence: Floats
    fail_if_good: Floats
    fail_if_bad: Floats
    evidence_of_culprit: float
    _sides: "_Sides"
    _weights: tuple[Floats, Floats]
    _culprit: Integers
    _growing: tuple[GrowingFault, Floats] | None = None
    """What follows where the fault grows, and the share that this has of the evidence of each group."""

    def with_growing(self, grown: GrowingFault | None, share: Floats) -> "Explanation":
        """Return the explanation with faults that grow beside. share: of all commits, in each group."""
        if grown is None:
            return self
        log_evidence = np.logaddexp(self.log_evidence, grown.log_evidence)
        of_growing = np.exp(grown.log_evidence - log_evidence)
        return replace(
            self,
            log_evidence=log_evidence,
            fail_if_good=_mix(self.fail_if_good, grown.fail_if_good, of_growing),
            fail_if_bad=_mix(self.fail_if_bad, grown.fail_if_bad, of_growing),
            evidence_of_culprit=_log_sum(np.log(share) + log_evidence),
            _growing=(grown, of_growing),
        )

    @cached_property
    def reruns(self) -> Mapping[int, Floats]:
        """Return for each commit that ran the chance that one more run fails, if the culprit is of each group."""
        hypotheses = self._sides.reruns(*self._weights)
        summed = np.zeros((len(hypotheses), len(self.log_evidence)))
        np.add.at(summed.T, self._culprit, hypotheses.T)
        if self._growing is not None:
            grown, of_growing = self._growing
            summed = _mix(summed, grown.reruns, of_growing)
        return dict(zip(self._sides.run, np.clip(summed, 0.0, 1.0), strict=True))


@dataclass(frozen=True, eq=False)
class _Sides:
    """Which of the t commits that ran are bad under each of h hypotheses, and which are the culprit or a parent of
    it.

    Shapes [t, h]. tallies: the fails and passes of each. ends: commits whose outcomes are not their own, as the
    question itself says what they show.
    """

    run: list[int]
    bad: Mask
    told: Mask
    tallies: Mapping[int, tuple[float, float]]
    ends: frozenset[int]
    rates: Rates

    def _log_likelihoods(self, *, bad: bool, told: bool, more: float = 0.0) -> Floats:
        rows = [
            _likelihood(self.rates, *_add_fails(self.tallies[commit], more), bad, told, commit in self.ends)
            for commit in self.run
        ]
        width = len(self.rates.models) * len(self.rates.bad if bad else self.rates.good)
        return np.array(rows).reshape(len(rows), width)

    def sums(self, *, bad: bool) -> Floats:
        """Return the sum of log L over the commits of one side. Shape [h, models, nodes]."""
        here = self.bad if bad else ~self.bad
        total = (here & ~self.told).T.astype(np.float64) @ self._log_likelihoods(bad=bad, told=False)
        total += (here & self.told).T.astype(np.float64) @ self._log_likelihoods(bad=bad, told=True)
        return total.reshape(len(total), len(self.rates.models), -1)

    def reruns(self, good: Floats, bad: Floats) -> Floats:
        """Return the chance that one more run of each commit fails. Shape [t, h].

        good, bad: the weights of models and nodes of each hypothesis, by side; shape [h, models, nodes].
        """
        chance = np.zeros(self.bad.shape)
        for is_bad, weights in ((False, good), (True, bad)):
            flat = weights.reshape(len(weights), -1)
            for told in (False, True):
                ratio = np.exp(
                    self._log_likelihoods(bad=is_bad, told=told, more=1.0)
                    - self._log_likelihoods(bad=is_bad, told=told)
                )
                chance += np.where((self.bad == is_bad) & (self.told == told), ratio @ flat.T, 0.0)
        return chance


def explain(
    graph: CommitGraph,
    groups: Groups,
    tallies: Mapping[int, tuple[float, float]],
    rates: Rates,
    *,
    windows: Sequence[Window] = (),
) -> Explanation:
    """Return how well each group of commits explains the runs.

    `tallies`: fails and passes of each commit that ran. `windows`: between a change and its undoing.
    """
    run, bad, told = groups.sides(graph)
    counts = np.array([tallies[commit] for commit in run]).reshape(-1, 2)
    second = second_changes(groups, bad, counts[:, 0], counts[:, 1], windows=windows)
    culprit = np.concatenate([np.arange(len(groups.share)), second.culprit])
    sides = _Sides(
        run=run,
        bad=np.concatenate([bad, second.bad], axis=1),
        told=told[:, culprit],
        tallies=tallies,
        ends=frozenset({GOOD_END, graph.bad}),
        rates=rates,
    )
    logs, of_good, of_bad = _fit(sides)
    logs[len(groups.share) :] += second.log_prior[:, None]
    top = np.full(len(groups.share), -np.inf)
    np.maximum.at(top, culprit, logs.max(axis=1))
    parts = np.exp(logs - top[culprit][:, None])
    total = np.bincount(culprit, weights=parts.sum(axis=1))
    # The share that each model, and each node of it, has of the evidence of its culprit.
    share = (parts / total[culprit][:, None])[..., None]
    # Tiny weights count as 0: subnormal numbers slow the processor down a hundredfold.
    weights = _drop_tiny(share * of_good), _drop_tiny(share * of_bad)
    log_evidence = top + np.log(total)
    own = np.array([model.own for model, _ in rates.models])[:, None]
    anew = [(1 - own) * nodes + own / 2 for nodes in (rates.good, rates.bad)]
    fail_if_good, fail_if_bad = (
        np.bincount(culprit, weights=(weight * chance).sum(axis=(1, 2))).astype(np.float64)
        for weight, chance in zip(weights, anew, strict=True)
    )
    evidence_of_culprit = _log_sum(np.log(groups.share) + log_evidence)
    mass = np.exp(np.log(groups.share) + log_evidence - evidence_of_culprit)[culprit] * parts.sum(axis=1)
    likely = np.flatnonzero(mass > _UNLIKELY * total[culprit])
    explanation = Explanation(
        log_evidence=log_evidence,
        fail_if_good=fail_if_good,
        fail_if_bad=fail_if_bad,
        evidence_of_culprit=evidence_of_culprit,
        _sides=replace(sides, bad=sides.bad[:, likely], told=sides.told[:, likely]),
        _weights=(weights[0][likely], weights[1][likely]),
        _culprit=culprit[likely],
    )
    return explanation.with_growing(
        explain_growing_faults(graph, groups, bad, counts[:, 0], counts[:, 1], rates), groups.share
    )


def _mix(these: Floats, those: Floats, share: Floats) -> Floats:
    return (1 - share) * these + share * those


def _drop_tiny(weights: Floats) -> Floats:
    return np.where(weights > _TINY, weights, 0.0)


def _fit(sides: _Sides) -> tuple[Floats, Floats, Floats]:
    """Return for each hypothesis and model the log evidence, shape [h, models].

    Return too the share of each node of either side in it, shapes [h, models, nodes].
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


def _add_fails(tally: tuple[float, float], more: float) -> tuple[float, float]:
    return tally[0] + more, tally[1]


@lru_cache(maxsize=1 << 12)
def _likelihood(rates: Rates, fails: float, passes: float, bad: bool, told: bool, end: bool) -> Floats:
    """Return log L of a commit's runs for each model and node of a side, one after the other.

    What an end shows defines what is asked, so it is not its own.
    """
    nodes = rates.bad if bad else rates.good
    return np.concatenate(
        [
            (OutcomeModel(concentration=model.concentration) if end else model).log_likelihood(
                nodes, fails=fails, passes=passes, told=told
            )
            for model, _ in rates.models
        ]
    )


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + log(np.exp(logs - top).sum()) if np.isfinite(top) else top

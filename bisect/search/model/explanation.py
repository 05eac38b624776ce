"""How well each hypothesis that some commit is to blame explains the runs, with all that is unknown integrated out.

Under "c is to blame" a commit v is bad where c is among its ancestors (v included), else good, and

    P(runs | c) = sum over models M of P(M) sum over a, r of P(a, r)
                  prod over good v of L(v; a, M)  prod over bad v of L(v; r, M)

with L the likelihood of the runs of one commit (`outcome_models.py`). The products split by side, so with A and B the
sums of log L over good and bad commits, one matrix product over the grid of rates does for all groups of commits.
Where no single change explains all failures, hypotheses of two changes stand beside (`second_changes.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log

import numpy as np

from ..graph.graph import CommitGraph, Floats, Integers, Mask
from ..graph.window import Window
from .groups import GOOD_END, Groups
from .growing import Growing, growing
from .outcome_models import IMPOSSIBLE, OutcomeModel
from .rates import Rates
from .second_changes import second_changes

_DUST = 1e-30
_UNLIKELY = 1e-7
"""What is less probable has no say in what reruns would show."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """For each of g groups of commits, if one of it is to blame.

    log_evidence: of all runs. fail_if_good, fail_if_bad: the chance that a run of a commit of that side fails which
    never ran. All of shape [g]. reruns: for each commit that ran, the chance that one more run of it fails; shape [g].
    evidence_of_culprit: log evidence of some commit being to blame, whichever.
    """

    log_evidence: Floats
    fail_if_good: Floats
    fail_if_bad: Floats
    evidence_of_culprit: float
    _sides: "_Sides"
    _weights: tuple[Floats, Floats]
    _culprit: Integers
    _growing: tuple[Growing, Floats] | None = None
    """What is said where the fault grows, and the share that this has of the evidence of each group."""

    def beside(self, grown: Growing | None, share: Floats) -> "Explanation":
        """With faults that grow beside. share: of all commits, in each group."""
        if grown is None:
            return self
        log_evidence = np.logaddexp(self.log_evidence, grown.log_evidence)
        of_growing = np.exp(grown.log_evidence - log_evidence)
        return replace(
            self,
            log_evidence=log_evidence,
            fail_if_good=_mixed(self.fail_if_good, grown.fail_if_good, of_growing),
            fail_if_bad=_mixed(self.fail_if_bad, grown.fail_if_bad, of_growing),
            evidence_of_culprit=_log_sum(np.log(share) + log_evidence),
            _growing=(grown, of_growing),
        )

    @cached_property
    def reruns(self) -> Mapping[int, Floats]:
        """For each commit that ran the chance that one more run fails, if the culprit is of each group."""
        hypotheses = self._sides.reruns(*self._weights)
        summed = np.zeros((len(hypotheses), len(self.log_evidence)))
        np.add.at(summed.T, self._culprit, hypotheses.T)
        if self._growing is not None:
            grown, of_growing = self._growing
            summed = _mixed(summed, grown.reruns, of_growing)
        return dict(zip(self._sides.run, np.clip(summed, 0.0, 1.0), strict=True))


@dataclass(frozen=True, eq=False)
class _Sides:
    """Which of the t commits that ran are bad under each of h hypotheses, and which are the culprit or a parent of it.

    Shapes [t, h]. tallies: the fails and passes of each. ends: what the question itself says of these is not their own.
    """

    run: list[int]
    bad: Mask
    told: Mask
    tallies: Mapping[int, tuple[float, float]]
    ends: frozenset[int]
    rates: Rates

    def _of(self, *, bad: bool, told: bool, more: float = 0.0) -> Floats:
        rows = [
            _likelihood(self.rates, *_plus(self.tallies[commit], more), bad, told, commit in self.ends)
            for commit in self.run
        ]
        width = len(self.rates.models) * len(self.rates.bad if bad else self.rates.good)
        return np.array(rows).reshape(len(rows), width)

    def sums(self, *, bad: bool) -> Floats:
        """The sum of log L over the commits of one side. Shape [h, models, nodes]."""
        here = self.bad if bad else ~self.bad
        total = (here & ~self.told).T.astype(np.float64) @ self._of(bad=bad, told=False)
        total += (here & self.told).T.astype(np.float64) @ self._of(bad=bad, told=True)
        return total.reshape(len(total), len(self.rates.models), -1)

    def reruns(self, good: Floats, bad: Floats) -> Floats:
        """The chance that one more run of each commit fails. Shape [t, h].

        good, bad: the weights of models and nodes of each hypothesis, by side; shape [h, models, nodes]."""
        chance = np.zeros(self.bad.shape)
        for is_bad, weights in ((False, good), (True, bad)):
            flat = weights.reshape(len(weights), -1)
            for told in (False, True):
                ratio = np.exp(self._of(bad=is_bad, told=told, more=1.0) - self._of(bad=is_bad, told=told))
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
    """`tallies`: fails and passes of each commit that ran. `windows`: between a change and its undoing."""
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
    # What each model, and each node of it, has of the evidence of its culprit.
    share = (parts / total[culprit][:, None])[..., None]
    # What is next to nothing is nothing: numbers too small for the processor's usual ones slow it down a hundredfold.
    weights = _without_dust(share * of_good), _without_dust(share * of_bad)
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
    return explanation.beside(growing(graph, groups, bad, counts[:, 0], counts[:, 1], rates), groups.share)


def _mixed(these: Floats, those: Floats, share: Floats) -> Floats:
    return (1 - share) * these + share * those


def _without_dust(weights: Floats) -> Floats:
    return np.where(weights > _DUST, weights, 0.0)


def _fit(sides: _Sides) -> tuple[Floats, Floats, Floats]:
    """For each hypothesis and model the log evidence, shape [h, models]; and the share of each node of either side in
    it, shapes [h, models, nodes]."""
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


def _plus(tally: tuple[float, float], more: float) -> tuple[float, float]:
    return tally[0] + more, tally[1]


@lru_cache(maxsize=1 << 12)
def _likelihood(rates: Rates, fails: float, passes: float, bad: bool, told: bool, end: bool) -> Floats:
    """Log L of a commit's runs for each model and node of a side, one after the other. What an end shows defines what
    is asked: it is not its own."""
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

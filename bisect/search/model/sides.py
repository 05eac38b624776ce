"""The likelihood of the runs of each commit on either side, for each model of outcomes and each rate."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..graph.graph import Floats, Mask
from .rates import Rates

Tallies = Mapping[int, tuple[float, float]]
"""The fails and passes of each commit that ran."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Which of the t commits that ran are bad under each of h hypotheses, and which are the culprit or a parent of it.

    Shapes [t, h]. tallies: the fails and passes of each. ends: those of them that the question names.
    """

    run: list[int]
    bad: Mask
    told: Mask
    tallies: Tallies
    ends: frozenset[int]
    rates: Rates

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
        return np.clip(chance, 0.0, 1.0)

    def anew(self, good: Floats, bad: Floats) -> tuple[Floats, Floats]:
        """The chance that the first run of a commit of either side fails. Shapes [h]. Weights as of `reruns`."""
        own = np.array([model.own for model, _ in self.rates.models])[:, None]
        of_good, of_bad = (
            (weights * ((1 - own) * nodes + own / 2)).sum(axis=(1, 2))
            for weights, nodes in ((good, self.rates.good), (bad, self.rates.bad))
        )
        return of_good, of_bad

    def _of(self, *, bad: bool, told: bool, more: float = 0.0) -> Floats:
        rows = [
            _likelihood(self.rates, *_plus(self.tallies[commit], more), bad, told or commit in self.ends)
            for commit in self.run
        ]
        width = len(self.rates.models) * len(self.rates.bad if bad else self.rates.good)
        return np.array(rows).reshape(len(rows), width)


def _plus(tally: tuple[float, float], more: float) -> tuple[float, float]:
    return tally[0] + more, tally[1]


@lru_cache(maxsize=1 << 12)
def _likelihood(rates: Rates, fails: float, passes: float, bad: bool, shown: bool) -> Floats:
    """Log L of a commit's runs for each model and node of a side, one after the other."""
    nodes = rates.bad if bad else rates.good
    return np.concatenate(
        [
            (model.of_shown if shown else model).log_likelihood(nodes, fails=fails, passes=passes)
            for model, _ in rates.models
        ]
    )

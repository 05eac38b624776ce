"""How well it explains the runs that no commit of the range changed anything.

Then all fail with one rate, unknown, Beta(1/2, 1/2). Or each has a rate of its own around it (`outcome_models.py`):
whichever commits memory layout makes fail, halving ends beside one of them. That rate is Beta(5/2, 5/2): where nearly
all do the same, the one that does not is seldom just an end. Or no run fails at all, though somebody saw one do so; or
every run does, for a case or a machine is broken.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np

from ..graph.graph import Floats
from .groups import GOOD_END
from .outcome_models import OutcomeModel
from .rates import Rates, beta_half_nodes
from .sides import Sides, Tallies

_ALL_PASS, _ALL_FAIL = 0.01, 0.1


@dataclass(frozen=True)
class Unchanged:
    """log_evidence: of all runs, times the prior. fails: the chance that the next run of each commit and, last, of the
    good end fails; shape [n + 1]."""

    log_evidence: float
    fails: Floats


def prior_of_unchanged(rates: Rates) -> float:
    """That no commit changed anything, before the first run."""
    return _ALL_PASS + _ALL_FAIL + sum(weight for _, weight in rates.unchanged)


def unchanged(bad_end: int, tallies: Tallies, rates: Rates) -> Unchanged:
    """bad_end: the last commit."""
    run = [*tallies]
    nobody = np.zeros((len(run), 1), dtype=np.bool_)
    sides = Sides(run, nobody, nobody, tallies, frozenset({GOOD_END, bad_end}), _one_rate(rates.unchanged))
    logs = sides.sums(bad=False) + np.log(_priors(rates.unchanged))
    counts = np.array([tallies[commit] for commit in run]).reshape(-1, 2).sum(axis=0)
    alike = np.array([_ALL_PASS * (counts[0] == 0), _ALL_FAIL * (counts[1] == 0)])
    top = max(float(logs.max()), 0.0 if alike.any() else -np.inf)
    weights, alike = np.exp(logs - top), alike * np.exp(-top)
    total = float(weights.sum() + alike.sum())
    none = np.zeros_like(weights)
    fails = np.full(bad_end + 2, sides.anew(weights / total, none)[0] + alike[1] / total)
    if run:
        # GOOD_END is -1, the last place.
        fails[run] = sides.reruns(weights / total, none)[:, 0] + alike[1] / total
    return Unchanged(top + float(np.log(total)), fails)


def _priors(models: tuple[tuple[OutcomeModel, float], ...]) -> Floats:
    """Of each model and node. Shape [models, nodes]."""
    nodes = beta_half_nodes()
    middling = (nodes * (1 - nodes)) ** 2
    shapes = [np.ones(len(nodes)) if model.concentration == inf else middling for model, _ in models]
    return np.array([weight * shape / shape.sum() for (_, weight), shape in zip(models, shapes, strict=True)])


@lru_cache(maxsize=8)
def _one_rate(models: tuple[tuple[OutcomeModel, float], ...]) -> Rates:
    """A grid of one rate, that of the good side."""
    nodes = beta_half_nodes()
    return Rates(nodes, nodes, np.diag(np.full(len(nodes), 1 / len(nodes))), models)

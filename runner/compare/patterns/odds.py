"""How far an explanation is to be believed: its posterior against a null model, times what it explains."""

from __future__ import annotations

import math

import numpy as np

from ..kernels.elements import Array

PRIOR = 1e-3
"""Odds of any one explanation before anything was seen: there are some thirty, and most faults are none of them."""

LEAST_CHANCE = 1e-4
"""No agreement counts for more: values may be alike for reasons that no null model knows."""

_WHOLE = 0.95  # share of all elements that must agree, for a part moved says nothing of the rest
_BELIEF = 700.0  # nats beyond which odds leave float64


def share(fits: Array) -> float:
    """The share of true entries; 0 of none."""
    return int(np.count_nonzero(fits)) / max(fits.size, 1)


def confidence(*, hits: int, total: int, chance: float, cost: float = 0.0) -> float:
    """The chance that a wrong element, picked at random, is wrong because of the explanation.

    That is the posterior of the explanation, times the share it explains beyond `chance`: the rate of agreement, by
    Laplace's rule (hits + 1) / (total + 2), corrected for chance as in Cohen's kappa (1960). `chance` is how often a
    wrong element agrees by accident, `cost` the nats that it takes to say which of many explanations of a kind it is.

    >>> round(confidence(hits=100, total=100, chance=0.01), 2)
    0.99
    >>> confidence(hits=50, total=100, chance=0.5)
    0.0
    """
    if total <= 0 or hits <= 0 or chance >= 1.0:
        return 0.0
    rate = (hits + 1) / (total + 2)
    explained = min(max((rate - chance) / (1.0 - chance), 0.0), 1.0)
    return explained * posterior(agreement_evidence(hits, total, chance) - cost)


def agreement_evidence(hits: int, total: int, chance: float) -> float:
    """Nats by which `hits` of `total` speak for agreement at some rate above `chance`, in Schwarz's (1978) form.

    That is total * KL(hits / total || chance) - log(total + 1) / 2, and negative below `chance`.
    """
    chance = min(max(chance, LEAST_CHANCE), 1.0)
    rate = hits / total
    if rate <= chance:
        return -_BELIEF
    divergence = rate * math.log(rate / chance)
    if rate < 1.0:
        divergence += (1.0 - rate) * math.log((1.0 - rate) / (1.0 - chance))
    return total * divergence - 0.5 * math.log(total + 1)


def posterior(evidence: float) -> float:
    """The probability of an explanation after `evidence` nats."""
    belief = evidence + math.log(PRIOR)
    return 1.0 / (1.0 + math.exp(-min(max(belief, -_BELIEF), _BELIEF)))


def confidence_of_whole(*, agree: int, unmoved: int, total: int, cost: float) -> float:
    """How sure it is that all of a tensor has moved, where values are few: by the elements that are right, too.

    Of `total` elements `agree` are as they would be if all had moved; without any move `unmoved` of them would be.
    """
    if agree < _WHOLE * total:
        return 0.0
    return confidence(hits=agree, total=total, chance=unmoved / total, cost=cost)


def log_ways(total: int, chosen: int) -> float:
    """The logarithm of the number of ways to choose `chosen` of `total`."""
    if not 0 <= chosen <= total:
        return math.inf
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def confidence_of_place(
    *, wrong: tuple[int, int], sizes: tuple[int, int], strewn: float, cost: float
) -> float:
    """The chance that a wrong element, picked at random, lies where it does because of an area.

    `wrong` and `sizes` count wrong elements, and all, within the area and in the whole. The evidence is what the area
    spares of `strewn`, the nats that a null model needs to say where the wrong elements are: with the area it takes
    `cost` to say which one it is, and then their places within it and outside of it.
    """
    (hits, total), (size, whole) = wrong, sizes
    told = cost + log_ways(size, hits) + log_ways(whole - size, total - hits) + math.log(total + 1)
    chance = size / whole
    explained = ((hits + 1) / (total + 2) - chance) / (1.0 - chance)
    return min(max(explained, 0.0), 1.0) * posterior(strewn - told)

"""What earlier runs tell of the rates of failing, before anything of a range is run.

Three levels, each the prior of the next: the shipped rates; other cases of the stack, which tell how often a case, or a
fault, is flaky at all; earlier runs of the case itself. Of the last, commits that were taken for good tell the rate of
good ones and whether outcomes belong to commits (the likelihood of `outcome_models.py`). Another fault may fail more
seldom: earlier ones tell only how often a fault fails in every run.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..graph.graph import Floats
from .rates import Rates

_FLOOR = 0.05
"""The share of the shipped rates that stays, whatever was seen: nothing is ever excluded."""
_STRENGTH = 4.0
"""How many cases, or faults, the level before counts for."""
_FITTINGS = 20


@dataclass(frozen=True, kw_only=True)
class RunTally:
    """So many commits of which each showed so many failures and passes."""

    failures: int
    passes: int
    commits: int


@dataclass(frozen=True, kw_only=True)
class FlakyShare:
    """How many of some cases failed at a commit taken for good, or of some faults passed at one taken for bad."""

    flaky: int = 0
    all: int = 0


@dataclass(frozen=True, kw_only=True)
class EarlierRuns:
    """What is remembered of a case on its platform, and of the other cases of its stack.

    good: its commits that were taken for good. faults: earlier ones of this case.
    """

    good: tuple[RunTally, ...] = ()
    faults: FlakyShare = FlakyShare()
    other_cases: FlakyShare = FlakyShare()
    other_faults: FlakyShare = FlakyShare()


def learned_rates(shipped: Rates, earlier: EarlierRuns) -> Rates:
    """The rates to begin a search from.

    >>> passed = EarlierRuns(good=(RunTally(failures=0, passes=1, commits=400),))
    >>> before, after = Rates.unknown(), learned_rates(Rates.unknown(), passed)
    >>> bool(after.weight[0].sum() > before.weight[0].sum()), bool(after.weight[before.weight > 0].all())
    (True, True)
    """
    learned = _with_shares(shipped, good=[earlier.other_cases], bad=[earlier.other_faults, earlier.faults])
    learned = _with_good_commits(learned, earlier.good)
    models = tuple(
        (model, (1 - _FLOOR) * weight + _FLOOR * before)
        for (model, weight), (_, before) in zip(learned.models, shipped.models, strict=True)
    )
    return replace(shipped, weight=(1 - _FLOOR) * learned.weight + _FLOOR * shipped.weight, models=models)


def _with_shares(rates: Rates, *, good: Iterable[FlakyShare], bad: Iterable[FlakyShare]) -> Rates:
    """With other chances that good commits never fail, and that bad ones always do; all else in proportion."""
    never, always = (
        _updated(float(rates.weight[0].sum()), good),
        _updated(float(rates.weight[:, -1].sum()), bad),
    )
    weight = rates.weight
    for _ in range(_FITTINGS):
        weight = _scaled(weight.T, -1, always).T
        weight = _scaled(weight, 0, never)
    return replace(rates, weight=weight)


def _updated(share: float, levels: Iterable[FlakyShare]) -> float:
    """A share of cases that are not flaky, after some more of them were seen: the mean of a Beta posterior."""
    for level in levels:
        share = (_STRENGTH * share + level.all - level.flaky) / (_STRENGTH + level.all)
    return share


def _scaled(weight: Floats, row: int, share: float) -> Floats:
    """With one row of this weight, and the others of the rest."""
    others = np.ones(len(weight), dtype=np.bool_)
    others[row] = False
    scaled = weight.copy()
    scaled[row] *= share / weight[row].sum()
    scaled[others] *= (1 - share) / weight[others].sum()
    return scaled


def _with_good_commits(rates: Rates, good: Iterable[RunTally]) -> Rates:
    """With runs of commits that were taken for good."""
    tallies = [*good]
    logs = np.array(
        [
            sum(
                (
                    each.commits
                    * model.log_likelihood(rates.good, fails=float(each.failures), passes=float(each.passes))
                    for each in tallies
                ),
                start=np.zeros(len(rates.good)),
            )
            for model, _ in rates.models
        ]
    )
    of_models = np.array([weight for _, weight in rates.models])
    joint = of_models[:, None] * np.exp(logs - logs.max())
    weight = joint.sum(axis=0)[:, None] * rates.weight
    in_models = joint @ rates.weight.sum(axis=1)
    models = zip((model for model, _ in rates.models), (in_models / in_models.sum()).tolist(), strict=True)
    return replace(rates, weight=weight / weight.sum(), models=tuple(models))

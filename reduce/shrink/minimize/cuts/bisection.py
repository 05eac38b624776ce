"""Closed-cut bisection: the needed elements one by one, last first.

In dependency order every prefix is closed. The last element that is needed ends the shortest interesting prefix; it
is kept with its ancestors, and the next one is sought among what is left before it. With k elements needed that takes
about k log2(n / k) answers, which for few of them is what their number of choices asks for.

Where to cut is the Bayesian choice of largest expected information (as in group testing; Hwang 1972 for the prior's
geometric form), under the assumption that what is interesting stays so when more is kept. Where the assumption fails
the result is still interesting, but may be larger than need be; the sweep that follows tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..answer import Answer, Query, Subset
from ..graph import DependencyGraph

Floats = npt.NDArray[np.float64]

ERROR = 0.05  # chance of an unneeded element, when failures are rare; the sweep finds it


@dataclass(frozen=True, kw_only=True)
class CutBisection:
    """`base` is closed and kept. `open` are the other elements of `best`, in dependency order.

    belief: of i = 0 ... len(open), the probability that `base` and the first i of `open`, and no fewer, are
        interesting.
    seen: by i, the runs of that candidate that were not interesting.
    rate: how often an interesting candidate fails.
    """

    graph: DependencyGraph
    best: Subset
    rate: float
    total: int
    base: Subset
    open: tuple[int, ...]
    found: int
    belief: Floats
    seen: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def start(graph: DependencyGraph, best: Subset | None = None, *, rate: float = 1.0) -> CutBisection:
        """Begins with `best`, by default with all elements."""
        best = graph.everything if best is None else best
        return _seek(graph=graph, best=best, base=frozenset(), found=0, total=max(1, len(best)), rate=rate)

    @cached_property
    def cut(self) -> int | None:
        """How many of `open` to keep next; None: none can be dropped."""
        last = len(self.open)
        if last == 0 or self.belief[last] >= 1 - ERROR:
            return None
        seen = dict(self.seen)
        can_ask = np.ones(last, np.bool_)
        if self.rate == 1:
            can_ask[list(seen)] = False
        if not can_ask.any():
            return None
        likeliest = int(self.belief[:last].argmax())
        # As good as settled, but for a run that shows it.
        if self.belief[likeliest] >= 1 - ERROR and can_ask[likeliest]:
            return likeliest
        below = np.cumsum(self.belief)[:-1]
        gain = np.where(can_ask, _information(below, self.rate), -1.0)
        return int(gain.argmax())

    @property
    def query(self) -> Query[Subset] | None:
        """A further run of the base with that many of the others."""
        if self.cut is None:
            return None
        kept = self.base.union(self.open[: self.cut])
        return Query(kept, dict(self.seen).get(self.cut, 0) + 1)

    @property
    def chance(self) -> float:
        """The chance that the last needed element is kept, and that the run fails then."""
        return self.rate * float(self.belief[: self.cut + 1].sum()) if self.cut is not None else 0.0

    def after(self, answer: Answer) -> CutBisection:
        """Bayes' rule; when the last needed element is known, it goes to the base."""
        cut = self.cut
        assert cut is not None
        if answer is Answer.INTERESTING:
            belief = self.belief[: cut + 1]
            state = replace(
                self,
                best=self.base.union(self.open[:cut]),
                open=self.open[:cut],
                belief=_normal(belief),
                seen=tuple((at, runs) for at, runs in self.seen if at < cut),
            )
        else:
            belief = self.belief.copy()
            belief[: cut + 1] *= 0 if answer is Answer.INVALID else 1 - self.rate
            seen = dict(self.seen)
            state = replace(
                self, belief=_normal(belief), seen=tuple({**seen, cut: seen.get(cut, 0) + 1}.items())
            )
        if state.cut is not None or not state.open:
            return state
        last = state.open[-1]
        return _seek(
            graph=state.graph,
            best=state.best,
            base=state.base | state.graph.with_ancestors({last}),
            found=state.found + 1,
            total=state.total,
            rate=state.rate,
        )


def _seek(
    *, graph: DependencyGraph, best: Subset, base: Subset, found: int, total: int, rate: float
) -> CutBisection:
    """The search for the next needed element; needed ones are taken to be as dense as they were above."""
    left = tuple(sorted(best - base))
    density = (found + 1) / (total - len(left) + total / 2)
    places = np.arange(len(left), -1, -1.0)
    belief = np.exp(places * np.log1p(-min(0.5, density)))
    belief[0] = 0.0
    # Nothing interesting is empty; after that, the more were found the likelier are more.
    none = 1 / (found + 1) if found else 0.0
    others = belief.sum()
    belief = belief * ((1 - none) / others) if others else belief
    belief[0] = none if others else 1.0
    return CutBisection(
        graph=graph,
        best=best,
        rate=rate,
        total=total,
        base=base,
        open=left,
        found=found,
        belief=belief,
    )


def _normal(belief: Floats) -> Floats:
    total = belief.sum()
    if total > 0:
        return belief / total
    # What was held impossible has been seen: nothing is known but that the whole is interesting.
    last = np.zeros_like(belief)
    last[-1] = 1.0
    return last


def _information(share: Floats, rate: float) -> Floats:
    """Bits that a run tells which fails at `rate` with a probability of `share`, and else passes."""
    return _entropy(rate * share) - share * _entropy(np.array(rate))


def _entropy(p: Floats) -> Floats:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)

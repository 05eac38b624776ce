"""What stands around the range that is searched, and is added to its conclusion."""

from dataclasses import dataclass, field
from typing import TypeAlias

from .....store.vocabulary import BisectionOutcome, Seeks
from ....commits.moved_pin import MovedPin
from ....result import Conclusion, Counterfactual, MovedLayers, NamedCommit
from ...probes import Target


@dataclass(frozen=True, kw_only=True)
class Through:
    """A culprit of an outer range, whose pin brought in what is found in the inner one."""

    named: NamedCommit
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...]
    earlier_failures: tuple[str, ...]

    def around(self, inner: Conclusion) -> Conclusion:
        """The conclusion of the outer range."""
        return _with_tests(inner.model_copy(update={"through": inner.through or self.named}), self)


@dataclass(frozen=True, kw_only=True)
class TookAway:
    """A culprit of an outer range, whose pin moved back, or to another line, and so took away what is found in the
    inner range: nothing in the pinned repository did it."""

    named: NamedCommit
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...]
    earlier_failures: tuple[str, ...]
    moved: MovedPin
    seeks: Seeks
    diverged: bool

    def around(self, inner: Conclusion) -> Conclusion:
        """The conclusion of the outer range."""
        how = "to another line" if self.diverged else "back"
        what = "fix" if self.seeks is Seeks.REGRESSION else "fault"
        moved = self.moved
        move = f"by moving {moved.held_name} {how}, {moved.move}"
        lost = next(iter(inner.culprits), None)
        which = f"the {what} {lost.repository} {lost.commit}" if lost else f"a {what} that could not be named"
        conclusion = Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"{what_it_did(self.named, self.seeks)} {move}, which takes away {which}",
            culprits=(self.named,),
            lost=lost,
            counterfactuals=inner.counterfactuals,
            layers=inner.layers,
        )
        return _with_tests(conclusion, self)


def _with_tests(conclusion: Conclusion, outer: Through | TookAway) -> Conclusion:
    """With the pins that were tested in the outer range, and its earlier failures."""
    return conclusion.model_copy(
        update={
            "counterfactuals": (*outer.counterfactuals, *conclusion.counterfactuals),
            "layers": (*outer.layers, *conclusion.layers),
            "earlier_failures": (*conclusion.earlier_failures, *outer.earlier_failures),
        }
    )


OuterRange: TypeAlias = Through | TookAway


@dataclass(frozen=True, kw_only=True)
class Enclosing:
    """The ends of the whole bisection, and the ranges around the one that is searched, the innermost first."""

    good: Target
    bad: Target
    outer: tuple[OuterRange, ...] = field(default=())

    def within(self, outer: OuterRange) -> "Enclosing":
        """What stands around a range inside of the one that is searched."""
        return Enclosing(good=self.good, bad=self.bad, outer=(outer, *self.outer))

    def around(self, inner: Conclusion) -> Conclusion:
        """The conclusion of the whole bisection, but for how often its ends failed, and its pins."""
        for outer in self.outer:
            inner = outer.around(inner)
        return inner


def what_it_did(named: NamedCommit, seeks: Seeks) -> str:
    """What the commit that is named did."""
    verb = "introduced" if seeks is Seeks.REGRESSION else "fixed"
    return f"{named.repository} {named.version or named.commit} {verb} it"

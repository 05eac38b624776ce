"""What a state of a bisection is, and what may come of asking one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import override

from ...result import Conclusion
from ..history import HistoryQuestion
from ..known import Known
from ..needs import Needs, Note
from ..priority.circumstances import Circumstances
from ..priority.promise import Promise
from ..probes import Target
from ..range_search import RangeSearch, failing_end_before_measured
from .answer.enclosing import Enclosing
from .answer.naming import ConfirmedCulprit


class BisectionState(ABC):
    """A stage of a bisection. Frozen: what it needs follows from what is known and from the circumstances."""

    @abstractmethod
    def advance(self, known: Known, around: Circumstances) -> "Advance":
        """What is needed now, or what comes next. Raises `EndsError` where the ends do not differ, `UserError` where
        an end cannot be judged."""

    def promise(self, known: Known, around: Circumstances) -> Promise | None:
        """What a further probe promises, for a state that can wait while other bisections promise more; None: it goes
        on at once."""
        return None

    @property
    def search(self) -> RangeSearch | None:
        """The innermost range that is known so far."""
        return None

    def failing_end(self, known: Known) -> Target | None:
        """The end whose failures say how large the error is that is searched for; None before it was measured."""
        return None if self.search is None else self.search.failing


@dataclass(frozen=True)
class OfRange(BisectionState):
    """A state of a range that is opened."""

    range_search: RangeSearch

    @property
    @override
    def search(self) -> RangeSearch:
        return self.range_search


@dataclass(frozen=True)
class BeforeEnds(OfRange):
    """A state of a range whose ends are not measured yet."""

    @override
    def failing_end(self, known: Known) -> Target | None:
        return failing_end_before_measured(known, self.range_search)


@dataclass(frozen=True)
class OfCulprit(BisectionState):
    """A state of a culprit that is confirmed."""

    culprit: ConfirmedCulprit

    @property
    @override
    def search(self) -> RangeSearch:
        return self.culprit.search


@dataclass(frozen=True)
class Wait:
    """The state goes on once this has happened."""

    needs: Needs


@dataclass(frozen=True)
class Move:
    """The next state."""

    state: BisectionState
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Enter:
    """The search of a range begins: of the whole bisection's once its ends are measured, or of one inside of it."""

    search: RangeSearch
    enclosing: Enclosing
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Finish:
    """The bisection is over."""

    conclusion: Conclusion
    notes: tuple[Note, ...] = ()


Advance: TypeAlias = Wait | Move | Enter | Finish


def load_all(known: Known, *questions: HistoryQuestion) -> Wait | None:
    """Wait for answers; None once they are there."""
    missing = tuple(question for question in questions if not known.has(question))
    return Wait(Needs(load=missing)) if missing else None

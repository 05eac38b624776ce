"""All that a bisection knows: what was asked, what was probed, what git said."""

from dataclasses import dataclass, field, replace
from typing import Literal, cast, overload

from ..commits.moved_pin import MovedPin
from ..commits.moved_yardstick import MovedYardstick
from ..commits.perturbed import OfferedPerturbation
from ..commits.range import LoadedRange, Range
from ..result import PinRecord
from ..search.evidence.blamed_file import BlamedFile
from ..search.model.rates import Rates
from .history import (
    AskApplies,
    AskBlamedFile,
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskPins,
    AskRange,
    AskSameChange,
    AskTarget,
    AskYardstick,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
)
from .log import ProbeLog
from .probes import Target

_UNKNOWN_RATES = Rates.unknown()


@dataclass(frozen=True, kw_only=True)
class BisectionQuestion:
    """What is asked.

    range: where the change lies; where the good end has to be found first (`gallop`), its old end is the root, behind
    which nothing is looked at. golden: whether probes share frozen data, and where these come from. repositories: the
    names of those of the stack: a pin of one of them can be looked into, any other is a version. patched: whether
    commits of the range are tested with patches. case: how the case is named; None where the stack's command is the
    whole case.
    """

    range: Range
    confidence: float
    gallop: Literal["commits", "days"] | None = None
    golden: Literal["none", "given", "captured"] = "none"
    repositories: frozenset[str]
    patched: bool = False
    measured_in: str | None = None
    """The repository of the case, where the stack file says how a case's script measures."""
    case: str | None = None
    mismatch: bool = True
    """Whether a mismatch is what counts as bad, so that errors have a size."""
    by_exit_code: bool = False
    """Whether a command's exit code says what is bad, so that failures are told apart by it."""
    rates: Rates = _UNKNOWN_RATES
    """What is known of the rates of failing before anything was run."""
    perturbations: tuple[OfferedPerturbation, ...] = ()
    """What may make a failure certain that comes and goes, in the order in which they are tried."""
    end_runs: int | None = None
    """How often each end is run before the search; None: until each has once shown what it stands for, as long as the
    posterior says that it is worth it."""
    parted: bool = False
    """Whether the older end is run in place of one on another branch: it is their merge base."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A bisection's knowledge. It only grows."""

    question: BisectionQuestion
    log: ProbeLog = field(default_factory=ProbeLog)
    frozen: bool = False
    """Whether the golden data are there, which all probes from then on get."""
    answers: tuple[tuple[HistoryQuestion, HistoryAnswer], ...] = ()

    def with_answer(self, question: HistoryQuestion, answer: HistoryAnswer) -> "Known":
        """With an answer."""
        return replace(self, answers=(*self.answers, (question, answer)))

    def has(self, question: HistoryQuestion) -> bool:
        """Whether a question was answered."""
        return any(asked == question for asked, _ in self.answers)

    @overload
    def answer(self, question: AskRange) -> LoadedRange | None: ...
    @overload
    def answer(self, question: AskBlamedFile) -> BlamedFile | None: ...
    @overload
    def answer(self, question: AskTarget) -> Target | None: ...
    @overload
    def answer(self, question: AskFirstParents) -> FirstParents: ...
    @overload
    def answer(self, question: AskMovedPins) -> tuple[MovedPin, ...]: ...
    @overload
    def answer(self, question: AskYardstick) -> MovedYardstick | None: ...
    @overload
    def answer(self, question: AskMergeBase) -> str | None: ...
    @overload
    def answer(self, question: AskPatches) -> tuple[str, ...]: ...
    @overload
    def answer(self, question: AskApplies) -> tuple[str, ...] | None: ...
    @overload
    def answer(self, question: AskSameChange) -> tuple[str, ...]: ...
    @overload
    def answer(self, question: AskPins) -> tuple[PinRecord, ...]: ...
    def answer(self, question: HistoryQuestion) -> object:
        """The answer to a question. Raises `LookupError` where it was not answered."""
        for asked, answer in self.answers:
            if asked == question:
                return cast(object, answer)
        raise LookupError(f"expected an answer to {question}, found none")

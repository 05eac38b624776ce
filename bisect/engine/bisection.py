"""A bisection: told what has happened, it says what it needs next, or its conclusion."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from ...store.vocabulary import BisectionOutcome, Judgement, Phase
from ...store.words import plural
from ..result import Conclusion
from .failures.error_scale import ErrorScale
from .history import HistoryAnswer, HistoryQuestion
from .known import BisectionQuestion, Known
from .log import ProbeLog
from .needs import Needs, Note, Notice
from .priority.circumstances import Circumstances
from .priority.promise import Promise
from .probes import FinishedProbe, RunningProbe, Target
from .states.answer.concluding import budget_spent
from .states.begin.good_end import FindingGoodEnd
from .states.begin.opening import OpeningRange
from .states.perturbing import as_it_is
from .states.searching import Searching
from .states.state import BisectionState, Enter, Finish, Move


@dataclass(frozen=True)
class ProbeStarted:
    """A probe was started."""

    probe: RunningProbe


@dataclass(frozen=True)
class ProbeFinished:
    """A probe is finished."""

    probe: FinishedProbe


@dataclass(frozen=True)
class ProbesCancelled:
    """Probes were stopped; they never count."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class QuestionAnswered:
    """A question to the history of a repository was answered."""

    question: HistoryQuestion
    answer: HistoryAnswer


@dataclass(frozen=True)
class DataFrozen:
    """The golden data are frozen."""


Happening: TypeAlias = ProbeStarted | ProbeFinished | ProbesCancelled | QuestionAnswered | DataFrozen


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """A bisection, as far as it has come. Made by `start`; `after` and `next` make the ones that follow."""

    known: Known
    state: BisectionState
    broken: frozenset[str] = frozenset()
    """The places that show the same, whatever commit runs there."""
    told: frozenset[str] = frozenset()
    """Those of which that was told; later runs may have acquitted some since."""

    @classmethod
    def start(
        cls, question: BisectionQuestion, *, log: ProbeLog | None = None, frozen: bool = False
    ) -> "Bisection":
        """A new bisection, or one that goes on: with its finished probes in `log`, and whether its data are frozen."""
        known = Known(question=question, log=log or ProbeLog(), frozen=frozen)
        state = OpeningRange() if question.gallop is None else FindingGoodEnd()
        return cls(known=known, state=state)

    def after(self, happened: Happening) -> "Bisection":
        """The bisection that knows of this too."""
        known = self.known
        match happened:
            case ProbeStarted(probe=probe):
                known = replace(known, log=known.log.with_started(probe))
            case ProbeFinished(probe=finished):
                known = replace(known, log=known.log.with_finished(finished))
            case ProbesCancelled(numbers=numbers):
                known = replace(known, log=known.log.with_cancelled(numbers))
            case QuestionAnswered(question=question, answer=answer):
                known = known.with_answer(question, answer)
            case DataFrozen():
                known = replace(known, frozen=True)
        return replace(self, known=known)

    def next(self, around: Circumstances) -> "tuple[Bisection, Needs | Conclusion]":
        """What is needed now, or the conclusion, and the bisection in the state that says so.

        Raises `EndsError` where the ends do not differ, `UserError` where an end cannot be judged.
        """
        state, notes = self.state, tuple[Note, ...]()
        while True:
            advance = state.advance(self.known, around)
            if isinstance(advance, Move):
                state, notes = advance.state, (*notes, *advance.notes)
                continue
            if isinstance(advance, Enter):
                state, notes = Searching(advance.search, advance.enclosing), (*notes, *advance.notes)
                continue
            if isinstance(advance, Finish):
                places = tuple(sorted(self.broken))
                return replace(self, state=state), advance.conclusion.model_copy(
                    update={"broken_places": places}
                )
            broken = self._broken(state, around)
            told = tuple(_told_broken(self.known.log, place) for place in sorted(broken - self.told))
            here = replace(self, state=state, broken=broken, told=self.told | broken)
            start = tuple(replace(wanted, avoid=wanted.avoid | broken) for wanted in advance.needs.start)
            return here, replace(advance.needs, start=start, notes=(*notes, *told, *advance.needs.notes))

    def _broken(self, state: BisectionState, around: Circumstances) -> frozenset[str]:
        """The places that show the same, whatever commit runs there."""
        return state.search.posterior(self.known, around).broken if state.search else self.broken

    def promise(self, around: Circumstances) -> Promise | None:
        """What a further probe promises; None where the bisection goes on at once, whatever others promise."""
        return self.state.promise(self.known, around)

    def budget_spent(self, why: str, around: Circumstances) -> Conclusion:
        """The conclusion where no probe may start any more: what is known."""
        search = self.state.search
        if search is None:
            return Conclusion(outcome=BisectionOutcome.BUDGET, message=why)
        if search.natural is not None:
            search = as_it_is(search, search.posterior(self.known, around))
        posterior = search.posterior(self.known, around)
        return budget_spent(search.loaded, posterior, confidence=search.confidence, why=why)

    def failing_signatures(self) -> tuple[tuple[str, ...], str] | None:
        """How the failing end fails, each signature once, and that end's content; None before it was seen to fail."""
        end = self.state.failing_end(self.known)
        failing = [] if end is None else self._failures_of(end)
        if end is None or not failing:
            return None
        return tuple(dict.fromkeys(probe.signature or "" for probe in failing)), end.content

    def _failures_of(self, end: Target) -> list[FinishedProbe]:
        """The failures of an end as such."""
        return [
            probe
            for probe in self.known.log.of(end.content)
            if probe.phase in (Phase.ENDPOINT, Phase.PERTURBED) and probe.judgement is Judgement.BAD
        ]

    def error_scale(self) -> tuple[ErrorScale, str] | None:
        """The size of the failing end's errors, by which another failure is told from it, and that end's content. None
        before it was measured, or where errors have no size."""
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.mismatch:
            return None
        scale = ErrorScale.of([probe.metrics for probe in self._failures_of(end)])
        return None if scale is None else (scale, end.content)


def _told_broken(log: ProbeLog, place: str) -> Notice:
    judged = [probe.judgement for probe in log.ended if probe.place == place]
    failures, passes = judged.count(Judgement.BAD), judged.count(Judgement.GOOD)
    return Notice(
        f"{place} is likely broken: {failures} of {plural(failures + passes, 'run')} failed there, whatever the "
        "commit; they count for nothing, and as long as there is another place no more are made there"
    )

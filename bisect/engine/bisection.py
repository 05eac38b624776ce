"""The bisection itself: given what has happened, it returns what it needs next, or its conclusion.

`Bisection` is a value. It takes one event after another, and `next` moves through the states until one waits or ends.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from ...store.vocabulary import BisectionOutcome, Judgement, Phase, plural
from ..history.questions import HistoryAnswer, HistoryQuestion
from .answer import BisectionState, Enter, Finish, Move, budget_conclusion
from .conclusion import Conclusion
from .costs import Context, ExpectedGain
from .failures import EndFailure, ErrorScale, end_failure, judge_failures
from .good_end import GoodEndSearch
from .opening import RangeOpening
from .probes import FinishedProbe, RunningProbe, Target
from .runs import BisectionKnowledge, BisectionQuestion, Needs, Note, Notice, ProbeLog
from .search import CulpritSearch, unperturbed_search


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
    """Probes were stopped. They never count."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class QuestionAnswered:
    """A question to a repository's history was answered."""

    question: HistoryQuestion
    answer: HistoryAnswer


@dataclass(frozen=True)
class DataFrozen:
    """The golden data were frozen."""


BisectionEvent: TypeAlias = ProbeStarted | ProbeFinished | ProbesCancelled | QuestionAnswered | DataFrozen


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """A bisection, as far as it has come. `start` makes the first one. Each event, and each call of `next`, makes
    another."""

    known: BisectionKnowledge
    state: BisectionState
    broken: frozenset[str] = frozenset()
    """The places whose runs end alike, whatever commit runs there."""
    announced: frozenset[str] = frozenset()
    """The broken places that a notice has named. Later runs may have acquitted some of them since."""

    @classmethod
    def start(
        cls, question: BisectionQuestion, *, log: ProbeLog | None = None, frozen: bool = False
    ) -> "Bisection":
        """Return a new bisection, or one that goes on. `log` holds its finished probes, and `frozen` says whether its
        data are frozen."""
        known = BisectionKnowledge(question=question, log=log or ProbeLog(), frozen=frozen)
        state = GoodEndSearch() if question.gallop else RangeOpening()
        return cls(known=known, state=state)

    def apply_event(self, happened: BisectionEvent) -> "Bisection":
        """Return the bisection that knows of this event too."""
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

    @cached_property
    def _judged_knowledge(self) -> BisectionKnowledge:
        """Return what is known, with a command's failures judged by those of its failing end."""
        return judge_failures(self.known)

    def next(self, context: Context) -> "tuple[Bisection, Needs | Conclusion]":
        """Return what is needed now, or the conclusion, with the bisection in the state that says so.

        Raises `EndsError` where the ends do not differ, `UserError` where an end cannot be judged.
        """
        state, notes, known = self.state, tuple[Note, ...](), self._judged_knowledge
        while True:
            advance = state.advance(known, context)
            if isinstance(advance, Move):
                state, notes = advance.state, (*notes, *advance.notes)
                continue
            if isinstance(advance, Enter):
                state, notes = CulpritSearch(advance.search, advance.enclosing), (*notes, *advance.notes)
                continue
            if isinstance(advance, Finish):
                places = tuple(sorted(self.broken))
                return replace(self, state=state), advance.conclusion.model_copy(
                    update={"broken_places": places}
                )
            broken = self._broken_places(state, context)
            told = tuple(
                _broken_place_notice(self.known.log, place) for place in sorted(broken - self.announced)
            )
            here = replace(self, state=state, broken=broken, announced=self.announced | broken)
            start = tuple(replace(wanted, avoid=wanted.avoid | broken) for wanted in advance.needs.start)
            return here, replace(advance.needs, start=start, notes=(*notes, *told, *advance.needs.notes))

    def _broken_places(self, state: BisectionState, context: Context) -> frozenset[str]:
        """Return the places whose runs end alike, whatever commit runs there."""
        return state.search.posterior(self._judged_knowledge, context).broken if state.search else self.broken

    def expected_gain(self, context: Context) -> ExpectedGain | None:
        """Return what a further probe promises. Return None where the bisection goes on at once, whatever others
        promise."""
        return self.state.expected_gain(self._judged_knowledge, context)

    def conclude_on_budget(self, why: str, context: Context) -> Conclusion:
        """Return the conclusion from what is known, where no probe may start any more."""
        search, known = self.state.search, self._judged_knowledge
        if search is None:
            return Conclusion(outcome=BisectionOutcome.BUDGET, message=why)
        if search.unperturbed is not None:
            search = unperturbed_search(search, search.posterior(known, context))
        posterior = search.posterior(known, context)
        return budget_conclusion(search.loaded, posterior, confidence=search.confidence, why=why)

    def end_failure(self) -> tuple[EndFailure, str] | None:
        """Return what the failing end of a command shows, and that end's content.

        Return None before the end was seen to fail, or where its failure does not decide.
        """
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.by_likeness:
            return None
        failure = end_failure(self.known.log, end.content)
        return None if failure is None else (failure, end.content)

    def _failures_of(self, end: Target) -> list[FinishedProbe]:
        """Return the failures of an end from the runs that measured it as an end, perturbed or not."""
        return [
            probe
            for probe in self.known.log.probes_for(end.content)
            if probe.phase in (Phase.ENDPOINT, Phase.PERTURBED) and probe.judgement is Judgement.BAD
        ]

    def error_scale(self) -> tuple[ErrorScale, str] | None:
        """Return the size of the failing end's errors, and that end's content. The size tells other failures from the
        end's.

        Return None before the end was measured, or where errors have no size.
        """
        end = self.state.failing_end(self.known)
        if end is None or not self.known.question.mismatch:
            return None
        scale = ErrorScale.from_runs([probe.metrics for probe in self._failures_of(end)])
        return None if scale is None else (scale, end.content)


def _broken_place_notice(log: ProbeLog, place: str) -> Notice:
    judged = [probe.judgement for probe in log.ended if probe.place == place]
    failures, passes = judged.count(Judgement.BAD), judged.count(Judgement.GOOD)
    return Notice(
        f"{place} is likely broken: {failures} of {plural(failures + passes, 'run')} failed there, whatever the "
        "commit; they count for nothing, and as long as there is another place no more are made there"
    )

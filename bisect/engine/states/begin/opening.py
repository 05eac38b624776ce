"""The range is read, and the bisection waits until it may begin."""

from dataclasses import dataclass, replace

from typing_extensions import override

from .....runner.errors import EndsError
from ...evidence import RangeEvidence, new_end, old_end
from ...history import AskRange
from ...known import Known
from ...priority.circumstances import Circumstances
from ...priority.promise import Promise
from ...range_search import RangeSearch
from ..data import FreezingData
from ..state import Advance, BeforeEnds, BisectionState, Move, load_all


@dataclass(frozen=True, kw_only=True)
class OpeningRange(BisectionState):
    """The commits between the ends are read."""

    good: str | None = None
    """The good end where it had to be looked for."""

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        where = known.question.range if self.good is None else replace(known.question.range, old=self.good)
        asked = AskRange(ordinal=1, range=where)
        if wait := load_all(known, asked):
            return wait
        loaded = known.answer(asked)
        if loaded is None:
            raise EndsError(
                f"{where.old[:12]}..{where.new[:12]}: expected a commit that can change the result, "
                "found only changes in ignored paths (repositories.*.ignore in the stack file), or none of --path"
            )
        search = RangeSearch(
            ordinal=1,
            loaded=loaded,
            evidence=RangeEvidence.of(loaded),
            confidence=known.question.confidence,
            case=known.question.case,
        )
        return Move(WaitingToBegin(search))


@dataclass(frozen=True)
class WaitingToBegin(BeforeEnds):
    """Other bisections whose probes promise more go first."""

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        return Move(FreezingData(self.range_search))

    @override
    def promise(self, known: Known, around: Circumstances) -> Promise:
        loaded = self.range_search.loaded
        runs = [len(known.log.of(end.content)) for end in (old_end(loaded), new_end(loaded))]
        missing = sum(max(0, (known.question.end_runs or 1) - count) for count in runs)
        posterior = self.range_search.posterior(known, around)
        return self.range_search.promise(posterior, known, around, before=missing)

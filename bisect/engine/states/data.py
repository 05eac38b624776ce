"""The golden data that all probes share are frozen: those that were named, or those that the good end made."""

from dataclasses import dataclass

from typing_extensions import override

from ....store.vocabulary import Phase
from ..evidence import passing_end
from ..known import Known
from ..needs import GivenData, Needs, SavedData
from ..priority.circumstances import Circumstances
from ..probes import Target, WantedProbe
from .ends import MeasuringEnds
from .judging import judged_runs, require_pass
from .state import Advance, BeforeEnds, Move, Wait


@dataclass(frozen=True)
class FreezingData(BeforeEnds):
    """Data are frozen, once the good end has made them where none were named."""

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        wait = frozen_data(known, passing_end(self.range_search.loaded), ordinal=self.range_search.ordinal)
        return wait or Move(MeasuringEnds(range_search=self.range_search, before=len(known.log.ended)))


def frozen_data(known: Known, good: Target | None, *, ordinal: int) -> Wait | None:
    """Wait until the data are frozen; None once they are, or where there are none, or where those of a good end that is
    not known yet are needed. Raises `UserError` where the good end does not make any."""
    source = known.question.golden
    if known.frozen or source == "none":
        return None
    if source == "given":
        return Wait(Needs(freeze=GivenData()))
    if good is None:
        return None
    if known.log.is_running(good.content):
        return Wait(Needs())
    require_pass(known.log.of(good.content), good, by_exit_code=known.question.by_exit_code)
    probes = judged_runs(known.log, good)
    if not probes:
        saving = WantedProbe(target=good, phase=Phase.ENDPOINT, range=ordinal, save_golden=True)
        return Wait(Needs(start=(saving,)))
    return Wait(Needs(freeze=SavedData(probe=probes[0].number, commit=good.commit)))

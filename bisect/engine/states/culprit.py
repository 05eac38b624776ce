"""A culprit is confirmed: is it to blame by its own change, or by a pin that it moves? The 2 x 2 of the pin and the
commit that holds it tells; where it moves several pins, the matrix of all of them (`layers`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from ....store.vocabulary import Judgement
from ...commits.moved_pin import MovedPin
from ...commits.range import outcome_of
from ...result import Blame, Counterfactual
from ...search.evidence.knowledge import Outcome
from ..history import AskMovedPins, AskTarget
from ..known import Known
from ..priority.circumstances import Circumstances
from .answer.blaming import blame
from .answer.yardstick import TestingYardstick
from .descending import Descending
from .judging import counterfactuals
from .layers import TestingLayers
from .state import Advance, Move, OfCulprit, Wait, load_all

_BLAME: Mapping[tuple[Outcome, Outcome], Blame] = {
    (Outcome.GOOD, Outcome.BAD): "submodule",
    (Outcome.BAD, Outcome.GOOD): "superproject",
    (Outcome.GOOD, Outcome.GOOD): "interaction",
    (Outcome.BAD, Outcome.BAD): "either",
}


@dataclass(frozen=True)
class TestingPins(OfCulprit):
    """What the pins that the culprit moves have to do with it."""

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return blame(known, self.culprit, how="")
        asked = AskMovedPins(repository=named.repository, old=named.parent, new=named.commit)
        if wait := load_all(known, asked):
            return wait
        moved = known.answer(asked)
        if len(moved) > 1:
            return Move(TestingLayers(culprit=self.culprit, moved=tuple(moved)))
        if not moved or self.culprit.tested:
            how = _by_pin(self.culprit.tested)
            if named.repository == known.question.measured_in:
                return Move(TestingYardstick(self.culprit, how))
            return blame(known, self.culprit, how=how)
        return self._test(known, moved[0], named.parent)

    def _test(self, known: Known, pin: MovedPin, parent: str) -> Advance:
        """Judge the culprit with the old pin, and its parent with the new one."""
        held = self.search.loaded.range.held
        repository = self.culprit.named.repository
        asked = [
            AskTarget(repository=repository, commit=commit, held={**held, pin.held_name: pinned})
            for commit, pinned in ((self.culprit.named.commit, pin.old), (parent, pin.new))
        ]
        judgements = counterfactuals(known, asked, self.search)
        if isinstance(judgements, Wait):
            return judgements
        counterfactual = self._blamed(known, pin, judgements)
        culprit = replace(self.culprit, tested=(*self.culprit.tested, counterfactual))
        after = TestingPins(culprit)
        if counterfactual.blame != "submodule":
            return Move(after)
        return Move(Descending(culprit=culprit, pin=pin, otherwise=after))

    def _blamed(self, known: Known, pin: MovedPin, judgements: Sequence[Judgement]) -> Counterfactual:
        new_holder, old_holder = judgements
        seeks = self.search.loaded.range.seeks
        cause: Blame = _BLAME.get((outcome_of(new_holder, seeks), outcome_of(old_holder, seeks)), "unknown")
        if cause == "submodule" and pin.held_name not in known.question.repositories:
            cause = "version"
        return Counterfactual(
            pin=pin.path,
            repository=pin.held_name,
            old=pin.old,
            new=pin.new,
            new_holder_old_target=new_holder,
            old_holder_new_target=old_holder,
            blame=cause,
            told=pin.told,
        )


def _by_pin(tested: Sequence[Counterfactual]) -> str:
    """What the pin that the culprit moves has to do with it, behind the sentence that names it."""
    phrases = {
        "submodule": "by moving {0}",
        "version": "by moving {0}",
        "superproject": "by its own change, not by moving {0}",
        "interaction": "by its own change and moving {0} together, neither of which does it alone",
        "either": "by its own change, and by moving {0}: each does it alone",
        "unknown": "by its own change, or by moving {0}: they could not be told apart",
    }
    parts = [phrases[each.blame].format(f"{each.repository} {each.move}") for each in tested]
    return f", {parts[0]}" if parts else ""

"""A culprit is confirmed: is it to blame by its own change, or by a pin that it moves? The 2 x 2 of the pin and the
commit that holds it tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from ....store.vocabulary import BisectionOutcome, Judgement
from ...commits.moved_pin import MovedPin
from ...commits.range import outcome_of
from ...result import Blame, Conclusion, Counterfactual, NamedCommit
from ...search.evidence.knowledge import Outcome
from ..history import AskMovedPins, AskPatches, AskTarget
from ..known import Known
from ..needs import Notice
from ..priority.circumstances import Circumstances
from ..range_search import RangeSearch
from .answer.concluding import Concluding
from .answer.enclosing import what_it_did
from .answer.naming import ConfirmedCulprit
from .descending import Descending
from .judging import counterfactual_probe, judged
from .state import Advance, BisectionState, Move, load_all

_BLAME: Mapping[tuple[Outcome, Outcome], Blame] = {
    (Outcome.GOOD, Outcome.BAD): "submodule",
    (Outcome.BAD, Outcome.GOOD): "superproject",
    (Outcome.GOOD, Outcome.GOOD): "interaction",
    (Outcome.BAD, Outcome.BAD): "either",
}


@dataclass(frozen=True)
class TestingPins(BisectionState):
    """The pins that the culprit moves are tested one after the other."""

    culprit: ConfirmedCulprit

    @property
    def search(self) -> RangeSearch:
        """The range of the culprit."""
        return self.culprit.search

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return self._conclude(known, [])
        asked = AskMovedPins(repository=named.repository, old=named.parent, new=named.commit)
        if wait := load_all(known, asked):
            return wait
        moved = known.answer(asked)
        if len(self.culprit.tested) == len(moved):
            return self._conclude(known, moved)
        return self._test(known, moved[len(self.culprit.tested)], named.parent)

    def _test(self, known: Known, pin: MovedPin, parent: str) -> Advance:
        """Judge the culprit with the old pin, and its parent with the new one."""
        held = self.search.loaded.range.held
        repository = self.culprit.named.repository
        asked = [
            AskTarget(repository=repository, commit=commit, held={**held, pin.held_name: pinned})
            for commit, pinned in ((self.culprit.named.commit, pin.old), (parent, pin.new))
        ]
        if wait := load_all(known, *asked):
            return wait
        judgements: list[Judgement] = []
        for question in asked:
            target = known.answer(question)
            judgement = Judgement.SKIP if target is None else judged(known.log, target)
            if judgement is None and target is not None:
                return counterfactual_probe(known, target, ordinal=self.search.ordinal)
            judgements.append(judgement or Judgement.SKIP)
        counterfactual = self._blamed(known, pin, judgements)
        culprit = replace(self.culprit, tested=(*self.culprit.tested, counterfactual))
        after = TestingPins(culprit)
        if counterfactual.blame != "submodule":
            return Move(after)
        return Move(Descending(culprit=culprit, pin=pin, otherwise=after))

    def _blamed(self, known: Known, pin: MovedPin, judgements: Sequence[Judgement]) -> Counterfactual:
        new_holder, old_holder = judgements
        seeks = self.search.loaded.range.seeks
        blame: Blame = _BLAME.get((outcome_of(new_holder, seeks), outcome_of(old_holder, seeks)), "unknown")
        if blame == "submodule" and pin.held_name not in known.question.repositories:
            blame = "version"
        return Counterfactual(
            pin=pin.path,
            repository=pin.held_name,
            old=pin.old,
            new=pin.new,
            new_holder_old_target=new_holder,
            old_holder_new_target=old_holder,
            blame=blame,
        )

    def _conclude(self, known: Known, moved: Sequence[MovedPin]) -> Advance:
        """No pin leads further: the commit itself is the answer."""
        named = self.culprit.named
        notes: tuple[Notice, ...] = ()
        if known.question.patched and named.repository == known.question.range.repository and named.parent:
            asked = [
                AskPatches(repository=named.repository, commit=sha) for sha in (named.commit, named.parent)
            ]
            if wait := load_all(known, *asked):
                return wait
            notes = _doubted(named, [known.answer(question) for question in asked])
        conclusion = Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"{what_it_did(named, self.search.loaded.range.seeks)}{_by_pins(self.culprit.tested)}",
            culprits=(named,),
            earlier_failures=self.culprit.earlier_failures,
            counterfactuals=self.culprit.tested,
        )
        return Move(Concluding(conclusion, self.culprit.enclosing, self.search), notes)


def _doubted(named: NamedCommit, patches: Sequence[tuple[str, ...]]) -> tuple[Notice, ...]:
    """Say so where a commit and its parent were not tested with the same patches."""
    if patches[0] == patches[1]:
        return ()
    sides = [", ".join(sha[:12] for sha in picked) or "none" for picked in patches]
    text = (
        f"cherry-picked on top of {named.commit[:12]}: {sides[0]}; of its parent: {sides[1]}"
        ". The patch may be what changes the result between them"
    )
    return (Notice(text),)


def _by_pins(tested: Sequence[Counterfactual]) -> str:
    """What the pins that the culprit moves have to do with it, behind the sentence that names it."""
    phrases = {
        "submodule": "by moving {0}",
        "version": "by moving {0}",
        "superproject": "by its own change, not by moving {0}",
        "interaction": "by its own change and moving {0} together, neither of which does it alone",
        "either": "by its own change, and by moving {0}: each does it alone",
        "unknown": "by its own change, or by moving {0}: they could not be told apart",
    }
    parts = [
        phrases[each.blame].format(f"{each.repository} from {each.old[:12]} to {each.new[:12]}")
        for each in tested
    ]
    return f", {'; '.join(parts)}" if parts else ""

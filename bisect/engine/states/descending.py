"""A culprit is to blame by moving a pin: the pinned repository is searched for what that brought in, or took away."""

from dataclasses import dataclass

from typing_extensions import override

from ....store.vocabulary import Judgement
from ...commits.descent import Descent, descent, parted
from ...commits.moved_pin import MovedPin
from ...search.model.groups import GOOD_END
from ..evidence import RangeEvidence
from ..history import AskMergeBase, AskRange, AskTarget
from ..known import Known
from ..needs import Notice
from ..priority.circumstances import Circumstances
from ..range_search import RangeSearch
from .answer.enclosing import OuterRange, Through, TookAway
from .judging import counterfactuals
from .state import Advance, BisectionState, Enter, Move, OfCulprit, Wait, load_all


@dataclass(frozen=True, kw_only=True)
class Descending(OfCulprit):
    """The range of the pinned repository is found and opened; where there is none, it goes on with `otherwise`."""

    pin: MovedPin
    otherwise: BisectionState

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        pin = self.pin
        asked = AskMergeBase(repository=pin.held_name, one=pin.old, other=pin.new)
        if wait := load_all(known, asked):
            return wait
        base = known.answer(asked)
        of_base: Judgement | None = None
        if base is not None and parted(base, old=pin.old, new=pin.new):
            of_base_or_wait = self._judge(known, base)
            if isinstance(of_base_or_wait, Wait):
                return of_base_or_wait
            of_base = of_base_or_wait
        outer, named = self.search.loaded.range, self.culprit.named
        held = {**outer.held, named.repository: named.commit}
        found = descent(
            base,
            target=pin.held_name,
            old=pin.old,
            new=pin.new,
            held=held,
            seeks=outer.seeks,
            of_base=of_base,
        )
        if isinstance(found, str):
            text = f"{pin.held_name} moves {pin.move}, {found}: not searched"
            return Move(self.otherwise, (Notice(text),))
        return self._open(known, found)

    def _judge(self, known: Known, base: str) -> Judgement | Wait:
        """What the culprit does with the pin where its two lines parted."""
        outer, named = self.search.loaded.range, self.culprit.named
        held = {**outer.held, self.pin.held_name: base}
        asked = AskTarget(repository=named.repository, commit=named.commit, held=held)
        judgements = counterfactuals(known, [asked], self.search)
        return judgements if isinstance(judgements, Wait) else judgements[0]

    def _open(self, known: Known, found: Descent) -> Advance:
        outer = self.search
        asked = AskRange(ordinal=outer.ordinal + 1, range=found.range)
        if wait := load_all(known, asked):
            return wait
        loaded = known.answer(asked)
        if loaded is None:
            return Move(self.otherwise)
        ends = {found.range.old: GOOD_END, found.range.new: loaded.graph.bad}
        evidence = RangeEvidence.of(loaded).inherit(
            outer.evidence,
            outer.log(known),
            culprit=self.culprit.node,
            ends={True: ends.get(self.pin.new), False: ends.get(self.pin.old)},
            flipped=found.range.seeks is not outer.loaded.range.seeks,
        )
        inner = RangeSearch(
            ordinal=asked.ordinal,
            loaded=loaded,
            evidence=evidence,
            confidence=outer.confidence,
            case=outer.case,
            failures=outer.failures,
        )
        return Enter(inner, self.culprit.enclosing.within(self._outer_range(found)))

    def _outer_range(self, found: Descent) -> OuterRange:
        culprit, seeks = self.culprit, self.search.loaded.range.seeks
        if found.range.seeks is seeks:
            return Through(
                named=culprit.named,
                counterfactuals=culprit.tested,
                layers=culprit.layers,
                earlier_failures=culprit.earlier_failures,
            )
        return TookAway(
            named=culprit.named,
            counterfactuals=culprit.tested,
            layers=culprit.layers,
            earlier_failures=culprit.earlier_failures,
            moved=self.pin,
            seeks=seeks,
            diverged=found.base is not None,
        )

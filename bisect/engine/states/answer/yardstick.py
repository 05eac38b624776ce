"""A culprit changes how the case measures: its tolerance, what it expects. Is that what it is to blame for?"""

from dataclasses import dataclass

from typing_extensions import override

from ....commits.range import outcome_of
from ....result import YardstickBlame, YardstickTest
from ....search.evidence.knowledge import Outcome
from ...history import AskTarget, AskYardstick
from ...known import Known
from ...priority.circumstances import Circumstances
from ..judging import counterfactuals
from ..state import Advance, OfCulprit, Wait, load_all
from .blaming import blame

_BLAME: dict[tuple[Outcome, Outcome], YardstickBlame] = {
    (Outcome.GOOD, Outcome.BAD): "yardstick",
    (Outcome.BAD, Outcome.GOOD): "other change",
    (Outcome.GOOD, Outcome.GOOD): "both together",
    (Outcome.BAD, Outcome.BAD): "either",
}
_WORDS: dict[YardstickBlame, str] = {
    "yardstick": "as the yardstick moved: {0}",
    "other change": "by its other changes, not because the yardstick moved too: {0}",
    "both together": "by its other changes and the yardstick's move together, neither of which does it alone: {0}",
    "either": "by its other changes, and by the yardstick's move, each of which does it alone: {0}",
    "unknown": "by its other changes, or by the yardstick's move, which could not be told apart: {0}",
}


@dataclass(frozen=True)
class TestingYardstick(OfCulprit):
    """The culprit is run as its parent measures, and its parent as the culprit measures."""

    how: str
    """What the pins that it moves have to do with it."""

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return blame(known, self.culprit, how=self.how)
        asked = AskYardstick(old=named.parent, new=named.commit)
        if wait := load_all(known, asked):
            return wait
        moved = known.answer(asked)
        if moved is None:
            return blame(known, self.culprit, how=self.how)
        questions = [
            AskTarget(repository=named.repository, commit=commit, held=self.search.loaded.range.held)
            for commit in (moved.new_with_old, moved.old_with_new)
        ]
        judgements = counterfactuals(known, questions, self.search)
        if isinstance(judgements, Wait):
            return judgements
        seeks = self.search.loaded.range.seeks
        outcomes = outcome_of(judgements[0], seeks), outcome_of(judgements[1], seeks)
        test = YardstickTest(
            changes=moved.changes,
            new_with_old=judgements[0],
            old_with_new=judgements[1],
            blame=_BLAME.get(outcomes, "unknown"),
        )
        told = _WORDS[test.blame].format("; ".join(test.changes))
        return blame(known, self.culprit, how=f"{self.how}, {told}", yardstick=test)

"""The conclusion that a culprit is the answer: nothing leads further down."""

from collections.abc import Sequence

from .....store.vocabulary import BisectionOutcome
from ....result import Conclusion, NamedCommit, YardstickTest
from ...history import AskPatches
from ...known import Known
from ...needs import Notice
from ..state import Advance, Move, load_all
from .concluding import Concluding
from .enclosing import what_it_did
from .naming import ConfirmedCulprit


def blame(
    known: Known,
    culprit: ConfirmedCulprit,
    *,
    how: str,
    notes: tuple[Notice, ...] = (),
    yardstick: YardstickTest | None = None,
) -> Advance:
    """Name it. how: what its own change and the pins that it moves have to do with it; empty where it moves none.
    yardstick: what came of it that it changes how its case measures."""
    named = culprit.named
    if known.question.patched and named.repository == known.question.range.repository and named.parent:
        asked = [AskPatches(repository=named.repository, commit=sha) for sha in (named.commit, named.parent)]
        if wait := load_all(known, *asked):
            return wait
        notes += _doubted(named, [known.answer(question) for question in asked])
    conclusion = Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message=f"{what_it_did(named, culprit.search.loaded.range.seeks)}{how}",
        culprits=(named,),
        earlier_failures=culprit.earlier_failures,
        counterfactuals=culprit.tested,
        layers=culprit.layers,
        yardstick=yardstick,
    )
    return Move(Concluding(conclusion, culprit.enclosing, culprit.search), notes)


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

"""The conclusion that a culprit is the answer: nothing leads further down."""

from collections.abc import Sequence

from .....store.commit import Commit
from .....store.vocabulary import BisectionOutcome
from ....commits.range import LoadedRange
from ....result import Conclusion, NamedCommit, YardstickTest
from ...history import AskPatches, AskSameChange
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
    loaded = culprit.search.loaded
    if alike := _of_same_files(loaded, named):
        twins = AskSameChange(
            repository=named.repository, commit=named.commit, among=tuple(each.sha for each in alike)
        )
        if wait := load_all(known, twins):
            return wait
        notes += _made_again([each for each in alike if each.sha in known.answer(twins)])
    conclusion = Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message=f"{what_it_did(named, loaded.range.seeks)}{how}",
        culprits=(named,),
        earlier_failures=culprit.earlier_failures,
        counterfactuals=culprit.tested,
        layers=culprit.layers,
        yardstick=yardstick,
    )
    return Move(Concluding(culprit.search, conclusion, culprit.enclosing), notes)


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


def _of_same_files(loaded: LoadedRange, named: NamedCommit) -> list[Commit]:
    """The other commits of the range that change the files that the named one does."""
    plain = {each.sha: each for each in loaded.commits if len(each.parents) == 1 and each.changes}
    commit = plain.pop(named.commit, None)
    return [] if commit is None else [each for each in plain.values() if set(each.files) == set(commit.files)]


def _made_again(twins: Sequence[Commit]) -> tuple[Notice, ...]:
    """Say so where the same change was made by others too, as on another branch: each is found only by itself."""
    if not twins:
        return ()
    others = ", ".join(f"{each.sha[:12]} ({each.subject})" for each in twins)
    return (
        Notice(f"the same change was also made by {others}: what is done about the one may be due there too"),
    )

"""What a confirmed culprit is to blame for: its own change, a pin that it moves, or how it measures.

`PinTests` comes first. Where the culprit moves one pin, the 2 x 2 of the pin and the commit that holds it gives the
answer. Where it moves several, `LayerTests` runs cells of the matrix of all layers, the culprit's own change among
them. Where a pin is to blame, `PinDescent` searches the pinned repository for what the move brought in, or took away.
`CheckChangeTests` asks whether the culprit only changes how the case measures: its tolerance, or what it expects. Where
nothing leads further down, `blame` names the culprit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from ...store.vocabulary import BisectionOutcome, Commit, Judgement, Phase
from ..history.questions import (
    AskCheckChange,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskRange,
    AskSameChange,
    AskTarget,
    Descent,
    MovedPin,
    descent,
    has_diverged,
)
from ..history.range import LoadedRange, search_outcome
from ..search.belief import Cell, LayerMatrix, Outcome, next_cell
from ..search.hypotheses import GOOD_END
from .answer import (
    Advance,
    BisectionState,
    Blame,
    Conclusion,
    ConfirmedCulprit,
    Counterfactual,
    CulpritState,
    Enter,
    FinalState,
    IntroducingPinMove,
    LayerCell,
    Move,
    MovedLayers,
    NamedCommit,
    OuterRange,
    RemovingPinMove,
    Wait,
    YardstickBlame,
    YardstickTest,
    await_probe,
    describe_change,
    load_all,
    report_commit,
)
from .failures import judge_target
from .range_search import Context, RangeSearch
from .runs import BisectionKnowledge, Notice, RangeEvidence, WantedProbe

_SHORT = 12
"""Advice shows this many digits of a commit's id. They are unique in any real repository."""


def blame(
    known: BisectionKnowledge,
    culprit: ConfirmedCulprit,
    *,
    how: str,
    notes: tuple[Notice, ...] = (),
    yardstick: YardstickTest | None = None,
) -> Advance:
    """Name the culprit.

    how: what its own change and the pins that it moves have to do with the failure; empty where it moves none.
    yardstick: the result of the test of how the case measures, where the culprit changes that.
    """
    named = culprit.named
    if wait := load_all(known, *patch_questions(known, [named])):
        return wait
    if named.parent and (others := unshared_patches(known, named)):
        unclear = _patch_or_commit(culprit, others, named.parent)
        return Move(FinalState(culprit.search, unclear, culprit.enclosing), notes)
    loaded = culprit.search.loaded
    if alike := _same_file_commits(loaded, named):
        twins = AskSameChange(
            repository=named.repository, commit=named.commit, among=tuple(each.sha for each in alike)
        )
        if wait := load_all(known, twins):
            return wait
        notes += _duplicate_change_notice([each for each in alike if each.sha in known.answer(twins)])
    conclusion = Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message=f"{describe_change(named, loaded.range.seeks)}{how}",
        culprits=(named,),
        earlier_failures=culprit.earlier_failures,
        counterfactuals=culprit.tested,
        layers=culprit.layers,
        yardstick=yardstick,
    )
    return Move(FinalState(culprit.search, conclusion, culprit.enclosing), notes)


def patch_questions(known: BisectionKnowledge, named: Iterable[NamedCommit]) -> Iterator[AskPatches]:
    """Yield what `unshared_patches` needs to know of commits. Yield nothing where none is patched."""
    for each in named:
        if known.question.patched and each.repository == known.question.range.repository and each.parent:
            yield from (
                AskPatches(repository=each.repository, commit=sha) for sha in (each.commit, each.parent)
            )


def unshared_patches(known: BisectionKnowledge, named: NamedCommit) -> list[str]:
    """Return the patches that only one of a commit and its parent is tested with. One of them may be what fails."""
    picked = [{*known.answer(question)} for question in patch_questions(known, [named])]
    return sorted((picked[0] ^ picked[1]) - {named.commit}) if picked else []


def add_patches(known: BisectionKnowledge, loaded: LoadedRange, conclusion: Conclusion) -> Conclusion:
    """Return a conclusion without a culprit, with patches added to its suspects.

    Each of these patches was picked on a suspect and not on the suspect's parent.
    """
    patches = {sha for each in conclusion.suspects for sha in unshared_patches(known, each)}
    others = sorted(patches - {each.commit for each in conclusion.suspects})
    if not others:
        return conclusion
    return conclusion.model_copy(
        update={
            "message": f"{conclusion.message}; or it is {_shorten(others)}, which was cherry-picked on some of them "
            "and not on what they follow",
            "suspects": (*conclusion.suspects, *_report_patches(loaded, others)),
        }
    )


def _patch_or_commit(culprit: ConfirmedCulprit, patches: Sequence[str], parent: str) -> Conclusion:
    """Return the conclusion for a commit and a parent that differ by patches too. One of these may be what fails."""
    named, loaded = culprit.named, culprit.search.loaded
    commit, old = named.commit[:_SHORT], loaded.range.old[:_SHORT]
    advice = " ".join(f"--cherry-pick {sha[:_SHORT]}@{old}~1..{sha[:_SHORT]}~1" for sha in patches)
    return Conclusion(
        outcome=BisectionOutcome.SUSPECT,
        message=f"the failure begins with {commit}, or with {_shorten(patches)}, which was "
        f"cherry-picked on one of {commit} and its parent {parent[:_SHORT]} alone; to tell, pick it on the good end "
        f"and all behind it: {advice}",
        suspects=(named.model_copy(update={"confidence": None}), *_report_patches(loaded, patches)),
        earlier_failures=culprit.earlier_failures,
    )


def _report_patches(loaded: LoadedRange, patches: Sequence[str]) -> Iterator[NamedCommit]:
    """Yield the patches that are commits of the range, as they are reported."""
    in_range = {each.sha: each for each in loaded.commits}
    yield from (report_commit(loaded, in_range[sha], None) for sha in patches if sha in in_range)


def _shorten(commits: Sequence[str]) -> str:
    return ", ".join(sha[:_SHORT] for sha in commits)


def _same_file_commits(loaded: LoadedRange, named: NamedCommit) -> list[Commit]:
    """Return the other commits of the range that change the same files as the named one."""
    plain = {each.sha: each for each in loaded.commits if len(each.parents) == 1 and each.changes}
    commit = plain.pop(named.commit, None)
    return [] if commit is None else [each for each in plain.values() if set(each.files) == set(commit.files)]


def _duplicate_change_notice(twins: Sequence[Commit]) -> tuple[Notice, ...]:
    """Return a notice where other commits made the same change too, as on another branch. A search finds only one of
    them."""
    if not twins:
        return ()
    others = ", ".join(f"{each.sha[:12]} ({each.subject})" for each in twins)
    return (
        Notice(f"the same change was also made by {others}: what is done about the one may be due there too"),
    )


_CHECK_CHANGE_BLAME: dict[tuple[Outcome, Outcome], YardstickBlame] = {
    (Outcome.GOOD, Outcome.BAD): "yardstick",
    (Outcome.BAD, Outcome.GOOD): "other change",
    (Outcome.GOOD, Outcome.GOOD): "both together",
    (Outcome.BAD, Outcome.BAD): "either",
}
_CHECK_CHANGE_PHRASES: dict[YardstickBlame, str] = {
    "yardstick": "as the yardstick moved: {0}",
    "other change": "by its other changes, not because the yardstick moved too: {0}",
    "both together": "by its other changes and the yardstick's move together, neither of which does it alone: {0}",
    "either": "by its other changes, and by the yardstick's move, each of which does it alone: {0}",
    "unknown": "by its other changes, or by the yardstick's move, which could not be told apart: {0}",
}


@dataclass(frozen=True)
class CheckChangeTests(CulpritState):
    """The culprit is run as its parent measures, and its parent as the culprit measures."""

    how: str
    """What the pins that the culprit moves have to do with the failure."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return blame(known, self.culprit, how=self.how)
        asked = AskCheckChange(old=named.parent, new=named.commit)
        if wait := load_all(known, asked):
            return wait
        moved = known.answer(asked)
        if moved is None:
            return blame(known, self.culprit, how=self.how)
        questions = [
            AskTarget(repository=named.repository, commit=commit, held=self.search.loaded.range.held)
            for commit in (moved.new_with_old, moved.old_with_new)
        ]
        judgements = _judge_targets(known, questions, self.search)
        if isinstance(judgements, Wait):
            return judgements
        seeks = self.search.loaded.range.seeks
        outcomes = search_outcome(judgements[0], seeks), search_outcome(judgements[1], seeks)
        test = YardstickTest(
            changes=moved.changes,
            new_with_old=judgements[0],
            old_with_new=judgements[1],
            blame=_CHECK_CHANGE_BLAME.get(outcomes, "unknown"),
        )
        told = _CHECK_CHANGE_PHRASES[test.blame].format("; ".join(test.changes))
        return blame(known, self.culprit, how=f"{self.how}, {told}", yardstick=test)


@dataclass(frozen=True, kw_only=True)
class PinDescent(CulpritState):
    """The range of the pinned repository is computed and opened. Where there is none, the bisection goes on with
    `otherwise`."""

    pin: MovedPin
    otherwise: BisectionState

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        pin = self.pin
        asked = AskMergeBase(repository=pin.held_name, one=pin.old, other=pin.new)
        if wait := load_all(known, asked):
            return wait
        base = known.answer(asked)
        of_base: Judgement | None = None
        if base is not None and has_diverged(base, old=pin.old, new=pin.new):
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

    def _judge(self, known: BisectionKnowledge, base: str) -> Judgement | Wait:
        """Return what the culprit does with the pin at the commit where its two lines parted."""
        outer, named = self.search.loaded.range, self.culprit.named
        held = {**outer.held, self.pin.held_name: base}
        asked = AskTarget(repository=named.repository, commit=named.commit, held=held)
        judgements = _judge_targets(known, [asked], self.search)
        return judgements if isinstance(judgements, Wait) else judgements[0]

    def _open(self, known: BisectionKnowledge, found: Descent) -> Advance:
        outer = self.search
        asked = AskRange(ordinal=outer.ordinal + 1, range=found.range)
        if wait := load_all(known, asked):
            return wait
        loaded = known.answer(asked)
        if loaded is None:
            return Move(self.otherwise)
        ends = {found.range.old: GOOD_END, found.range.new: loaded.graph.bad}
        evidence = RangeEvidence.from_range(loaded).inherit(
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
            reading=outer.reading,
        )
        return Enter(inner, self.culprit.enclosing.add_outer(self._outer_range(found)))

    def _outer_range(self, found: Descent) -> OuterRange:
        culprit, seeks = self.culprit, self.search.loaded.range.seeks
        if found.range.seeks is seeks:
            return IntroducingPinMove(
                named=culprit.named,
                counterfactuals=culprit.tested,
                layers=culprit.layers,
                earlier_failures=culprit.earlier_failures,
            )
        return RemovingPinMove(
            named=culprit.named,
            counterfactuals=culprit.tested,
            layers=culprit.layers,
            earlier_failures=culprit.earlier_failures,
            moved=self.pin,
            seeks=seeks,
            diverged=found.base is not None,
        )


@dataclass(frozen=True, kw_only=True)
class LayerTests(CulpritState):
    """Cells of the matrix are run. Each is chosen over all layers. A layer has the name of the culprit's repository,
    for its own change, or of what a pin holds."""

    moved: tuple[MovedPin, ...]

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        matrix = LayerMatrix.from_layers(
            (self.culprit.named.repository, *(pin.held_name for pin in self.moved))
        )
        cells: list[LayerCell] = []
        while (cell := next_cell(matrix)) is not None:
            judgements = _judge_targets(known, [self._cell_target(cell)], self.search)
            if isinstance(judgements, Wait):
                return judgements
            (judgement,) = judgements
            cells.append(LayerCell(new=_sorted_layers(matrix, cell), judgement=judgement))
            matrix = matrix.with_outcome(cell, search_outcome(judgement, self.search.loaded.range.seeks))
        tested = MovedLayers(
            layers=matrix.layers,
            cells=tuple(cells),
            least=tuple(_sorted_layers(matrix, each) for each in matrix.least()),
            proven=not matrix.open_cells(),
        )
        return self._next_state(known, matrix, replace(self.culprit, layers=(tested,)))

    def _cell_target(self, cell: Cell) -> AskTarget:
        """Return the culprit or its parent, with each pin held at its old or new value."""
        named = self.culprit.named
        commit = named.commit if named.repository in cell else named.parent or named.commit
        pins = {pin.held_name: pin.new if pin.held_name in cell else pin.old for pin in self.moved}
        held = {**self.search.loaded.range.held, **pins}
        return AskTarget(repository=named.repository, commit=commit, held=held)

    def _next_state(
        self, known: BisectionKnowledge, matrix: LayerMatrix, culprit: ConfirmedCulprit
    ) -> Advance:
        """Descend into the one pin that causes the failure, where the culprit passes without its move. Name the culprit
        otherwise."""
        how = f", {self._cause_phrase(matrix)}"
        pin = self._only_pin(matrix)
        if pin is None or pin.held_name not in known.question.repositories:
            return blame(known, culprit, how=how)
        if matrix.outcome(frozenset(matrix.layers) - {pin.held_name}) is not Outcome.GOOD:
            text = (
                f"{pin.held_name} moves {pin.move}, but {culprit.named.commit[:12]} "
                "could not be tested with the old one: not searched"
            )
            return blame(known, culprit, how=how, notes=(Notice(text),))
        return Move(PinDescent(culprit=culprit, pin=pin, otherwise=CulpritBlame(culprit, how=how)))

    def _only_pin(self, matrix: LayerMatrix) -> MovedPin | None:
        least = matrix.least()
        if len(least) != 1 or len(least[0]) != 1:
            return None
        return next((pin for pin in self.moved if pin.held_name in least[0]), None)

    def _cause_phrase(self, matrix: LayerMatrix) -> str:
        """Return the end of the sentence that names the culprit: what the layers have to do with the failure."""
        least = matrix.least()
        told = ", and by ".join(self._cell_phrase(matrix, each) for each in least)
        if len(least) > 1:
            told += ": each does it alone"
        elif matrix.inseparable(least[0]):
            told += " together, parts of which could not be tested"
        elif len(least[0]) > 1:
            told += " together, no part of which does it alone"
        left = len(matrix.open_cells())
        if left:
            told += (
                f"; others may do it too: {left} of {len(matrix.cells())} combinations were not run, "
                "as they most likely cannot be built"
            )
        return f"by {told}"

    def _cell_phrase(self, matrix: LayerMatrix, cell: Iterable[str]) -> str:
        moves = {pin.held_name: f"moving {pin.held_name} {pin.move}" for pin in self.moved}
        return " and ".join(moves.get(layer, "its own change") for layer in _sorted_layers(matrix, cell))


@dataclass(frozen=True)
class CulpritBlame(CulpritState):
    """The pin that is to blame has no range to search. The culprit is the answer."""

    how: str

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        return blame(known, self.culprit, how=self.how)


def _sorted_layers(matrix: LayerMatrix, cell: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(cell, key=matrix.layers.index))


_BLAME: Mapping[tuple[Outcome, Outcome], Blame] = {
    (Outcome.GOOD, Outcome.BAD): "submodule",
    (Outcome.BAD, Outcome.GOOD): "superproject",
    (Outcome.GOOD, Outcome.GOOD): "interaction",
    (Outcome.BAD, Outcome.BAD): "either",
}


@dataclass(frozen=True)
class PinTests(CulpritState):
    """The pins that the culprit moves are tested for what they have to do with the failure."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return blame(known, self.culprit, how="")
        asked = AskMovedPins(repository=named.repository, old=named.parent, new=named.commit)
        if wait := load_all(known, asked):
            return wait
        moved = known.answer(asked)
        if len(moved) > 1:
            return Move(LayerTests(culprit=self.culprit, moved=tuple(moved)))
        if not moved or self.culprit.tested:
            how = _pin_phrase(self.culprit.tested)
            if named.repository == known.question.measured_in:
                return Move(CheckChangeTests(self.culprit, how))
            return blame(known, self.culprit, how=how)
        return self._test(known, moved[0], named.parent)

    def _test(self, known: BisectionKnowledge, pin: MovedPin, parent: str) -> Advance:
        """Judge the culprit with the old pin, and its parent with the new one."""
        held = self.search.loaded.range.held
        repository = self.culprit.named.repository
        asked = [
            AskTarget(repository=repository, commit=commit, held={**held, pin.held_name: pinned})
            for commit, pinned in ((self.culprit.named.commit, pin.old), (parent, pin.new))
        ]
        judgements = _judge_targets(known, asked, self.search)
        if isinstance(judgements, Wait):
            return judgements
        counterfactual = self._counterfactual(known, pin, judgements)
        culprit = replace(self.culprit, tested=(*self.culprit.tested, counterfactual))
        after = PinTests(culprit)
        if counterfactual.blame != "submodule":
            return Move(after)
        return Move(PinDescent(culprit=culprit, pin=pin, otherwise=after))

    def _counterfactual(
        self, known: BisectionKnowledge, pin: MovedPin, judgements: Sequence[Judgement]
    ) -> Counterfactual:
        new_holder, old_holder = judgements
        seeks = self.search.loaded.range.seeks
        cause: Blame = _BLAME.get(
            (search_outcome(new_holder, seeks), search_outcome(old_holder, seeks)), "unknown"
        )
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


def _pin_phrase(tested: Sequence[Counterfactual]) -> str:
    """Return the end of the sentence that names the culprit: what the pin that it moves has to do with the failure."""
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


def _judge_targets(
    known: BisectionKnowledge, asked: Sequence[AskTarget], search: RangeSearch
) -> tuple[Judgement, ...] | Wait:
    """Return the judgements of targets, or what has to happen before these are known.

    A target need not be a commit of the history. It is a skip where it cannot be had, or where it fails in another way
    than the searched failure.
    """
    if wait := load_all(known, *asked):
        return wait
    judgements: list[Judgement] = []
    for question in asked:
        target = known.answer(question)
        judgement = Judgement.SKIP if target is None else judge_target(search.log(known), target)
        if judgement is None and target is not None:
            return await_probe(
                known, WantedProbe(target=target, phase=Phase.COUNTERFACTUAL, range=search.ordinal)
            )
        judgements.append(judgement or Judgement.SKIP)
    return tuple(judgements)

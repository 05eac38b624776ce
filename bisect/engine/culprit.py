"""What a confirmed culprit is to blame for: its own change, a pin that it moves, or how it measures.

`PinTests` comes first. One moved pin is tested by the 2 x 2 of the pin and the commit that holds it. Several are tested
by `LayerTests`, in a matrix with the culprit's own change. `PinDescent` searches the repository of a pin that is to
blame. `CheckChangeTests` asks whether the culprit only changes how the case measures. `blame` names the culprit in the
end.
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
    """Conclude with the culprit, or with suspects where a patch may be to blame instead.

    `how` is the end of the sentence that names it: what its change and its pins have to do with the failure.
    `yardstick` is the result of `CheckChangeTests`.
    """
    named = culprit.named
    if wait := load_all(known, *patch_questions(known, [named])):
        return wait
    if named.parent and (others := unshared_patches(known, named)):
        unclear = _patch_or_commit(culprit, others, named.parent)
        return Move(FinalState(culprit.search, unclear, culprit.enclosing), notes)
    loaded = culprit.search.loaded
    if candidates := _same_file_commits(loaded, named):
        question = AskSameChange(
            repository=named.repository, commit=named.commit, among=tuple(each.sha for each in candidates)
        )
        if wait := load_all(known, question):
            return wait
        twins = known.answer(question)
        notes += _duplicate_change_notice([each for each in candidates if each.sha in twins])
    conclusion = Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message=f"{describe_change(named, loaded.range.seeks)}{how}",
        culprits=(named,),
        earlier_failures=culprit.earlier_failures,
        counterfactuals=culprit.pin_tests,
        layers=culprit.layers,
        yardstick=yardstick,
    )
    return Move(FinalState(culprit.search, conclusion, culprit.enclosing), notes)


def patch_questions(known: BisectionKnowledge, named: Iterable[NamedCommit]) -> Iterator[AskPatches]:
    """Yield the questions whose answers `unshared_patches` needs. Yield nothing where no commit is patched."""
    question = known.question
    for each in named:
        if question.has_patches and each.repository == question.range.repository and each.parent:
            yield AskPatches(repository=each.repository, commit=each.commit)
            yield AskPatches(repository=each.repository, commit=each.parent)


def unshared_patches(known: BisectionKnowledge, named: NamedCommit) -> list[str]:
    """Return the patches with which either a commit or its parent is tested, but not both.

    One of them may cause the failure in place of the commit.
    """
    picked = [{*known.answer(question)} for question in patch_questions(known, [named])]
    return sorted((picked[0] ^ picked[1]) - {named.commit}) if picked else []


def add_patches(known: BisectionKnowledge, loaded: LoadedRange, conclusion: Conclusion) -> Conclusion:
    """Return a conclusion without a culprit, with the unshared patches of its suspects added to them."""
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
    """Return the conclusion that either a commit causes the failure, or one of its unshared patches."""
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
    plain = [each for each in loaded.commits if len(each.parents) == 1 and each.changes]
    commit = next((each for each in plain if each.sha == named.commit), None)
    if commit is None:
        return []
    files = set(commit.files)
    return [
        each for each in plain if each is not commit and each.files[0] in files and set(each.files) == files
    ]


def _duplicate_change_notice(twins: Sequence[Commit]) -> tuple[Notice, ...]:
    """Return a notice that other commits made the same change, as on another branch. It is empty without twins."""
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
    """As of `blame`, from the test of the pins."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return blame(known, self.culprit, how=self.how)
        question = AskCheckChange(old=named.parent, new=named.commit)
        if wait := load_all(known, question):
            return wait
        moved = known.answer(question)
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
        phrase = _CHECK_CHANGE_PHRASES[test.blame].format("; ".join(test.changes))
        return blame(known, self.culprit, how=f"{self.how}, {phrase}", yardstick=test)


@dataclass(frozen=True, kw_only=True)
class PinDescent(CulpritState):
    """The range of the pinned repository is computed and opened."""

    pin: MovedPin
    fallback: BisectionState
    """The next state where there is no range to search."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        pin = self.pin
        question = AskMergeBase(repository=pin.held_name, one=pin.old, other=pin.new)
        if wait := load_all(known, question):
            return wait
        base = known.answer(question)
        base_judgement: Judgement | None = None
        if base is not None and has_diverged(base, old=pin.old, new=pin.new):
            judgements = self._judge_with_pin_at(known, base)
            if isinstance(judgements, Wait):
                return judgements
            (base_judgement,) = judgements
        outer, named = self.search.loaded.range, self.culprit.named
        held = {**outer.held, named.repository: named.commit}
        found = descent(
            base,
            target=pin.held_name,
            old=pin.old,
            new=pin.new,
            held=held,
            seeks=outer.seeks,
            base_judgement=base_judgement,
        )
        if isinstance(found, str):
            text = f"{pin.held_name} moves {pin.move}, {found}: not searched"
            return Move(self.fallback, (Notice(text),))
        return self._open(known, found)

    def _judge_with_pin_at(self, known: BisectionKnowledge, base: str) -> tuple[Judgement, ...] | Wait:
        """Return the judgement of the culprit with the pin at the merge base of its two values."""
        outer, named = self.search.loaded.range, self.culprit.named
        held = {**outer.held, self.pin.held_name: base}
        question = AskTarget(repository=named.repository, commit=named.commit, held=held)
        return _judge_targets(known, [question], self.search)

    def _open(self, known: BisectionKnowledge, found: Descent) -> Advance:
        outer = self.search
        question = AskRange(ordinal=outer.ordinal + 1, range=found.range)
        if wait := load_all(known, question):
            return wait
        loaded = known.answer(question)
        if loaded is None:
            return Move(self.fallback)
        ends = {found.range.old: GOOD_END, found.range.new: loaded.graph.bad}
        evidence = RangeEvidence.from_range(loaded).inherit(
            outer.evidence,
            outer.log(known),
            culprit=self.culprit.node,
            ends={True: ends.get(self.pin.new), False: ends.get(self.pin.old)},
            flipped=found.range.seeks is not outer.loaded.range.seeks,
        )
        inner = RangeSearch(
            ordinal=question.ordinal,
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
                counterfactuals=culprit.pin_tests,
                layers=culprit.layers,
                earlier_failures=culprit.earlier_failures,
            )
        return RemovingPinMove(
            named=culprit.named,
            counterfactuals=culprit.pin_tests,
            layers=culprit.layers,
            earlier_failures=culprit.earlier_failures,
            moved=self.pin,
            seeks=seeks,
            is_divergent=found.base is not None,
        )


@dataclass(frozen=True, kw_only=True)
class LayerTests(CulpritState):
    """Combinations of the culprit's own change and the pins that it moves are tested. Each of these is a layer.

    The own change has the name of the culprit's repository, and a pin the name of what it holds. `advance` replays the
    outcomes that are known at each call.
    """

    pin_moves: tuple[MovedPin, ...]

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        matrix = LayerMatrix.from_layers(
            (self.culprit.named.repository, *(pin.held_name for pin in self.pin_moves))
        )
        cells: list[LayerCell] = []
        while (cell := next_cell(matrix)) is not None:
            judgements = _judge_targets(known, [self._cell_target(cell)], self.search)
            if isinstance(judgements, Wait):
                return judgements
            (judgement,) = judgements
            cells.append(LayerCell(new=_sorted_layers(matrix, cell), judgement=judgement))
            matrix = matrix.add_outcome(cell, search_outcome(judgement, self.search.loaded.range.seeks))
        tested = MovedLayers(
            layers=matrix.layers,
            cells=tuple(cells),
            least=tuple(_sorted_layers(matrix, each) for each in matrix.minimal_bad_cells()),
            proven=not matrix.open_cells(),
        )
        return self._next_state(known, matrix, replace(self.culprit, layers=(tested,)))

    def _cell_target(self, cell: Cell) -> AskTarget:
        """Return the commit and the pins of a cell, which has the new layers. The other layers are old."""
        named = self.culprit.named
        commit = named.commit if named.repository in cell else named.parent or named.commit
        pins = {pin.held_name: pin.new if pin.held_name in cell else pin.old for pin in self.pin_moves}
        held = {**self.search.loaded.range.held, **pins}
        return AskTarget(repository=named.repository, commit=commit, held=held)

    def _next_state(
        self, known: BisectionKnowledge, matrix: LayerMatrix, culprit: ConfirmedCulprit
    ) -> Advance:
        """Descend into the only pin to blame, if the culprit passes without its move. Else name the culprit."""
        how = f", {self._cause_phrase(matrix)}"
        pin = self._only_pin(matrix)
        if pin is None or pin.held_name not in known.question.repositories:
            return blame(known, culprit, how=how)
        if matrix.known_outcome(frozenset(matrix.layers) - {pin.held_name}) is not Outcome.GOOD:
            text = (
                f"{pin.held_name} moves {pin.move}, but {culprit.named.commit[:12]} "
                "could not be tested with the old one: not searched"
            )
            return blame(known, culprit, how=how, notes=(Notice(text),))
        return Move(PinDescent(culprit=culprit, pin=pin, fallback=CulpritBlame(culprit, how=how)))

    def _only_pin(self, matrix: LayerMatrix) -> MovedPin | None:
        least = matrix.minimal_bad_cells()
        if len(least) != 1 or len(least[0]) != 1:
            return None
        return next((pin for pin in self.pin_moves if pin.held_name in least[0]), None)

    def _cause_phrase(self, matrix: LayerMatrix) -> str:
        """Return the phrase for the layers that cause the failure."""
        least = matrix.minimal_bad_cells()
        phrase = ", and by ".join(self._cell_phrase(matrix, each) for each in least)
        if len(least) > 1:
            phrase += ": each does it alone"
        elif matrix.has_untested_part(least[0]):
            phrase += " together, parts of which could not be tested"
        elif len(least[0]) > 1:
            phrase += " together, no part of which does it alone"
        left = len(matrix.open_cells())
        if left:
            phrase += (
                f"; others may do it too: {left} of {len(matrix.cells())} combinations were not run, "
                "as they most likely cannot be built"
            )
        return f"by {phrase}"

    def _cell_phrase(self, matrix: LayerMatrix, cell: Iterable[str]) -> str:
        moves = {pin.held_name: f"moving {pin.held_name} {pin.move}" for pin in self.pin_moves}
        return " and ".join(moves.get(layer, "its own change") for layer in _sorted_layers(matrix, cell))


@dataclass(frozen=True)
class CulpritBlame(CulpritState):
    """The culprit is the answer, because the pin that is to blame has no range to search."""

    how: str
    """The end of the sentence that names the culprit, as in `blame`."""

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
    """The pins that the culprit moves are tested."""

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        named = self.culprit.named
        if named.parent is None:
            return blame(known, self.culprit, how="")
        question = AskMovedPins(repository=named.repository, old=named.parent, new=named.commit)
        if wait := load_all(known, question):
            return wait
        moved = known.answer(question)
        if len(moved) > 1:
            return Move(LayerTests(culprit=self.culprit, pin_moves=tuple(moved)))
        if not moved or self.culprit.pin_tests:
            how = _pin_phrase(self.culprit.pin_tests)
            if named.repository == known.question.measured_in:
                return Move(CheckChangeTests(self.culprit, how))
            return blame(known, self.culprit, how=how)
        return self._test(known, moved[0], named.parent)

    def _test(self, known: BisectionKnowledge, pin: MovedPin, parent: str) -> Advance:
        """Test one pin: judge the culprit with the old value, and its parent with the new one."""
        held = self.search.loaded.range.held
        repository = self.culprit.named.repository
        questions = [
            AskTarget(repository=repository, commit=commit, held={**held, pin.held_name: pinned})
            for commit, pinned in ((self.culprit.named.commit, pin.old), (parent, pin.new))
        ]
        judgements = _judge_targets(known, questions, self.search)
        if isinstance(judgements, Wait):
            return judgements
        counterfactual = self._counterfactual(known, pin, judgements)
        culprit = replace(self.culprit, pin_tests=(*self.culprit.pin_tests, counterfactual))
        after = PinTests(culprit)
        if counterfactual.blame != "submodule":
            return Move(after)
        return Move(PinDescent(culprit=culprit, pin=pin, fallback=after))

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
            told=pin.versions,
        )


def _pin_phrase(tested: Sequence[Counterfactual]) -> str:
    """Return the end of the sentence that names the culprit, from the test of its pin. It is empty without a test."""
    phrases = {
        "submodule": "by moving {0}",
        "version": "by moving {0}",
        "superproject": "by its own change, not by moving {0}",
        "interaction": "by its own change and moving {0} together, neither of which does it alone",
        "either": "by its own change, and by moving {0}: each does it alone",
        "unknown": "by its own change, or by moving {0}: they could not be told apart",
    }
    if not tested:
        return ""
    pin = tested[0]
    return f", {phrases[pin.blame].format(f'{pin.repository} {pin.move}')}"


def _judge_targets(
    known: BisectionKnowledge, questions: Sequence[AskTarget], search: RangeSearch
) -> tuple[Judgement, ...] | Wait:
    """Return the judgements of targets, or a wait until these are known.

    A target need not be a commit of the history. It is a skip where it cannot be built, or where it shows another
    failure than the searched one.
    """
    if wait := load_all(known, *questions):
        return wait
    judgements: list[Judgement] = []
    for question in questions:
        target = known.answer(question)
        if target is None:
            judgements.append(Judgement.SKIP)
            continue
        judgement = judge_target(search.log(known), target)
        if judgement is None:
            return await_probe(
                known, WantedProbe(target=target, phase=Phase.COUNTERFACTUAL, range=search.ordinal)
            )
        judgements.append(judgement)
    return tuple(judgements)

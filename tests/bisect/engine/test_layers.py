"""A culprit moves several pins at once: the layers that make the difference are told by a few of their combinations."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field

import pytest

from precision_bisect.bisect.engine import culprit as layers_of
from precision_bisect.bisect.engine.answer import BisectionState, Conclusion, FinalState, Move, Wait
from precision_bisect.bisect.engine.culprit import PinDescent
from precision_bisect.bisect.engine.runs import BisectionKnowledge, Notice
from precision_bisect.bisect.history.questions import AskTarget, HistoryAnswer, HistoryQuestion, MovedPin
from precision_bisect.bisect.history.range import Target
from precision_bisect.store.vocabulary import Judgement, Phase, Seeks
from tests.bisect.engine.planted import broken_line
from tests.bisect.engine.stepping import B, G, S, about_stack, confirmed, shown, started, step

PINS = tuple(MovedPin(path=name, held_name=name, old="v1", new="v2") for name in ("lib", "isa", "asm"))
CULPRIT = 5


@dataclass
class Bench:
    """What a case does with the layers that are new, and the combinations that were run."""

    told: Callable[[Set[str]], Judgement]
    ran: list[str] = field(default_factory=list[str])

    def answer(self, asked: HistoryQuestion) -> HistoryAnswer:
        assert isinstance(asked, AskTarget)
        versions = " ".join(f"{name}={asked.held[name]}" for name in ("lib", "isa", "asm"))
        return Target(
            repository=asked.repository,
            commit=asked.commit,
            held=asked.held,
            content=f"line={asked.commit} {versions}",
        )

    def run(self, known: BisectionKnowledge, content: str) -> BisectionKnowledge:
        new = {word.split("=")[0] for word in content.split() if word.endswith(("=v2", f"={CULPRIT}"))}
        self.ran.append(" ".join(sorted(new)))
        return shown(known, content, self.told(new), phase=Phase.COUNTERFACTUAL)

    def end(self, *, seeks: Seeks = Seeks.REGRESSION) -> BisectionState:
        """The state that comes once no further combination is asked for."""
        return self.last_move(seeks).state

    def last_move(self, seeks: Seeks = Seeks.REGRESSION) -> Move:
        planted = broken_line(9, CULPRIT)
        culprit = confirmed(planted.load(planted.range(seeks=seeks)), CULPRIT - 1)
        state: BisectionState = layers_of.LayerTests(culprit=culprit, pin_moves=PINS)
        known = about_stack(planted, repositories=frozenset({"line", "lib"}))
        while True:
            known, advance = step(state, known, self.answer)
            if not isinstance(advance, Wait):
                break
            for wanted in started(advance):
                assert wanted.phase is Phase.COUNTERFACTUAL
                known = self.run(known, wanted.target.content)
        assert isinstance(advance, Move)
        return advance

    def conclusion(self, *, seeks: Seeks = Seeks.REGRESSION) -> Conclusion:
        state = self.end(seeks=seeks)
        assert isinstance(state, FinalState)
        (named,) = state.inner.culprits
        assert named.commit == str(CULPRIT)
        return state.inner


def needs(*layers: str) -> Callable[[Set[str]], Judgement]:
    """It fails where all of these are new."""
    return lambda new: B if set(layers) <= set(new) else G


def test_a_pin_with_a_history_is_descended_into() -> None:
    bench = Bench(needs("lib"))
    state = bench.end()
    assert isinstance(state, PinDescent)
    assert state.pin.held_name == "lib"
    (tested,) = state.culprit.layers
    assert (tested.least, tested.proven) == ((("lib",),), True)
    assert len(tested.cells) == len(bench.ran) <= 4
    assert isinstance(state.fallback, layers_of.CulpritBlame)
    assert state.fallback.how == ", by moving lib from v1 to v2"
    assert state.search is state.fallback.search


@pytest.mark.parametrize(
    ("layers", "how"),
    [
        (["isa"], "by moving isa from v1 to v2"),
        (["line"], "by its own change"),
        (
            ["line", "asm"],
            "by its own change and moving asm from v1 to v2 together, no part of which does it alone",
        ),
        (
            ["lib", "isa", "asm"],
            "by moving lib from v1 to v2 and moving isa from v1 to v2 and moving asm from v1 to v2 together, "
            "no part of which does it alone",
        ),
    ],
)
def test_the_least_set_of_layers_is_named(layers: list[str], how: str) -> None:
    conclusion = Bench(needs(*layers)).conclusion()
    assert conclusion.message == f"line {CULPRIT} introduced it, {how}"
    (tested,) = conclusion.layers
    assert tested.layers == ("line", "lib", "isa", "asm")
    assert (tested.least, tested.proven) == ((tuple(layers),), True)


def test_alternatives_are_named_both() -> None:
    told = Bench(lambda new: B if "isa" in new or {"lib", "asm"} <= new else G).conclusion()
    assert told.layers[0].least == (("isa",), ("lib", "asm"))
    assert told.message.endswith(
        "by moving isa from v1 to v2, and by moving lib from v1 to v2 and moving asm from v1 to v2: "
        "each does it alone"
    )


def test_a_combination_that_does_not_build_is_no_evidence() -> None:
    """The new library needs the new assembler, and is to blame: the two cannot be told apart."""

    def told(new: Set[str]) -> Judgement:
        return S if "lib" in new and "asm" not in new else needs("lib")(new)

    conclusion = Bench(told).conclusion()
    (tested,) = conclusion.layers
    assert tested.least == (("lib", "asm"),)
    assert S in {cell.judgement for cell in tested.cells}
    assert "lib from v1 to v2 and moving asm from v1 to v2 together, parts of which" in conclusion.message


def test_what_was_not_run_is_said() -> None:
    def told(new: Set[str]) -> Judgement:
        return S if "line" in new and "asm" not in new else needs("line")(new)

    conclusion = Bench(told).conclusion()
    (tested,) = conclusion.layers
    assert not tested.proven
    assert "combinations were not run, as they most likely cannot be built" in conclusion.message


def test_a_pin_that_the_culprit_cannot_do_without_is_named_and_not_searched() -> None:
    def told(new: Set[str]) -> Judgement:
        return S if set(new) == {"line", "isa", "asm"} else needs("lib")(new)

    moved = Bench(told).last_move()
    assert isinstance(moved.state, FinalState)
    assert moved.state.inner.message.startswith(f"line {CULPRIT} introduced it, by moving lib from v1 to v2;")
    (note,) = moved.notes
    assert isinstance(note, Notice)
    assert note.text == "lib moves from v1 to v2, but 5 could not be tested with the old one: not searched"


def test_without_its_descent_the_pin_is_named() -> None:
    state = Bench(needs("lib")).end()
    assert isinstance(state, PinDescent)
    planted = broken_line(9, CULPRIT)
    _, advance = step(state.fallback, about_stack(planted), Bench(needs("lib")).answer)
    assert isinstance(advance, Move)
    assert isinstance(advance.state, FinalState)
    assert advance.state.inner.message == f"line {CULPRIT} introduced it, by moving lib from v1 to v2"
    assert advance.state.inner.layers == state.culprit.layers


def test_a_fix_is_told_the_other_way_round() -> None:
    """The new layer is what passes."""
    bench = Bench(lambda new: G if "isa" in new else B)
    conclusion = bench.conclusion(seeks=Seeks.FIX)
    assert conclusion.message == f"line {CULPRIT} fixed it, by moving isa from v1 to v2"

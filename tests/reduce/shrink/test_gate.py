"""What the gate lets a search ask for, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from precision_bisect.reduce.shrink.edits import Choices
from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph
from precision_bisect.reduce.shrink.program import Candidate
from precision_bisect.reduce.shrink.shrinker import Gate
from tests.reduce.shrink.small_programs import SmallProgram

ORDER = SmallProgram(DependencyGraph.edgeless(3)).order


def asked(options: Sequence[Candidate], answer: Answer = Answer.PASSED) -> list[Candidate]:
    """What of these is asked for one after the other, where the best has tasks 0 and 1."""
    gate = Gate(order=ORDER, best=Candidate((0, 1)), on_better=lambda _: None)
    state = gate.screen(Choices.search(gate.best, [lambda _: options], rate=1.0))
    found: list[Candidate] = []
    while state.query is not None:
        found.append(state.query.candidate)
        state = state.next_state(answer)
    return found


def test_only_smaller_programs_with_a_task_are_asked_for_in_their_canonical_form() -> None:
    options = [
        Candidate((0, 1)),
        Candidate((0, 1), extents=((64, 64),)),
        Candidate((0, 1, 2)),
        Candidate(()),
        Candidate((1, 0), collapsed=("k2", "k1")),
        Candidate((1,), blocks=((0, 1),)),
    ]
    assert asked(options) == [Candidate((0, 1), collapsed=("k1",)), Candidate((1,))]


def test_once_one_is_taken_the_next_place_follows() -> None:
    assert asked([Candidate((0,)), Candidate((1,))], Answer.INTERESTING) == [Candidate((0,))]


def test_what_is_not_smaller_is_not_taken_and_each_success_is_told() -> None:
    written: list[Candidate] = []
    gate = Gate(order=ORDER, best=ORDER.whole, on_better=written.append)
    assert [gate.accept(Candidate(tasks)) for tasks in ((0, 1), (0, 1, 2), (0, 1), (1,), (0, 1))] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert written == [Candidate((0, 1)), Candidate((1,))]
    assert gate.best == Candidate((1,))

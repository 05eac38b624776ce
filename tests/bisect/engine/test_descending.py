"""The descent into a pinned repository: forwards, backwards, to another line, and where there is nothing to search."""

from collections.abc import Callable, Sequence

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, Enter, IntroducingPinMove, Move, RemovingPinMove
from precision_bisect.bisect.engine.bisection import RangeOpening
from precision_bisect.bisect.engine.culprit import PinDescent
from precision_bisect.bisect.engine.runs import Needs, Notice
from precision_bisect.bisect.history.questions import MovedPin
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.rates import EarlierRuns, FlakyShare, Rates, RunTally, learn_rates
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks
from tests.bisect.engine.planted import PlantedStack, bisect, drive, planted_task, question
from tests.bisect.engine.stepping import B, G, S, about_stack, answers_of, confirmed, shown, started, step

MOVES = 4
"""The commit of the line that moves the pin, of eight."""
BRANCHES = {
    **{f"lib-{side}{place}": f"lib-{side}{place - 1}" for side in "lr" for place in range(2, 6)},
    "lib-l1": "lib-base",
    "lib-r1": "lib-base",
    "lib-base": "lib-root",
}


def chain(size: int) -> dict[str, str]:
    return {f"lib-{place}": f"lib-{place - 1}" for place in range(1, size)}


def stack(old: str, new: str, fails: Callable[[str], bool], parents: dict[str, str]) -> PlantedStack:
    """A case that fails by the commit of `lib` alone; the pin moves from `old` to `new`."""
    return PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if fails(lib) else Judgement.GOOD,
        pins=[old] * MOVES + [new] * (8 - MOVES),
        parents=parents,
    )


def number(lib: str) -> int:
    return int(lib.removeprefix("lib-").lstrip("lr"))


def concluded(planted: PlantedStack, *, jobs: int = 1, seeks: Seeks = Seeks.REGRESSION) -> Conclusion:
    task = bisect(planted, question(planted, range=planted.range(seeks=seeks)), jobs=jobs)
    assert task.conclusion is not None, task.error
    assert task.conclusion.outcome is BisectionOutcome.CULPRIT
    return task.conclusion


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("culprit", range(2, 10))
def test_forwards_the_pinned_commit_is_named_through_the_one_that_moves_the_pin(
    culprit: int, jobs: int
) -> None:
    planted = stack("lib-1", "lib-9", lambda lib: number(lib) >= culprit, chain(10))
    conclusion = concluded(planted, jobs=jobs)
    assert (conclusion.culprits[0].repository, conclusion.culprits[0].commit) == ("lib", f"lib-{culprit}")
    assert conclusion.through is not None
    assert (conclusion.through.repository, conclusion.through.commit) == ("line", str(MOVES))


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("fix", range(2, 10))
def test_backwards_the_move_is_to_blame_and_the_fix_that_it_takes_away_is_named(fix: int, jobs: int) -> None:
    planted = stack("lib-9", "lib-1", lambda lib: number(lib) < fix, chain(10))
    conclusion = concluded(planted, jobs=jobs)
    assert (conclusion.culprits[0].repository, conclusion.culprits[0].commit) == ("line", str(MOVES))
    assert conclusion.lost is not None
    assert (conclusion.lost.repository, conclusion.lost.commit) == ("lib", f"lib-{fix}")
    assert "by moving lib back, from lib-9 to lib-1, which takes away the fix" in conclusion.message


@pytest.mark.parametrize("fault", range(2, 10))
def test_where_a_fix_is_sought_the_fault_that_goes_away_is_named(fault: int) -> None:
    planted = stack("lib-9", "lib-1", lambda lib: number(lib) >= fault, chain(10))
    conclusion = concluded(planted, seeks=Seeks.FIX)
    assert conclusion.culprits[0].commit == str(MOVES)
    assert conclusion.lost is not None
    assert conclusion.lost.commit == f"lib-{fault}"
    assert "which takes away the fault" in conclusion.message


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("place", range(1, 6))
def test_diverged_lines_are_searched_on_the_side_where_the_change_lies(place: int, jobs: int) -> None:
    def fault(lib: str) -> bool:
        return lib.startswith("lib-r") and lib != "lib-root" and number(lib) >= place

    brought = concluded(stack("lib-l5", "lib-r5", fault, BRANCHES), jobs=jobs)
    assert brought.culprits[0].commit == f"lib-r{place}"
    assert brought.through is not None

    def lacks_fix(lib: str) -> bool:
        return not (lib.startswith("lib-l") and number(lib) >= place)

    lost = concluded(stack("lib-l5", "lib-r5", lacks_fix, BRANCHES), jobs=jobs)
    assert lost.culprits[0].commit == str(MOVES)
    assert lost.lost is not None
    assert lost.lost.commit == f"lib-l{place}"
    assert "to another line" in lost.message


def notices(planted: PlantedStack) -> tuple[Conclusion, Sequence[str]]:
    task = planted_task(planted)
    told: list[str] = []

    def watch(needs: Needs) -> None:
        told.extend(note.text for note in needs.notes if isinstance(note, Notice))

    task.simulated.on_needs = watch
    drive(task)
    assert task.conclusion is not None
    return task.conclusion, told


def test_lines_without_a_common_history_are_not_searched() -> None:
    conclusion, told = notices(
        stack("lib-1", "lib-x1", lambda lib: "x" in lib, {"lib-1": "lib-0", "lib-x1": "lib-x0"})
    )
    assert conclusion.culprits[0].commit == str(MOVES)
    assert conclusion.counterfactuals[0].blame == "submodule"
    assert told == ["lib moves from lib-1 to lib-x1, which share no history: not searched"]


def test_lines_whose_merge_base_cannot_be_judged_are_not_searched() -> None:
    planted = PlantedStack(
        outcome=lambda line, lib: (
            Judgement.SKIP if lib == "lib-base" else Judgement.BAD if "r" in lib else Judgement.GOOD
        ),
        pins=["lib-l5"] * MOVES + ["lib-r5"] * (8 - MOVES),
        parents=BRANCHES,
    )
    conclusion, told = notices(planted)
    assert conclusion.culprits[0].commit == str(MOVES)
    assert len(told) == 1
    assert "whose merge base lib-base cannot be judged: not searched" in told[0]


def test_the_ends_of_the_pinned_range_are_not_run_again() -> None:
    """What the outer range told of them is inherited; the counterfactual runs are the range's own ends."""
    task = bisect(stack("lib-1", "lib-9", lambda lib: number(lib) >= 6, chain(10)))
    inner = [content for content in task.simulated.started if content.startswith(f"{MOVES} ")]
    assert inner.count(f"{MOVES} lib-1") <= 2


@pytest.mark.parametrize(("old", "new"), [("lib-1", "lib-9"), ("lib-9", "lib-1")])
def test_a_budget_that_ends_within_the_pinned_range_leaves_the_commit_that_moves_the_pin(
    old: str, new: str
) -> None:
    forwards = old == "lib-1"
    planted = stack(old, new, lambda lib: (number(lib) >= 6) is forwards, chain(10))
    ended = 0
    for most in range(len(bisect(planted).simulated.started)):
        task = drive(planted_task(planted, most=most))
        search, conclusion = task.simulated.bisection.state.search, task.conclusion
        assert conclusion is not None
        assert conclusion.outcome is BisectionOutcome.BUDGET
        if search is None or search.ordinal == 1:
            continue
        ended += 1
        assert [each.blame for each in conclusion.counterfactuals] == ["submodule"]
        if forwards:
            assert conclusion.through is not None
            assert (conclusion.through.repository, conclusion.through.commit) == ("line", str(MOVES))
            assert {each.repository for each in conclusion.suspects} == {"lib"}
        else:
            assert [(each.repository, each.commit) for each in conclusion.suspects] == [("line", str(MOVES))]
            assert "by moving lib back, from lib-9 to lib-1; which fix that takes away" in conclusion.message
    assert ended


OTHERWISE = RangeOpening()


def descending(planted: PlantedStack, old: str, new: str) -> PinDescent:
    """The commit of the line that moves the pin is confirmed to be to blame by that."""
    return PinDescent(
        culprit=confirmed(planted.load(planted.range()), MOVES - 1),
        pin=MovedPin(path="lib", held_name="lib", old=old, new=new),
        fallback=OTHERWISE,
    )


@pytest.mark.parametrize(
    ("old", "new", "seeks", "outer"),
    [
        ("lib-1", "lib-9", Seeks.REGRESSION, IntroducingPinMove),
        ("lib-9", "lib-1", Seeks.FIX, RemovingPinMove),
    ],
)
def test_the_range_of_the_pinned_repository_begins_where_the_culprit_is_held(
    old: str, new: str, seeks: Seeks, outer: type
) -> None:
    planted = stack(old, new, lambda lib: False, chain(10))
    known = shown(about_stack(planted), f"1 {old}", G)
    _, advance = step(descending(planted, old, new), known, answers_of(planted))
    assert isinstance(advance, Enter)
    inner = advance.search.loaded.range
    assert (inner.repository, inner.old, inner.new, inner.seeks) == ("lib", "lib-1", "lib-9", seeks)
    assert inner.held == {"line": str(MOVES)}
    assert advance.search.ordinal == 2
    assert [type(each) for each in advance.enclosing.outer] == [outer]
    (seen,) = advance.search.evidence.inherited
    assert seen.commit == (GOOD_END if seeks is Seeks.REGRESSION else advance.search.loaded.graph.bad)


def test_where_the_lines_parted_is_run_with_the_culprit_before_either_is_searched() -> None:
    planted = stack("lib-l3", "lib-r3", lambda lib: False, BRANCHES)
    state = descending(planted, "lib-l3", "lib-r3")
    known, advance = step(state, about_stack(planted), answers_of(planted))
    (wanted,) = started(advance)
    assert (wanted.target.content, wanted.phase) == (f"{MOVES} lib-base", Phase.COUNTERFACTUAL)
    for judgement, old, new, seeks in (
        (G, "lib-base", "lib-r3", Seeks.REGRESSION),
        (B, "lib-base", "lib-l3", Seeks.FIX),
    ):
        _, advance = step(state, shown(known, f"{MOVES} lib-base", judgement), answers_of(planted))
        assert isinstance(advance, Enter)
        inner = advance.search.loaded.range
        assert (inner.old, inner.new, inner.seeks) == (old, new, seeks)
    _, advance = step(state, shown(known, f"{MOVES} lib-base", S), answers_of(planted))
    assert isinstance(advance, Move)
    assert advance.state is OTHERWISE


def test_histories_that_share_nothing_are_not_searched_and_that_is_told() -> None:
    planted = stack("lib-1", "other-1", lambda lib: False, {"lib-1": "lib-0", "other-1": "other-0"})
    _, advance = step(descending(planted, "lib-1", "other-1"), about_stack(planted), answers_of(planted))
    assert isinstance(advance, Move)
    assert advance.state is OTHERWISE
    (note,) = advance.notes
    assert note == Notice("lib moves from lib-1 to other-1, which share no history: not searched")


@pytest.mark.parametrize(("moves", "culprit"), [(5, 3), (20, 9), (39, 16)])
def test_a_fault_behind_a_moved_pin_takes_few_runs_in_both_ranges_together(moves: int, culprit: int) -> None:
    """Of 41 and 20 commits; the runs of the outer range are of the inner one's ends too, and are not made again."""
    planted = PlantedStack(
        outcome=lambda line, lib: Judgement.BAD if number(lib) >= culprit else Judgement.GOOD,
        pins=["lib-0"] * moves + ["lib-20"] * (42 - moves),
        parents=chain(21),
    )
    task = bisect(planted)
    assert task.culprit == f"lib-{culprit}"
    assert len(task.simulated.started) <= 24
    seen = EarlierRuns(good=(RunTally(failures=0, passes=1, commits=400),), faults=FlakyShare(all=20))
    again = bisect(planted, question(planted, rates=learn_rates(Rates.unknown(), seen)))
    assert again.culprit == f"lib-{culprit}"
    assert len(again.simulated.started) <= 18

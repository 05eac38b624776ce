"""How the demo's histories grow: edits that fit, merges that git would make, and the same again for one seed."""

import random
import re

import pytest

from precision_bisect.demo.history.edit import EditError, Replace, TreeEdit
from precision_bisect.demo.history.evolution import TreeState, evolve
from precision_bisect.demo.history.growth import CI_FILE, CI_TEXT, QUIET, Recipe
from precision_bisect.demo.history.growth_compiler import CODE, add_helper, add_statistic, add_test
from precision_bisect.demo.history.history import Pointer, Switch, plan_history
from precision_bisect.demo.layout import CommitRole, GraphSlot

START = {
    CI_FILE: CI_TEXT,
    "minipto/tile.py": 'def size(rows: int) -> int:\n    """Bytes."""\n    width = rows * 4\n    return width\n',
}
RECIPES = {CommitRole.QUIET: QUIET, CommitRole.CODE: CODE}
SLOTS = (
    GraphSlot(CommitRole.ROOT, ()),
    GraphSlot(CommitRole.CODE, (0,)),
    GraphSlot(CommitRole.QUIET, (1,)),
    GraphSlot(CommitRole.CODE, (1,), on_side=True),
    GraphSlot(CommitRole.QUIET, (3,), on_side=True),
    GraphSlot(CommitRole.MERGE, (2, 4)),
)
FAULT = TreeEdit("Refactor: tile width", (Replace("minipto/tile.py", "rows * 4", "rows * 2"),))


def grown(seed: int = 1) -> list[TreeState]:
    return evolve(START, SLOTS, recipes=RECIPES, overlays=[FAULT], rng=random.Random(seed))


def test_one_seed_grows_one_history() -> None:
    assert [state.tree for state in grown()] == [state.tree for state in grown()]
    assert [state.tree for state in grown()] != [state.tree for state in grown(2)]


@pytest.mark.parametrize("seed", range(20))
def test_every_tree_takes_the_fault_and_differs_from_its_parent(seed: int) -> None:
    states = grown(seed)
    for slot, state in zip(SLOTS, states, strict=True):
        FAULT.apply(state.tree)
        if slot.parents and slot.role is not CommitRole.MERGE:
            assert state.tree != states[slot.parents[0]].tree
    main, side, merge = (states[index] for index in (2, 4, 5))
    assert main.edit is not None
    touched = {path for index in (3, 4) if (edit := states[index].edit) for path in edit.paths}
    assert not touched & main.edit.paths, "else git would have to merge them"
    assert merge.tree == {**main.tree, **{path: side.tree[path] for path in touched}}


def test_a_fault_that_does_not_fit_the_start_is_refused() -> None:
    wrong = TreeEdit("x", (Replace("minipto/tile.py", "no such text", "y"),))
    with pytest.raises(EditError, match="no such text"):
        evolve(START, SLOTS, recipes=RECIPES, overlays=[wrong], rng=random.Random(0))


def test_a_slot_that_no_recipe_fills_is_refused() -> None:
    with pytest.raises(EditError, match="no harmless edit found"):
        evolve(
            START,
            SLOTS,
            recipes={CommitRole.QUIET: QUIET, CommitRole.CODE: [lambda *_: None]},
            overlays=[],
            rng=random.Random(0),
        )


@pytest.mark.parametrize("recipe", [*QUIET, *CODE, add_test])
def test_a_recipe_gives_edits_of_python_that_runs_until_it_has_none_left(recipe: Recipe) -> None:
    rng, tree = random.Random(5), dict(START)
    for _ in range(30):
        edit = recipe(tree, rng, {})
        if edit is None:
            continue
        tree = edit.apply(tree)
        assert edit.subject
        for path in edit.paths:
            if path.endswith(".py"):
                compile(tree[path], path, "exec")


@pytest.mark.parametrize("recipe", [add_helper, add_statistic])
def test_a_recipe_of_a_limited_stock_ends(recipe: Recipe) -> None:
    rng, tree, added = random.Random(5), dict(START), 0
    while (edit := recipe(tree, rng, {})) is not None:
        tree, added = edit.apply(tree), added + 1
        assert added < 100
    assert added > 3


def test_a_switch_holds_for_all_descendants_and_names_its_commit() -> None:
    states = grown()
    plan = plan_history(
        SLOTS,
        states,
        times=range(100, 106),
        rng=random.Random(0),
        switches={1: Switch(FAULT, True, FAULT.subject)},
        pointers={2: Pointer("runtime", "ab" * 20, 3)},
    )
    faulty = ["rows * 2" in commit.tree["minipto/tile.py"] for commit in plan]
    assert faulty == [False, True, True, True, True, True]
    assert plan[0].message == "Initial import\n"
    assert re.fullmatch(r"Refactor: tile width \(#\d+\)\n", plan[1].message)
    assert plan[2].gitlinks == {"runtime": "ab" * 20}
    assert plan[3].gitlinks == {}, "the side branch forked before"
    assert re.match(r"Merge pull request #\d+ from [\w.]+/[\w-]+\n", plan[5].message)
    assert [commit.time for commit in plan] == list(range(100, 106))

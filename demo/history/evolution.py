"""Fill the shape of a history with harmless commits: a tree for each slot, and what changed in it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..layout import HARMLESS, CommitRole, GraphSlot
from .edit import EditError, Tree, TreeEdit
from .growth import Recipe
from .python_edits import Frozen

_ATTEMPTS = 200  # recipes drawn before a slot counts as impossible to fill


@dataclass(frozen=True)
class TreeState:
    """The tree at one slot, and the harmless edit that led to it (none at roots, merges, special slots)."""

    tree: Tree
    edit: TreeEdit | None


def evolve(
    start: Tree,
    slots: Sequence[GraphSlot],
    *,
    recipes: Mapping[CommitRole, Sequence[Recipe]],
    overlays: Sequence[TreeEdit],
    rng: random.Random,
) -> list[TreeState]:
    """Grow `start` along the graph. Every overlay fits every tree of the result, as it fits `start`.

    Branches that run beside each other touch different files, so that each merge is the one git would make.

    Raises EditError where an overlay does not fit `start`, or where a slot cannot be filled.
    """
    for overlay in overlays:
        overlay.apply(start)
    frozen = _fragments(overlays)
    states: list[TreeState] = []
    for index, slot in enumerate(slots):
        if not slot.parents:
            states.append(TreeState(start, None))
            continue
        before = states[slot.parents[0]].tree
        if slot.role is CommitRole.MERGE:
            states.append(TreeState(_merge(states, slots, index), None))
        elif slot.role in HARMLESS:
            avoid = _touched_beside(states, slots, index)
            edit = _draw(before, recipes[slot.role], avoid=avoid, overlays=overlays, frozen=frozen, rng=rng)
            states.append(TreeState(edit.apply(before), edit))
        else:
            states.append(TreeState(before, None))
    return states


def _draw(
    tree: Tree,
    recipes: Sequence[Recipe],
    *,
    avoid: frozenset[str],
    overlays: Sequence[TreeEdit],
    frozen: Frozen,
    rng: random.Random,
) -> TreeEdit:
    for _ in range(_ATTEMPTS):
        edit = rng.choice(recipes)(tree, rng, frozen)
        if edit is None or edit.paths & avoid:
            continue
        edited = edit.apply(tree)
        if edited != tree and _all_fit(overlays, edited, edit.paths):
            return edit
    raise EditError(f"no harmless edit found in {_ATTEMPTS} attempts with {len(recipes)} recipes")


def _all_fit(overlays: Sequence[TreeEdit], tree: Tree, paths: frozenset[str]) -> bool:
    try:
        for overlay in overlays:
            if overlay.paths & paths:
                overlay.apply(tree)
    except EditError:
        return False
    return True


def _fragments(overlays: Sequence[TreeEdit]) -> Frozen:
    found: dict[str, list[str]] = {}
    for overlay in overlays:
        for path, text in overlay.replaced:
            found.setdefault(path, []).append(text)
    return found


def _side_branch(slots: Sequence[GraphSlot], tip: int) -> list[int]:
    """The slots of the side branch that ends at `tip`, newest first, and last the slot it forked from."""
    branch = [tip]
    while slots[branch[-1]].on_side:
        branch.append(slots[branch[-1]].parents[0])
    return branch


def _merge(states: Sequence[TreeState], slots: Sequence[GraphSlot], index: int) -> Tree:
    main, side = slots[index].parents
    branch = _side_branch(slots, side)[:-1]
    edits = [edit for edit in (states[i].edit for i in branch) if edit is not None]
    touched = sorted(path for edit in edits for path in edit.paths)
    return {**states[main].tree, **{path: states[side].tree[path] for path in touched}}


def _touched_beside(states: Sequence[TreeState], slots: Sequence[GraphSlot], index: int) -> frozenset[str]:
    """Paths touched so far by the branch that runs beside this slot and is not merged yet."""
    slot = slots[index]
    paths: set[str] = set()
    fork = _side_branch(slots, slot.parents[0])[-1] if slot.on_side else -1
    for other in range(index - 1, fork, -1):
        if slots[other].role is CommitRole.MERGE:
            break
        edit = states[other].edit
        if edit is not None and slots[other].on_side != slot.on_side:
            paths |= edit.paths
    return frozenset(paths)

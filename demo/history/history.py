"""A planned history: every commit with its tree, author, date and message, computed without touching git.

A slot's tree is its harmless tree with overlays laid over it: a fault, an older spelling, a breakage. A
switch turns an overlay on or off at one slot, and that holds for all descendants until it is switched
again. So the trees of two scenarios differ in the fault and in nothing else. A culprit also makes the
harmless edit of its slot, as real culprits do more than plant a fault.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..layout import CommitRole, GraphSlot
from .edit import Tree, TreeEdit
from .evolution import TreeState
from .people import Author, pick_author


@dataclass(frozen=True)
class PlannedCommit:
    """Parents are indices into the same history; gitlinks map a path to a commit id of the submodule."""

    parents: tuple[int, ...]
    message: str
    author: Author
    time: int  # seconds since the epoch
    tree: Tree
    gitlinks: Mapping[str, str]


@dataclass(frozen=True)
class Switch:
    """At one slot the overlay comes on, or goes off; the commit there bears this subject."""

    overlay: TreeEdit
    on: bool
    subject: str


@dataclass(frozen=True)
class Pointer:
    """Where the superproject's gitlink points, from one slot on."""

    path: str
    commit: str
    rolled: int  # commits that the pointer moved over, negative where it went back


def plan_history(
    slots: Sequence[GraphSlot],
    states: Sequence[TreeState],
    *,
    times: Sequence[int],
    rng: random.Random,
    standing: Sequence[TreeEdit] = (),
    switches: Mapping[int, Switch] | None = None,
    pointers: Mapping[int, Pointer] | None = None,
) -> list[PlannedCommit]:
    """Turn slots and their harmless trees into commits.

    `standing` overlays are on at the root. `switches` and `pointers` are keyed by slot.
    """
    switches, pointers = switches or {}, pointers or {}
    active: list[tuple[TreeEdit, ...]] = []
    commits: list[PlannedCommit] = []
    number = 0
    for index, (slot, state) in enumerate(zip(slots, states, strict=True)):
        overlays = _inherited(slot, active) if slot.parents else tuple(standing)
        link = dict(commits[slot.parents[0]].gitlinks) if slot.parents else {}
        switch, pointer = switches.get(index), pointers.get(index)
        if switch is not None:
            overlays = tuple(overlay for overlay in overlays if overlay != switch.overlay)
            overlays += (switch.overlay,) if switch.on else ()
        if pointer is not None:
            link[pointer.path] = pointer.commit
        author = pick_author(rng)
        number += rng.randint(1, 4)
        if slot.role is CommitRole.MERGE:
            tip = slot.parents[1]
            branch = f"{commits[tip].author.login}/{_slug(commits[tip].message)}"
            message = f"Merge pull request #{number} from {branch}\n"
        else:
            request = "" if slot.on_side or not slot.parents else f" (#{number})"
            message = f"{_subject(state, switch, pointer)}{request}\n"
        tree = state.tree
        for overlay in overlays:
            tree = overlay.apply(tree)
        active.append(overlays)
        commits.append(PlannedCommit(slot.parents, message, author, times[index], tree, link))
    return commits


def _inherited(slot: GraphSlot, active: Sequence[tuple[TreeEdit, ...]]) -> tuple[TreeEdit, ...]:
    """Overlays of all parents, each once."""
    return tuple(dict.fromkeys(overlay for parent in slot.parents for overlay in active[parent]))


def _subject(state: TreeState, switch: Switch | None, pointer: Pointer | None) -> str:
    if switch is not None:
        return switch.subject
    if pointer is not None and pointer.rolled < 0:
        return f"Update: runtime back to {pointer.commit[:8]}, {-pointer.rolled} commits"
    if pointer is not None and pointer.rolled:
        return f"Update: runtime to {pointer.commit[:8]}, {pointer.rolled} commits"
    return state.edit.subject if state.edit else "Initial import"


def _slug(message: str) -> str:
    """A branch name: the first words after the subject's tag."""
    words = re.findall(r"[a-z0-9]+", message.partition(": ")[2].lower())
    return "-".join(words[:4])

"""What makes commits testable that one error keeps from it: the change of the commit behind them that mends it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .....store.commit import Commit
from ....commits.range import LoadedRange
from ....search.graph.graph import Mask
from ...history import AskApplies

_SHORT = 12


@dataclass(frozen=True)
class Mending:
    """The commit whose change mends the others, the stretch of history that they are, and the question at which of them
    the change can be made."""

    commit: Commit
    stretch: str
    trial: AskApplies


def node_behind(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> int | None:
    """The first candidate behind some others that does not fail as they do; `fails` are all that do. Shape [n]."""
    parents = loaded.graph.parents
    behind = (
        node
        for node in range(len(parents))
        if not fails[node] and any(fails[parent] for parent in parents[node])
    )
    return next(
        (node for node in behind if {*inside} & {*np.flatnonzero(loaded.graph.ancestors(node))}), None
    )


def commit_behind(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> Commit | None:
    """Its commit."""
    found = node_behind(loaded, fails, inside)
    return None if found is None else loaded.collapsed.nodes[found].commit


def mending_of(loaded: LoadedRange, fails: Mask, inside: Sequence[int]) -> Mending | None:
    """None where no commit mends it, or no single change could be made inside of it."""
    commit = commit_behind(loaded, fails, inside)
    if commit is None or len(commit.parents) != 1:
        return None
    first = loaded.collapsed.nodes[min(inside)].commit
    if not first.parents:
        return None
    return Mending(
        commit=commit,
        stretch=f"{first.parents[0][:_SHORT]}..{commit.parents[0][:_SHORT]}",
        trial=AskApplies(
            repository=loaded.range.repository,
            change=commit.sha,
            commits=tuple(loaded.collapsed.nodes[node].commit.sha for node in inside),
        ),
    )


def advice_of(mending: Mending, blamed: str, applies: Sequence[str] | None) -> str:
    """How the suspects are tested with the change that mends them: `applies` are those at which it can be made, where
    that is known."""
    sha, tried = mending.commit.sha[:_SHORT], len(mending.trial.commits)
    pick = f"--cherry-pick {sha}@{mending.stretch}"
    if applies is None:
        return f"; to test them with its change where that applies, add {pick}"
    if len(applies) == tried:
        return f"; to test them with its change, add {pick}"
    where = f"whose change does not apply to {tried - len(applies)} of these {tried}"
    if blamed in mending.commit.files:
        return f", {where}; to test them with that file as it is there, add --overlay {blamed}@{sha}"
    return f", {where}" + (f"; to test the others with it, add {pick}" if applies else "")

"""Commits that cannot be tested because of one error, among which the culprit lies."""

from collections.abc import Collection, Sequence

import numpy as np

from .....runner.verdict.compiler_errors import CompilerError
from ....commits.range import LoadedRange
from ....search.evidence.blamed_file import BlamedFile
from ....search.graph.graph import Mask
from ...known import Known
from ...range_search import RangeSearch

_SHORT = 12


def wall_between(search: RangeSearch, known: Known, suspects: Sequence[int]) -> str:
    """What most of the suspects cannot be tested for, what mends it, and how to test them nevertheless; empty where no
    error tells."""
    contents = {search.loaded.candidate_contents[node] for node in suspects}
    walls = [
        (_alike(blame.file, search.evidence.nodes_of(blame.content)[0]), blame)
        for blame in search.blames(known)
        if blame.content in contents
    ]
    if not walls:
        return ""
    wall, most = max(walls, key=lambda each: int(each[0][[*suspects]].sum()))
    tried = {blame.content for alike, blame in walls if np.array_equal(alike, wall)}
    mended = _mended_by(search.loaded, wall, suspects)
    return (
        f": {int(wall[[*suspects]].sum())} of them hold what the {len(tried)} that were tried do not compile for "
        f"({_told(most.error)}){mended}"
    )


def _alike(file: BlamedFile, node: int) -> Mask:
    """The candidates that fail as one of them does. Shape [n]."""
    alike = file.versions == file.versions[node] if file.fails is None else file.fails
    return alike[:-1]


def _told(error: CompilerError) -> str:
    return f"{error.path}:{error.line}: {error.message}"


def _mended_by(loaded: LoadedRange, wall: Mask, suspects: Collection[int]) -> str:
    """The first commit behind the wall that does not fail so, and the option that makes its change inside too."""
    parents = loaded.graph.parents
    behind = (node for node in range(len(parents)) if not wall[node] and any(wall[p] for p in parents[node]))
    inside = {node for node in suspects if wall[node]}
    mending = next(
        (node for node in behind if inside & {*np.flatnonzero(loaded.graph.ancestors(node))}), None
    )
    if mending is None:
        return ""
    commit = loaded.collapsed.nodes[mending].commit
    first = loaded.collapsed.nodes[min(inside)].commit
    if len(commit.parents) != 1 or not first.parents:
        return f", which {commit.sha[:_SHORT]} mends"
    stretch = f"{first.parents[0][:_SHORT]}..{commit.parents[0][:_SHORT]}"
    option = f"--cherry-pick {commit.sha[:_SHORT]}@{stretch}"
    return f", which {commit.sha[:_SHORT]} mends; to test them with its change, add {option}"

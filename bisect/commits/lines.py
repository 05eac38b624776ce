"""Lines of a range that were forked before it began."""

from collections.abc import Collection
from dataclasses import replace

from ..search.graph.graph import CommitGraph
from ..search.graph.window import Window
from .collapse import CommitRange
from .range import LoadedRange


def candidates_on_line(graph: CommitGraph, first: int) -> frozenset[int]:
    """The candidates that build on nothing of the range but a line that begins with `first`: up to where the line is
    merged into another."""
    on_line: set[int] = {first}
    for node in range(first + 1, len(graph)):
        if graph.parents[node] and all(parent in on_line for parent in graph.parents[node]):
            on_line.add(node)
    return frozenset(on_line)


def without_candidates(loaded: LoadedRange, left_out: Collection[int]) -> LoadedRange:
    """The range without some of its candidates; what builds on them builds on the good side. The bad end has to stay.

    Raises `ValueError` where it is left out.
    """
    if loaded.graph.bad in left_out:
        raise ValueError("expected to keep the bad end of the range, found it among what is left out")
    kept = [node for node in range(len(loaded.graph)) if node not in left_out]
    place = {node: index for index, node in enumerate(kept)}
    parents = tuple(
        tuple(place[parent] for parent in loaded.graph.parents[node] if parent in place) for node in kept
    )
    nodes = tuple(loaded.collapsed.nodes[node] for node in kept)
    gone = {member.sha for node in left_out for member in loaded.collapsed.nodes[node].members}
    return replace(
        loaded,
        commits=tuple(commit for commit in loaded.commits if commit.sha not in gone),
        left_out=loaded.left_out | gone,
        collapsed=CommitRange(
            nodes=nodes, parents=parents, bad=place[loaded.graph.bad], good_side=loaded.collapsed.good_side
        ),
        graph=CommitGraph(parents, [node.commit.date.timestamp() for node in nodes]),
        windows=tuple(
            Window(place[window.start], place[window.end], reverted=window.reverted)
            for window in loaded.windows
            if window.start in place and window.end in place
        ),
    )

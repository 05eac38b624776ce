"""How many objects a build compiles again, where it goes on from what was built of another commit.

A file that no other one includes is an object: a source, a script. A file that is included stands for the objects whose
sources include it, by however many steps; so a header of the core is many objects, and one source is one.
"""

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..search.graph.graph import Floats
from .collapse import CommitRange


@dataclass(frozen=True)
class SlotBuild:
    """What came to stand in a slot, and how long it took to build; None where it was taken up again, or stood there."""

    content: str
    place: str
    seconds: float | None


def objects_of(files: Collection[str], includes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The objects that are made of each of some files, as bits. `includes`: a file, and a path as it is written there.

    A path means the file that it leads to from the folder of the file that includes it, else each that ends like it.
    """
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(posixpath.basename(file), []).append(file)
    included: dict[str, set[str]] = {}
    for file, written in includes:
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), written))
        alike = by_name.get(posixpath.basename(written), [])
        tail = "/" + posixpath.normpath(written).removeprefix("../")
        meant = [beside] if beside in alike else [each for each in alike if f"/{each}".endswith(tail)]
        included.setdefault(file, set()).update(meant)
    inner = set[str]().union(*included.values())
    objects = dict.fromkeys(files, 0)
    objects |= {file: 1 << place for place, file in enumerate(sorted({*files} - inner))}
    waiting = [file for file in files if objects[file]]
    while waiting:
        file = waiting.pop()
        for each in included.get(file, ()):
            if objects[each] | objects[file] != objects[each]:
                objects[each] |= objects[file]
                waiting.append(each)
    return objects


class Recompiled:
    """The candidates of a range, and what is compiled again between any two of them."""

    def __init__(self, collapsed: CommitRange, objects: Mapping[str, int]) -> None:
        """`objects` are those that are made of each file that builds depend on, as bits."""
        node_of = {member.sha: place for place, node in enumerate(collapsed.nodes) for member in node.members}
        good = len(collapsed.nodes)
        self._neighbours: list[list[tuple[int, int]]] = [[] for _ in range(good + 1)]
        """By which candidates, or the good end, the last place, each is joined to its first parent, and which objects
        differ. What is told of a merge is its difference from that parent."""
        for place, node in enumerate(collapsed.nodes):
            parent = node_of.get(node.commit.parents[0], good) if node.commit.parents else good
            changed = 0
            for member in node.members:
                for file in member.files:
                    changed |= objects.get(file, 0)
            self._neighbours[place].append((parent, changed))
            self._neighbours[parent].append((place, changed))
        every = 0
        for made in objects.values():
            every |= made
        self.objects = every.bit_count()
        """How many there are in all."""
        self._known: dict[int, Floats] = {}

    def objects_from(self, node: int) -> Floats:
        """How many objects are compiled again at each candidate and, last, the good end, after `node`, a candidate or
        the good end. Shape [n + 1]."""
        start = node % len(self._neighbours)
        if start not in self._known:
            self._known[start] = self._counted(start)
        return self._known[start]

    def _counted(self, start: int) -> Floats:
        differing = {start: 0}
        waiting = [start]
        while waiting:
            here = waiting.pop()
            for neighbour, changed in self._neighbours[here]:
                if neighbour not in differing:
                    differing[neighbour] = differing[here] | changed
                    waiting.append(neighbour)
        return np.array([float(differing[place].bit_count()) for place in range(len(self._neighbours))])

    def objects_after(self, nodes: Sequence[int]) -> Floats:
        """The same after the one of `nodes` that is nearest to each. Shape [n + 1]."""
        return np.min([self.objects_from(node) for node in nodes], axis=0)

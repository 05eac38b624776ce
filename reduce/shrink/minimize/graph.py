"""What the elements need of each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from .answer import Subset


@dataclass(frozen=True)
class DependencyGraph:
    """Elements 0 ... n - 1 in dependency order, each with those it cannot do without; all have smaller numbers.

    An element whose inputs may be replaced by recorded values has no predecessors here.

    Raises:
        ValueError: a predecessor does not come before its element.
    """

    predecessors: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for element, above in enumerate(self.predecessors):
            if any(not 0 <= needed < element for needed in above):
                raise ValueError(
                    f"expected predecessors of element {element} among those before it, found {above}"
                )

    @staticmethod
    def free(n: int) -> DependencyGraph:
        """n elements, each of which can be dropped alone."""
        return DependencyGraph(((),) * n)

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def everything(self) -> Subset:
        """The set of all elements."""
        return frozenset(range(len(self)))

    @cached_property
    def _is_free(self) -> bool:
        return not any(self.predecessors)

    def closed(self, kept: Iterable[int]) -> Subset:
        """The largest closed part: without the elements that depend on one that is not kept.

        >>> sorted(DependencyGraph(((), (0,), (), (1, 2))).closed({0, 2, 3}))
        [0, 2]
        """
        if self._is_free:
            return frozenset(kept)
        closed = set[int]()
        for element in sorted(kept):
            if closed.issuperset(self.predecessors[element]):
                closed.add(element)
        return frozenset(closed)

    def with_ancestors(self, elements: Iterable[int]) -> Subset:
        """The smallest closed set that has these elements.

        >>> sorted(DependencyGraph(((), (0,), (), (1, 2))).with_ancestors({1, 2}))
        [0, 1, 2]
        """
        closed, todo = set[int](), list(elements)
        while todo:
            element = todo.pop()
            if element not in closed:
                closed.add(element)
                todo.extend(self.predecessors[element])
        return frozenset(closed)

    def last(self, kept: Subset) -> tuple[int, ...]:
        """Those of the elements that none of them depends on, in dependency order.

        >>> DependencyGraph(((), (0,), (), (1, 2))).last(frozenset({0, 1, 2}))
        (1, 2)
        """
        needed = {above for element in kept for above in self.predecessors[element]}
        return tuple(sorted(kept - needed))

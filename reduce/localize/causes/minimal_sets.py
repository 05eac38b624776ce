"""Which changes make a build fail: smallest sets of them that do so by themselves, one after the other.

The search runs nothing. It yields a set of changes and is sent whether a build with only these fails.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

Change = TypeVar("Change")

Asks = Generator[frozenset[Change], bool, tuple[frozenset[Change], ...]]
"""Yields sets of changes, is sent whether they fail, and returns the sets that were found."""


def failing_sets(changes: Sequence[Change]) -> Asks[Change]:
    """All sets of changes that make the build fail, each by itself and none smaller, the most suspected changes first.

    All `changes` together fail. What is left without the sets that were found is asked again: where it fails, a further
    fault is in it. So each set was put alone into the good build, and taken out of the bad one.
    """
    found: list[frozenset[Change]] = []
    left: list[Change] = list(changes)
    while left:
        if found and not (yield frozenset(left)):
            break
        smallest: frozenset[Change] = frozenset((yield from _smallest([], [], left)))
        found.append(smallest)
        left = [change for change in left if change not in smallest]
    return tuple(found)


def _smallest(
    background: Sequence[Change], added: Sequence[Change], candidates: Sequence[Change]
) -> Generator[frozenset[Change], bool, list[Change]]:
    """The fewest candidates that fail beside the background, of which `added` came last (QuickXplain: U. Junker,
    "Preferred explanations and relaxations for over-constrained problems", AAAI 2004)."""
    if added and (yield frozenset(background)):
        return []
    if len(candidates) == 1:
        return list(candidates)
    middle = (len(candidates) + 1) // 2
    first, second = candidates[:middle], candidates[middle:]
    of_second = yield from _smallest([*background, *first], first, second)
    of_first = yield from _smallest([*background, *of_second], of_second, first)
    return [*of_first, *of_second]

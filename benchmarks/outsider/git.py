"""git bisect's own algorithm, which asks each commit once and believes it: bisect.c, with its way around skips."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.outsider.history import History
from benchmarks.outsider.world import Shown

_MODULO = 32768


@dataclass(frozen=True, kw_only=True)
class GitAnswer:
    """culprit: None where only skipped commits are left. tests: without those of the ends, which git believes."""

    culprit: int | None
    tests: int


def git_bisect(history: History, ask: Callable[[int], Shown]) -> GitAnswer:
    """Bisect a history whose ends are known."""
    bad, skipped, tests = history.end, set[int](), 0
    passed = set[int]()
    while True:
        left = history.ancestors[bad] - frozenset().union(*(history.ancestors[good] for good in passed))
        if len(left) == 1:
            return GitAnswer(culprit=bad, tests=tests)
        chosen = _next(history, left, bad, skipped)
        if chosen is None:
            return GitAnswer(culprit=None, tests=tests)
        tests += 1
        shown = ask(chosen)
        if shown is Shown.FAIL:
            bad = chosen
        elif shown is Shown.PASS:
            passed.add(chosen)
        else:
            skipped.add(chosen)


def _next(history: History, left: frozenset[int], bad: int, skipped: set[int]) -> int | None:
    """The commit that halves best; where that was skipped, one farther from it."""
    halves = {each: _halves(history, left, each) for each in left if each != bad}
    ranked = sorted(halves, key=lambda each: (-halves[each], each))
    open_ones = [each for each in ranked if each not in skipped]
    if not open_ones:
        return None
    if ranked[0] not in skipped:
        return ranked[0]
    draw = ((len(open_ones) * 1103515245 + 12345) // 65536) % _MODULO
    index = int(len(open_ones) * draw / _MODULO * math.sqrt(draw) / math.sqrt(_MODULO))
    return open_ones[min(index, len(open_ones) - 1)]


def _halves(history: History, left: frozenset[int], each: int) -> int:
    held = len(history.ancestors[each] & left)
    return min(held, len(left) - held)

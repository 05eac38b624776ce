"""How far back from a failing commit to look for one that passes, when nobody named one."""

from collections.abc import Callable, Sequence

from ..evidence.knowledge import Outcome


def gallop(distances: Sequence[float], test: Callable[[int], Outcome]) -> int | None:
    """The first commit found to be good among those behind a bad one, which is commit 0; None where there is none.

    distances: how far each commit lies behind the bad one, in commits or days, not decreasing; [0] is 0. test: tells
    what a commit is; called at most once for each.

    Commits at distances 1, 2, 4, ... are tested, the last one in any case. Behind one that cannot be tested come the
    next 1, 2, 4, ... commits. Where all the rest cannot be tested, as before a feature existed, the edge of what can
    is approached by halving: what passes may lie there.

    >>> gallop(range(100), lambda commit: Outcome.BAD if commit < 20 else Outcome.GOOD)
    32
    """
    last = len(distances) - 1
    bad, edge, skipped, reach = 0, None, 0, 1.0
    at = 0
    while at < last:
        if skipped:
            at = min(at + (1 << (skipped - 1)), last)
        else:
            at = next((i for i in range(at + 1, last) if distances[i] >= reach), last)
        outcome = test(at)
        if outcome is Outcome.GOOD:
            return at
        if outcome is Outcome.BAD:
            bad, edge, skipped = at, None, 0
            while reach <= distances[at]:
                reach *= 2
        else:
            edge = at if edge is None else edge
            skipped += 1
    while edge is not None and edge - bad > 1:
        middle = (bad + edge) // 2
        outcome = test(middle)
        if outcome is Outcome.GOOD:
            return middle
        bad, edge = (middle, edge) if outcome is Outcome.BAD else (bad, middle)
    return None

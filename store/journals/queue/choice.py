"""Who is next: a choice among submissions that wait, made of what waits and what runs alone.

The highest priority goes first, then the user who has had least, then who has waited longest. Nobody runs more at once
than the quota, and no two submissions have one board at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import fmean

_UNKNOWN_SECONDS = 1800.0
"""What a bisection is taken to last before any has ended."""


@dataclass(frozen=True, order=True)
class Board:
    """A device of a machine."""

    host: str
    platform: str
    device: int


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A submission that could be run. `platform` is that of the board it needs, `device` the only one that will do."""

    id: int
    user: str
    priority: int
    platform: str | None = None
    device: int | None = None


@dataclass(frozen=True, kw_only=True)
class Running:
    """A submission that runs, since so many seconds."""

    user: str
    seconds: float
    board: Board | None = None


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The submission that is next, and the board that it gets."""

    id: int
    board: Board | None


def choose(
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    *,
    used: Mapping[str, Sequence[float]],
    boards: AbstractSet[Board],
    quota: int | None,
) -> Assignment | None:
    """What a worker that has these boards runs next; None where nothing can be.

    running: by all workers. used: seconds of each of a user's submissions of late, that are over. quota: how many one
    user may run at once.
    """
    free = sorted(boards - {each.board for each in running})
    busy = Counter(each.user for each in running)
    had = _seconds_had(running, used)

    def rank(each: Waiting) -> tuple[int, float, int]:
        return -each.priority, had.get(each.user, 0.0), each.id

    for each in sorted(waiting, key=rank):
        if quota is not None and busy[each.user] >= quota:
            continue
        if each.platform is None:
            return Assignment(id=each.id, board=None)
        board = next(_suitable(each, free), None)
        if board is not None:
            return Assignment(id=each.id, board=board)
    return None


def _suitable(each: Waiting, boards: Sequence[Board]) -> Iterator[Board]:
    for board in boards:
        if board.platform == each.platform and each.device in (None, board.device):
            yield board


def _seconds_had(running: Sequence[Running], used: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """How long each user's submissions have run. One that runs counts as one that lasts as long as they do on average,
    or longer where it has: else whoever begins many at once would seem to have had nothing."""
    known = [seconds for each in used.values() for seconds in each]
    typical = fmean(known) if known else _UNKNOWN_SECONDS
    had = {user: sum(each) for user, each in used.items()}
    for each in running:
        had[each.user] = had.get(each.user, 0.0) + max(each.seconds, typical)
    return had

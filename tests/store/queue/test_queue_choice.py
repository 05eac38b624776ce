"""Who is next in the queue: priority, fair shares, quotas, and boards that nobody shares; also in simulated days."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from precision_bisect.store.queue import Assignment, Board, RunningSubmission, WaitingSubmission, choose

BOARDS = frozenset(Board("here", "a2a3", number) for number in range(4))
HOUR = 3600.0


def board(number: int) -> Board:
    return Board("here", "a2a3", number)


def next_of(
    waiting: list[WaitingSubmission],
    *running: RunningSubmission,
    used: dict[str, list[float]] | None = None,
    boards: frozenset[Board] = BOARDS,
    quota: int | None = None,
) -> Assignment | None:
    return choose(waiting, running, used=used or {}, boards=boards, quota=quota)


def test_the_highest_priority_goes_first_then_the_oldest() -> None:
    waiting = [
        WaitingSubmission(id=1, user="ada", priority=0),
        WaitingSubmission(id=2, user="bob", priority=5),
    ]
    assert next_of(waiting) == Assignment(id=2, board=None)
    assert next_of([WaitingSubmission(id=2, user="bob", priority=0), waiting[0]]) == Assignment(
        id=1, board=None
    )


def test_who_has_had_least_goes_first() -> None:
    waiting = [
        WaitingSubmission(id=1, user="ada", priority=0),
        WaitingSubmission(id=2, user="bob", priority=0),
    ]
    assert next_of(waiting, used={"ada": [60.0], "bob": [30.0]}) == Assignment(id=2, board=None)
    assert next_of(waiting, RunningSubmission(user="ada", seconds=1.0)) == Assignment(id=2, board=None)
    # One that has just begun counts as much as one that lasts as long as they do.
    assert next_of(waiting, RunningSubmission(user="bob", seconds=1.0), used={"ada": [60.0]}) == Assignment(
        id=1, board=None
    )
    long = RunningSubmission(user="bob", seconds=HOUR)
    assert next_of(waiting, long, used={"ada": [60.0, 70.0]}) == Assignment(id=1, board=None)


def test_nobody_runs_more_than_the_quota() -> None:
    waiting = [
        WaitingSubmission(id=1, user="ada", priority=9),
        WaitingSubmission(id=2, user="bob", priority=0),
    ]
    running = [RunningSubmission(user="ada", seconds=1.0)] * 2
    assert next_of(waiting, *running, quota=3) == Assignment(id=1, board=None)
    assert next_of(waiting, *running, quota=2) == Assignment(id=2, board=None)
    assert next_of(waiting[:1], *running, quota=2) is None


def test_a_board_that_is_busy_or_not_there_is_waited_for_and_others_go_on() -> None:
    needs = WaitingSubmission(id=1, user="ada", priority=9, platform="a2a3")
    simulated = WaitingSubmission(id=2, user="bob", priority=0)
    busy = [RunningSubmission(user="cid", seconds=1.0, board=board(number)) for number in range(4)]
    assert next_of([needs, simulated], *busy) == Assignment(id=2, board=None)
    assert next_of([needs], *busy) is None
    assert next_of([needs], *busy[:2], *busy[3:]) == Assignment(id=1, board=board(2))
    assert next_of([needs], boards=frozenset({Board("here", "a5", 0)})) is None
    # A board of the same number elsewhere is another one.
    assert next_of(
        [needs], RunningSubmission(user="cid", seconds=1.0, board=Board("there", "a2a3", 0))
    ) == Assignment(id=1, board=board(0))


def test_one_that_has_begun_stays_on_its_board() -> None:
    needs = WaitingSubmission(id=1, user="ada", priority=0, platform="a2a3", device=3)
    assert next_of([needs]) == Assignment(id=1, board=board(3))
    assert next_of([needs], RunningSubmission(user="bob", seconds=1.0, board=board(3))) is None


@dataclass
class Day:
    """Submissions that are run by workers which take the next one whenever a board is free."""

    quota: int | None
    clock: float = 0.0
    waiting: list[tuple[WaitingSubmission, float]] = field(
        default_factory=list[tuple[WaitingSubmission, float]]
    )
    """With the seconds that each will run, which nobody knows."""
    running: list[tuple[float, float, WaitingSubmission, Board]] = field(
        default_factory=list[tuple[float, float, WaitingSubmission, Board]]
    )
    """A heap by end; then the start."""
    used: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def submit(self, user: str, seconds: float) -> None:
        number = len(self.waiting) + len(self.running) + sum(map(len, self.used.values()))
        self.waiting.append((WaitingSubmission(id=number, user=user, priority=0, platform="a2a3"), seconds))

    def fill(self) -> None:
        """Begin what can be; what runs is looked at each time."""
        while True:
            running = [
                RunningSubmission(user=each.user, seconds=self.clock - begun, board=board)
                for _, begun, each, board in self.running
            ]
            boards = [each.board for each in running]
            assert len({*boards}) == len(boards)
            if self.quota is not None:
                assert max(Counter(each.user for each in running).values(), default=0) <= self.quota
            choice = choose(
                [each for each, _ in self.waiting], running, used=self.used, boards=BOARDS, quota=self.quota
            )
            if choice is None:
                return
            assert choice.board is not None
            place = next(index for index, (each, _) in enumerate(self.waiting) if each.id == choice.id)
            each, seconds = self.waiting.pop(place)
            heapq.heappush(self.running, (self.clock + seconds, self.clock, each, choice.board))

    def wait(self) -> None:
        """Go on to the next end."""
        self.clock, begun, each, _ = heapq.heappop(self.running)
        self.used.setdefault(each.user, []).append(self.clock - begun)

    def had(self) -> dict[str, float]:
        """Seconds of boards by user."""
        had = {user: sum(each) for user, each in self.used.items()}
        for _, begun, each, _board in self.running:
            had[each.user] = had.get(each.user, 0.0) + self.clock - begun
        return had

    def still_waiting(self) -> set[str]:
        return {each.user for each, _ in self.waiting}


@pytest.mark.parametrize("quota", [None, 1, 2])
def test_fifty_bisections_of_ten_users_over_four_boards(quota: int | None) -> None:
    """Submitted user by user, which a queue without shares would run in that order."""
    day, chance = Day(quota=quota), random.Random(1)
    users = [f"user{number}" for number in range(10)]
    longest = 1.2 * HOUR
    for user in users:
        for _ in range(5):
            day.submit(user, chance.uniform(0.8 * HOUR, longest))
    day.fill()
    while day.running:
        day.wait()
        day.fill()
        if day.still_waiting() == {*users}:
            had = [day.had().get(user, 0.0) for user in users]
            assert max(had) - min(had) <= longest
    ended = {user: len(each) for user, each in day.used.items()}
    assert ended == dict.fromkeys(users, 5)
    assert day.clock <= 1.15 * sum(map(sum, day.used.values())) / len(BOARDS)


@pytest.mark.parametrize("seed", range(3))
def test_shares_are_fair_within_a_tenth_whoever_submits_most(seed: int) -> None:
    """Users submit from 20 to 200 bisections each, of lengths of their own: as long as all wait, all have as much."""
    day, chance = Day(quota=None), random.Random(seed)
    users = [f"user{number}" for number in range(10)]
    for number, user in enumerate(users, 1):
        length = chance.uniform(0.3, 1.5) * HOUR
        for _ in range(20 * number):
            day.submit(user, chance.uniform(0.5, 1.5) * length)
    day.fill()
    while day.still_waiting() == {*users}:
        day.wait()
        day.fill()
    had = day.had()
    mean = sum(had.values()) / len(users)
    assert max(abs(each - mean) for each in had.values()) <= 0.1 * mean

"""Galloping back to a good end: every line of good, bad and untestable commits, against what it may find."""

import itertools
import random

import pytest

from precision_bisect.bisect.search.belief import Outcome
from precision_bisect.bisect.search.halving import GallopTo, Passes, gallop

LETTERS = {"g": Outcome.GOOD, "b": Outcome.BAD, "s": Outcome.SKIP}


def run(line: str) -> tuple[int | None, list[int]]:
    """What is found in a line, newest first, and what was tested for it."""
    tested: list[int] = []

    outcomes: dict[int, Outcome] = {}
    while True:
        step = gallop(len(line), outcomes)
        if not isinstance(step, GallopTo):
            return (step.commit if isinstance(step, Passes) else None), tested
        tested.append(step.commit)
        outcomes[step.commit] = LETTERS[line[step.commit]]


@pytest.mark.parametrize(
    ("line", "found", "tested"),
    [
        ("bg", 1, [1]),
        ("bbggg", 2, [1, 2]),
        ("bbbbbggggggg", 8, [1, 2, 4, 8]),
        ("bbbbbg", 5, [1, 2, 4, 5]),
        ("bbbb", None, [1, 2, 3]),
        ("b", None, []),
        ("bbbbbbbbsgg", 9, [1, 2, 4, 8, 9]),
        ("bbbbssssssssssg", 14, [1, 2, 4, 5, 7, 11, 14]),
        # All from before the feature existed cannot be tested; what passes lies just behind.
        ("bbbbbbgsssssssss", 6, [1, 2, 4, 8, 9, 11, 15, 6]),
    ],
)
def test_what_is_tested(line: str, found: int | None, tested: list[int]) -> None:
    assert run(line) == (found, tested)


def test_every_short_line() -> None:
    for length in range(1, 9):
        for letters in itertools.product("gbs", repeat=length):
            line = "b" + "".join(letters)
            found, tested = run(line)
            assert len(set(tested)) == len(tested)
            assert found is None or line[found] == "g"
            assert found is not None or length in tested


def test_one_change_is_always_found_within_log_runs() -> None:
    rng = random.Random(5)
    for _ in range(500):
        bad, good, untestable = rng.randint(1, 300), rng.randint(1, 300), rng.randint(0, 300)
        line = "b" * bad + "g" * good + "s" * untestable
        found, tested = run(line)
        assert found is not None, line
        assert len(tested) <= 3 * len(line).bit_length()

"""A change that was undone must neither draw the search in nor be named for what fails now."""

import random

from precision_bisect.bisect.search.belief import Knowledge, Observation, Outcome
from precision_bisect.bisect.search.graph import NO_WINDOWS, CommitGraph, Window, Windows
from precision_bisect.bisect.search.halving import FoundCulprit, Probe, last_revert, next_step, sidestep


def line(commits: int) -> CommitGraph:
    return CommitGraph([[commit - 1] if commit else [] for commit in range(commits)])


def test_a_commit_outside_of_all_windows_is_tested_as_it_is() -> None:
    assert sidestep(Knowledge.start(line(9)), 4, Windows([Window(5, 7), Window(0, 3)])) == 4


def test_the_end_or_what_is_before_the_start_is_tested_instead() -> None:
    knowledge = Knowledge.start(line(11))
    assert sidestep(knowledge, 5, Windows([Window(4, 6)])) == 6
    assert sidestep(knowledge, 5, Windows([Window(5, 10)])) == 4


def test_a_longer_search_is_not_paid_for_it() -> None:
    assert sidestep(Knowledge.start(line(16)), 7, Windows([Window(2, 12)])) == 7


def test_a_revert_is_worth_a_less_even_split() -> None:
    knowledge = Knowledge.start(line(16))
    assert sidestep(knowledge, 7, Windows([Window(2, 10, is_declared_revert=True)])) == 10
    assert sidestep(knowledge, 7, Windows([Window(2, 12, is_declared_revert=True)])) == 7


def test_a_tested_end_is_not_tested_again() -> None:
    knowledge = Knowledge.start(line(11), [Observation(6, Outcome.SKIP)])
    assert sidestep(knowledge, 5, Windows([Window(4, 6)])) == 3


def test_only_an_untried_undoing_of_the_culprit_is_asked_for() -> None:
    windows = Windows([Window(2, 5), Window(3, 6), Window(1, 4), Window(1, 7)])
    assert last_revert(windows, {6, 7}, 2) == 5
    assert last_revert(windows, {6}, 3) is None
    assert last_revert(windows, {6}, 4) is None
    assert last_revert(windows, {4}, 1) == 7
    assert last_revert(windows, {7}, 1) is None


def search(graph: CommitGraph, bad: set[int], windows: Windows) -> tuple[int, int]:
    """The culprit that is found, and the tests it took, when the commits in `bad` fail."""
    knowledge, tests = Knowledge.start(graph), 0
    while isinstance(step := next_step(knowledge), Probe):
        commit = sidestep(knowledge, step.commit, windows)
        tests += 1
        outcome = Outcome.BAD if commit in bad else Outcome.GOOD
        knowledge = knowledge.observe(Observation(commit, outcome))
    assert isinstance(step, FoundCulprit)
    return step.culprit, tests


def test_windows_never_cost_a_test_more_than_halving_may_take() -> None:
    rng = random.Random(5)
    for _ in range(300):
        n = rng.randrange(2, 120)
        ends = [sorted(rng.sample(range(n), 2)) for _ in range(rng.randrange(4))]
        windows = Windows(Window(first, last) for first, last in ends)
        culprit = rng.randrange(n)
        found, tests = search(line(n), set(range(culprit, n)), windows)
        assert found == culprit
        assert tests <= (n - 1).bit_length()


def test_a_window_that_really_broke_and_mended_is_mostly_stepped_around() -> None:
    """Broken from start to end, and broken for good later: the later change is what the bad end shows."""
    rng = random.Random(6)
    blind = stepping = 0
    for _ in range(300):
        start, end, culprit = sorted(rng.sample(range(40), 3))
        bad = {*range(start, end), *range(culprit, 40)}
        blind += search(line(40), bad, NO_WINDOWS)[0] == culprit
        stepping += search(line(40), bad, Windows([Window(start, end)]))[0] == culprit
    assert stepping > blind

"""The search for changes that make a build fail: exact sets, and how many builds are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.reduce.localize.causes import failing_sets
from tests.support.quick import examples


def searched(changes: Sequence[int], fails: Callable[[frozenset[int]], bool]) -> tuple[list[set[int]], int]:
    """What was found, and how many different sets were asked."""
    asking = failing_sets(changes)
    asked: set[frozenset[int]] = set()
    try:
        chosen = next(asking)
        while True:
            asked.add(chosen)
            chosen = asking.send(fails(chosen))
    except StopIteration as finished:
        return [set(found) for found in finished.value], len(asked)


def test_the_only_change_is_the_cause_without_a_run() -> None:
    assert searched([0], lambda _chosen: True) == ([{0}], 0)


@pytest.mark.parametrize("cause", [0, 1])
def test_one_of_two_takes_two_builds(cause: int) -> None:
    assert searched([0, 1], lambda chosen: cause in chosen) == ([{cause}], 2)


def test_two_independent_causes_are_told_apart() -> None:
    found, _ = searched(range(6), lambda chosen: bool(chosen & {1, 4}))
    assert found == [{1}, {4}]


def test_changes_that_fail_together_alone_are_one_cause() -> None:
    found, _ = searched(range(6), lambda chosen: {1, 4} <= chosen)
    assert found == [{1, 4}]


@given(
    count=st.integers(1, 40),
    draw=st.data(),
)
@settings(max_examples=examples(200), deadline=None)
def test_any_sets_are_found(count: int, draw: st.DataObject) -> None:
    """Each found set fails, none of its parts does, and what is left passes; of one cause in few runs."""
    causes = draw.draw(
        st.lists(st.frozensets(st.integers(0, count - 1), min_size=1, max_size=3), min_size=1, max_size=3)
    )

    def fails(chosen: frozenset[int]) -> bool:
        return any(cause <= chosen for cause in causes)

    found, asked = searched(range(count), fails)
    assert found
    for each in found:
        assert fails(frozenset(each))
        assert not any(fails(frozenset(each - {one})) for one in each)
    assert not fails(frozenset(range(count)) - frozenset().union(*found))
    if len(causes) == 1 and len(causes[0]) == 1:
        assert asked <= 2 * math.ceil(math.log2(count)) + 1 if count > 1 else asked == 0

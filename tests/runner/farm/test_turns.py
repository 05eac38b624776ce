"""Probes that need the same build: one has it made at a time."""

from precision_bisect.runner.farm.farm import BuildTurns


def test_others_wait_until_the_first_has_its_build() -> None:
    turns = BuildTurns()
    assert [turns.may_begin(1, "x"), turns.may_begin(2, "x"), turns.may_begin(3, "y")] == [True, False, True]
    assert not turns.may_begin(4, "x")
    assert turns.finish_build(3) == []
    assert turns.finish_build(1) == [2, 4]
    assert turns.finish_build(1) == []
    assert turns.may_begin(5, "x")


def test_the_next_one_builds_where_the_first_is_stopped() -> None:
    turns = BuildTurns()
    began = [turns.may_begin(number, "x") for number in (1, 2, 3, 4)]
    assert began == [True, False, False, False]
    assert turns.drop(2) == []
    assert turns.drop(1) == [3]
    assert turns.finish_build(3) == [4]


def test_a_build_whose_only_probe_is_stopped_is_anyone_s() -> None:
    turns = BuildTurns()
    assert turns.may_begin(1, "x")
    assert turns.drop(1) == []
    assert turns.may_begin(2, "x")
    assert not turns.may_begin(3, "x")

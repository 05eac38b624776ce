"""Whose failed builds are believed."""

from precision_bisect.runner.farm.farm import BuildHistory


def test_a_host_that_has_built_is_believed() -> None:
    hosts = BuildHistory(str.upper)
    hosts.record_build("good", "a", was_built=True)
    assert hosts.doubt_reason("broken", "a", is_environment=False) is None


def test_a_host_that_never_built_is_believed_once_a_build_has_failed_before() -> None:
    hosts = BuildHistory(str.upper)
    assert hosts.doubt_reason("broken", "a", is_environment=False) == "nothing was ever built there"
    assert hosts.doubt_reason("broken", "b", is_environment=False) is None


def test_a_build_that_was_copied_shows_no_compiler() -> None:
    hosts = BuildHistory(str.upper)
    hosts.record_build("good", "a", was_built=False)
    assert hosts.doubt_reason("broken", "a", is_environment=False) == "nothing was ever built there"


def test_a_build_that_another_host_has_can_be_built() -> None:
    hosts = BuildHistory(str.upper)
    hosts.record_build("good", "b", was_built=False)
    hosts.record_build("other", "a", was_built=True)
    for _ in range(2):
        assert hosts.doubt_reason("good", "a", is_environment=False) == "B has that build"


def test_an_error_of_machines_is_tried_at_another_once() -> None:
    hosts = BuildHistory(str.upper)
    hosts.record_build("good", "a", was_built=True)
    assert (
        hosts.doubt_reason("broken", "a", is_environment=True)
        == "the error is one of machines, not of commits"
    )
    assert hosts.doubt_reason("broken", "b", is_environment=True) is None

"""A limit of time in the main thread."""

import signal

import pytest

from precision_bisect.runner.process.signals import OutOfTimeInterrupt, time_limit


def spin() -> None:
    """Work without an end."""
    while True:
        pass


@pytest.mark.parametrize("seconds", [0.02, 0.0, -1.0])
def test_work_without_an_end_is_ended(seconds: float) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(OutOfTimeInterrupt), time_limit(seconds):
        spin()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def spin_until_another_error() -> None:
    """As numpy's comparison of structured arrays, which raises a `TypeError` in place of what reaches it."""
    try:
        spin()
    except KeyboardInterrupt:
        raise TypeError from None


def test_a_limit_that_became_another_error_is_a_limit() -> None:
    with pytest.raises(OutOfTimeInterrupt), time_limit(0.02):
        spin_until_another_error()


def test_work_in_time_goes_on_without_a_limit() -> None:
    for seconds in (None, 60.0):
        with time_limit(seconds):
            pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_around_it_holds_on() -> None:
    def spin_behind_another() -> None:
        with time_limit(60.0):
            pass
        spin()

    with pytest.raises(OutOfTimeInterrupt), time_limit(0.02):
        spin_behind_another()
    with pytest.raises(OutOfTimeInterrupt), time_limit(0.02), time_limit(60.0):
        spin()

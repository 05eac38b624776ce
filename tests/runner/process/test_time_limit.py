"""A stop that time asks for."""

import select

import pytest

from precision_bisect.runner.process.run import InterruptedWorkError, interrupt_after


def test_a_stop_is_asked_for_once_the_time_is_over() -> None:
    with interrupt_after(0.0) as interrupt:
        assert select.select([interrupt.fileno()], [], [], 60)[0]
        with pytest.raises(InterruptedWorkError):
            interrupt.check()


def test_no_stop_is_asked_for_before() -> None:
    with interrupt_after(3600.0) as interrupt:
        interrupt.check()

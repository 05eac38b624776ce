"""Processes of tests that obey Ctrl-C."""

import signal


def obey_interrupts() -> None:
    """In a new process: where tests run in the background of a shell, SIGINT is ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

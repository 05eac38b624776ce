"""Telling others: a command of the nightly file gets JSON on its standard input, and nothing else of ours."""

import subprocess
from collections.abc import Sequence

_TIMEOUT = 60.0
_NOT_STARTED = 127
_TIMED_OUT = 124


def call_hook(command: Sequence[str], text: str) -> int:
    """Run a hook; its exit code, negative for a signal, 127 where it cannot be started, 124 after 60 s."""
    try:
        done = subprocess.run(
            list(command), input=text.encode(), timeout=_TIMEOUT, stdout=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT
    except OSError:
        return _NOT_STARTED
    return done.returncode

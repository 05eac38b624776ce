"""Telling others: a command gets JSON on its standard input and the most telling of it in variables, and nothing else.

A night tells of its incidents by it, a bisection of its end.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from ...runner.errors import UsageError

_PREFIX = "PRECISION_BISECT_"
_TIMEOUT = 60.0
_NOT_STARTED = 127
_TIMED_OUT = 124


def check_hook(command: Sequence[str], *, asked: str) -> None:
    """Check a hook before anything is run for it to tell of; `asked` is how it was asked for. Raises `UsageError` where
    there is no such program."""
    if shutil.which(command[0]) is None:
        raise UsageError(f"{asked}: expected a program that can be run, found no {shlex.quote(command[0])}")


def call_hook(command: Sequence[str], text: str, variables: Mapping[str, str]) -> int:
    """Run a hook; its exit code, negative for a signal, 127 where it cannot be started, 124 after 60 s.

    `variables` are set as `PRECISION_BISECT_...`. Ids, names and our own words stand there, never what others wrote: a
    subject is in the JSON alone, where no shell comes upon it.
    """
    ours = {f"{_PREFIX}{name}": value for name, value in variables.items()}
    try:
        done = subprocess.run(
            list(command),
            input=text.encode(),
            env={**os.environ, **ours},
            timeout=_TIMEOUT,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT
    except OSError:
        return _NOT_STARTED
    return done.returncode

"""Runs of demo cases without what makes them slow: importing torch each time.

Runs are forked as `reduce` forks them, from servers that all tests of a process share. `with quick_runs():` makes the
command `reduce` so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from precision_bisect.reduce import reduce_command as reduce_command
from precision_bisect.reduce.replay.toolchain import ForkServers
from precision_bisect.runner.process.run import Command, execute

_SEEDED = Path(__file__).with_name("seeded.py")


class _Shared(ForkServers):
    """Whoever closes it: its processes end with this one."""

    def close(self) -> None:
        pass


def _refused(why: str) -> None:
    raise AssertionError(why)


SERVERS = _Shared(on_refusal=_refused)


@contextmanager
def quick_runs() -> Generator[None]:
    """Make the command `reduce` fork its runs from the shared servers."""
    with patch.object(reduce_command, "ForkServers", lambda on_refusal: SERVERS):  # pyright: ignore[reportUnknownLambdaType]
        yield


def run_python(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], seed: int = 0) -> None:
    """Run a script to its end, whatever that is, with torch seeded; what it prints is dropped."""
    command = Command(
        argv=[sys.executable, str(_SEEDED), str(seed), *argv], cwd=cwd, environment=environment, timeout=300
    )
    with tempfile.TemporaryDirectory() as folder:
        execute(
            command,
            log=Path(folder) / "log",
            on_line=lambda _stream, _line: None,
            start=lambda command: SERVERS.start(command, ["numpy", "torch"]),
        )

"""A point where a test's processes say that they have come, and wait until they may go on: events, not sleeps."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path
from typing import Any


class Hold:
    """Two named pipes in a folder. A process writes a line to `held`, then reads `hold`, whose end comes with `let_go`.

    While there is no `hold`, nobody is held. Where this process ends, all are let go.
    """

    def __init__(self, folder: Path) -> None:
        self.held, self.hold = folder / "held", folder / "hold"
        os.mkfifo(self.held)
        os.mkfifo(self.hold)
        # Open for writing too: neither end waits for the other to be opened, and neither is at its end before time.
        self._held = os.open(self.held, os.O_RDWR)
        self._hold = os.open(self.hold, os.O_RDWR)

    def wait(self, process: subprocess.Popen[Any], count: int = 1) -> list[str]:
        """Wait until `count` more are held; the lines that they wrote.

        Raises AssertionError when `process` ends before that.
        """
        lines: list[str] = []
        ending = os.pidfd_open(process.pid)
        try:
            while len(lines) < count:
                ready, _, _ = select.select([self._held, ending], [], [])
                assert self._held in ready, f"it ended, and {len(lines)} were held, not {count}"
                lines += os.read(self._held, 4096).decode().splitlines()
        finally:
            os.close(ending)
        return lines

    def let_go(self) -> None:
        """Nobody is held any more; a second call does nothing."""
        if self.hold.exists():
            self.hold.unlink()
            os.close(self._hold)
            os.close(self._held)

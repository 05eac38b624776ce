"""The live view at a terminal of 60 columns, and Ctrl-C typed there."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.conftest import TestRepository
from tests.support.hold import Hold
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM

COLUMNS = 60
COMMITS = 10
BROKEN_FROM = 6
CHECK = "if [ -p {folder}/hold ]; then { echo $$ > {folder}/held; read -r _; } < {folder}/hold; fi; grep -q fine state"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


def _take_terminal() -> None:
    """In a new process: its terminal is the one that Ctrl-C is typed at."""
    obey_interrupts()
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@dataclass
class Terminal:
    """A command at a terminal. `shown` is all that it has written there, once it has ended."""

    words: tuple[str, ...]
    folder: Path
    home: Path
    shown: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        names = ("COLUMNS", "LINES")
        environment = {name: value for name, value in os.environ.items() if name not in names}
        self.process = subprocess.Popen(
            [*PROGRAM, *self.words],
            cwd=self.folder,
            env={**environment, "PRECISION_BISECT_HOME": str(self.home), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        written = b""
        while True:
            try:
                written += os.read(self._ours, 4096)
            except OSError:  # the terminal of a process that has ended
                break
        self.shown = written.decode(errors="replace")

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """Wait for the command's end; its exit code."""
        code = self.process.wait()
        self._reader.join()
        os.close(self._ours)
        return code

    @property
    def lines(self) -> list[str]:
        """All lines that it has written, those of the live view as often as they were drawn."""
        return re.split(r"[\r\n]+", _ESCAPE.sub("", self.shown))


@pytest.mark.long
def test_ctrl_c_at_a_narrow_terminal_records_nothing_and_says_how_to_go_on(
    repository: TestRepository, tmp_path: Path
) -> None:
    line = [
        repository.commit(f"commit {n}", {"state": "broken" if n >= BROKEN_FROM else "fine", "n": str(n)})
        for n in range(COMMITS)
    ]
    hold = Hold(tmp_path)
    check = CHECK.replace("{folder}", str(tmp_path))
    words = ("--good", line[0], "--bad", "main", "-o", str(tmp_path / "out"), "--", "sh", "-c", check)
    first = Terminal(words, repository.path, tmp_path / "home")
    (case,) = hold.wait(first.process)
    first.type(b"\x03")
    assert first.end() == 130, first.shown
    assert not psutil.pid_exists(int(case))
    resume = first.lines[first.lines.index("interrupted; to resume:") + 1]
    assert resume.startswith(f"PRECISION_BISECT_HOME={tmp_path}/home bisect-precision --resume 20")
    assert "Traceback" not in first.shown

    hold.let_go()
    second = Terminal(tuple(resume.split()[2:]), repository.path, tmp_path / "home")
    assert second.end() == 0, second.shown
    assert line[BROKEN_FROM][:12] in second.shown
    before_answer = second.lines[: next(n for n, text in enumerate(second.lines) if "─" in text)]
    # A run that ends at once may never be drawn as one that is running.
    assert any("commits in the range" in text for text in before_answer)
    assert max(map(len, before_answer)) <= COLUMNS

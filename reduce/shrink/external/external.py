"""Hands a kernel's text to a reducer of texts that knows nothing of builds, such as shrinkray or cvise."""

from __future__ import annotations

import os
import shlex
import socketserver
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ....runner.errors import UserError
from ....runner.process.execute import Command, execute
from ..driver import Driver
from ..program.candidate import Candidate
from ..program.render.merged import merge
from ..program.render.statements import KernelText

_ASK = Path(__file__).with_name("ask.py")
_FOR_EVER = 1e6


@dataclass(frozen=True, kw_only=True)
class ExternalReducer:
    """`command` is run with two more words, a script and a file. It makes the file smaller while the script, called
    with a file or beside one of that name, exits with 0. Its log goes to `folder`."""

    command: str
    folder: Path

    def reduce(self, driver: Driver, kernel: KernelText) -> None:
        """Makes one kernel's text smaller in both builds, at each text that the driver's oracle finds interesting.

        Raises:
            UserError: the command fails, or the oracle cannot judge.
        """
        asker = _Asker(driver, kernel.kernel)
        text = merge(kernel.failing, kernel.reference)
        if not asker.ask(text):
            driver.on_progress(
                f"{kernel.kernel}: its texts cannot be merged, and are not handed to {self.command}"
            )
            return
        with tempfile.TemporaryDirectory() as name, _listening(Path(name) / "socket", asker) as socket:
            file = Path(name) / f"{kernel.kernel}.cpp"
            file.write_bytes(text)
            script = Path(name) / "interesting.sh"
            words = shlex.join([sys.executable, "-I", "-S", str(_ASK), str(socket)])
            script.write_text(f'#!/bin/sh\nexec {words} "${{1:-{file.name}}}"\n', encoding="utf-8")
            script.chmod(0o755)
            log = self.folder / f"{kernel.kernel}.log.gz"
            finished = execute(
                Command(
                    argv=[*shlex.split(self.command), str(script), str(file)],
                    cwd=Path(name),
                    environment=dict(os.environ),
                    timeout=_FOR_EVER if driver.seconds_left is None else driver.seconds_left,
                ),
                log=log,
                on_line=lambda _stream, _line: None,
            )
        if asker.error is not None:
            raise asker.error
        if finished.ending.exit_code != 0 and not driver.stopped:
            raise UserError(
                f"--with {self.command}: expected exit code 0, found {finished.ending}; see {log}, and go on without "
                "it by --resume"
            )


class _Asker:
    """Judges texts of one kernel, one after the other, and keeps the smallest that is interesting."""

    def __init__(self, driver: Driver, kernel: str) -> None:
        self.error: UserError | None = None
        self._driver = driver
        self._kernel = kernel
        self._start = driver.best
        self._smallest: int | None = None
        self._lock = threading.Lock()

    def ask(self, text: bytes) -> bool:
        """Whether the builds with this text fail and pass as they should."""
        with self._lock:
            if self.error is not None or self._driver.stopped:
                return False
            try:
                candidate = self._candidate(text.decode())
                interesting = self._driver.shows(candidate)
            except UnicodeDecodeError:
                return False
            except UserError as error:
                self.error = error
                return False
            if interesting and (self._smallest is None or len(text) < self._smallest):
                self._smallest = len(text)
                self._driver.take(candidate)
            return interesting

    def _candidate(self, text: str) -> Candidate:
        return replace(
            self._start,
            rewritten=tuple(sorted({**dict(self._start.rewritten), self._kernel: text}.items())),
        )


@contextmanager
def _listening(path: Path, asker: _Asker) -> Generator[Path]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"y" if asker.ask(self.rfile.read()) else b"n")

    with _Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            server.shutdown()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

"""Hands a kernel's text to a reducer of texts that knows nothing of builds, such as shrinkray or cvise."""

from __future__ import annotations

import os
import shlex
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ....runner.errors import UserError
from ....runner.process.execute import Command, execute
from ..program.candidate import Candidate
from ..program.render.merged import merge
from ..program.render.statements import KernelText

_ASK = Path(__file__).with_name("ask.py")
_FOR_EVER = 1e6


class CandidateJudge(Protocol):
    """What judges the texts, as candidates; it may run out of its budget."""

    @property
    def best(self) -> Candidate:
        """The smallest candidate accepted so far."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether the budget is used up."""
        ...

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget; None without one."""
        ...

    def consider(self, candidate: Candidate) -> bool:
        """Whether a candidate is interesting; it is accepted if it is smaller than the best, too."""
        ...


@dataclass(frozen=True, kw_only=True)
class ExternalReducer:
    """`command` is run with two more words, a script and a file. It makes the file smaller while the script, called
    with a file or beside one of that name, exits with 0. Its log goes to `folder`.

    `texts` gives the sources of a candidate's kernels, `settled` has the programs in which the command has found
    nothing more: it is not asked again.
    """

    command: str
    folder: Path
    texts: Callable[[Candidate], Sequence[KernelText]]
    on_progress: Callable[[str], None]
    settled: set[Candidate] = field(default_factory=set[Candidate])

    def reduce(self, judge: CandidateJudge) -> None:
        """Makes the text of each kernel that is left smaller in both builds, one after the other.

        Raises:
            UserError: the command fails, or a candidate cannot be judged.
        """
        if judge.best in self.settled:
            return
        for kernel in self.texts(judge.best):
            self._reduce(judge, kernel)
        self.settled.add(judge.best)

    def _reduce(self, judge: CandidateJudge, kernel: KernelText) -> None:
        asker = _Asker(judge, kernel.kernel)
        rewritten = dict(judge.best.rewritten).get(kernel.kernel)
        text = merge(kernel.failing, kernel.reference) if rewritten is None else rewritten.encode()
        if rewritten is None and not asker.ask(text):
            self.on_progress(
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
                    timeout=_FOR_EVER if judge.seconds_left is None else judge.seconds_left,
                ),
                log=log,
                on_line=lambda _stream, _line: None,
            )
        if asker.error is not None:
            raise asker.error
        if finished.ending.exit_code != 0 and not judge.stopped:
            raise UserError(
                f"--with {self.command}: expected exit code 0, found {finished.ending}; see {log}, and go on without "
                "it by --resume"
            )


class _Asker:
    """Has texts of one kernel judged, one after the other."""

    def __init__(self, judge: CandidateJudge, kernel: str) -> None:
        self.error: UserError | None = None
        self._judge = judge
        self._kernel = kernel
        self._start = judge.best
        self._lock = threading.Lock()

    def ask(self, text: bytes) -> bool:
        """Whether the builds with this text fail and pass as they should."""
        with self._lock:
            if self.error is not None or self._judge.stopped:
                return False
            try:
                return self._judge.consider(self._candidate(text.decode()))
            except UnicodeDecodeError:
                return False
            except UserError as error:
                self.error = error
                return False

    def _candidate(self, text: str) -> Candidate:
        rewritten = {**dict(self._start.rewritten), self._kernel: text}
        return replace(self._start, rewritten=tuple(rewritten.items()))


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

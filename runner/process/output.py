"""Standard output and standard error of a command whose reader may end before it does, as `head` does."""

import io
import os
import sys

from typing_extensions import override


def outlive_readers() -> None:
    """Let the command's work and its exit code not depend on who reads: what nobody reads any more goes nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # A stream of somebody else's kind, such as one that a test captures, is theirs to keep.
        if type(stream) is io.TextIOWrapper:
            encoding, errors, lines = stream.encoding, stream.errors, stream.line_buffering
            through = stream.write_through
            kept = _Output(stream.detach(), encoding, errors, line_buffering=lines, write_through=through)
            setattr(sys, name, kept)


class _Output(io.TextIOWrapper):
    """A text stream that goes nowhere once its reader has ended."""

    @override
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._leave()
            return len(text)

    @override
    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._leave()

    def _leave(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)

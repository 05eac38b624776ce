"""Record a real run of a command as an SVG picture of the terminal.

    python docs/record.py docs/demo.svg bisect-precision --stack .demo/stack/stack.toml ...

The command runs on a pseudo-terminal, so it shows what a person would see; lines that it draws over are left out.
"""

import os
import pty
import re
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

_WIDTH = 100
_DRAWN_OVER = re.compile(r"(?:\x1b\[[0-9;]*[ABJK]|\r(?!\n))")


def record(command: list[str]) -> str:
    """What the command leaves on a terminal."""
    chunks: list[bytes] = []

    def read(descriptor: int) -> bytes:
        chunks.append(os.read(descriptor, 1 << 16))
        return chunks[-1]

    os.environ["COLUMNS"] = str(_WIDTH)
    pty.spawn(command, read)
    return b"".join(chunks).decode("utf-8", "replace")


def kept(output: str) -> str:
    """The lines that are still there when the command has ended."""
    _, _, end = output.rpartition("\x1b[2K")
    return _DRAWN_OVER.sub("", end.lstrip("\r\n"))


def main() -> None:
    target, command = Path(sys.argv[1]), sys.argv[2:]
    output = kept(record(command))
    console = Console(record=True, width=_WIDTH, file=Path(os.devnull).open("w"))
    console.print(Text(f"$ {shlex.join(command)}\n", style="bold"))
    console.print(Text.from_ansi(output))
    target.write_text(console.export_svg(title="bisect-precision"))


if __name__ == "__main__":
    main()

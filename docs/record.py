"""Record a real run of a command as an SVG picture of the terminal it ran on.

    python docs/record.py docs/demo.svg bisect-precision --stack .demo/stack/stack.toml ...

Needs pyte (a terminal emulator), which `pip install pyte` brings.
"""

import os
import pty
import shlex
import sys
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

_WIDTH = 100
_HEIGHT = 400
"""More lines than a run prints: nothing scrolls away."""


def screen_of(command: list[str]) -> pyte.Screen:
    """What is on the terminal when the command has ended."""
    screen = pyte.Screen(_WIDTH, _HEIGHT)
    stream = pyte.ByteStream(screen)

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 1 << 16)
        stream.feed(data)
        return data

    os.environ.update(COLUMNS=str(_WIDTH), LINES=str(_HEIGHT), TERM="xterm-256color")
    pty.spawn(command, read)
    return screen


def line_of(screen: pyte.Screen, row: int) -> Text:
    """One line with its colours."""
    line = Text()
    for column in range(_WIDTH):
        cell = screen.buffer[row][column]
        colour = "" if cell.fg == "default" else cell.fg.replace("brown", "yellow")
        line.append(cell.data, style=f"{'bold ' if cell.bold else ''}{colour}".strip())
    line.rstrip()
    return line


def main() -> None:
    """Runs a command in a terminal and writes what it showed as a picture."""
    target, command = Path(sys.argv[1]), sys.argv[2:]
    screen = screen_of(command)
    lines = [line_of(screen, row) for row in range(screen.cursor.y)]
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=_WIDTH, file=nowhere)
        console.print(Text(f"$ {shlex.join(command)}\n", style="bold"))
        for line in lines:
            console.print(line)
        target.write_text(console.export_svg(title="bisect-precision"))


if __name__ == "__main__":
    main()

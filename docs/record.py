"""Record a real bisection of the demo stack as SVG pictures of the terminals it ran on.

    python docs/record.py             writes docs/demo-80.svg, docs/demo-120.svg, and the same as *-light.svg

Each picture is the terminal in the middle of the search, verdicts above and the live picture below, and then the end.
A dark and a light terminal show the same recording.
Needs pyte (a terminal emulator), which `pip install pyte` brings, and some minutes.
"""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pyte
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME
from rich.text import Text

_DOCS = Path(__file__).parent
_WIDTHS = (80, 120)
_HEIGHT = 64
_THEMES = {"": SVG_EXPORT_THEME, "-light": DEFAULT_TERMINAL_THEME}
_TITLE = "bisect-precision --good A --bad B --stack S --case C"
_PLACES = ("PRECISION_BISECT_", "XDG_")
"""How variables begin that say where the tool keeps what is its own: here that is what a new user has."""
_TOOL = Path(sys.executable).with_name("bisect-precision")
_MIDDLE = re.compile(r"\b[23] to search\b")
"""What the picture shows when about half of the search is done."""


def make_demo(folder: Path) -> list[str]:
    """Make a demo stack; the words that bisect it."""
    subprocess.run([_TOOL, "demo", folder / "stack", "--scenario", "tail"], check=True, capture_output=True)
    found = re.search(r'exec \S*bisect-precision (.*) "\$@"', (folder / "stack" / "find.sh").read_text())
    assert found is not None
    return found[1].split()


def shown_on(width: int, command: list[str], environment: dict[str, str]) -> list[Text]:
    """What a terminal of `width` columns shows in the middle of the search, and at its end."""
    screen = pyte.Screen(width, _HEIGHT)
    stream = pyte.ByteStream(screen)
    kept: list[Text] = []
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, width, 0, 0))
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the terminal of a process that has ended
            break
        if not data:
            break
        stream.feed(data)
        whole = "\n".join(screen.display)
        if _MIDDLE.search(whole) and re.search(r"slot \d+: run .* running", whole.replace("\n", " ")):
            kept = lines_of(screen)
    os.waitpid(process, 0)
    end = lines_of(screen)
    answer = next(row for row, line in enumerate(end) if line.plain.startswith("─"))
    return [*kept, Text(), Text("[...]", style="dim"), Text(), *end[answer:]]


def lines_of(screen: pyte.Screen) -> list[Text]:
    """The lines of a terminal, without the empty ones at its end."""
    lines = [line_of(screen, row) for row in range(_HEIGHT)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def line_of(screen: pyte.Screen, row: int) -> Text:
    """One line with its colours."""
    line = Text()
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        colour = "" if cell.fg == "default" else cell.fg.replace("brown", "yellow")
        line.append(cell.data, style=f"{'bold ' if cell.bold else ''}{colour}".strip())
    line.rstrip()
    return line


def write_pictures(lines: list[Text], width: int) -> None:
    """Write the lines of a terminal as one picture for each theme."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=width, file=nowhere)
        for line in lines:
            console.print(line, no_wrap=True)
        for suffix, theme in _THEMES.items():
            picture = console.export_svg(title=_TITLE, theme=theme, clear=False)
            (_DOCS / f"demo-{width}{suffix}.svg").write_text(picture)


def main() -> None:
    """Bisect the same demo stack once on each terminal, and write what it showed."""
    with tempfile.TemporaryDirectory(prefix="demo-") as name, contextlib.chdir(name):
        folder = Path(name)
        words = make_demo(folder)
        for width in _WIDTHS:
            environment = {
                **{name: text for name, text in os.environ.items() if not name.startswith(_PLACES)},
                "HOME": str(folder / "home" / str(width)),
                "PATH": f"{_TOOL.parent}{os.pathsep}{os.environ['PATH']}",
                "TERM": "xterm-256color",
                "COLUMNS": str(width),
                "LINES": str(_HEIGHT),
            }
            command = [str(_TOOL), *words, "--no-localize", "-o", str(folder / f"report-{width}")]
            write_pictures(shown_on(width, command, environment), width)


if __name__ == "__main__":
    main()

"""Each page of the tutorial does what it says: its commands are run as they stand, and print what it shows.

A block of `sh` is typed, and a block of `text` below it is what that prints. A line `...` stands for any lines.
Commits, folders, times, names of bisections, how often what was run, and measured numbers are each reader's own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorial"
PAGES = sorted(page.stem for page in FOLDER.glob("*.md"))
SHORT = {"first-bisection"}
MIN_LINES, MAX_LINES = 5, 85
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OWN = [
    (re.compile(r"(?<!\S)/\S+"), "PATH"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "NAME"),
    (re.compile(r"\b[0-9a-f]{12}(?:[0-9a-f]{28})?\b"), "COMMIT"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|min|h)\b(?: \d+ (?:s|min))?"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d+)? %"), "SHARE"),
    (re.compile(r"\b\d+ of \d+\b"), "COUNT"),
    (re.compile(r"\b\d+ runs of \d+ commits(?: \(\d+ reused\))?"), "RUNS"),
    (re.compile(r"\b\d+\.\d+\b"), "NUMBER"),
    (re.compile(r"\s+"), " "),
]
_END = "-- end of block"


def blocks(page: str) -> list[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that it shows below them."""
    typed: list[tuple[str, list[str]]] = []
    for language, text in _BLOCK.findall((FOLDER / f"{page}.md").read_text(encoding="utf-8")):
        if language == "sh":
            typed.append((text, []))
        elif language == "text":
            typed[-1][1].extend(text.splitlines())
    return typed


def common(line: str) -> str:
    """A line without what is each reader's own."""
    for own, word in _OWN:
        line = own.sub(word, line)
    return line.strip()


def first_missing(shown: list[str], printed: str) -> str | None:
    """The first line of a page that was not printed in its place: below the line before it, or anywhere after `...`."""
    lines = [common(line) for line in printed.splitlines()]
    place, anywhere = 0, False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        places = range(place, len(lines) if anywhere else place + 1)
        found = next((each for each in places if lines[each : each + 1] == [common(line)]), None)
        if found is None:
            return line
        place, anywhere = found + 1, False
    return None


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in SHORT else [pytest.mark.long]) for page in PAGES]
)
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    typed = blocks(page)
    assert sum(len(shown) for _, shown in typed) >= MIN_LINES
    script = "".join(f"{{\n{text}}} 2>&1\necho '{_END}'\n" for text, _ in typed)
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("PRECISION_BISECT_", "XDG_"))
    }
    environment = {
        **kept,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **{f"GIT_{who}_NAME": "You" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "you@example.com" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(
        ["bash"], input=script, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    *printed, rest = done.stdout.split(f"{_END}\n")
    assert len(printed) == len(typed), rest
    for (text, shown), output in zip(typed, printed, strict=True):
        assert (missing := first_missing(shown, output)) is None, f"{text}\n{missing}\n\n{output}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_two_screens_at_most(page: str) -> None:
    assert len((FOLDER / f"{page}.md").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_a_line_that_is_not_printed_is_found() -> None:
    printed = "begin\nrun 1 takes 0.3 s\n\nculprit 0123456789ab\nend\n"
    assert first_missing(["begin", "run 1 takes 12 s", "...", "culprit ba9876543210"], printed) is None
    assert first_missing(["begin", "culprit ba9876543210"], printed) == "culprit ba9876543210"
    assert first_missing(["...", "end", "begin"], printed) == "begin"
    assert first_missing(["run 1 takes 0.3 s"], printed) == "run 1 takes 0.3 s"

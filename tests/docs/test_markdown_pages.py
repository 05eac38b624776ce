"""What the documents say of the tree is so."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 50


def test_the_architecture_page_names_what_is_there() -> None:
    """Of a table's row, a name without a folder lies in the folder before it."""
    folder = ROOT
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        for name in re.findall(r"`([\w/]+(?:\.py|/))`", line) if line.startswith("|") else ():
            path = ROOT / name if (ROOT / name).exists() else folder / name
            assert path.exists(), f"{name} in: {line}"
            folder = path if path.is_dir() else path.parent


def test_contributing_names_what_is_there() -> None:
    """A name without its folder lies somewhere in a room or among the tests."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        rooms = [ROOT / room for room in ("bisect", "reduce", "runner", "store", "tests")]
        assert (ROOT / name).exists() or any(next(room.rglob(name), None) for room in rooms), name


def test_the_glossary_is_sorted_and_short() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE
    )
    words = rows[2:]
    assert words == sorted(words)
    assert 20 < len(words) <= MOST_WORDS


@pytest.mark.parametrize("columns", [80, 120])
def test_there_is_a_recording_of_a_terminal(columns: int) -> None:
    """In the middle of a search, and at its end; a letter is 12.2 wide."""
    picture = ET.fromstring((ROOT / "docs" / f"demo-{columns}.svg").read_text(encoding="utf-8"))
    pieces = [each for each in picture.iter("{http://www.w3.org/2000/svg}text") if each.get("textLength")]
    text = " ".join((each.text or "").replace("\xa0", " ") for each in pieces)
    for part in (
        "good .",
        "commits left, about",
        "so far",
        "slot 0: run ",
        "author     ",
        "reproduce-bad.sh",
    ):
        assert part in text
    widest = max(float(each.get("x", "0")) + float(each.get("textLength", "0")) for each in pieces) / 12.2
    assert columns - 1 <= widest - 1 <= columns + 0.01
    assert f"(../demo-{columns}.svg)" in (ROOT / "docs" / "how-to" / "reports.md").read_text(encoding="utf-8")

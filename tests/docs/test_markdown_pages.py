"""What the documents say of the tree is so."""

import ast
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_WORDS = 50


@cache
def defined_names(module: Path) -> frozenset[str]:
    """The module's own name, and the names of all that it defines: functions, classes, fields, constants."""
    names = {module.stem}
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                names.add(name)
            case _:
                pass
    return frozenset(names)


def test_the_architecture_page_names_what_is_there() -> None:
    """In a row, a file without a folder lies in the folder before it. A name is defined in one of the row's files.

    The names of a row without files are modules of the folder before it.
    """
    folder = ROOT
    checked = 0
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        quoted = re.findall(r"`([^`]+)`", line) if line.startswith("| ") else []
        known: set[str] = set()
        for name in quoted:
            if re.fullmatch(r"[\w/]+(?:\.py|/)|\w+(?:/\w+)+", name):
                path = ROOT / name if (ROOT / name).exists() else folder / name
                assert path.exists(), f"{name} in: {line}"
                folder = path if path.is_dir() else path.parent
                known = known.union(*map(defined_names, folder.glob("*.py") if path.is_dir() else [path]))
        known = known or {module.stem for module in folder.glob("*.py")}
        for name in quoted:
            if re.fullmatch(r"\w+(?:\.(?!py$)\w+)*", name):
                assert {*name.split(".")} <= known, f"{name} in: {line}"
                checked += 1
    assert checked > 100


def test_contributing_names_what_is_there() -> None:
    """A file without its folder lies somewhere in a room or among the tests. It defines what is said to be in it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [ROOT / room for room in ("bisect", "meaning", "reduce", "runner", "store", "tests")]
    found: dict[str, Path] = {}
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        places = [ROOT / name, *(path for room in rooms for path in room.rglob(name))]
        assert any(path.exists() for path in places), name
        found[name] = next(path for path in places if path.exists())
    named = re.findall(r"`(\w+(?:\.\w+)*)`\s+(?:of|in)\s+`([\w/]+\.py)`", text)
    assert len(named) > 5
    for name, file in named:
        assert {*name.split(".")} <= defined_names(found[file]), f"{name} in {file}"


def test_the_glossary_is_sorted_and_short() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE
    )
    words = rows[2:]
    assert words == sorted(words)
    assert 20 < len(words) <= MAX_WORDS


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

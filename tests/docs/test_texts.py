"""Texts that people read say things in words, never by the name of a class of the tool."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("bisect", "reduce", "runner", "store")
_TWO_WORDS = re.compile(r"[A-Z][a-z]+[A-Z]\w+")


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield file, ast.parse(file.read_text(encoding="utf-8"))


def texts(module: ast.Module) -> Iterator[str]:
    """Strings that are no docstrings."""
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_no_text_names_a_class() -> None:
    names = {
        node.name
        for _, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and _TWO_WORDS.fullmatch(node.name)
    }
    named = [
        f"{file.relative_to(ROOT)}: {text[:80]!r}"
        for file, module in modules()
        for text in texts(module)
        if {match[1] for match in re.finditer(r"\b(\w+) [a-z]+\b", text)} & names
    ]
    for folder in ("bisect/report/templates", "bisect/pages/templates"):
        for file in sorted((ROOT / folder).rglob("*.j2")):
            named += [f"{file.name}: {name}" for name in names if name in file.read_text(encoding="utf-8")]
    assert named == []

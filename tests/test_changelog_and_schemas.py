"""What the documents name is there: the tests that show a claim, and the files that links lead to."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_MODULE = re.compile(r"`((?:bisect|meaning|reduce|runner|store|tests)/[\w/.]*)`")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[\w-]*)?\)")


def _name(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_each_test_that_a_document_names_is_there(document: Path) -> None:
    for file, name in _TEST.findall(document.read_text(encoding="utf-8")):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not name or name in functions, f"{file}::{name}"


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_each_module_that_a_document_names_is_there(document: str) -> None:
    named = _MODULE.findall((ROOT / document).read_text(encoding="utf-8"))
    assert len(named) > 10
    assert [each for each in named if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_each_link_of_a_document_leads_to_a_file(document: Path) -> None:
    for link in _LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / link).exists(), link


def test_the_threat_model_names_a_test_for_each_attack() -> None:
    text = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
    attacks = text.partition("## What each attack meets")[2].partition("\n## ")[0].split("\n### ")[1:]
    assert len(attacks) > 5
    assert all(_TEST.search(attack) for attack in attacks)


def test_each_entry_of_the_next_release_is_put_together() -> None:
    """An entry whose type towncrier does not know is left out by it without a word."""
    built = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "1"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    entries = [file for file in (ROOT / "changelog.d").glob("*.md") if file.name != "README.md"]
    for entry in entries:
        assert entry.name.startswith("+"), entry
        assert " ".join(entry.read_text(encoding="utf-8").split()) in " ".join(built.stdout.split()), entry

"""The documents are built as a site, and read without a network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=\"?https?:|<link[^>]* href=\"?https?:")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what the site is made of."""
    pytest.importorskip("material")
    for name in ("docs", "benchmarks", "changelog.d", "configs", "skills"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in [*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "mkdocs.yml"]:
        shutil.copy(path, tmp_path)
    return tmp_path


def build(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_no_page_has_a_dead_link_or_loads_what_is_elsewhere(folder: Path) -> None:
    done = build(folder)
    assert done.returncode == 0, done.stderr
    pages = list((folder / ".site").rglob("*.html"))
    assert len(pages) > 50
    assert [page for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))] == []


def test_a_dead_link_or_anchor_ends_the_build(folder: Path) -> None:
    page = folder / "docs" / "how-to" / "farm.md"
    dead = "\n[one](../tutorial/nowhere.md) [two](queue.md#no-anchor) [three](../../benchmarks/no-file.md)\n"
    page.write_text(page.read_text(encoding="utf-8") + dead, encoding="utf-8")
    done = build(folder)
    assert done.returncode != 0
    for name in ("nowhere.md", "no-anchor", "no-file.md"):
        assert name in done.stdout + done.stderr

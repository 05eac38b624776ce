"""Every example in a docstring of ours does what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("bisect", "configs", "demo", "meaning", "reduce", "runner", "store")
SKIPPED = (ROOT / "demo" / "trees", ROOT / "store" / "migrations")


def modules() -> list[str]:
    """Our modules by the names they are imported by."""
    return [
        ".".join(("precision_bisect", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if ">>>" in path.read_text() and not any(path.is_relative_to(skipped) for skipped in SKIPPED)
    ]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    tested = doctest.testmod(importlib.import_module(name))
    assert tested.attempted > 0
    assert tested.failed == 0

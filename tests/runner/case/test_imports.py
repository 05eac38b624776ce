"""What a file imports in every run, by its text alone."""

import pytest

from precision_bisect.runner.case.preflight import certain_imports

CERTAIN = """
import os, a.b
from c.d import e, f
from . import g
class H:
    import i
if __name__ == "__main__":
    import j
try:
    import k
finally:
    pass
"""
PERHAPS = """
def run():
    import a
try:
    import b
except (ImportError, OSError):
    b = None
try:
    import c
except Exception:
    c = None
if TYPE_CHECKING:
    import d
with suppress(ImportError):
    import e
"""


def test_imports_that_every_run_makes() -> None:
    found = certain_imports(CERTAIN)
    assert [(each.module, each.level, each.members) for each in found] == [
        ("os", 0, ()),
        ("a.b", 0, ()),
        ("c.d", 0, ("e", "f")),
        ("", 1, ("g",)),
        ("i", 0, ()),
        ("j", 0, ()),
        ("k", 0, ()),
    ]
    assert [each.line for each in found][:3] == [2, 2, 3]


@pytest.mark.parametrize("text", [PERHAPS, "not python (", "\0", "(" * 5000])
def test_what_may_be_done_without_or_cannot_be_read_is_left_out(text: str) -> None:
    assert certain_imports(text) == ()

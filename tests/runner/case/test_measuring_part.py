"""What a script measures with is found in its text, and exchanged with that of another text of it."""

from pathlib import PurePosixPath

import pytest

from precision_bisect.runner.case.preflight import exchange_checks

NAMES = ("rtol", "RTOL", "golden_fn", "compute_golden")
PATH = PurePosixPath("cases/a.py")
SCRIPT = """\
\"\"\"Äöü: columns are bytes.\"\"\"
RTOL = 1e-2

def expected(values):
    return values * 2

class Test:
    def compute_golden(self, x):
        return x + 1

def main():
    settings = {"rtol": 1e-4, "n": 3}
    return run(kernel(4), "ä", rtol=1e-3, golden_fn=expected, **settings)
"""


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("rtol=1e-3", "rtol=1e-5", "rtol 1e-3 became 1e-5 in cases/a.py:13"),
        ("RTOL = 1e-2", "RTOL = 2 * TINY", "RTOL 1e-2 became 2 * TINY in cases/a.py:2"),
        ('"rtol": 1e-4', '"rtol": 1', "rtol 1e-4 became 1 in cases/a.py:12"),
        ("values * 2", "values * 3", "expected changed in cases/a.py:4"),
        ("return x + 1", "return x\n", "compute_golden changed in cases/a.py:8"),
    ],
)
@pytest.mark.parametrize("beside", [("kernel(4)", "kernel(8)"), ('"n": 3', '"n": 4'), ("", "")])
def test_a_part_is_exchanged_and_nothing_else(
    old: str, new: str, change: str, beside: tuple[str, str]
) -> None:
    """Where the rest of the script changes too, each text keeps its own."""
    after = SCRIPT.replace(*beside)
    exchange = exchange_checks(SCRIPT, after.replace(old, new), NAMES, PATH)
    assert exchange is not None
    assert exchange.changes == (change,)
    assert exchange.new_with_old.split() == after.split()
    assert exchange.old_with_new.split() == SCRIPT.replace(old, new).split()


@pytest.mark.parametrize(
    "new",
    [
        SCRIPT,
        SCRIPT.replace("kernel(4)", "kernel(8)"),
        SCRIPT.replace("rtol=1e-3", "rtol = 1e-3"),
        SCRIPT.replace(", rtol=1e-3", ""),
        SCRIPT.replace("rtol=1e-3", "rtol=1e-5").replace("RTOL = 1e-2", ""),
        "def (",
    ],
    ids=["same", "other change", "layout", "part is gone", "another part is gone", "no Python"],
)
def test_what_is_the_same_or_cannot_be_told_apart_is_not_exchanged(new: str) -> None:
    assert exchange_checks(SCRIPT, new, NAMES, PATH) is None


def test_several_changes_are_told() -> None:
    new = SCRIPT.replace("1e-3", "1e-6").replace("values * 2", "values")
    exchange = exchange_checks(SCRIPT, new, NAMES, PATH)
    assert exchange is not None
    assert exchange.changes == ("expected changed in cases/a.py:4", "rtol 1e-3 became 1e-6 in cases/a.py:13")
    assert exchange.new_with_old == SCRIPT
    assert exchange.old_with_new == new

"""A culprit that changes how its case measures is run as its parent measures, and its parent as it measures."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

STACK = """
name = "measured"
searched = "tool"
[repositories.tool]
path = "tool"
[case]
repository = "tool"
command = ["PYTHON", "{case}"]
cwd = "{tool}"
harness = false
yardstick = ["rtol"]
[platforms.sim]
[[verdicts]]
verdict = "mismatch"
pattern = '^WRONG'
[[verdicts]]
verdict = "pass"
pattern = '^RIGHT$'
""".replace("PYTHON", sys.executable)
CASE = """\
from pathlib import Path

def check(error, rtol):
    print("WRONG y" if error > rtol else "RIGHT")

check(ERROR * float(Path("scale").read_text()), rtol=RTOL)
"""


def case(error: str, rtol: str) -> str:
    return CASE.replace("ERROR", error).replace("RTOL", rtol)


@pytest.mark.parametrize(
    ("old", "new", "blame", "says"),
    [
        (
            ("1e-4", "1e-3"),
            ("1e-4", "1e-5"),
            "yardstick",
            ", as the yardstick moved: rtol 1e-3 became 1e-5 in case.py:6",
        ),
        pytest.param(
            *(
                ("1e-4", "1e-3"),
                ("1e-2", "2e-3"),
                "other change",
                ", not because the yardstick moved too: rtol 1e-3",
            ),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *(("1e-4", "1e-3"), ("5e-4", "2e-4"), "both together", " together, neither of which"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *(("1e-4", "1e-3"), ("1e-2", "1e-5"), "either", ", each of which does it alone: rtol"),
            marks=pytest.mark.long,
        ),
        pytest.param(*(("1e-4", "1e-3"), ("1e-2", "1e-3"), None, ""), marks=pytest.mark.long),
    ],
    ids=["yardstick", "other", "together", "either", "not touched"],
)
def test_whether_the_yardstick_moved_is_shown_by_runs(
    tmp_path: Path, old: tuple[str, str], new: tuple[str, str], blame: str | None, says: str
) -> None:
    (tmp_path / "stack.toml").write_text(STACK)
    tool = TestRepository(tmp_path / "tool")
    tool.commit("tool", {"case.py": case(*old), "scale": "1.0"})
    for number in range(3):
        tool.commit(f"before {number}", {"scale": f"1.{number}1"})
    culprit = tool.commit("the case", {"case.py": case(*new)})
    for number in range(3):
        tool.commit(f"after {number}", {"scale": f"1.{number}2"})
    asked = ("--good", "HEAD~7", "--bad", "HEAD", "--case", "case.py")
    done = run_program(
        *("--stack", "stack.toml", *asked, "-o", str(tmp_path / "out")),
        cwd=tmp_path,
        environment={**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [named["commit"] for named in report["culprits"]] == [culprit]
    assert (report["yardstick"] and report["yardstick"]["blame"]) == blame
    assert says in report["message"]
    text = (tmp_path / "out" / "report.md").read_text()
    assert ("## How the case measures" in text) == (blame is not None)
    if blame == "yardstick":
        assert (report["yardstick"]["new_with_old"], report["yardstick"]["old_with_new"]) == ("good", "bad")
        assert "the yardstick moved, and what is measured did not" in text
        assert "measured" in done.stdout

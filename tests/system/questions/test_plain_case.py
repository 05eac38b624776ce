"""The plain stack of the guide: a script whose words are its verdict, searched by `--case` and run by a night."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

GUIDE = Path(__file__).parents[3] / "docs" / "guide.md"
AROUND = """
name = "plain"
searched = "tool"
[repositories.tool]
path = "tool"
[platforms.host]
"""


@pytest.mark.long
def test_a_script_that_prints_its_verdict(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[case\]\n.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "stack.toml").write_text(AROUND + example)
    (tmp_path / "night.toml").write_text(
        'job = "plain"\nstack = "stack.toml"\ncases = ["case.sh"]\noutput = "night"\n[platforms.host]\n'
    )
    repository = TestRepository(tmp_path / "tool")
    script = "grep -q fine state && echo PASSED || { echo FAILED; exit 1; }\n"
    states = ("fine", "fine", "fine", "broken", "broken")
    commits = [
        repository.commit(f"commit {place}", {"case.sh": script, "state": state, "place": str(place)})
        for place, state in enumerate(states)
    ]

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PRECISION_BISECT_HOME": str(tmp_path / "home")}
        return run_program(*words, cwd=tmp_path, environment=environment)

    done = run("--stack", "stack.toml", "--case", "case.sh", "--good", commits[0], "--bad", "main")
    assert done.returncode == 0, done.stderr
    assert commits[3] in done.stdout
    night = run("nightly", "night.toml")
    assert night.returncode == 8, night.stdout + night.stderr
    assert "case.sh on host" in night.stderr

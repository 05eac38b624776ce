"""On a terminal of 40 columns lines are broken between words. Commands and long words stay whole."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
import torch

from tests.conftest import TestRepository
from tests.support.program import PROGRAM

COLUMNS = 40


def lines_on_terminal(*words: str, cwd: Path) -> list[str]:
    """Run a program on a narrow terminal, and return what it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    variables = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    home = {"PRECISION_BISECT_HOME": str(cwd / "home"), "TERM": "xterm"}
    process = subprocess.Popen(
        words, cwd=cwd, env={**variables, **home}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    printed = b""
    try:
        while block := os.read(ours, 65536):
            printed += block
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    process.wait()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).splitlines()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--good", "mian", "--bad", "main", "--", "true"], "did you mean"),
        (["--good", "main~1", "--bad", "main", "--dry-run", "--", "true"], "bad when:"),
        (["--good", "main~1", "--bad", "main", "--", "true"], "error: "),
        (["status"], "nothing was submitted yet:"),
        (["report", "--help"], "--output DIR"),
    ],
)
def test_no_line_is_broken_within_a_word(tmp_path: Path, words: list[str], says: str) -> None:
    repository = TestRepository(tmp_path / "repository")
    for subject in ("first", "second"):
        repository.commit(subject, {"subject": subject})
    lines = lines_on_terminal(*PROGRAM, *words, cwd=repository.path)
    assert any(says in line for line in lines), lines
    assert [line for line in lines if len(line) > COLUMNS and " " in line.strip(" -;")] == []


@pytest.mark.long
def test_a_map_that_is_too_wide_is_left_out(tmp_path: Path) -> None:
    wrong = torch.zeros(64, 640)
    torch.save(wrong, tmp_path / "expected.pt")
    wrong[3:9, 100:400] = 1
    torch.save(wrong, tmp_path / "actual.pt")
    program = Path(PROGRAM[0]).with_name("diff-tensors")
    lines = lines_on_terminal(str(program), "actual.pt", "expected.pt", cwd=tmp_path)
    assert any(line.startswith("  never written") for line in lines)
    assert max(map(len, lines)) <= COLUMNS
    assert not any("░" in line for line in lines)

"""Another program that makes a kernel's text smaller: what it asks, and when it is not asked again."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from precision_bisect.reduce.shrink.external.reducer import ExternalReducer
from precision_bisect.reduce.shrink.program.candidate import Candidate
from precision_bisect.reduce.shrink.program.render.statements import KernelText
from precision_bisect.runner.errors import UserError

TEXT = b"needed\nspare\nalso spare\n"
REDUCER = """
import subprocess, sys
from pathlib import Path
script, file = sys.argv[1], Path(sys.argv[2])
with open(Path(__file__).with_name("called"), "a") as called:
    called.write("once\\n")
for drop in ("needed", "also spare", "spare"):
    whole = file.read_text()
    file.write_text("".join(line for line in whole.splitlines(True) if line.strip() != drop))
    if subprocess.run([script, file]).returncode:
        file.write_text(whole)
"""


@dataclass
class Judge:
    """Finds a text interesting that has the line which is needed, and takes each that is shorter."""

    best: Candidate = field(default_factory=lambda: Candidate((0,)))
    stopped: bool = False
    seconds_left: float | None = None
    asked: list[str] = field(default_factory=list[str])

    def consider(self, candidate: Candidate) -> bool:
        text = dict(candidate.rewritten)["k"]
        self.asked.append(text)
        if "needed" not in text:
            return False
        if len(text) < len(dict(self.best.rewritten).get("k", "x" * 99)):
            self.best = candidate
        return True


def reducer(folder: Path, script: str, said: list[str]) -> ExternalReducer:
    program = folder / "reducer.py"
    program.write_text(script)
    texts = [KernelText("k", TEXT, TEXT)]
    command = f"{sys.executable} {program}"
    return ExternalReducer(command=command, folder=folder, texts=lambda _: texts, on_progress=said.append)


def test_the_smallest_text_is_kept_and_the_program_is_not_asked_again(tmp_path: Path) -> None:
    judge, said = Judge(), list[str]()
    external = reducer(tmp_path, REDUCER, said)
    external.reduce(judge)
    assert dict(judge.best.rewritten) == {"k": "needed\n"}
    assert judge.asked == [TEXT.decode(), "spare\nalso spare\n", "needed\nspare\n", "needed\n"]
    external.reduce(judge)
    assert (tmp_path / "called").read_text() == "once\n"
    judge.best = Candidate((1,), rewritten=judge.best.rewritten)
    external.reduce(judge)
    assert (tmp_path / "called").read_text() == "once\nonce\n"
    assert said == []


def test_texts_that_do_not_fail_once_merged_are_not_handed_over(tmp_path: Path) -> None:
    said: list[str] = []
    external = reducer(tmp_path, REDUCER, said)
    judge = Judge(stopped=True)
    external.reduce(judge)
    assert judge.asked == []
    assert not (tmp_path / "called").exists()
    assert "its texts cannot be merged" in said[0]


def test_a_program_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected exit code 0, found .*3.*--resume"):
        reducer(tmp_path, "raise SystemExit(3)", []).reduce(Judge())

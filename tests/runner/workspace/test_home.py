"""Commands as they are printed to be typed."""

import sys
from pathlib import Path

import pytest

from precision_bisect.runner.workspace.home import command_line, to_be_found


def test_a_program_that_is_not_on_the_path_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bisect-precision"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PRECISION_BISECT_HOME", "/a b")
    words = ["bisect-precision", "--resume", "x y"]
    assert command_line(words) == f"PRECISION_BISECT_HOME='/a b' {program} --resume 'x y'"
    assert to_be_found(["other"]) == ["other"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PRECISION_BISECT_HOME")
    assert command_line(words) == "bisect-precision --resume 'x y'"

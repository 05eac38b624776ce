"""`run.sh` runs a build with its own stack, or with one that was made anew, or says that there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from precision_bisect.reduce.replay.toolchain import Toolchain
from precision_bisect.reduce.shrink.reproducer import NO_STACK, run_script_lines
from precision_bisect.runner.settings import load_stack
from tests.conftest import TestRepository


def make_slot(folder: Path) -> Path:
    """The demo's stack as a slot has it, with one repository checked out, and an interpreter of its own."""
    TestRepository(folder / "minilib").commit("first", {"golden.py": "VALUE = 7\n"})
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    return folder


def written(toolchain: Toolchain, folder: Path) -> Path:
    folder.mkdir()
    (folder / "print_value.py").write_text("import golden\nprint(golden.VALUE)\n")
    script = folder / "run.sh"
    script.write_text("\n".join(run_script_lines(toolchain, "print_value.py", side="failing")) + "\n")
    return script


def ran(script: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    shell = {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(["sh", script], capture_output=True, text=True, check=False, cwd="/", env=shell)


def toolchain_of(root: Path, tmp_path: Path, python: Path, slot: Path | None) -> Toolchain:
    text = resources.files("precision_bisect.configs").joinpath("demo.toml").read_text("utf-8")
    (tmp_path / "stack.toml").write_text(text.replace("@ROOT@", str(root)))
    return Toolchain.create(load_stack(str(tmp_path / "stack.toml")), python=python, slot=slot)


@pytest.fixture
def slot(tmp_path: Path) -> Path:
    return make_slot(tmp_path / "it's a slot" / "1")


@pytest.fixture
def script(slot: Path, tmp_path: Path) -> Path:
    toolchain = toolchain_of(slot, tmp_path, slot / "venv" / "bin" / "python", slot)
    return written(toolchain, tmp_path / "failing")


def test_a_build_of_a_slot_runs_with_it(script: Path) -> None:
    assert ran(script).stdout == "7\n"


@pytest.mark.parametrize("gone", ["no interpreter", "minilib at another commit"])
def test_a_slot_that_is_not_as_it_was_is_told_with_what_makes_it_anew(
    script: Path, slot: Path, tmp_path: Path, gone: str
) -> None:
    anew = shutil.copytree(slot, tmp_path / "anew", symlinks=True)
    if gone == "no interpreter":
        (slot / "venv" / "bin" / "python").unlink()
    else:
        (slot / "minilib" / "golden.py").write_text("VALUE = 8\n")
        subprocess.run(["git", "-C", slot / "minilib", "commit", "-qam", "second"], check=True)
    without = ran(script)
    assert (without.returncode, without.stdout) == (NO_STACK, "")
    assert without.stderr == (
        f"{script}: expected the stack of the failing build in {slot}, found {gone}. Make it anew beside report.md: "
        "sh reproduce-bad.sh DIR; then set FAILING_STACK to the full path of DIR\n"
    )
    assert ran(script, FAILING_STACK=str(anew)).stdout == "7\n"


def test_the_user_s_own_interpreter_is_named_where_it_is_gone(slot: Path, tmp_path: Path) -> None:
    own = tmp_path / "own python"
    own.symlink_to(sys.executable)
    script = written(toolchain_of(slot, tmp_path, own, None), tmp_path / "failing")
    assert ran(script).stdout == "7\n"
    own.unlink()
    without = ran(script)
    assert (without.returncode, without.stdout) == (NO_STACK, "")
    assert f"expected the interpreter {own} with the case's stack, found none; name another" in without.stderr

"""What surrounds a probe: its description moves when it does, and a slot's environment holds what it should."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.stack import Tool
from precision_bisect.runner.workspace import environment
from precision_bisect.runner.workspace.environment import (
    EnvironmentReader,
    VirtualEnvironment,
    describe_base,
    description_changes,
    fingerprint,
)
from tests.runner.small_stack import SmallStack


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_each_thing_that_can_change_a_result_moves_the_fingerprint(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = script(tmp_path / "cxx", "echo version 1")
    distribution = tmp_path / "packages" / "kernels-1.0.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 1.0\n")
    small.environment = {
        "matters": ["CXXFLAGS"],
        "packages": ["kernels"],
        "tools": {"cxx": {"command": [str(tool), "--version"]}},
    }
    reader = EnvironmentReader(small.stack())

    def read() -> dict[str, str]:
        return reader.read(packages_path=[str(tmp_path / "packages")])

    before = read()
    assert fingerprint(before) == fingerprint(read())
    monkeypatch.setenv("UNRELATED", "1")
    assert read() == before
    assert before["tool cxx"] == "version 1"
    assert before["package kernels"] == "1.0"

    script(tool, "echo version 2; echo more")
    assert description_changes(before, read()) == ["tool cxx: version 1 -> version 2"]
    tool.unlink()
    assert description_changes(before, read()) == ["tool cxx: version 1 -> not found"]
    script(tool, "exit 3")
    assert description_changes(before, read()) == ["tool cxx: version 1 -> not usable: exit code 3"]
    script(tool, "exec sleep 600")
    with monkeypatch.context() as impatient:
        impatient.setattr(environment, "_VERSION_TIMEOUT", 0.1)
        assert (
            description_changes(before, read())[-1]
            == "tool cxx: version 1 -> not usable: no answer within 0.1 s"
        )
    script(tool, "echo version 1")
    monkeypatch.setenv("CXXFLAGS", "-O3")
    assert description_changes(before, read()) == ["variable CXXFLAGS:  -> -O3"]
    monkeypatch.delenv("CXXFLAGS")
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 1.1\n")
    assert description_changes(before, read()) == ["package kernels: 1.0 -> 1.1"]
    assert fingerprint(before) != fingerprint(read())


def test_what_files_of_the_machine_tell_moves_the_fingerprint(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLKIT", str(tmp_path))
    driver, toolkit = tmp_path / "driver.info", tmp_path / "version.info"
    small.environment = {"version_files": {"driver": str(driver), "toolkit": "$TOOLKIT/version.info"}}
    reader = EnvironmentReader(small.stack())
    without = reader.read()
    assert not [name for name in without if name.startswith("version of ")]
    driver.write_text("package=driver\nVersion=24.1\n")
    toolkit.write_text("8.0 of May\nmore\n")
    before = reader.read()
    assert description_changes(without, before) == [
        "version of driver: absent -> 24.1",
        "version of toolkit: absent -> 8.0 of May",
    ]
    driver.write_text("package=driver\nVersion=24.2\n")
    assert description_changes(before, reader.read()) == ["version of driver: 24.1 -> 24.2"]
    toolkit.write_bytes(b"")
    assert "version of toolkit" not in reader.read()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("echo on error stream >&2", "on error stream"),
        ("exit 0", "no version printed"),
        ("echo 1; exit 1", None),
        ("printf 'v\\377 1\\n'", "v\ufffd 1"),
        ("kill -9 $$", None),
    ],
)
def test_odd_tools(small: SmallStack, tmp_path: Path, text: str, version: str | None) -> None:
    tool = script(tmp_path / "tool", text)
    assert EnvironmentReader(small.stack()).version(Tool(command=(str(tool),))) == version


def test_a_version_is_asked_for_once(small: SmallStack, tmp_path: Path) -> None:
    tool = script(tmp_path / "tool", f"echo x >> {tmp_path}/asked; echo 1")
    reader = EnvironmentReader(small.stack())
    assert {reader.version(Tool(command=(str(tool),))) for _ in range(3)} == {"1"}
    assert (tmp_path / "asked").read_text() == "x\n"


def run(python: Path, code: str) -> str:
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """An interpreter of the user's: with a package, and with an editable install of the stack by each known means."""
    folder = tmp_path / "base"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    for name in ("useful", "stack_wheel"):
        (packages / f"{name}.py").write_text("where = 'base'\n")
    source = tmp_path / "checkout"
    source.mkdir()
    (source / "stack_editable.py").write_text("where = 'checkout'\n")
    (packages / "stack.pth").write_text(f"{source}\n")
    (packages / "__editable__.stack.pth").write_text("import sys; sys.stack_was_hooked = True\n")
    return folder / "bin" / "python"


def test_base_packages_are_visible_and_editable_installs_are_not(base: Path, tmp_path: Path) -> None:
    assert run(base, "import sys, useful, stack_editable; print(sys.stack_was_hooked)") == "True"
    slot = VirtualEnvironment(tmp_path / "venv", str(base))
    assert not slot.is_current()
    assert slot.packages_path() == []
    slot.make()
    assert slot.is_current()
    code = (
        "import importlib.util as u, sys, useful; "
        "print(useful.where, u.find_spec('stack_editable'), hasattr(sys, 'stack_was_hooked'))"
    )
    assert run(slot.python, code) == "base None False"
    assert slot.packages_path()[1:] == describe_base(str(base))["packages"]


@pytest.mark.parametrize("pth", ["__editable__.stack.pth", "easy-install.pth", "stack.pth"])
def test_what_a_step_installs_comes_before_the_base(base: Path, tmp_path: Path, pth: str) -> None:
    """The commit under test, not the user's installed copy of the stack."""
    slot = VirtualEnvironment(tmp_path / "venv", str(base))
    slot.make()
    worktree = tmp_path / "worktree"
    worktree.mkdir()
    (worktree / "stack_wheel.py").write_text("where = 'slot'\n")
    Path(slot.packages_path()[0], pth).write_text(f"{worktree}\n")
    assert run(slot.python, "import stack_wheel; print(stack_wheel.where)") == "slot"


def test_made_once_and_anew_when_the_base_changes(small: SmallStack, base: Path) -> None:
    small.environment = {"python": str(base)}
    slot = small.workspace().acquire()
    slot.ensure_python()
    mark = slot.directory / "venv" / "mark"
    mark.touch()
    slot.record_step("step", "key")
    slot.ensure_python()
    slot.release()
    slot = small.workspace().acquire()
    slot.ensure_python()
    assert mark.exists()
    assert slot.step_key("step") == "key"

    complete = slot.directory / "venv" / "complete"
    described = json.loads(complete.read_text())
    complete.write_text(json.dumps({**described, "version": "3.0 (older)"}))
    slot.ensure_python()
    assert not mark.exists()
    assert slot.step_key("step") is None, "what was installed in it is gone"
    mark.touch()
    complete.unlink()
    slot.ensure_python()
    assert not mark.exists(), "a kill came before its end"


@pytest.mark.parametrize("text", ["exit 1", "echo no json"])
def test_a_base_that_is_no_interpreter(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"environment\.python"):
        VirtualEnvironment(tmp_path / "venv", str(script(tmp_path / "python", text))).make()
    with pytest.raises(UserError, match=r"environment\.python"):
        describe_base(str(tmp_path / "missing"))


def test_a_relative_interpreter_is_found_on_path(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{base.parent}{os.pathsep}{os.environ['PATH']}")
    assert describe_base("python")["packages"] == describe_base(str(base))["packages"]

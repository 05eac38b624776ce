"""What is found on a machine where something is missing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner.stack import Releases, Repository, Stack
from precision_bisect.runner.workspace.environment import MachineFinding, examine_machine
from tests.runner.small_stack import SmallStack, snapshot


def findings(small: SmallStack, stack: Stack | None = None) -> dict[str, MachineFinding]:
    return {finding.subject: finding for finding in examine_machine(stack or small.stack(), small.home)}


def test_a_sound_machine_and_nothing_written(small: SmallStack) -> None:
    small.environment = {"tools": {"sh": {"command": ["sh", "-c", "echo 1"]}}, "packages": ["pytest"]}
    before = snapshot(small.folder)
    found = findings(small)
    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["sh"].found == "1"
    assert found["package pytest"].found == pytest.__version__
    assert found["submodule rt"].found == small.rt.git("rev-parse", "--short=12", "HEAD")
    assert "platform board" in found
    assert snapshot(small.folder) == before
    assert not small.home.cache.exists()


def test_what_is_missing(small: SmallStack) -> None:
    small.environment = {
        "tools": {
            "needed": {"command": ["no-such-program"], "hint": "get it"},
            "nice": {"command": ["false"], "required": False},
        },
        "packages": ["no-such-distribution"],
    }
    shutil.rmtree(small.cases.path)
    found = findings(small)
    assert (found["needed"].state, found["needed"].hint) == ("missing", "get it")
    assert found["nice"].state == "warning"
    assert found["package no-such-distribution"].state == "warning"
    assert found["repository cases"].state == "missing"
    assert "no such folder" in found["repository cases"].hint
    assert found["repository tool"].state == "ok"


def test_a_submodule_that_was_never_initialized(small: SmallStack, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", str(small.tool.path), str(tmp_path / "clone")], check=True)
    small.repositories = {"tool": {"path": tmp_path / "clone"}, "rt": {"path": tmp_path / "clone" / "rt"}}
    found = findings(small)
    assert found["repository rt"].state == "missing"
    assert "submodule update --init" in found["repository rt"].hint


def test_a_dirty_checkout_and_an_absent_pin(small: SmallStack) -> None:
    (small.tool.path / "scratch").write_text("x")
    small.tool.git("update-index", "--force-remove", "rt")
    small.tool.git("commit", "--quiet", "-m", "no pin")
    found = findings(small)
    assert found["repository tool"].state == "warning"
    assert "not tested" in found["repository tool"].hint
    assert found["submodule rt"].state == "warning"


def test_a_shallow_clone_is_told(small: SmallStack) -> None:
    (small.tool.path / ".git" / "shallow").write_text(small.tool.git("rev-parse", "HEAD") + "\n")
    finding = findings(small)["history of tool"]
    assert (finding.state, finding.hint) == (
        "warning", f"git -C {small.tool.path} fetch --deepen=200, or --unshallow",
    )  # fmt: skip


def test_packages_are_those_of_the_stack_s_interpreter(small: SmallStack, tmp_path: Path) -> None:
    """Not those of the one that runs this tool."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    small.environment = {"python": str(tmp_path / "venv" / "bin" / "python"), "packages": ["pytest"]}
    assert findings(small)["package pytest"].state == "warning"
    small.environment = {"python": str(tmp_path / "gone"), "packages": ["pytest"]}
    found = findings(small)
    assert found["python"].state == "missing"
    assert found["package pytest"].state == "warning"


def test_a_home_that_cannot_be_written(small: SmallStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.runner.workspace.environment.os.access", lambda *_: False)
    (cache,) = [finding for subject, finding in findings(small).items() if subject.startswith("cache")]
    assert (cache.state, cache.hint) == ("missing", "set PRECISION_BISECT_HOME")


def test_a_machine_without_git(small: SmallStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stack = small.stack()
    monkeypatch.setenv("PATH", str(tmp_path))
    found = findings(small, stack)
    assert (found["git"].state, found["git"].hint) == ("missing", "install git")
    assert found["repository tool"].state == "missing"


def test_a_platform_that_lacks_a_variable(small: SmallStack, monkeypatch: pytest.MonkeyPatch) -> None:
    small.platforms = {"sim": {}, "board": {"board": True, "needs": ["SMALL_TOOLKIT"]}}
    monkeypatch.delenv("SMALL_TOOLKIT", raising=False)
    board = findings(small)["platform board"]
    assert (board.state, board.hint) == ("warning", "cannot be used here: set SMALL_TOOLKIT")
    monkeypatch.setenv("SMALL_TOOLKIT", "/opt/toolkit")
    assert findings(small)["platform board"].state == "ok"


def test_a_tool_that_is_there_and_fails_is_not_called_missing(small: SmallStack) -> None:
    small.environment = {"tools": {"broken": {"command": ["sh", "-c", "exit 3"], "hint": "set its folder"}}}
    broken = findings(small)["broken"]
    assert (broken.state, broken.hint) == ("missing", "set its folder")
    assert broken.found == "not usable: sh -c exit 3 fails"


def test_releases_are_told_and_nothing_written(small: SmallStack, tmp_path: Path) -> None:
    for version in ("v1", "v2", "v10"):
        (tmp_path / "releases" / version).mkdir(parents=True)
    repository = Repository(releases=Releases(folder=tmp_path / "releases"))
    stack = small.stack()
    with_tool = stack.model_copy(update={"repositories": {**stack.repositories, "assembler": repository}})
    found = findings(small, with_tool)["releases of assembler"]
    assert (found.state, found.found) == ("ok", "3, from v1 to v10")
    assert not small.home.releases.exists()
    shutil.rmtree(tmp_path / "releases")
    found = findings(small, with_tool)["releases of assembler"]
    assert found.state == "missing"
    assert "expected a folder with a folder for each release" in found.hint

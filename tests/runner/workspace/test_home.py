"""Whose a home may be, and commands as they are printed to be typed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.workspace.home import command_line, locate_program, user_home
from tests.support.program import run_program

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def plant_open_folder(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def plant_foreign_folder(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)


def plant_foreign_link(folder: Path) -> None:
    target = folder.with_name("target")
    target.mkdir()
    folder.symlink_to(target)
    os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.parametrize("name", ["cache", "state"])
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (plant_open_folder, "everybody may write there"),
        pytest.param(plant_foreign_folder, f"it is user {NOBODY}'s", marks=as_root),
        pytest.param(plant_foreign_link, f"it is user {NOBODY}'s", marks=as_root),
    ],
)
def test_a_home_in_which_others_could_write_is_refused(
    name: str, plant: Callable[[Path], None], found: str, base: Path
) -> None:
    user_home()
    plant(base / name)
    with pytest.raises(
        UserError, match=f"/{name}: expected a folder in which you alone may write, found that {found}"
    ):
        user_home()


def test_a_home_whose_own_folder_is_open_is_refused(base: Path) -> None:
    """Others could put a store and a key of their own into it."""
    user_home().make()
    base.chmod(0o777)
    with pytest.raises(UserError, match=r"/home: expected a folder .* everybody may write there"):
        user_home()


def test_a_home_of_others_is_one_line(base: Path, tmp_path: Path) -> None:
    plant_open_folder(base / "state")
    (tmp_path / "stack.toml").touch()
    for words in (
        ["history"],
        ["trust", "stack.toml"],
        ["doctor"],
        ["worker"],
        ["--bad", "HEAD", "--", "true"],
    ):
        done = run_program(*words, cwd=tmp_path)
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: {base}/state: expected a folder in which you alone may write"), words
        assert done.returncode == 1
    assert [*(base / "state").iterdir()] == []


def test_links_and_groups_of_ones_own_may_be(base: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o775)
    (base / "cache").symlink_to(tmp_path / "elsewhere")
    user_home().make()


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
    assert locate_program(["other"]) == ["other"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PRECISION_BISECT_HOME")
    assert command_line(words) == "bisect-precision --resume 'x y'"

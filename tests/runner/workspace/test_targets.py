"""Leases of boards between processes."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe.probe import lease
from precision_bisect.runner.stack import Platform

BOARD = Platform(board=True)
LOCK = "precision-bisect-a2a3-0.lock"

HOLD = """
import sys
from precision_bisect.runner.probe import probe
from precision_bisect.runner.stack import Platform
probe.device_locks = lambda: __import__("pathlib").Path(sys.argv[1])
with probe.lease("a2a3", Platform(board=True), int(sys.argv[2]), on_wait=lambda text: print(text, flush=True)):
    print("held", flush=True)
    sys.stdin.readline()
print("freed", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of this test alone, in a folder like /tmp."""
    folder = tmp_path / "locks"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr("precision_bisect.runner.probe.probe.device_locks", lambda: folder)
    return folder


def holder(folder: Path, device: int = 0) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(device)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_one_run_at_a_time_on_a_device(folder: Path) -> None:
    first, other_device = holder(folder), holder(folder, device=1)
    assert line(first) == "held"
    assert line(other_device) == "held"
    second = holder(folder)
    assert line(second) == "waiting for a2a3 device 0, which another run holds"
    first.communicate("\n")
    assert line(second) == "held"
    second.communicate("\n")
    other_device.communicate("\n")


def test_a_killed_holder_frees_its_board(folder: Path) -> None:
    first = holder(folder)
    assert line(first) == "held"
    first.kill()
    first.communicate()
    waits: list[str] = []
    with lease("a2a3", BOARD, 0, on_wait=waits.append):
        assert waits == []


def test_a_run_that_fails_frees_its_board(folder: Path) -> None:
    for _ in range(2):
        with (
            pytest.raises(KeyboardInterrupt),
            lease("a2a3", BOARD, 0, on_wait=lambda text: pytest.fail(text)),
        ):
            raise KeyboardInterrupt


def test_two_leases_of_one_process(folder: Path) -> None:
    with lease("a2a3", BOARD, 0, on_wait=pytest.fail):
        process = holder(folder)
        assert line(process).startswith("waiting")
    assert line(process) == "held"
    process.communicate("\n")


def test_a_simulator_needs_none(folder: Path) -> None:
    with lease("sim", Platform(), 0, on_wait=pytest.fail) as held:
        assert held == ()
    assert not list(folder.iterdir())


def test_other_users_can_lease_the_same_board(folder: Path) -> None:
    umask = os.umask(0o077)
    try:
        with lease("a2a3", BOARD, 0, on_wait=pytest.fail):
            pass
    finally:
        os.umask(umask)
    assert (folder / LOCK).stat().st_mode & 0o777 == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="needs to be two users")
def test_two_users(folder: Path) -> None:
    """The lock belongs to another user, whatever fs.protected_regular says."""
    with lease("a2a3", BOARD, 0, on_wait=pytest.fail):
        pass
    os.chown(folder / LOCK, 1002, 1002)
    with lease("a2a3", BOARD, 0, on_wait=pytest.fail):
        process = holder(folder)
        assert line(process).startswith("waiting")
    assert line(process) == "held"
    process.communicate("\n")


def refused(at: Path) -> None:
    with (
        pytest.raises(UserError, match=f"{at}: expected"),
        lease("a2a3", BOARD, 0, on_wait=pytest.fail),
    ):
        pytest.fail("the lease was given")


def test_no_planted_link_in_place_of_the_folder_is_followed(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    folder.rmdir()
    folder.symlink_to(target)
    refused(folder)
    assert target.stat().st_mode & 0o7777 == 0o700
    assert not list(target.iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_where_others_can_replace_a_lock_is_refused_and_left_alone(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    refused(folder)
    assert folder.stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(os.getuid() != 0, reason="needs to be two users")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 1001, 1001)
    refused(folder)


@pytest.mark.parametrize("plant", [Path.symlink_to, Path.hardlink_to])
def test_a_planted_link_in_place_of_a_lock_spoils_no_file(
    folder: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    precious.chmod(0o600)
    plant(folder / LOCK, precious)
    refused(folder / LOCK)
    assert precious.read_text() == "mine"
    assert precious.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_place_of_a_lock_is_refused(folder: Path, plant: Callable[[Path], None]) -> None:
    plant(folder / LOCK)
    refused(folder / LOCK)


def test_a_holder_with_an_impossible_number_is_waited_for(folder: Path) -> None:
    """Any user can write to a lock."""
    first = holder(folder)
    assert line(first) == "held"
    (folder / LOCK).write_text(f"{'9' * 200} {platform.node()}")
    second = holder(folder)
    assert line(second).startswith("waiting")
    first.communicate("\n")
    assert line(second) == "held"
    second.communicate("\n")

"""Leases of boards between processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.runner.stack.parts import Platform
from precision_bisect.runner.workspace.targets import lease

BOARD = Platform(board=True)

HOLD = """
import sys
from precision_bisect.runner.workspace import targets
from precision_bisect.runner.stack.parts import Platform
targets.device_locks = lambda: __import__("pathlib").Path(sys.argv[1])
with targets.lease("a2a3", Platform(board=True), int(sys.argv[2]), on_wait=lambda text: print(text, flush=True)):
    print("held", flush=True)
    sys.stdin.readline()
print("freed", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of this test alone."""
    monkeypatch.setattr("precision_bisect.runner.workspace.targets.device_locks", lambda: tmp_path / "locks")
    return tmp_path / "locks"


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
    assert not folder.exists()


def test_other_users_can_lease_the_same_board(folder: Path) -> None:
    umask = os.umask(0o077)
    try:
        with lease("a2a3", BOARD, 0, on_wait=pytest.fail):
            pass
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o777 == 0o777
    assert (folder / "a2a3-0.lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="needs to be two users")
def test_two_users(folder: Path, tmp_path: Path) -> None:
    """The folder belongs to one, the lock to another, whatever fs.protected_regular says."""
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    with lease("a2a3", BOARD, 1, on_wait=pytest.fail):
        pass
    os.chown(folder, 1001, 1001)
    os.chown(folder / "a2a3-1.lock", 1002, 1002)
    with lease("a2a3", BOARD, 1, on_wait=pytest.fail):
        process = holder(folder, device=1)
        assert line(process).startswith("waiting")
    assert line(process) == "held"
    process.communicate("\n")

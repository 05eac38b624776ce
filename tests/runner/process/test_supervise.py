"""The supervisor of a command: it ends as the command did, and leaves nothing of it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from precision_bisect.runner.process import supervise

PYTHON = [sys.executable, "-c"]


def start(folder: Path, *command: str) -> "tuple[subprocess.Popen[bytes], int]":
    """A supervisor at work, and the driver's end of its control pipe."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, supervise.__file__, str(read), str(folder), *command],
        pass_fds=(read,),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(read)
    return process, write


def ended(folder: Path, *command: str) -> tuple[int, str]:
    process, control = start(folder, *command)
    out, err = process.communicate(timeout=60)
    os.close(control)
    return process.returncode, (out + err).decode()


def test_a_process_of_another_user_is_not_waited_for() -> None:
    """The kernel refuses a signal to a process of sudo. Here the calls refuse it, since root may signal all."""
    script = (
        "import os, subprocess\n"
        "from precision_bisect.runner.process import supervise\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "def refuse(*_): raise PermissionError\n"
        "os.kill = os.killpg = refuse\n"
        "supervise._kill_all(child.pid)\n"
        "print(child.poll())\n"
        "child.send_signal = lambda number: subprocess.run(['kill', '-9', str(child.pid)])\n"
        "child.kill()\n"
    )
    done = subprocess.run([*PYTHON, script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -SEGV $$"], -signal.SIGSEGV),
        (["sh", "-c", "kill -KILL $$"], -signal.SIGKILL),
        (["/no/such/program"], 127),
    ],
)
def test_it_ends_as_the_command_did(tmp_path: Path, command: Sequence[str], code: int) -> None:
    assert ended(tmp_path, *command)[0] == code


def test_the_command_runs_in_its_folder_and_session(tmp_path: Path) -> None:
    code, out = ended(tmp_path, *PYTHON, "import os; print(os.getcwd(), os.getsid(0) == os.getpid())")
    assert (code, out) == (0, f"{tmp_path} True\n")


def test_when_the_driver_lets_go_descendants_of_other_sessions_die_too(tmp_path: Path) -> None:
    process, control = start(tmp_path, "sh", "-c", "setsid sleep 600 & echo $!; wait")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    sleeper = os.pidfd_open(pid)
    os.close(control)
    assert process.wait(timeout=60) == 128 + signal.SIGKILL
    assert select.select([sleeper], [], [], 30)[0], "it still runs"
    os.close(sleeper)


def test_what_the_command_leaves_behind_is_killed_at_its_end(tmp_path: Path) -> None:
    code, out = ended(tmp_path, "sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!; exit 3")
    assert code == 3
    assert not psutil.pid_exists(int(out))


@pytest.mark.parametrize("asked", [8 << 30, 1 << 70])
def test_a_limit_above_that_of_the_user_leaves_the_user_s(asked: int) -> None:
    """Nobody but root may raise it. A command that could not begin would pass for one that fails."""
    code = (
        "import os, resource, runpy\n"
        f"begin_command = runpy.run_path({supervise.__file__!r})['begin_command']\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "os.getuid() or os.setuid(65534)\n"
        f"begin_command({asked})\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0] >> 30)\n"
    )
    done = subprocess.run([*PYTHON, code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr

"""Runs one command so that nothing of it outlives the driver.

    python supervise.py CONTROL_FD FOLDER COMMAND...

`run.py` starts this file as a process, the supervisor. `fork_server.py` uses its functions under a stack's own
interpreter, so only the standard library is needed.

The command gets a session of its own. When the driver closes its end of the control pipe, or dies, the supervisor kills
every descendant. On Linux it is their reaper, so that includes those that left the process group. The supervisor ends
as the command did, by exit code or by signal. As in a shell, 127 means that there is no such command, and 126 that it
cannot be run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
"""The operation has this number in Linux's `prctl.h`. Python has no name for it."""
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def become_reaper() -> None:
    """Make this process the reaper of all its descendants, and ignore the signals of a terminal."""
    for number in _TERMINAL_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def begin_command(memory: int = 0) -> None:
    """Prepare the command's process: reset its signals, and limit its address space to `memory` bytes, unless 0.

    A lower limit of the user stays.
    """
    for number in _TERMINAL_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if memory:
        _, highest = resource.getrlimit(resource.RLIMIT_AS)
        memory = min(memory, sys.maxsize if highest == resource.RLIM_INFINITY else highest)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def outlive(child: int, control: int) -> int | None:
    """Wait until a child that leads a session ends, or the driver does, and kill all that is left of the child.

    Returns the child's wait status; None if the driver ended first.
    """
    status = _wait(child, control)
    _kill_all(child)
    return status


def _children(pid: int) -> list[int]:
    """Return the children of a process; none where the system has no `/proc`."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def _kill_all(group: int) -> None:
    """Kill a process group, then the processes that became children of this one, until none is left.

    Processes of another user, such as those of sudo, cannot be killed. They are not waited for.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    while True:
        children, left = _children(os.getpid()), set[int]()
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                left.add(child)
        if left and len(left) == len(children):
            return
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _wake(_number: int, _frame: object) -> None:
    """Do nothing. A signal without a handler would not reach the wake-up pipe."""


def _wait(child: int, control: int) -> int | None:
    """Return the child's wait status, or None when the driver ended first."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, _wake)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            return status
        ready, _, _ = select.select([wake_read, control], [], [])
        if control in ready:
            return None
        os.read(wake_read, 4096)


def main(arguments: list[str]) -> int:
    """Run a command until it ends or the control pipe is closed; return the exit code for this process."""
    control, folder, command = int(arguments[0]), arguments[1], arguments[2:]
    become_reaper()
    try:
        process = subprocess.Popen(command, cwd=folder, start_new_session=True, preexec_fn=begin_command)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    status = outlive(process.pid, control)
    if status is None:
        return 128 + signal.SIGKILL
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

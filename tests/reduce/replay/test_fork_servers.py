"""Runs that are forks: as isolated as processes of their own, and nothing left when their driver is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from precision_bisect.reduce.replay.toolchain import ForkServers
from precision_bisect.runner.process.run import Command, FinishedCommand, LostRunError, execute
from tests.runner.process.test_execute import MARK, kill_driver, marked


class Forks:
    """Runs scripts as forks with `wave` imported, which nothing else imports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refusals: list[str] = []
        self.servers = ForkServers(self.refusals.append)
        self.lines: list[tuple[str, str]] = []
        self.python = sys.executable
        self.variables: dict[str, str] = {}
        self.mark = f"fork-{folder.name}-{os.getpid()}"

    def run(
        self,
        script: str,
        *arguments: str,
        timeout: float = 60,
        memory: int | None = None,
        module: str = "wave",
    ) -> FinishedCommand:
        file = self.folder / "script.py"
        file.write_text(script)
        self.lines = []
        environment = {**os.environ, MARK: self.mark, **self.variables}
        command = Command(
            argv=[self.python, str(file), *arguments],
            cwd=self.folder,
            environment=environment,
            timeout=timeout,
            memory=memory,
        )
        return execute(
            command,
            log=self.folder / "run.log.gz",
            on_line=lambda stream, line: self.lines.append((stream, line)),
            start=lambda command: self.servers.start(command, [module], late=["LATE"]),
        )


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    found = Forks(tmp_path)
    with found.servers:
        yield found
    assert marked(found.mark) == []


def test_a_fork_is_like_a_process_of_its_own(forks: Forks) -> None:
    script = (
        "import os, sys\n"
        "print(sys.argv, __name__, sys.path[0], os.getcwd(), os.getsid(0) == os.getpid(), sys.stdin.read())\n"
        "print('wrong', file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    finished = forks.run(script, "--case", "a b")
    folder = forks.folder
    expected = f"['{folder}/script.py', '--case', 'a b'] __main__ {folder} {folder} True "
    assert finished.ending.exit_code == 3
    assert sorted(forks.lines) == [("stderr", "wrong"), ("stdout", expected)]
    assert forks.refusals == []


def test_modules_are_imported_once_and_state_is_not_shared(forks: Forks) -> None:
    script = (
        "import os, sys; print(os.getppid(), hasattr(sys, 'mine'), id(sys.modules['wave'])); sys.mine = 1"
    )
    seen: set[str] = set()
    for _ in range(2):
        assert forks.run(script).ending.exit_code == 0
        seen.add(forks.lines[0][1].partition(" ")[2])
    assert len(seen) == 1
    assert seen.pop().startswith("False ")


def test_each_fork_draws_numbers_of_its_own(forks: Forks) -> None:
    script = "import numpy as np, random; print(np.random.random(), random.random(), id(np))"
    drawn: list[list[str]] = []
    for _ in range(2):
        forks.run(script, module="numpy")
        drawn.append(forks.lines[0][1].split())
    (one, other) = drawn
    assert [a == b for a, b in zip(one, other, strict=True)] == [False, False, True]


def test_late_variables_and_the_path_are_the_runs(forks: Forks) -> None:
    script = "import os, sys; print(id(sys.modules['wave']), os.environ.get('LATE'), sys.path[1])"
    folders = [str(forks.folder / name) for name in ("one", "other")]
    forks.variables = {"PYTHONPATH": os.pathsep.join(folders), "LATE": "1"}
    forks.run(script)
    imported, late, first = forks.lines[0][1].split()
    assert (late, first) == ("1", folders[0])
    forks.variables = {}
    forks.run(script)
    assert forks.lines[0][1].split()[:2] == [imported, "None"]


@pytest.mark.parametrize("name", ["wave/__init__.py", "wave.py", "sitecustomize.py"])
def test_a_path_with_modules_of_its_own_forbids_forks(forks: Forks, name: str) -> None:
    file = forks.folder / "path" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine = 1")
    forks.variables = {"PYTHONPATH": str(forks.folder / "path")}
    forks.run(f"import {Path(name).parts[0].removesuffix('.py')} as found; print(found.mine)")
    assert forks.lines == [("stdout", "1")]
    assert "PYTHONPATH has" in forks.refusals[0]


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("import os; os.kill(os.getpid(), 11)", None, signal.SIGSEGV),
        ("import os; os._exit(4)", 4, None),
        ("raise ValueError('so')", 1, None),
        ("import atexit; atexit.register(print, 'at exit'); print('first')", 0, None),
    ],
)
def test_endings_are_those_of_a_process(
    forks: Forks, script: str, code: int | None, number: int | None
) -> None:
    ending = forks.run(script).ending
    assert (ending.exit_code, ending.signal) == (code, number)
    if code == 1:
        assert ("stderr", "ValueError: so") in forks.lines
    if code == 0:
        assert forks.lines == [("stdout", "first"), ("stdout", "at exit")]


def test_a_run_prints_all_that_it_has_said_and_tears_nothing_down(forks: Forks) -> None:
    script = (
        "import atexit, ctypes, sys, threading\n"
        "class Kept:\n"
        "    def __del__(self): print('torn down', flush=True)\n"
        "kept = Kept()\n"
        "atexit.register(print, 'at exit')\n"
        "waiting = threading.Event()\n"
        "threading.Thread(target=lambda: (waiting.wait(), print('of a thread'))).start()\n"
        "ctypes.CDLL(None).puts(b'of C')\n"
        "waiting.set()\n"
        "sys.exit(300)\n"
    )
    assert forks.run(script).ending.exit_code == 300 % 256
    assert sorted(line for _, line in forks.lines) == ["at exit", "of C", "of a thread"]


def test_a_text_as_exit_code_is_printed(forks: Forks) -> None:
    assert forks.run("import sys; sys.exit('no device')").ending.exit_code == 1
    assert forks.lines == [("stderr", "no device")]


def test_a_timeout_leaves_nothing_of_the_run(forks: Forks) -> None:
    daemon = "import subprocess; subprocess.Popen(['setsid', 'sleep', '600']); print('begun', flush=True)\n"
    finished = forks.run(daemon + "import time; time.sleep(600)", timeout=3)
    assert finished.ending.timed_out
    assert ("stdout", "begun") in forks.lines
    assert [one for one in marked(forks.mark) if "sleep" in one.name()] == []
    assert forks.run(daemon).ending.exit_code == 0
    assert [one for one in marked(forks.mark) if "sleep" in one.name()] == []


@pytest.mark.long
def test_the_memory_limit_is_the_runs(forks: Forks) -> None:
    assert forks.run("bytearray(2 << 30)", memory=1 << 30).ending.exit_code == 1
    assert any("MemoryError" in line for _, line in forks.lines)
    assert forks.run("bytearray(2 << 30)").ending.exit_code == 0


def test_what_cannot_be_imported_is_said_and_runs_are_started_anew(forks: Forks) -> None:
    for _ in range(2):
        finished = forks.run("import sys; print('no_such_module' in sys.modules)", module="no_such_module")
        assert finished.ending.exit_code == 0
        assert forks.lines == [("stdout", "False")]
    (said,) = forks.refusals
    assert "ModuleNotFoundError: No module named 'no_such_module'" in said
    assert forks.servers.refused


def test_a_server_that_dies_while_it_imports_is_said(forks: Forks) -> None:
    python = forks.folder / "python"
    python.write_text(
        f'#!/bin/sh\ncase $1 in *fork_server.py) kill -SEGV $$ ;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    forks.python = str(python)
    assert forks.run("print('ran')").ending.exit_code == 0
    assert forks.lines == [("stdout", "ran")]
    assert "it ended while it imported" in forks.refusals[0]


def test_a_run_that_dies_with_its_server_has_no_ending(forks: Forks) -> None:
    script = (
        "import os, psutil, time\n"
        "server = psutil.Process().parent().parent()\n"
        "assert 'fork_server' in ' '.join(server.cmdline())\n"
        "server.kill(); time.sleep(600)"
    )
    with pytest.raises(LostRunError, match="stopped from outside"):
        forks.run(script)
    psutil.wait_procs(marked(forks.mark), timeout=60)
    assert forks.run("print('next')").ending.exit_code == 0
    assert forks.lines == [("stdout", "next")]
    assert len(forks.refusals) == 1


def test_several_at_once(forks: Forks) -> None:
    os.mkfifo(forks.folder / "fifo")
    other = Forks(forks.folder)
    other.servers = forks.servers
    results: list[FinishedCommand] = []
    thread = threading.Thread(
        target=lambda: results.append(other.run("print('waits', flush=True); open('fifo').read()"))
    )
    forks.run("pass")
    thread.start()
    while ("stdout", "waits") not in other.lines:
        assert thread.is_alive()
    assert forks.run("print('short')").ending.exit_code == 0
    (forks.folder / "fifo").write_text("go")
    thread.join()
    assert results[0].ending.exit_code == 0


def test_nothing_outlives_a_driver_that_is_killed(tmp_path: Path) -> None:
    mark = f"fork-driver-{os.getpid()}"
    (tmp_path / "script.py").write_text(
        "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    code = (
        "import os, sys; from pathlib import Path\n"
        "from precision_bisect.runner.process.run import Command, execute\n"
        "from precision_bisect.reduce.replay.toolchain import ForkServers\n"
        "servers = ForkServers(print)\n"
        "execute(Command(argv=[sys.executable, 'script.py'], cwd=Path('.').resolve(), environment=dict(os.environ),\n"
        "    timeout=600), log=Path('x.gz'), on_line=lambda s, l: print(l, flush=True),\n"
        "    start=lambda command: servers.start(command, ['json']))\n"
    )
    left, alive = kill_driver(code, tmp_path, mark, patience=60)
    assert len(left) >= 6, "driver, the server and its supervisor, the run and its supervisor, and a sleeper"
    assert alive == []

"""Runs of demo cases without what makes them slow: importing torch each time, and compiling the same source again.

Every run is still a process of its own, forked from one that has torch loaded already; every other source is still
compiled. `with quick_runs(folder):` makes reduce's replays and `run_python` so; `folder` keeps what was compiled.
A process forked like that would draw the numbers that all others draw: torch is seeded, by the variable `SEED`.
"""

from __future__ import annotations

import gzip
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from precision_bisect.reduce import replay
from precision_bisect.runner.ending import Ending
from precision_bisect.runner.execute import Command, Finished, OnLine

SEED = "QUICK_RUNS_SEED"
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch", "numpy", __name__])
_COMPILER = """\
#!/bin/sh
# Compiles each text under each set of headers once. Called as: c++ FLAGS... -I INCLUDE SOURCE -o OUTPUT
previous= source= include= output=
for word in "$@"; do
    case $previous in -I) include=$word ;; -o) output=$word ;; *) case $word in *.cpp) source=$word ;; esac ;; esac
    previous=$word
done
key=$(cat "$source" "$include"/*.h | sha256sum | cut -d ' ' -f 1)
kept=@FOLDER@/$key
if [ ! -f "$kept" ]; then
    c++ "$@" || exit $?
    cp "$output" "$kept.$$" && mv "$kept.$$" "$kept"
fi
cp "$kept" "$output"
"""


@contextmanager
def quick_runs(folder: Path) -> Generator[None]:
    """See the module. `folder` is made if need be, and may be shared."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "c++"
    compiler.write_text(_COMPILER.replace("@FOLDER@", str(folder)))
    compiler.chmod(0o755)
    with patch.dict(os.environ, {"CXX": str(compiler)}), patch.object(replay, "execute", execute):
        yield


def run_python(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
    """Run a script to its end, whatever that is; what it prints is dropped."""
    command = Command(argv=[sys.executable, *argv], cwd=cwd, environment=environment, timeout=300)
    with tempfile.TemporaryDirectory() as folder:
        execute(command, log=Path(folder) / "log", on_line=lambda _stream, _line: None)


def execute(command: Command, *, log: Path, on_line: OnLine) -> Finished:
    """As `runner.execute` for `[python, script, ...]`; lines are handed over once it has ended."""
    begun = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    streams = {name: log.with_name(f"{log.name}.{name}") for name in ("stdout", "stderr")}
    process = _CONTEXT.Process(
        target=_run, args=(list(command.argv[1:]), command.cwd, dict(command.environment), streams)
    )
    process.start()
    process.join(command.timeout)
    timed_out = process.exitcode is None
    if timed_out:
        process.kill()
        process.join()
    with gzip.open(log, "wt", encoding="utf-8") as kept:
        for name, file in streams.items():
            for line in file.read_text(errors="replace").splitlines() if file.exists() else ():
                kept.write(f"{line}\n")
                on_line(name, line)
    code = process.exitcode or 0
    ending = Ending(
        exit_code=None if timed_out or code < 0 else code,
        signal=-code if code < 0 and not timed_out else None,
        timed_out=timed_out,
        cancelled=False,
    )
    return Finished(ending=ending, seconds=time.monotonic() - begun)


def _run(argv: list[str], cwd: Path, environment: Mapping[str, str], streams: Mapping[str, Path]) -> None:
    for number, name in enumerate(streams, start=1):
        os.dup2(os.open(streams[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = argv
    sys.path[:0] = [str(Path(argv[0]).parent), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    sys.dont_write_bytecode = True
    _seed_torch(int(environment.get(SEED, "0")))
    code = 0
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _seed_torch(seed: int) -> None:
    import torch

    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]

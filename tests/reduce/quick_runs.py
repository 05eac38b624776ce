"""Runs of demo cases without what makes them slow: importing torch each time, and compiling the same source again.

Runs are forked as `reduce` forks them, from servers that all tests of a process share; every other source is still
compiled. `with quick_runs(folder):` makes the command `reduce` so; `folder` keeps what was compiled.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from precision_bisect.reduce import command as reduce_command
from precision_bisect.runner.process.execute import Command, execute
from precision_bisect.runner.process.fork_servers import ForkServers

_SEEDED = Path(__file__).with_name("seeded.py")
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


class _Shared(ForkServers):
    """Whoever closes it: its processes end with this one."""

    def close(self) -> None:
        pass


def _refused(why: str) -> None:
    raise AssertionError(why)


SERVERS = _Shared(on_refusal=_refused)


@contextmanager
def quick_runs(folder: Path) -> Generator[None]:
    """See the module. `folder` is made if need be, and may be shared."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "c++"
    compiler.write_text(_COMPILER.replace("@FOLDER@", str(folder)))
    compiler.chmod(0o755)
    shared = patch.object(reduce_command, "ForkServers", lambda on_refusal: SERVERS)  # pyright: ignore[reportUnknownLambdaType]
    with patch.dict(os.environ, {"CXX": str(compiler)}), shared:
        yield


def run_python(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], seed: int = 0) -> None:
    """Run a script to its end, whatever that is, with torch seeded; what it prints is dropped."""
    command = Command(
        argv=[sys.executable, str(_SEEDED), str(seed), *argv], cwd=cwd, environment=environment, timeout=300
    )
    with tempfile.TemporaryDirectory() as folder:
        execute(
            command,
            log=Path(folder) / "log",
            on_line=lambda _stream, _line: None,
            start=lambda command: SERVERS.start(command, ["numpy", "torch"]),
        )

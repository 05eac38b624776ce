"""A process below a supervisor of its own, which dies with everything below it when this side lets go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SUPERVISOR = Path(__file__).with_name("supervise.py")


@dataclass(frozen=True)
class Supervised:
    """`process` is the supervisor, `control` the end of its pipe whose closing stops it."""

    process: subprocess.Popen[bytes]
    control: int

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        memory: int = 0,
        holds: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
        output: int = subprocess.PIPE,
    ) -> Supervised:
        """`memory` is bytes of address space (0: no limit), `holds` are descriptors that stay open until all has ended,
        `output` is where both streams go."""
        control_read, control_write = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                    *(str(control_read), str(memory), str(cwd), *argv),
                ],
                env=dict(environment),
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=(control_read, *holds),
            )
        except BaseException:
            os.close(control_write)
            raise
        finally:
            os.close(control_read)
        return cls(process, control_write)

    @property
    def stdout(self) -> IO[bytes]:
        """What it prints, where that goes to a pipe."""
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """What it prints as errors, where that goes to a pipe."""
        assert self.process.stderr is not None
        return self.process.stderr

    def finish(self) -> int:
        """Kill what is left, and wait; its exit code, or minus the signal that ended it."""
        os.close(self.control)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()  # there may be unread output in it
        return self.process.wait()

"""How a case ends with a build in place of its own, by the case's own tolerance: nothing here is the tool's verdict."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.localize.faults.fault import Ending
from precision_bisect.demo.scenarios import DemoRepository
from precision_bisect.runner.case import shim
from precision_bisect.runner.process.run import Command, execute
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import SERVERS

_ORDERS = ("", "serial", "reverse", "random:1", "random:2", "random:3")
"""Of the demo's runtime, tried where a fault shows by chance; none is set for the first run."""
_TIMEOUT = 20.0


@dataclass(frozen=True)
class CaseEnds:
    """Runs a case on frozen data, with the trees' compiler and runtime."""

    trees: Trees
    case: str
    data: Path

    def of(self, build: Path, *, by_chance: bool = False) -> Ending:
        """The first ending of several orders that is no pass, where one run does not tell."""
        ending = Ending.PASS
        for order in _ORDERS if by_chance else _ORDERS[:1]:
            ending = self._once(build, order)
            if ending is not Ending.PASS:
                break
        return ending

    def _once(self, build: Path, order: str) -> Ending:
        printed: list[str] = []
        path = os.pathsep.join(str(self.trees.folder / name) for name in DemoRepository)
        variables = {"MINIRT_ORDER": order} if order else {}
        with tempfile.TemporaryDirectory() as folder:
            finished = execute(
                Command(
                    argv=[
                        *(
                            sys.executable,
                            str(shim.__file__),
                            "--outcome",
                            str(Path(folder) / "outcome.json"),
                        ),
                        *("--runtime-dir", str(build), "--golden-data", str(self.data), "--"),
                        *(
                            str(self.trees.folder / DemoRepository.LIBRARY / self.case),
                            "-p",
                            "a2a3sim",
                            "-d",
                            "0",
                        ),
                    ],
                    cwd=Path(folder),
                    environment={
                        **os.environ,
                        **variables,
                        "PYTHONPATH": path,
                        "PYTHONDONTWRITEBYTECODE": "1",
                        "SIMPLER_SCHEDULER_TIMEOUT_MS": "1000",
                    },
                    timeout=_TIMEOUT,
                ),
                log=Path(folder) / "log",
                on_line=lambda _stream, line: printed.append(line),
                start=lambda command: SERVERS.start(command, ["numpy", "torch"]),
            )
        text = "\n".join(printed)
        if "runtime failed with rc=-100" in text:
            return Ending.STALL
        if finished.ending.exit_code == 0:
            return Ending.PASS
        if "does not match golden" in text:
            return Ending.MISMATCH
        return Ending.CRASH if finished.ending.kind == "signal" else Ending.BROKEN

"""A month of a team's work on a demo stack: commits of every day, planted faults, a device that dies, a flaky case,
and one that, from a fault on, fails every other time on the simulator.

The cases are small scripts that compute with what the compiler of that commit says, so that a run takes a tenth of a
second; repositories, checkouts, build steps and processes are those of any demo stack.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precision_bisect.bisect.nightly.night import run_nightly
from precision_bisect.bisect.nightly.night_report import FailOn
from precision_bisect.demo.history.edit import Replace
from precision_bisect.demo.make import make_demo
from precision_bisect.demo.scenarios import Scenario
from tests.support.program import PROGRAM

_FILE = "minipto/passes/legalize_casts.py"
ROUNDING = Replace(_FILE, "DEFAULT_ROUND_MODE = RoundMode.RINT", "DEFAULT_ROUND_MODE = RoundMode.ROUND")
FP16 = Replace(_FILE, "DType.FP16: DType.FP32,\n    DType.BF16", "DType.FP16: DType.FP16,\n    DType.BF16")
INT8 = Replace(_FILE, "DType.INT8: DType.INT32,\n}", "DType.INT8: DType.FP32,\n}")
BF16 = Replace(_FILE, "DType.BF16: DType.FP32,\n    DType.INT8", "DType.BF16: DType.BF16,\n    DType.INT8")

_CASE = """
import argparse, os, sys
from pathlib import Path
from minipto.passes.legalize_casts import ACCUMULATOR, DEFAULT_ROUND_MODE
from minipto.types import DType, RoundMode

parser = argparse.ArgumentParser()
parser.add_argument("-p", "--platform")
parser.add_argument("-d", "--device")
platform = parser.parse_args().platform
hold = Path(os.environ["MONTH_STATE"]) / "hold"
if hold.exists():
    with hold.open() as gate:
        hold.with_name("held").write_text("case\\n")
        gate.read()
if platform == "a2a3" and "ASCEND_HOME_PATH" not in os.environ:
    raise OSError("Environment variable 'ASCEND_HOME_PATH' is not set.")

def rounded():
    half = round if DEFAULT_ROUND_MODE is RoundMode.RINT else lambda x: int(x + 0.5)
    return [half(value) for value in (0.5, 1.5, 2.5)] == [0, 2, 2]

def summed(dtype):
    bits = {DType.FP32: 24, DType.FP16: 11, DType.BF16: 8}[ACCUMULATOR[dtype]]
    total = 1.0
    for _ in range(4):
        total = round((total + 2.0**-12) * 2.0 ** (bits - 1)) / 2.0 ** (bits - 1)
    return total > 1.0

def count(name):
    counter = Path(os.environ["MONTH_STATE"]) / name
    runs = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(runs))
    return runs

def flaky():
    return count(f"runs-{platform}") % 3 != 0

def alternating():
    if platform == "a2a3" or ACCUMULATOR[DType.INT8] is DType.INT32:
        return True
    runs = count("runs-with-fault")
    return runs > 3 and runs % 2 == 0

if not (@CHECK@):
    print("Output(s) does not match golden: ['y']")
    sys.exit(1)
print("[RUN] validate done (0.00s)")
print("[RUN] PASS (0.01s)")
"""
CASES = {
    "cases/small_round.py": "rounded()",
    "cases/small_half.py": "rounded() and summed(DType.FP16)",
    "cases/small_matmul.py": "summed(DType.BF16)",
    "cases/small_flaky.py": "flaky()",
    "cases/small_alternating.py": "alternating()",
}
_STEP = '''
[steps.archive]
command = [
    "{python}", "-c",
    """import os, sys, zipapp
os.makedirs(sys.argv[2])
zipapp.create_archive(sys.argv[1], sys.argv[2] + '/a.pyz', main='a:b')""",
    "{minipto}/minipto", "{minipto}/build",
]
inputs = ["minipto"]
outputs = ["minipto/build"]
'''
_NIGHTLY = """
job = "month"
stack = "stack/stack.toml"
branches = ["main"]
cases = [{cases}]
reruns = 2
output = "nights"
on_incident = ["{python}", "{hook}", "it's one; word"]

[platforms.a2a3sim]
[platforms.a2a3]
"""
_HOOK = """
import pathlib, sys
with pathlib.Path(__file__).with_name("told.jsonl").open("a") as file:
    file.write(sys.stdin.read() + "\\n")
"""


class Month:
    """The stack, its job, and what is done to it from day to day."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        make_demo(directory / "stack", scenario=Scenario.QUIET, commits=24, seed=3)
        self.compiler = directory / "stack" / "minipto"
        self._write_stack()
        library = directory / "stack" / "minilib"
        for path, check in CASES.items():
            (library / path).write_text(_CASE.replace("@CHECK@", check))
        self._commit(library, "Add small cases")
        self.config = directory / "nightly.toml"
        self.config.write_text(
            _NIGHTLY.format(
                cases=", ".join(f'"{case}"' for case in CASES),
                python=sys.executable,
                hook=directory / "hook.py",
            )
        )
        (directory / "hook.py").write_text(_HOOK)
        home = directory / "home"
        home.mkdir()
        (home / "cache").symlink_to(cache)
        self.environment = {
            **os.environ,
            "PRECISION_BISECT_HOME": str(home),
            "MONTH_STATE": str(directory),
            "ASCEND_HOME_PATH": "/opt/ascend",
        }
        self._days = 0

    def work(self, subject: str) -> str:
        """A harmless commit of code."""
        self._days += 1
        file = self.compiler / "minipto" / "index.py"
        file.write_text(file.read_text() + f"\nSTEP_{self._days} = {self._days}\n")
        return self._commit(self.compiler, subject)

    def write_docs(self, subject: str) -> str:
        """A commit that cannot change a result."""
        self._days += 1
        (self.compiler / "docs" / "days.md").write_text(f"{self._days}\n")
        return self._commit(self.compiler, subject)

    def plant(self, fault: Replace, subject: str) -> str:
        """A commit that breaks a case."""
        file = self.compiler / fault.path
        file.write_text(fault.apply({fault.path: file.read_text()})[fault.path])
        return self._commit(self.compiler, subject)

    def mend(self, fault: Replace, subject: str) -> str:
        """The commit that undoes a fault."""
        return self.plant(Replace(fault.path, fault.new, fault.old), subject)

    def begin_case(self, case: str, line: str) -> str:
        """A commit that puts a line above a case's script."""
        library = self.directory / "stack" / "minilib"
        file = library / case
        file.write_text(f"{line}\n{file.read_text()}")
        return self._commit(library, f"Begin {case} otherwise")

    def rewrite(self, commits: int) -> None:
        """Take back the last commits, as a forced push does."""
        subprocess.run(
            ["git", "-C", str(self.compiler), "reset", "--quiet", "--hard", f"HEAD~{commits}"], check=True
        )

    def start(self) -> "subprocess.Popen[str]":
        """Start a night in a process of its own."""
        return subprocess.Popen(
            [*PROGRAM, "nightly", str(self.config)],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_in_bisection(self) -> None:
        """Start a night, and kill it when a bisection of it is in its third run."""
        process = self.start()
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("  run 3 "):
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def night(
        self, *, device: bool = True, budget: float | None = None, fail_on: str = "any", quiet: bool = False
    ) -> int:
        """Run a night to its end in this process (what it runs are processes all the same); its exit code."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("PRECISION_BISECT_HOME", "MONTH_STATE", "ASCEND_HOME_PATH"):
                patch.setenv(name, self.environment[name])
            if not device:
                patch.delenv("ASCEND_HOME_PATH")
            return run_nightly(self.config, store=None, budget=budget, fail_on=FailOn(fail_on), quiet=quiet)

    def flaky_runs(self, platform: str) -> int:
        """How often the flaky case has really run there; every third run of it fails."""
        counter = self.directory / f"runs-{platform}"
        return int(counter.read_text()) if counter.exists() else 0

    def only(self, *cases: str) -> None:
        """Leave the other cases, and the board, out of the matrix, and ask for less confidence: fewer runs."""
        text = self.config.read_text().replace("[platforms.a2a3]\n", "")
        text = text.replace("reruns = 2", "reruns = 2\nconfidence = 0.9")
        for case in CASES.keys() - {f"cases/small_{name}.py" for name in cases}:
            text = text.replace(f'"{case}"', "").replace(", ,", ",").replace("[, ", "[")
        self.config.write_text(text.replace(", ]", "]"))

    def limit_runs(self, platform: str, runs: int) -> None:
        """Give a device a quota, in place of any before."""
        head, mark, _ = self.config.read_text().partition(f"[platforms.{platform}]\n")
        self.config.write_text(f"{head}{mark}runs = {runs}\n")

    def report(self, night: int) -> dict[str, Any]:
        """What a night wrote for machines."""
        return json.loads(
            (self.directory / "nights" / "month" / f"night-{night:04d}" / "night.json").read_text()
        )

    def incidents(self) -> list[dict[str, Any]]:
        """All incidents of all nights, each as its last night told it."""
        nights = sorted((self.directory / "nights" / "month").glob("night-*/night.json"))
        seen = {
            incident["number"]: incident
            for night in nights
            for incident in json.loads(night.read_text())["incidents"]
        }
        return list(seen.values())

    def _write_stack(self) -> None:
        file = self.directory / "stack" / "stack.toml"
        text = file.read_text()
        start, end = text.index("help = ["), text.index('cwd = "{slot}"')
        text = text[:start] + text[end:]
        start, end = text.index("[case.flags]"), text.index("[platforms.a2a3sim]")
        text = text[:start] + text[end:]
        file.write_text(text.replace("[case]\n", f"{_STEP.lstrip()}\n[case]\nharness = false\n", 1))

    def _commit(self, repository: Path, subject: str) -> str:
        git = ["git", "-C", str(repository), "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", subject], check=True)
        return subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()


def remove(month: Month) -> None:
    """Its folders."""
    shutil.rmtree(month.directory, ignore_errors=True)

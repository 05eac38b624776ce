"""python -m benchmarks.farm: bisect a line of 1,024 commits, whose builds take long, on one host and on four.

The command, the scheduler of dask and its workers are the real ones. A build sleeps for 30 s in place of the 600 s that
it stands for: what the tool, git and dask take beside it counts twenty times as much as it would. With `--simulated`
it counts nothing, and builds take 600 s of a simulated time (`simulated.py`).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.farm.simulated import Makespan, makespan
from tests.system.slow_line import STACK

_PROGRAM = "from precision_bisect.runner.process.entry import bisect_precision; bisect_precision()"
_STEP = "sleep {seconds}; echo >> {folder}/built; cp number out"
_CASE = "if [ $(cat out) -ge {culprit} ]; then echo WRONG; exit 1; fi; echo RIGHT\n"


def make_line(repository: Path, commits: int) -> None:
    """A line of so many commits, each with its number in a file; its branch is `main`."""
    stream = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {1700000000 + number} +0000\ndata 1\nc\n"
        f"M 100644 inline number\ndata {len(str(number)) + 1}\n{number}\n\n"
        for number in range(commits)
    )
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", repository], check=True)
    git = ("git", "-C", str(repository))
    subprocess.run([*git, "fast-import", "--quiet"], input=stream, text=True, check=True)
    (repository / ".git" / "info" / "exclude").write_text("out\n")
    subprocess.run([*git, "reset", "--quiet", "--hard", "main"], check=True)


@contextmanager
def farm(folder: Path, hosts: int) -> Generator[str]:
    """A scheduler and so many hosts, each with a home of its own; the scheduler's address."""
    address_file = folder / "scheduler.json"
    settings = {**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}
    dask = (sys.executable, "-m")
    scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    with ExitStack() as held:

        def start(words: Sequence[str], home: Path) -> None:
            process = subprocess.Popen(
                [*dask, *words],
                env={**settings, "PRECISION_BISECT_HOME": str(home)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            held.callback(process.wait)
            held.callback(process.terminate)

        start([*scheduler, "--scheduler-file", str(address_file)], folder)
        while not address_file.exists():
            time.sleep(0.1)
        address = json.loads(address_file.read_text())["address"]
        for number in range(hosts):
            one = ("--nworkers", "1", "--nthreads", "1", "--no-dashboard")
            start(["distributed.cli.dask_worker", address, *one], folder / f"host-{number}")
        yield address


def bisect(folder: Path, *, hosts: int, commits: int, culprit: int, seconds: float) -> Makespan:
    """Have a culprit found by a farm. Raises `RuntimeError` where another commit is named."""
    make_line(folder / "tool", commits)
    stack = folder / "stack.toml"
    stack.write_text(STACK.format(folder=folder, step=_STEP.format(folder=folder, seconds=seconds)))
    (folder / "case.sh").write_text(_CASE.format(culprit=culprit))
    with farm(folder, hosts) as address:
        begun = time.monotonic()
        subprocess.run(
            [
                *(sys.executable, "-c", _PROGRAM, "--stack", str(stack), "--case", "number"),
                *(
                    "--good",
                    f"main~{commits - 1}",
                    "--bad",
                    "main",
                    "--jobs",
                    str(hosts),
                    "-o",
                    str(folder / "report"),
                ),
                *("--backend", "dask", "--build-store", str(folder / "builds"), "--no-localize"),
            ],
            env={
                **os.environ,
                "PRECISION_BISECT_HOME": str(folder / "home"),
                "DASK_SCHEDULER_ADDRESS": address,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        took = time.monotonic() - begun
    report = json.loads((folder / "report" / "report.json").read_text())
    named = [each["commit"] for each in report["culprits"]]
    wanted = ["git", "-C", str(folder / "tool"), "rev-parse", f"main~{commits - 1 - culprit}"]
    truth = subprocess.run(wanted, check=True, capture_output=True, text=True).stdout.split()
    if named != truth:
        raise RuntimeError(f"expected {truth} to be named, found {named}")
    builds = len((folder / "built").read_text())
    return Makespan(seconds=took, runs=len(report["probes"]), builds=builds)


def main() -> int:
    """Exit code 1 where several hosts take more than 0.55 of the time of one in the mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1024)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a build")
    parser.add_argument("--simulated", action="store_true", help="in simulated time, builds of 600 s")
    parser.add_argument("--seeds", type=int, default=1, help="culprits drawn")
    asked = parser.parse_args()
    print(f"{'culprit':>8}{'hosts':>8}{'runs':>8}{'builds':>8}{'seconds':>10}{'of one':>8}")
    shares: list[float] = []
    for seed in range(asked.seeds):
        culprit = random.Random(seed).randrange(1, asked.commits)
        alone = 0.0
        for hosts in (1, asked.hosts):
            if asked.simulated:
                ended = makespan(asked.commits, hosts=hosts, culprit=culprit)
            else:
                with tempfile.TemporaryDirectory(prefix="farm-", ignore_cleanup_errors=True) as name:
                    ended = bisect(
                        Path(name),
                        hosts=hosts,
                        commits=asked.commits,
                        culprit=culprit,
                        seconds=asked.seconds,
                    )
            alone = alone or ended.seconds
            share = ended.seconds / alone
            print(
                f"{culprit:>8}{hosts:>8}{ended.runs:>8}{ended.builds:>8}{ended.seconds:>10.1f}{share:>8.2f}",
                flush=True,
            )
            shares += [share] if hosts > 1 else []
    mean = sum(shares) / len(shares)
    print(f"{asked.hosts} hosts take {mean:.2f} of the time of one in the mean")
    return mean > 0.55


if __name__ == "__main__":
    sys.exit(main())

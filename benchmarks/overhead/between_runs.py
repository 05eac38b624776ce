"""python -m benchmarks.overhead.between_runs: bisect a demo stack, and tell what of each probe's time went neither into
its build nor into its run: choosing, checking out, verifying, classifying, storing.

Where the stack file says how, a case is asked for its options by a run of its own, which counts here: in the first
line. What it said is kept, as builds are; the last line is of a stack that asks for none."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sqlalchemy import select

from precision_bisect.demo.make import Truth, make_demo
from precision_bisect.demo.scenarios import Scenario
from precision_bisect.store.database import open_read_only, sqlite_url
from precision_bisect.store.tables import ProbeRow

_PROGRAM = "from precision_bisect.runner.process.entry import bisect_precision; bisect_precision()"
_MAX_OVERHEAD = 0.1
"""Seconds that the tool may take of a probe in the mean, the first ones included, which make the slot."""


def bisect(folder: Path, truth: Truth, *, stack: Path, store: str) -> None:
    """One bisection with its results in `store`; the answer has to be the planted commit."""
    subprocess.run(
        [
            *(sys.executable, "-c", _PROGRAM, "--stack", str(stack)),
            *("--case", truth.case, "--good", truth.good, "--bad", truth.bad, "--bad-when", truth.bad_when),
            *("--store", store, "-o", str(folder / "report")),
        ],
        env={**os.environ, "PRECISION_BISECT_HOME": str(folder / "home")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (named,) = json.loads((folder / "report" / "report.json").read_text())["culprits"]
    assert named["commit"] == truth.culprits[0].commit


def overheads(store: str) -> list[float]:
    """Seconds from one probe's start to the next one's, without those of its build and its run."""
    with open_read_only(store)() as session:
        probes: Sequence[ProbeRow] = session.scalars(select(ProbeRow).order_by(ProbeRow.ordinal)).all()
        return [
            (after.started - probe.started).total_seconds()
            - (probe.build_seconds or 0)
            - (probe.run_seconds or 0)
            for probe, after in pairwise(probes)
        ]


def main() -> int:
    """Exit code 1 where the mean of a line is over 100 ms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=60, help="in the range; at least 24")
    commits = parser.parse_args().commits
    with tempfile.TemporaryDirectory(prefix="overhead-") as name:
        folder = Path(name)
        truth = make_demo(folder / "stack", scenario=Scenario.ROUNDING, commits=commits, seed=0)
        asking = folder / "stack" / "stack.toml"
        silent = folder / "stack" / "silent.toml"
        silent.write_text(re.sub(r"(?m)^help = .*$", "", asking.read_text()))
        print(f"{'builds':<27}probes{'mean ms':>12}{'median ms':>12}{'longest ms':>12}")
        means: list[float] = []
        for label, stack in (("made", asking), ("cached", asking), ("cached, without options", silent)):
            store = sqlite_url(folder / f"{len(means)}.sqlite")
            bisect(folder, truth, stack=stack, store=store)
            found = overheads(store)
            means.append(statistics.mean(found))
            numbers = [means[-1], statistics.median(found), max(found)]
            print(f"{label:<27}{len(found):>6}{''.join(f'{1000 * seconds:>12.1f}' for seconds in numbers)}")
    return max(means) > _MAX_OVERHEAD


if __name__ == "__main__":
    sys.exit(main())

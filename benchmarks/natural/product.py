"""A regression put to the product by one command."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.natural.answer import Answer
from benchmarks.natural.regression import Regression

_PROGRAM = "from precision_bisect.runner.process.entry import bisect_precision; bisect_precision()"


def command(regression: Regression, check: Sequence[str], stack: Path | None) -> list[str]:
    """The arguments of `bisect-precision`, to be run in a clone of the repository; `stack` is the user's stack file.

    Raises `ValueError` where the regression needs a check or a stack file and there is none.
    """
    asked = ["--good", regression.good, "--bad", regression.bad]
    if regression.seeks == "fix":
        asked.append("--find-fix")
    case = regression.stack_case
    if case is None:
        if not check:
            raise ValueError(
                f"{regression.name}: expected a check behind `--`, found none: {regression.case}"
            )
        return [*asked, "--", *check]
    name = case.stack_file() or stack
    if name is None:
        raise ValueError(f"{regression.name}: expected a stack file, found no --stack: {regression.case}")
    return [
        *asked,
        *("--stack", str(name), "--case", case.case, "--platform", case.platform),
        *(word for pair in case.repositories.items() for word in ("--repository", "=".join(pair))),
        *("--bad-when", case.bad_when, "--no-localize"),
    ]


def ask_product(
    regression: Regression, clone: Path, check: Sequence[str], *, stack: Path | None, home: Path
) -> Answer:
    """Bisect in `clone`, with what the product keeps in `home`. Raises `RuntimeError` where it leaves no report."""
    with tempfile.TemporaryDirectory(prefix="natural-") as folder:
        arguments = command(regression, check, stack)
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, "-o", folder, *arguments],
            cwd=clone,
            env={**os.environ, "PRECISION_BISECT_HOME": str(home)},
            check=False,
        )
        report = Path(folder) / "report.json"
        if not report.exists():
            raise RuntimeError(f"{regression.name}: expected a report, found exit code {done.returncode}")
        return read_report(json.loads(report.read_text(encoding="utf-8")))


def read_report(report: Any) -> Answer:
    """What a report says."""
    runs = [run for probe in report["probes"] for run in probe["runs"]]
    built = {run["build"] for run in runs} - {"none"}
    return Answer(
        named=tuple(culprit["commit"] for culprit in report["culprits"]),
        left=len(report["suspects"]),
        runs=len(runs),
        untestable=sum(run["judgement"] == "skip" for run in runs),
        builds=sum(run["build"] == "built" for run in runs) if built else None,
        minutes=report["timing"]["elapsed"] / 60,
        layers=tuple(dict.fromkeys(searched["repository"] for searched in report["ranges"])),
        commits=sum(searched["commits"] for searched in report["ranges"]),
    )

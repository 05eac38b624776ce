"""Reductions of faults that nobody planned for: do they end at the cause, and does `check.sh` reproduce each time?

    python -m benchmarks.reduce.drawn OUT [--faults 60] [--seed 2000] [--checks 20]
    python -m benchmarks.reduce.drawn OUT --seed 9500 --numbers 2 3    # these alone, once more

Faults are drawn as `benchmarks.localize.faults` draws them; those count that a case fails for with wrong values, in
every run. Each is reduced by the command, told the case's tolerance. A reduction is at the cause if a task of a kernel
that is at fault is left, or is what its failing build does not submit. Rows are appended to OUT/drawn.jsonl; what
stands there already is not made again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

from click.testing import CliRunner

from benchmarks.localize.faults.draw import Drawn, Generator
from benchmarks.localize.faults.fault import Ending
from benchmarks.localize.table import Row, read_rows
from precision_bisect.reduce.reduce_cli import main as reduce_command
from precision_bisect.reduce.shrink.reproducer import ReductionResult
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.support.compiler import compile_once


def main() -> None:
    """Reduces the drawn faults that are not in OUT yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--checks", type=int, default=20)
    parser.add_argument("--numbers", type=int, nargs="+", help="reduce these, whether they are in OUT or not")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    journal = arguments.out / "drawn.jsonl"
    rows = [row for row in read_rows(journal) if row["seed"] == arguments.seed]
    left = iter(arguments.numbers or count(max((row["number"] for row in rows), default=-1) + 1))
    with tempfile.TemporaryDirectory() as name, quick_runs():
        compile_once(Path(name) / "compiled")
        generator = Generator(Trees.make(Path(name) / "trees"), arguments.seed, Path(name))
        while (arguments.numbers or len(rows) < arguments.faults) and (
            number := next(left, None)
        ) is not None:
            drawn = generator.draw(number)
            if drawn is not None:
                if drawn.fault.ending is Ending.MISMATCH and not drawn.fault.by_chance:
                    rows.append(
                        {"seed": arguments.seed, "number": number, **_reduced(drawn, arguments.checks)}
                    )
                    print(json.dumps(rows[-1]), flush=True)
                    with journal.open("a") as stream:
                        stream.write(json.dumps(rows[-1]) + "\n")
                shutil.rmtree(drawn.twins.bad.parent)


def _reduced(drawn: Drawn, checks: int) -> Row:
    output = drawn.twins.bad.parent / "reduced"
    begun = time.monotonic()
    done = CliRunner().invoke(
        reduce_command,
        [*drawn.reduce_words, "-o", str(output)],
    )
    row = {
        "kind": drawn.kind,
        "case": drawn.case,
        "truth": [sorted(cause.kernels) for cause in drawn.fault.causes],
        "seconds": round(time.monotonic() - begun, 1),
    }
    if done.exit_code:
        return {**row, "error": done.output.strip()[-300:], "at_cause": False}
    found = ReductionResult.model_validate_json((output / "reduction.json").read_text())
    kept = {
        name
        for task in (*found.kept_tasks, *found.missing_tasks)
        for name in task.partition(": ")[2].split("+")
    }
    check = [output / "result" / "check.sh"]
    codes = [subprocess.run(check, stdout=subprocess.DEVNULL).returncode for _ in range(checks)]
    return {
        **row,
        "kept": found.kept_tasks,
        "missing": found.missing_tasks,
        "at_cause": any(kept & cause.kernels for cause in drawn.fault.causes),
        "tests": found.oracle_calls,
        "reproduced": codes.count(0),
        "checks": checks,
    }


if __name__ == "__main__":
    main()

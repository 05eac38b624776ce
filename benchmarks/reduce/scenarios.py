"""Every faulty demo scenario reduced, and each result checked by runs that the reducer has no part in.

    python -m benchmarks.reduce.scenarios [--out FILE] [--against-schedule NAME] [SCENARIO ...]

For each scenario a good and a bad build are made on inputs drawn anew, the bad one is reduced (its runs are processes
forked from one that has torch loaded, as in the tests), and then `check.sh` runs the failing build and its twin, and
the demo runtime's own tool runs both as scene tests. A result is good if all of them say what they must and it has at
most 1.2 x the planted minimum of tasks and of kernels.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from click.testing import CliRunner

from precision_bisect.demo.scenarios import SETTINGS, DemoRepository, Scenario
from precision_bisect.reduce.reduce_cli import main as reduce_command
from precision_bisect.reduce.shrink.reproducer import ReductionResult
from precision_bisect.runner.settings import load_stack
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.quick_runs import quick_runs
from tests.support.compiler import compile_once

PLANTED = {
    Scenario.ROUNDING: (1, 1),
    Scenario.ACCUMULATE: (1, 1),
    Scenario.REUSE: (2, 2),
    Scenario.TAIL: (1, 1),
    Scenario.DROPPED_DEP: (2, 2),
    Scenario.RUNTIME_BUMP: (1, 1),
    Scenario.STALL: (1, 1),
    Scenario.CRASH: (1, 1),
    Scenario.FIXED_AND_BROKEN: (1, 1),
}
"""Tasks and kernels that the fault needs; `quiet` has none."""

_SHOWN = {  # what the failing side's scene test must print, or how it must die
    "mismatch": r"FAILED: Golden mismatch on ",
    "stall": r"run failed with code -100",
    "crash": r"killed by signal",
}
SCENE_RUNS = 8
"""A race may pass: the scene test has failed if one of these runs does."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Tasks, kernels, bytes and sizes of dimensions are `before -> after`; `plain` and `statements` are how many inputs
    hold plain values and how many statements were dropped; `check`, `scene_fails`, `scene_passes` and `small` say
    whether it was as it must be."""

    scenario: str
    tasks: str
    kernels: str
    bytes: str
    sizes: str
    plain: int
    statements: int
    tests: int
    invalid: int
    slipped: int
    signature: str
    check: bool
    scene_fails: bool
    scene_passes: bool
    small: bool
    seconds: float


def main() -> None:
    """Prints the table, and writes it to `--out`; exit code 1 where a result is not as it must be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="file for the table")
    parser.add_argument(
        "--against-schedule",
        metavar="NAME",
        help="the bad build in that order in place of the good one: races",
    )
    parser.add_argument("scenarios", nargs="*", type=Scenario, default=list(PLANTED))
    asked = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        compile_once(Path(folder) / "compiled")
        good = Trees.make(Path(folder) / "good")
        for scenario in asked.scenarios:
            twins = Twins.make(Path(folder) / scenario, scenario, good)
            output = Path(folder) / f"{scenario}-reduced"
            rows.append(one(scenario, twins, output, asked.against_schedule))
            print(rows[-1], flush=True)
            if asked.out is not None:
                asked.out.write_text("\n".join(_table(rows)) + "\n")
    print("\n".join(_table(rows)))
    sys.exit(not all(one.check and one.scene_fails and one.scene_passes and one.small for one in rows))


def one(scenario: Scenario, twins: Twins, output: Path, schedule: str | None) -> Row:
    """Reduce and check one pair of builds, or a bad one against itself in the order that `schedule` makes."""
    began = time.monotonic()
    bad_stack, good_stack = (str(trees.stack_file) for trees in (twins.bad_trees, twins.good_trees))
    reference = ["--reference", str(twins.good), "--reference-stack", good_stack]
    good_trees, variables = twins.good_trees, dict[str, str]()
    if schedule is not None:
        reference, good_trees = ["--against-schedule", schedule], twins.bad_trees
        variables = dict(load_stack(bad_stack).schedules[schedule].variables)
    arguments = [
        *(str(twins.bad), *reference, "--golden-data", str(twins.good / "data")),
        *("--stack", bad_stack, "-o", str(output)),
    ]
    with quick_runs():
        done = CliRunner().invoke(reduce_command, arguments)
    if done.exit_code:
        raise SystemExit(f"{scenario}: {done.output}")
    seconds = time.monotonic() - began
    found = ReductionResult.model_validate_json((output / "reduction.json").read_text())
    result = output / "result"
    checked = any(
        subprocess.run([result / "check.sh"], stdout=subprocess.DEVNULL).returncode == 0
        for _ in range(SCENE_RUNS)
    )
    shown = _SHOWN[SETTINGS[scenario].bad_when]
    tasks, kernels = PLANTED[scenario]
    return Row(
        scenario=scenario.value,
        tasks=f"{found.tasks.before} -> {found.tasks.after}",
        kernels=f"{found.kernels.before} -> {found.kernels.after}",
        bytes=f"{found.bytes.before} -> {found.bytes.after}",
        sizes=", ".join(f"{before} -> {after}" for before, after in found.extents),
        plain=len(found.plain_inputs),
        statements=found.statements_dropped,
        tests=found.oracle_calls,
        invalid=found.invalid,
        slipped=found.slipped,
        signature=found.signature,
        check=checked,
        scene_fails=any(
            re.search(shown, scene(result / "failing", twins.bad_trees, {})) for _ in range(SCENE_RUNS)
        ),
        scene_passes="::default PASSED" in scene(result / "passing", good_trees, variables),
        small=found.tasks.after <= 1.2 * tasks and found.kernels.after <= 1.2 * kernels,
        seconds=seconds,
    )


def scene(build: Path, trees: Trees, variables: Mapping[str, str]) -> str:
    """What the runtime's own tool prints when it runs the build's scene test with these variables set."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(str(trees.folder / name) for name in DemoRepository)
        done = subprocess.run(
            [sys.executable, str((build / "test_reduced.py").resolve()), "-p", "a2a3sim"],
            cwd=folder,
            env={**os.environ, **variables, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return done.stdout + (f"killed by signal {-done.returncode}\n" if done.returncode < 0 else "")


def _table(rows: Sequence[Row]) -> list[str]:
    names = list(Row.__dataclass_fields__)
    cells = [names, ["---"] * len(names)]
    cells += [
        [f"{value:.0f}" if isinstance(value, float) else str(value) for value in asdict(row).values()]
        for row in rows
    ]
    return [f"| {' | '.join(line)} |" for line in cells]


if __name__ == "__main__":
    main()

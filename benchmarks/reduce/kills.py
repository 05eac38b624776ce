"""A reduction killed with SIGKILL at random instants and resumed: is a test repeated, is a result ever broken?

    python -m benchmarks.reduce.kills [--kills 25] [--seed 0]

A small program with a wrong kernel is reduced with shapes and data. After each kill, `result` must be there once it was
there before, with all its files; in the end, each run of each candidate must stand in the journal once, and `check.sh`
must reproduce the failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from precision_bisect.reduce.reduction import ReductionResult
from tests.reduce.demo_builds import Trees
from tests.reduce.small_builds import SHIFT, WRONG, small_build

FILES = ("run.sh", "check.sh", "why.md", "README.md", "failing/kernel_config.py", "passing/kernel_config.py")


def main() -> None:
    """Prints what happened; fails where something was repeated or broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trees = Trees.make(root / "trees")
        bad, good = (small_build(root / name, body) for name, body in (("bad", WRONG), ("good", SHIFT)))
        output = root / "out"
        command = [
            *(sys.executable, "-c", "from precision_bisect.reduce.cli import main; main()", str(bad)),
            *("--reference", str(good), "--stack", str(trees.stack_file), "-o", str(output), "--resume"),
        ]
        began = time.monotonic()
        subprocess.run([*command[:-2], str(root / "whole")], check=True, stdout=subprocess.DEVNULL)
        whole = time.monotonic() - began
        expected = result(root / "whole")
        killed = repeated = 0
        while killed < asked.kills:
            before = runs(output)
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            try:
                process.wait(chance.uniform(0, whole / 4))
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            killed += 1
            after = runs(output)
            assert after[: len(before)] == before, "the journal lost a run"
            if (output / "result").exists():
                assert all((output / "result" / name).exists() for name in FILES), "a result without a part"
            print(f"kill {killed}: {len(before)} -> {len(after)} runs known", flush=True)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        repeated = sum(count - 1 for count in Counter(runs(output)).values())
        found = result(output)
        check = subprocess.run([output / "result" / "check.sh"], capture_output=True, text=True)
        print(
            f"{killed} kills, {len(runs(output))} runs, {repeated} repeated; check.sh: {check.stdout.strip()}"
        )
        same = (found.kept_tasks, found.extents) == (expected.kept_tasks, expected.extents)
        print(f"the result {'is' if same else 'is not'} that of an undisturbed reduction: {found.kept_tasks}")
        sys.exit(bool(repeated or check.returncode or not same))


def runs(output: Path) -> list[tuple[str, int]]:
    """Candidates and the numbers of their runs, as journaled in whole lines."""
    file = output / "work" / "tests.jsonl"
    text = file.read_text() if file.exists() else ""
    entries = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [(entry["candidate"], entry["run"]) for entry in entries]


def result(output: Path) -> ReductionResult:
    """What was written in the end."""
    return ReductionResult.model_validate_json((output / "reduction.json").read_text())


if __name__ == "__main__":
    main()

"""Reductions killed with SIGKILL at random instants and resumed: is a test repeated, is a result ever broken?

    python -m benchmarks.reduce.kills [--kills 25] [--seed 0]

A small program with a wrong kernel is reduced with shapes, data and statements, in rounds of a new output folder each.
A kill comes at a random instant after a random one of the tests that a call has yet to make. After it, `result` must
be there once it was there before, with all its files; at the end of a round, each run of each candidate must stand in
the journal once, the last call must have made those that it added and no more, `check.sh` must reproduce the failure,
and the result must be that of a reduction that was never killed.
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
from dataclasses import dataclass
from pathlib import Path

from precision_bisect.reduce.shrink.reproducer import ReductionResult
from tests.reduce.demo_builds import Trees
from tests.reduce.small_builds import small_build

FILES = ("run.sh", "check.sh", "why.md", "README.md", "failing/kernel_config.py", "passing/kernel_config.py")
STATEMENTS, NEEDED = 16, (1, 6, 9, 14)
"""Of the wrong kernel: what is wrong in it shows with all those that are needed."""


def kernel(wrong: str) -> str:
    """Statements that share no name, so that each can be dropped without the others."""
    defined = [f"#define HIT{i} {'hits += 1' if i in NEEDED else '(void)0'}" for i in range(STATEMENTS)]
    used = [f"HIT{i};" for i in range(STATEMENTS)]
    shown = f"store(1, i, load(0, i) + (hits == {len(NEEDED)} ? {wrong} : 1.0f));"
    return "\n".join(["", *defined, "int hits = 0;", *used, shown])


@dataclass(frozen=True, kw_only=True)
class Undisturbed:
    """A reduction that was not killed; `seconds` of a test in the mean."""

    tests: int
    seconds: float
    result: ReductionResult


@dataclass(frozen=True, kw_only=True)
class Reducer:
    """The command, up to its output folder."""

    command: tuple[str, ...]
    chance: random.Random

    def undisturbed(self, output: Path) -> Undisturbed:
        """From the beginning to the end."""
        process = self._start(output)
        self._journaled(process, output, 1)
        began = time.monotonic()
        assert process.wait() == 0
        tests = len(runs(output))
        seconds = (time.monotonic() - began) / tests
        return Undisturbed(tests=tests, seconds=seconds, result=result(output))

    def killed(self, output: Path, whole: Undisturbed, most: int) -> int:
        """Kills and resumes until it ends, at most so often; how often that was."""
        for kills in range(most):
            before = runs(output)
            process = self._start(output)
            left = max(1, whole.tests - len(before))
            self._journaled(process, output, len(before) + self.chance.randint(1, left))
            try:
                assert process.wait(self.chance.uniform(0, whole.seconds)) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            else:
                _check(output, len(before), whole)
                return kills
            after = runs(output)
            assert after[: len(before)] == before, "the journal lost a run"
            if (output / "result").exists():
                assert all((output / "result" / name).exists() for name in FILES), "a result without a part"
            print(f"killed: {len(before)} -> {len(after)} runs known", flush=True)
        before = runs(output)
        assert self._start(output).wait() == 0
        _check(output, len(before), whole)
        return most

    def _start(self, output: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.command, "-o", str(output), "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _journaled(self, process: subprocess.Popen[bytes], output: Path, tests: int) -> None:
        """Waits until so many tests are, or the process has ended."""
        while process.poll() is None and len(runs(output)) < tests:
            time.sleep(0.01)


def main() -> None:
    """Prints what happened; fails where something was repeated or broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trees = Trees.make(root / "trees")
        bad, good = (
            small_build(root / name, kernel(wrong)) for name, wrong in (("bad", "1.5f"), ("good", "1.0f"))
        )
        reducer = Reducer(
            command=(
                *(
                    sys.executable,
                    "-c",
                    "from precision_bisect.reduce.reduce_cli import main; main()",
                    str(bad),
                ),
                *("--reference", str(good), "--stack", str(trees.stack_file)),
            ),
            chance=random.Random(asked.seed),
        )
        whole = reducer.undisturbed(root / "whole")
        print(
            f"undisturbed: {whole.tests} tests, {whole.seconds:.1f} s each: {_answer(whole.result)}",
            flush=True,
        )
        kills = rounds = 0
        while kills < asked.kills:
            kills += reducer.killed(root / f"round-{rounds}", whole, asked.kills - kills)
            rounds += 1
        print(
            f"{kills} kills in {rounds} rounds: no test was repeated, all results are the undisturbed one's"
        )


def runs(output: Path) -> list[tuple[str, int]]:
    """Candidates and the numbers of their runs, as journaled in whole lines."""
    file = output / "tests.jsonl"
    text = file.read_text() if file.exists() else ""
    entries = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [(entry["candidate"], entry["run"]) for entry in entries]


def result(output: Path) -> ReductionResult:
    """What was written in the end."""
    return ReductionResult.model_validate_json((output / "reduction.json").read_text())


def _answer(found: ReductionResult) -> tuple[object, ...]:
    return found.kept_tasks, found.extents, found.plain_inputs, found.statements_dropped, found.signature


def _check(output: Path, known: int, whole: Undisturbed) -> None:
    """Of a round that has ended, and whose last call knew so many runs."""
    made, found = runs(output), result(output)
    assert max(Counter(made).values()) == 1, "a run that was known was made again"
    assert found.oracle_calls == len(made) - known, "the last call made runs that it did not journal"
    assert _answer(found) == _answer(whole.result), f"another result: {_answer(found)}"
    subprocess.run([output / "result" / "check.sh"], check=True, stdout=subprocess.DEVNULL)
    print(f"ended: {known} -> {len(made)} runs known, the same result", flush=True)


if __name__ == "__main__":
    main()

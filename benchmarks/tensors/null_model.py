"""How often a pattern is named in differences that follow none; run from the repository's root.

    python -m benchmarks.tensors.null_model --draws 10000 --write benchmarks/tensors/results/null_model.md

Each draw is a tensor of some kind (`tests/runner/compare/null_draws.py`) with random differences. A pattern
named above 0.5 there is a false alarm. The table has one line a type, and the kinds with most false alarms.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from precision_bisect.runner.compare.judges import recognize_patterns
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import DType
from tests.runner.compare.null_draws import draw

ABOVE = 0.5
ALLOWED = 0.01
_SHOWN = 12


@dataclass
class Alarms:
    """False alarms of one type: how many draws, how many named anything, and what was named in which kind."""

    dtype: DType
    draws: int = 0
    named: int = 0
    causes: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])


def count_alarms(dtype: DType, draws: int, first: int = 0) -> Alarms:
    """What is named in `draws` draws of one type."""
    alarms = Alarms(dtype)
    for seed in range(first, first + draws):
        one = draw(dtype, seed)
        found = recognize_patterns(one.actual, one.expected, Tolerance(), one.others)
        named = [match for match in found if match.confidence > ABOVE]
        alarms.draws += 1
        alarms.named += bool(named)
        alarms.causes.update({(one.values, one.difference, match.pattern.value) for match in named})
    return alarms


def table(found: list[Alarms]) -> str:
    """The result as a page."""
    lines = ["| type | draws | named | share |", "| --- | --- | --- | --- |"]
    for each in found:
        share = each.named / max(each.draws, 1)
        lines.append(f"| {each.dtype.value} | {each.draws:,} | {each.named} | {share:.2%} |")
    causes = Counter[tuple[str, str, str]]()
    for each in found:
        causes.update(each.causes)
    lines += ["", "The kinds with most false alarms, of all types:", ""]
    lines += ["| values | differences | named | times |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(cause)} | {times} |" for cause, times in causes.most_common(_SHOWN)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Counts false alarms, prints the table, and fails where a type has more than a hundredth."""
    parser = argparse.ArgumentParser(description="Count patterns named in differences that follow none.")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--types", nargs="*", default=[dtype.value for dtype in DType])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    start = time.perf_counter()
    count = partial(count_alarms, draws=given.draws, first=given.first)
    found: list[Alarms] = []
    with multiprocessing.Pool(given.processes) as pool:
        for alarms in pool.imap(count, map(DType, given.types)):
            found.append(alarms)
            print(f"{alarms.dtype.value}: {alarms.named} of {alarms.draws:,} named", flush=True)
            if given.write is not None:
                # A call that is stopped leaves what it has counted by then.
                given.write.write_text("# Patterns named where there is none\n\n" + table(found))
    print(table(found) + f"\n{time.perf_counter() - start:.0f} s")
    return 1 if any(each.named > ALLOWED * each.draws for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())

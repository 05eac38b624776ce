"""Runs and bytes that it takes to find one faulty task among many, on graphs of several shapes.

    python benchmarks/localize/large_graphs.py [--tasks 1000] [--seeds 50] [--share 0.05]

Compared with a full dump, and with the ideal bisection that cuts a chain into k + 1 equal parts with the k tasks of
mean size that a run's budget holds.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import time
from collections.abc import Callable

import numpy as np

from precision_bisect.reduce.graph.tasks import Dag
from precision_bisect.reduce.localize.first_divergence import Observations, next_tasks

Wiring = Callable[[random.Random, int], set[int]]

SHAPES: dict[str, Wiring] = {
    "chain": lambda _rng, task: {task - 1} if task else set(),
    "nearby": lambda rng, task: {rng.randrange(max(0, task - 8), task) for _ in range(3)} if task else set(),
    "anywhere": lambda rng, task: {rng.randrange(task) for _ in range(3)} if task else set(),
    "ten lanes": lambda _rng, task: {task - 10} if task >= 10 else set(),
}
SIZES = (256, 1024, 4096, 16384)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--share", type=float, default=0.05, help="of all bytes that one run may dump")
    arguments = parser.parse_args()
    ideal = math.ceil(math.log(arguments.tasks) / math.log(arguments.tasks * arguments.share + 1))
    print(
        f"{arguments.tasks} tasks, a run may dump {arguments.share:.0%} of all bytes; ideal bisection: {ideal} runs"
    )
    for name, wiring in SHAPES.items():
        runs: list[int] = []
        shares: list[float] = []
        right = 0
        begun = time.perf_counter()
        for seed in range(arguments.seeds):
            found, fault, count, share = search(random.Random(seed), wiring, arguments.tasks, arguments.share)
            runs.append(count)
            shares.append(share)
            right += found == {fault}
        seconds = (time.perf_counter() - begun) / arguments.seeds
        print(
            f"{name:10} right {right}/{arguments.seeds}  runs mean {np.mean(runs):.2f} most {max(runs)}  "
            f"bytes {np.mean(shares):.1%} of a full dump  {seconds:.2f} s a search"
        )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{most} MiB at most, those of imported modules included")


def search(rng: random.Random, wiring: Wiring, tasks: int, share: float) -> tuple[set[int], int, int, float]:
    """Firsts found, the fault, runs, and the share of all bytes that was dumped."""
    dag = Dag(
        predecessors=tuple(tuple(sorted(wiring(rng, task))) for task in range(tasks)),
        sizes=tuple(rng.choice(SIZES) for _ in range(tasks)),
    )
    fault = rng.randrange(tasks)
    only_fault = np.arange(tasks) == fault
    diverges = dag.with_descendants(only_fault)
    observations = Observations(dag)
    # What the outputs of the whole run hold is known before anything is dumped (`references/final_outputs.py`).
    read = {above for predecessors in dag.predecessors for above in predecessors}
    observations.observe({task: bool(diverges[task]) for task in range(tasks) if task not in read})
    runs = dumped = 0
    while chosen := next_tasks(observations, int(sum(dag.sizes) * share)):
        runs += 1
        dumped += sum(dag.sizes[task] for task in chosen)
        observations.observe({task: bool(diverges[task]) for task in chosen})
    return set(np.flatnonzero(observations.firsts()).tolist()), fault, runs, dumped / sum(dag.sizes)


if __name__ == "__main__":
    main()

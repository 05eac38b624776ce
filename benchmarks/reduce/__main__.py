"""python -m benchmarks.reduce [--seeds 20] [--first-seed 0] [--jobs 2] [--size N ...] OUT (from the repository's root).

Goes on with what an earlier call left in OUT.
"""

import argparse
import tempfile
from dataclasses import asdict
from itertools import product
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.reduce.kills.interruptions import kill_and_resume
from benchmarks.reduce.kills.wall import wall
from benchmarks.reduce.results import append, measure, read
from benchmarks.reduce.table import markdown, write
from benchmarks.reduce.world import Cell

SIZES = [64, 256, 1024]
WALL_SIZE = 64
INSTANTS = 25


def cells(n: int) -> list[Cell]:
    """All kinds of faults at one size."""
    sure = [Cell(kind=kind, n=n) for kind in ("one", "edge", "scattered", "value", "trap")]
    return [*sure, *(Cell(kind="one", n=n, rate=rate) for rate in (0.3, 0.6))]


def main() -> None:
    """Runs all contenders on all cells with the same seeds, and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--size", type=int, action="append", choices=SIZES)
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    path = asked.out / "results.jsonl"
    all_cells = [cell for n in asked.size or SIZES for cell in cells(n)]
    wanted = list(product(all_cells, seeds, (True, False)))
    known = {(one.cell, one.seed, one.graph) for one in read(path)}
    parallel = Parallel(n_jobs=asked.jobs, return_as="generator_unordered", verbose=1)
    for results in parallel(delayed(measure)(*one) for one in wanted if one not in known):
        append(path, results)
    results = [one for one in read(path) if one.cell in all_cells and one.seed in seeds]
    results.sort(key=lambda one: (all_cells.index(one.cell), one.seed))  # they came in any order
    write(results, asked.out, [*_kills(asked.first_seed), *_wall(asked.first_seed)])


def _kills(seed: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        killed = list(kill_and_resume(INSTANTS, Path(folder), seed=seed))
    before, known, repeated, same = (
        sum(values)
        for values in zip(
            *((not one.finished, one.known, one.repeated, one.same) for one in killed), strict=True
        )
    )
    return [
        f"Killed with SIGKILL at {len(killed)} random instants, {before} of them before the end, and resumed: "
        f"{known} tests were known, {repeated} of them repeated, {same} results the same as without the kill."
    ]


def _wall(seed: int) -> list[str]:
    lines = [asdict(wall(cell, seed)) for cell in cells(WALL_SIZE)]
    return [
        f"Real seconds with 1 and 2 workers, all with the graph, of seed {seed}:",
        "\n".join(markdown(list(lines[0]), [list(one.values()) for one in lines])),
    ]


if __name__ == "__main__":
    main()

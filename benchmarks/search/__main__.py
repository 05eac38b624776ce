"""python -m benchmarks.search [--seeds 300] [--jobs 2] [--part NAME ...] OUT (from the root of the repository)."""

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path

from joblib import Parallel, delayed

from . import facf, git_runs, ours
from .ours import Answer
from .table import Row, row, write
from .world import Cell, World

RATES = [(0, 1), (0.05, 1), (0.2, 1), (0, 0.5), (0, 0.2), (0.1, 0.9), (0.2, 0.8)]
SIZES = [16, 128, 1024]

PARTS: dict[str, list[Cell]] = {
    "known": [Cell(n=n, good=a, bad=r, known=True) for n, (a, r) in product(SIZES, RATES)],
    "unknown": [Cell(n=n, good=a, bad=r) for n, (a, r) in product(SIZES, RATES)],
    "merges": [
        Cell(n=n, good=a, bad=r, merge_rate=rate)
        for n, (a, r), rate in product(SIZES, [(0, 1), (0.1, 0.9)], [0.1, 0.3])
    ],
    # Alone, or in stretches of a tenth of the range.
    "skips": [
        Cell(n=n, known=True, skip_share=share, skip_cluster=cluster)
        for n in SIZES
        for share, cluster in product([0.1, 0.3], sorted({1, n // 10}))
    ],
    "innocent": [Cell(n=128, good=a, bad=r, innocent=0.4) for a, r in RATES],
    "workers": [
        Cell(n=1024, good=a, bad=r, known=True, workers=workers)
        for (a, r), workers in product([(0, 1), (0.1, 0.9)], [1, 4, 8])
    ],
}

METHODS: dict[str, Callable[[World], Answer]] = {
    "ours": lambda world: ours.search(world, confirm=False),
    "ours, confirmed": lambda world: ours.search(world, confirm=True),
    "git x1": lambda world: git_runs.search(world, repeats=1),
    "git x5": lambda world: git_runs.search(world, repeats=5),
    "FACF": lambda world: facf.search(world, flake_rate=world.cell.good),
}


def _one(cell: Cell, method: str, seeds: range) -> Row:
    results: list[tuple[int | None, Answer]] = []
    for seed in seeds:
        world = World(cell, seed)
        results.append((world.culprit, METHODS[method](world)))
    return row(method, cell, results)


def _applies(cell: Cell, method: str) -> bool:
    """FACF knows lines only; the others run on one worker."""
    return method.startswith("ours") or (cell.workers == 1 and (method != "FACF" or not cell.merge_rate))


def main() -> None:
    """Runs the parts, all with the same seeds, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    asked = parser.parse_args()
    cells = [cell for part in asked.part or PARTS for cell in PARTS[part]]
    todo = [(cell, method) for cell in cells for method in METHODS if _applies(cell, method)]
    rows = Parallel(n_jobs=asked.jobs, verbose=1)(
        delayed(_one)(cell, method, range(asked.seeds)) for cell, method in todo
    )
    write(rows, asked.out)


if __name__ == "__main__":
    main()

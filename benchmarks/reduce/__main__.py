"""python -m benchmarks.reduce [--seeds 20] [--jobs 2] [--size N ...] OUT (from the root of the repository)."""

import argparse
from itertools import product
from pathlib import Path

from joblib import Parallel, delayed

from .contenders import NAMES, run
from .table import Row, row, write
from .world import Cell, draw

SIZES = [64, 256, 1024]


def cells(n: int) -> list[Cell]:
    """All kinds of faults at one size."""
    sure = [Cell(kind=kind, n=n) for kind in ("one", "edge", "scattered", "value", "trap")]
    return [*sure, *(Cell(kind="one", n=n, rate=rate) for rate in (0.3, 0.6))]


def _one(cell: Cell, name: str, adapted: bool, seeds: range) -> Row:
    results = []
    for seed in seeds:
        world = draw(cell, seed)
        answers = (
            run(name, world, adapted=adapted, workers=1),
            None if name == "picire" else run(name, world, adapted=adapted, workers=2),
        )
        results.append((world, *answers))
    return row(cell, name, adapted, results)


def main() -> None:
    """Runs all contenders on all cells with the same seeds, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--size", type=int, action="append", choices=SIZES)
    asked = parser.parse_args()
    rows: list[Row] = []
    for n in asked.size or SIZES:
        rows += Parallel(n_jobs=asked.jobs, verbose=1)(
            delayed(_one)(cell, name, adapted, range(asked.seeds))
            for cell, name, adapted in product(cells(n), NAMES, (True, False))
        )
        write(rows, asked.out)  # what is known so far: large sizes take long


if __name__ == "__main__":
    main()

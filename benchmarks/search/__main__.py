"""python -m benchmarks.search [--seeds 300] [--jobs 2] [--part NAME ...] OUT (from the root of the repository)."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from itertools import product
from pathlib import Path

from joblib import Parallel, delayed

from precision_bisect.bisect.search import rounds

from . import bayesect, facf, git_runs, ours
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
    **({"git_bayesect": bayesect.search} if bayesect.INSTALLED else {}),
}

_ONLY_LINES = {"FACF", "git_bayesect"}


def _one(cell: Cell, method: str, seeds: int, rows: Path) -> Row:
    """A row, kept in `rows` as soon as it is done: a run that was stopped goes on where it was.

    Rows are kept by all that they are made of, this code included.
    """
    asked = json.dumps([method, asdict(cell), seeds, _CODE])
    kept = rows / f"{sha256(asked.encode()).hexdigest()[:24]}.json"
    if kept.exists():
        return Row(**json.loads(kept.read_text()))
    results: list[tuple[int | None, Answer]] = []
    for seed in range(seeds):
        world = World(cell, seed)
        results.append((world.culprit, METHODS[method](world)))
    made = row(method, cell, results)
    partial = kept.with_suffix(".part")
    partial.write_text(json.dumps(asdict(made)))
    partial.replace(kept)
    return made


def _code() -> str:
    """A digest of the search and of this benchmark."""
    folders = (Path(rounds.__file__).parent, Path(__file__).parent)
    files = sorted(file for folder in folders for file in folder.glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_CODE = _code()


def _applies(cell: Cell, method: str) -> bool:
    """FACF and git_bayesect know lines only; the others run on one worker."""
    return method.startswith("ours") or (
        cell.workers == 1 and (method not in _ONLY_LINES or not cell.merge_rate)
    )


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
    kept = asked.out / "rows"
    kept.mkdir(parents=True, exist_ok=True)
    rows = Parallel(n_jobs=asked.jobs, verbose=1)(
        delayed(_one)(cell, method, asked.seeds, kept) for cell, method in todo
    )
    write(rows, asked.out)


if __name__ == "__main__":
    main()

"""python -m benchmarks.search [--seeds 300] [--jobs 2] [--part NAME ...] OUT (from the root of the repository)."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from itertools import product
from pathlib import Path
from time import process_time

from joblib import Parallel, delayed

from benchmarks.search import git_runs, ours
from benchmarks.search.criteria import criteria
from benchmarks.search.large_range import LargeRange, measure
from benchmarks.search.others import bayesect, facf
from benchmarks.search.ours import Answer
from benchmarks.search.plot import plot
from benchmarks.search.table import Row, markdown, row, write_csv
from benchmarks.search.world import Cell, World
from precision_bisect.bisect.run import loop
from tests.bisect.engine import simulated

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
    "ours": ours.search,
    "git x1": lambda world: git_runs.search(world, repeats=1),
    "git x5": lambda world: git_runs.search(world, repeats=5),
    "FACF": facf.search,
    **({"git_bayesect": bayesect.search} if bayesect.INSTALLED else {}),
}

_SEEDS_OF_LONG_RANGES = 100
_SEEDS_OF_GIT_BAYESECT = 60
_LARGE = "large_range.json"


def _one(part: str, cell: Cell, method: str, seeds: int, rows: Path) -> Row:
    """A row, kept in `rows` as soon as it is done: a run that was stopped goes on where it was.

    Rows are kept by all that they are made of, this code included.
    """
    asked = json.dumps([part, method, asdict(cell), seeds, _CODE])
    kept = rows / f"{sha256(asked.encode()).hexdigest()[:24]}.json"
    if kept.exists():
        return Row(**json.loads(kept.read_text())["row"])
    started = process_time()
    results: list[tuple[int | None, Answer]] = []
    for seed in range(seeds):
        world = World(cell, seed)
        results.append((world.culprit, METHODS[method](world)))
    made = row(part, method, cell, results)
    partial = kept.with_suffix(".part")
    partial.write_text(json.dumps({"row": asdict(made), "processor_seconds": process_time() - started}))
    partial.replace(kept)
    return made


def _code() -> str:
    """A digest of the search, the engine and what runs them here."""
    benchmark = Path(__file__).parent
    product = Path(loop.__file__).parents[1]
    files = [*sorted((product / "search").rglob("*.py")), *sorted((product / "engine").rglob("*.py"))]
    files += [Path(loop.__file__), Path(simulated.__file__)]
    files += sorted((benchmark / "others").glob("*.py"))
    files += [benchmark / f"{name}.py" for name in ("git_runs", "ours", "table", "world")]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_CODE = _code()


def _applies(part: str, cell: Cell, method: str) -> bool:
    """The others run on one worker and, those that are told the rates, in one part with known ones.

    FACF and git_bayesect know lines only. git_bayesect knows no rates, and asks for a commit that cannot be tested over
    and over.
    """
    if method == "ours":
        return True
    if cell.workers > 1 or (part == "unknown" and method != "git_bayesect"):
        return False
    if method == "git_bayesect":
        return part != "known" and not cell.merge_rate and not cell.skip_share
    return method != "FACF" or not cell.merge_rate


def _seeds(cell: Cell, method: str, asked: int) -> int:
    """The first of the same seeds where they take long: on long noisy ranges, and with git_bayesect anywhere."""
    if method == "git_bayesect":
        return min(asked, _SEEDS_OF_GIT_BAYESECT)
    noisy = (cell.good, cell.bad) != (0, 1)
    return min(asked, _SEEDS_OF_LONG_RANGES) if noisy and cell.n == SIZES[-1] else asked


def _large(out: Path) -> list[LargeRange]:
    kept = out / "rows" / f"{_CODE[:24]}-{_LARGE}"
    if not kept.exists():
        kept.write_text(json.dumps([asdict(each) for each in measure()]))
    return [LargeRange(**each) for each in json.loads(kept.read_text())]


def _write(rows: list[Row], large: list[LargeRange], out: Path) -> None:
    write_csv(rows, out / "table.csv")
    plot(rows, out / "plot.svg")
    lines = ["# Results of the search benchmark", "", "![accuracy and makespan](plot.svg)", ""]
    lines += ["| figure | asked | worst found | met |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {each.name} | {each.asked} | {each.found} | {'yes' if each.met else 'NO'} |"
        for each in criteria(rows, large)
    ]
    lines += ["", "## 100,000 commits, 10 % merges, in processor seconds", ""]
    lines += ["| workers | flaky | first choice, graph prepared | slowest choice | GB |", "|" + " --- |" * 5]
    lines += [
        f"| {each.workers} | {'yes' if each.flaky else 'no'} | {each.prepared:.2f} | {each.seconds:.2f} "
        f"| {each.gigabytes:.2f} |"
        for each in large
    ]
    lines += ["", "## Rows", "", markdown(rows)]
    (out / "results.md").write_text("\n".join(lines).rstrip() + "\n")


def main() -> None:
    """Runs the parts, all with the same seeds, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    asked = parser.parse_args()
    kept = asked.out / "rows"
    kept.mkdir(parents=True, exist_ok=True)
    large = _large(asked.out) if asked.part is None else []
    todo = [
        (part, cell, method)
        for part in asked.part or PARTS
        for cell in PARTS[part]
        for method in METHODS
        if _applies(part, cell, method)
    ]
    rows = Parallel(n_jobs=asked.jobs, verbose=1)(
        delayed(_one)(part, cell, method, _seeds(cell, method, asked.seeds), kept)
        for part, cell, method in todo
    )
    _write(rows, large, asked.out)


if __name__ == "__main__":
    main()

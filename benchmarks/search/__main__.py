"""python -m benchmarks.search OUT [--quick] [--seeds N] [--jobs N] [--part NAME ...], from the repository's root."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from random import Random

from joblib import Parallel, delayed

from benchmarks.outsider.world import Bench
from benchmarks.search import ours
from benchmarks.search.answer import Answer
from benchmarks.search.cells import Cell, all_cells
from benchmarks.search.criteria import criteria
from benchmarks.search.natural.__main__ import publish
from benchmarks.search.natural.compare import Row as NaturalRow
from benchmarks.search.others import bayesect, facf, git_runs
from benchmarks.search.table import Row, markdown, row, write_csv
from precision_bisect.bisect.drive import loop

_QUICK_SEEDS, _QUICK_SIZE = 3, 200
"""With --quick: ranges of a cell, and the most commits of one."""
_SEEDS_OF_OTHERS = 60


def _bench(cell: Cell, seed: int) -> Bench:
    return Bench(cell.made(seed), Random(f"{cell.key} {seed} runs of others"))


METHODS: dict[str, Callable[[Cell, int], Answer]] = {
    "ours": lambda cell, seed: ours.search(cell, cell.made(seed), seed),
    "git x1": lambda cell, seed: git_runs.search(cell, _bench(cell, seed), repeats=1),
    "git x5": lambda cell, seed: git_runs.search(cell, _bench(cell, seed), repeats=5),
    "FACF": lambda cell, seed: facf.search(_bench(cell, seed), flake=cell.rates[0] if cell.rates else 0.0),
    **(
        {"git_bayesect": lambda cell, seed: bayesect.search(_bench(cell, seed))} if bayesect.INSTALLED else {}
    ),
}


def _applies(cell: Cell, method: str) -> bool:
    """The others have one worker and no store; FACF and git_bayesect know lines only."""
    if method == "ours":
        return True
    if cell.part in ("known case", "workers"):
        return False
    return method.startswith("git x") or cell.shape == "line"


def _row(cell: Cell, method: str, seeds: int, rows: Path) -> Row:
    """A row, kept in `rows` as soon as it is done: a run that was stopped goes on where it was.

    Rows are kept by all that they are made of, this code included.
    """
    seeds = min(seeds, cell.seeds, cell.seeds if method == "ours" else _SEEDS_OF_OTHERS)
    kept = rows / f"{sha256(json.dumps([cell.key, method, seeds, _CODE]).encode()).hexdigest()[:24]}.json"
    if kept.exists():
        return Row(**json.loads(kept.read_text()))
    made = row(cell, method, [METHODS[method](cell, seed) for seed in range(seeds)])
    partial = kept.with_suffix(".part")
    partial.write_text(json.dumps(asdict(made)))
    partial.replace(kept)
    return made


def _code() -> str:
    """A digest of the search, the engine, the loop and what runs them here."""
    product, benchmarks = Path(loop.__file__).parents[1], Path(__file__).parents[1]
    folders = [product / "search", product / "engine", product / "drive", benchmarks / "outsider"]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    files += [
        *sorted((benchmarks / "search").glob("*.py")),
        *sorted((benchmarks / "search/others").glob("*.py")),
    ]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


_CODE = _code()


def _cells(parts: list[str] | None, *, quick: bool) -> list[Cell]:
    cells = [cell for cell in all_cells() if parts is None or cell.part in parts]
    return [cell for cell in cells if not quick or cell.n <= _QUICK_SIZE]


def _write(rows: list[Row], natural: list[NaturalRow], out: Path) -> None:
    write_csv(rows, out / "table.csv")
    lines = ["# Results of the search benchmark", "", "| it is done when | found, where it is worst | |"]
    lines += ["| --- | --- | --- |", *(each.line() for each in criteria(rows, natural)), ""]
    lines += ["What the columns mean is said at `Row` in `table.py`.", "", markdown(rows)]
    (out / "results.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def main() -> None:
    """Search the ranges of all cells by all methods, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--quick", action="store_true", help="few and small ranges, none recorded: two minutes"
    )
    parser.add_argument("--seeds", type=int, default=300, help="ranges of each cell, at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--part", action="append", choices=[*dict.fromkeys(cell.part for cell in all_cells())]
    )
    asked = parser.parse_args()
    kept = asked.out / "rows"
    kept.mkdir(parents=True, exist_ok=True)
    seeds = min(asked.seeds, _QUICK_SEEDS) if asked.quick else asked.seeds
    cells = _cells(asked.part, quick=asked.quick)
    todo = [(cell, method) for cell in cells for method in METHODS if _applies(cell, method)]
    rows = Parallel(n_jobs=asked.jobs, verbose=1)(
        delayed(_row)(cell, method, seeds, kept) for cell, method in todo
    )
    natural = [] if asked.quick or asked.part else publish(asked.out / "natural.md")
    _write(rows, natural, asked.out)


if __name__ == "__main__":
    main()

"""Run all worlds: a Markdown table on standard output, and a CSV file of rows, which a later
start goes on with.

python -m benchmarks.outsider --seeds 60 --rows rows.csv
python -m benchmarks.outsider --outsider second --seeds 30 --rows second.csv
python -m benchmarks.outsider --trace "rates 0, 1" 7
"""

import argparse
import sys
from pathlib import Path

from benchmarks.outsider.drive import search
from benchmarks.outsider.table import add_row, markdown, read_rows
from benchmarks.outsider.worlds import OUTSIDERS, WORLDS


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outsider", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, help="ranges of each world")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--outsider", choices=[*OUTSIDERS], default="first", help="whose worlds")
    parser.add_argument(
        "--only", action="append", choices=[*WORLDS], metavar="WORLD", help="this world; repeatable"
    )
    parser.add_argument("--rows", type=Path, default=Path("outsider.csv"), help="where the rows go")
    parser.add_argument("--trace", nargs=2, metavar=("WORLD", "SEED"), help="show all of one range")
    given = parser.parse_args()
    if given.trace:
        _show(given.trace[0], int(given.trace[1]))
        return
    names: list[str] = given.only or [*OUTSIDERS[given.outsider]]
    _run(names, range(given.first, given.first + given.seeds), given.rows)
    rows = [row for row in read_rows(given.rows) if row.world in names]
    print(markdown(sorted(rows, key=lambda row: (names.index(row.world), row.seed))))


def _run(names: list[str], seeds: range, path: Path) -> None:
    """Run what the file does not have yet: a range of each world, and then the next one of each."""
    done = {(row.world, row.seed) for row in read_rows(path)}
    for seed in seeds:
        print(f"seed {seed}", file=sys.stderr, flush=True)
        for name in names:
            if (name, seed) not in done:
                add_row(search(name, seed), path)


def _show(name: str, seed: int) -> None:
    trace = list[str]()
    row = search(name, seed, trace)
    print(*trace, row, sep="\n")


if __name__ == "__main__":
    main()

"""What a flaky search would take if it were told more: python -m benchmarks.search.studies.told.

The tool's own search of the benchmark's flaky lines, told both rates of failing; told that they are one of the pairs of
the benchmark, whichever; and as it is, told nothing. In the first two it also takes one change to explain all: no
outcome is a commit's own, and no fault grows. What is asked of it stands beside: 1.6 times the bound, and 6.
"""

import argparse
from collections import Counter
from statistics import mean

import numpy as np

from benchmarks.outsider.world import Ending
from benchmarks.search.cells import Cell, all_cells
from benchmarks.search.ours import search_knowing
from precision_bisect.bisect.search.decision import capacity
from precision_bisect.bisect.search.rates import OutcomeModel, Rates

Pair = tuple[float, float]


def one_of(pairs: set[Pair]) -> Rates:
    """The rates are one of these pairs, each as likely, and one change explains all."""
    good, bad = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    weight = np.zeros((len(good), len(bad)))
    for of_good, of_bad in pairs:
        weight[good.index(of_good), bad.index(of_bad)] = 1 / len(pairs)
    return Rates(np.array(good), np.array(bad), weight, ((OutcomeModel(), 1.0),), grows=0.0)


def row(cell: Cell, told: Rates, seeds: int) -> str:
    """How many of the first ranges of a cell are right, and wrong, and the mean of their runs."""
    answers = [search_knowing(told, cell, cell.made(seed), seed) for seed in range(min(seeds, cell.seeds))]
    endings = Counter(answer.ending for answer in answers)
    runs = mean(answer.runs for answer in answers)
    return f"{endings[Ending.RIGHT]} of {len(answers)}, {endings[Ending.WRONG]} wrong, {runs:.1f}"


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.studies.told", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, help="ranges of each cell, at most")
    parser.add_argument("--size", type=int, default=128, help="commits: 16, 128 or 1024")
    given = parser.parse_args()
    cells = [
        (cell, cell.rates)
        for cell in all_cells()
        if cell.part == "flaky" and cell.shape == "line" and cell.n == given.size and cell.rates
    ]
    pairs = {rates for _, rates in cells} | {(0.0, 1.0)}
    print("| rates | asked: runs | told both rates | told that they are one of the pairs | as it is |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for cell, rates in cells:
        asked = 1.6 * np.log2(cell.n) / capacity(*rates) + 6
        searched = (
            row(cell, told, given.seeds)
            for told in (Rates.from_values(good=rates[0], bad=rates[1]), one_of(pairs), Rates.unknown())
        )
        print(f"| {cell.name} | {asked:.1f} | {' | '.join(searched)} |", flush=True)


if __name__ == "__main__":
    main()

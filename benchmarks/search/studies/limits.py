"""What no search can do: python -m benchmarks.search.studies.limits, from the repository's root.

Asked are few runs where the failure is plain, and the right commit where it comes and goes. A search cannot tell a
fault that always fails from one that fails in half of its runs, as long as no two runs contradict each other: it has to
stop as it would for the plain one. This works out how often the best of all searches then names a wrong commit.

Let the candidates be a line of n commits, and let the truth be a = 0, r = 1/2, which the search may even know to be the
only other world there is. It runs the good end once, which tells nothing in either world, and the bad end. Of the plain
world with culprit d its runs are a fixed plan: commits from d on fail, commits before pass. In the other world, with
culprit c before d, commits before c pass too, and each further run of that plan comes out as planned with chance 1/2.
So the chance to name d is 2^-(runs of the plan of d that are of c or later), and all c are equally likely.

The best plan is found exactly, by dynamic programming over what is left of a search: s candidates; f failures so far;
and mu, the sum of the chances to be there of all c that a pass has wrongly excluded, in units of 2^-f. A run that
divides s into k that fail and s - k that pass leads to (k, f + 1, mu) and (s - k, f, (mu + k) / 2); a run of the last
candidate, or of its parent, halves what is wrong. A Lagrange multiplier trades mean runs for wrong names; by weak
duality what it gives is a lower bound for every search, and for every mixture of searches. mu is rounded down on a grid
for long lines, which keeps the bound one.
"""

from functools import cache
from math import ceil, exp, floor, inf, log, log2

_ENDS = 2
_MULTIPLIERS = [2 ** (step / 2) for step in range(6, 28)]
_MAX_CONFIRMATIONS = 25


def least_wrong(n: int, runs: float, *, grid: float = 0.0) -> float:
    """The least share of ranges of n commits with rates 0 and 1/2 in which a wrong commit is named by a search that
    takes so many runs, in the mean over all culprits, where the rates are 0 and 1. grid: the logarithm of the factor to
    which mu is rounded down; 0: it is exact.

    >>> round(least_wrong(2, 3), 3), least_wrong(2, 3) > least_wrong(2, 4)
    (0.125, True)
    """
    return max((_least_cost(n, multiplier, grid) - runs) / multiplier for multiplier in _MULTIPLIERS)


def _least_cost(n: int, multiplier: float, grid: float) -> float:
    """The least mean of runs in the plain world and `multiplier` times the wrong names in the other one."""

    def rounded(mu: float) -> float:
        return exp(floor(log(mu) / grid) * grid) if grid else mu

    @cache
    def cost(s: int, f: int, mu: float) -> float:
        """Over all s candidates, from here on."""
        if s == 1:
            return min(more + multiplier * mu * 2.0 ** -(f + more) for more in range(_MAX_CONFIRMATIONS))
        best = inf
        for k in range(1, s):
            best = min(best, cost(k, f + 1, mu) + cost(s - k, f, rounded((mu + k) / 2)))
        return s + best

    return _ENDS + cost(n, 1, 0.0) / n


def main() -> None:
    """A table: ranges of the sizes of the benchmark, by the runs that a plain failure may take."""
    print("| commits | runs where the failure is plain | wrong at 0/0.5, at least |\n| --- | --- | --- |")
    for n, grid in ((16, 0.0), (32, 0.02), (64, 0.05)):
        for beside in (6, 7, 8):
            runs = ceil(log2(n)) + beside
            print(
                f"| {n} | ceil(log2 n) + {beside} = {runs} | {least_wrong(n, runs, grid=grid):.2%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

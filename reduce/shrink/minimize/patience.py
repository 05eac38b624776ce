"""How many passes it takes to reject a candidate whose failure does not show in every run."""

from __future__ import annotations

from math import ceil, log, sqrt


def passes_to_reject(rate: float, error: float) -> int:
    """The least m such that a candidate that fails at `rate` passes m runs in a row with a chance of at most `error`.

    Raises:
        ValueError: `rate` is not in (0, 1], or `error` not in (0, 1).

    >>> passes_to_reject(1, 0.01), passes_to_reject(0.3, 0.01)
    (1, 13)
    """
    if not 0 < rate <= 1 or not 0 < error < 1:
        raise ValueError(f"expected a rate in (0, 1] and an error in (0, 1), found {rate} and {error}")
    return 1 if rate == 1 else max(1, ceil(log(error) / log(1 - rate)))


def cautious_rate(failures: int, runs: int) -> float:
    """The rate of failure to plan with: 1 if all runs of the baseline failed, else Wilson's lower bound at 90 %.

    Raises:
        ValueError: no run failed.
    """
    if not 0 < failures <= runs:
        raise ValueError(f"expected at least one failure, found {failures} in {runs} runs")
    if failures == runs:
        return 1.0
    z, share = 1.2816, failures / runs
    middle = share + z * z / (2 * runs)
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return (middle - half) / (1 + z * z / runs)

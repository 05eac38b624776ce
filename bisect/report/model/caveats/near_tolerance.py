"""Whether the tolerance lies between two errors of one size: the culprit's, and one that passes."""

from collections.abc import Iterable
from math import inf, sqrt

from .....runner.verdict.error_size import error_size
from .....store.tables.bisections import ProbeRow
from .....store.vocabulary import Seeks, Verdict
from ..model import Reproduction
from ..rows import Rows

_MEASURE = "times_tolerance"
_ONE_SIZE = 2.0
"""Errors of which one is less than so many times the other are of one size."""
_GREW = 4.0
"""So many times what it was at the good end, an error has grown."""
_LEAST = 1e-4
"""What no error is taken to be below: some are zero."""


def near_tolerance(rows: Rows, sides: Reproduction) -> str | None:
    """A note where the culprit's worst error is less than twice the one that passes beside it: it did no more than tip
    the case over its tolerance. Then an earlier commit may have brought the error, or chance of rounding decides. None
    where that is not so, or was not measured."""
    if rows.conclusion is None or not rows.conclusion.culprits or rows.request.seeks is Seeks.FIX:
        return None
    if rows.request.bad_when != Verdict.MISMATCH or sides.good is None or sides.bad is None:
        return None
    failing = _worst_errors(rows.runs_of(sides.bad))
    passing = _worst_errors(rows.runs_of(sides.good))
    if not failing or not passing or min(failing) >= _ONE_SIZE * max(passing):
        return None
    told = (
        f"the worst error is {min(failing):.2g} times the tolerance at {sides.bad.commit[:12]}, and "
        f"{max(passing):.2g} times at {sides.good.commit[:12]}, which passes"
    )
    standing = rows.ranges[0]
    at_start = _worst_errors(standing.runs_of(standing.stage.old))
    if not at_start:
        return told
    start = max(at_start)
    told = f"{told}; it was {start:.2g} times at the good end"
    if start > max(passing) / _GREW:
        return f"{told}: rounding alone may decide which commits fail, and the tolerance may be too tight"
    between = sqrt(max(start, _LEAST) * max(passing))
    return (
        f"{told}: an earlier commit made it grow; to find that one, ask with "
        f"--bad-when {_MEASURE}:{between:.0e}"
    )


def _worst_errors(probes: Iterable[ProbeRow]) -> list[float]:
    """Of each run that was measured; empty where one is not finite, which no tolerance bounds."""
    found = [error_size(probe.metrics or {}, _MEASURE) for probe in probes]
    sizes = [size.value for size in found if size is not None]
    return [] if inf in sizes else sizes

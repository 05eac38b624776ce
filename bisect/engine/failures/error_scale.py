"""Whether an error can be that of the failure that is searched for.

Two faults in one range may both end in a mismatch. Their errors seldom have one size: what is many times larger or
smaller than at the bad end is another failure, and says nothing of the one that is searched for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ....runner.verdict.error_size import MEASURES, ErrorSize, Metrics, error_size

_LEAST_WIDTH = 1.0
_SPREADS = 3.0
_SMALLEST = 1e-300


@dataclass(frozen=True, kw_only=True)
class ErrorScale:
    """The size of the errors at the bad end: `centre` (None: not finite), times or over 10 ^ `width`.

    The width is three times what the bad end's own runs are away from their median, on a logarithmic scale, and at
    least a factor of 10: unrelated commits reorder sums and move tiles, which changes the error of one fault by small
    factors. Where it errs, a commit is skipped that could have been judged, which costs runs and no truth.
    """

    measure: str
    centre: float | None
    width: float

    @classmethod
    def of(cls, failing: Sequence[Metrics]) -> "ErrorScale | None":
        """From the failing runs of the bad end. None where they share no measure, or only some are finite."""
        for measure in MEASURES:
            sizes = [size.value for size in (error_size(run, measure) for run in failing) if size is not None]
            if not sizes or len(sizes) < len(failing):
                continue
            if all(map(math.isinf, sizes)):
                return cls(measure=measure, centre=None, width=0.0)
            if any(map(math.isinf, sizes)):
                return None
            logarithms = [math.log10(max(size, _SMALLEST)) for size in sizes]
            middle = median(logarithms)
            spread = max(abs(value - middle) for value in logarithms)
            return cls(measure=measure, centre=10**middle, width=max(_LEAST_WIDTH, _SPREADS * spread))
        return None

    def is_other(self, metrics: Metrics) -> bool:
        """Whether a run failed in another way; never so where its error was not measured."""
        size = error_size(metrics, self.measure)
        if size is None:
            return False
        if self.centre is None or math.isinf(size.value):
            return (self.centre is None) != math.isinf(size.value)
        return abs(math.log10(max(size.value, _SMALLEST) / self.centre)) > self.width

    def __str__(self) -> str:
        if self.centre is None:
            return "not finite"
        return f"{ErrorSize(self.measure, self.centre)}, within a factor of {10**self.width:.0f}"

"""How large the errors of one run are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Metrics = Mapping[str, Mapping[str, float]]
"""By output, then by name."""

MEASURES = ("relative_l2", "max_diff", "mismatched_fraction", "beyond_tolerance", "times_tolerance")
"""What tells the size of an error, the most telling first."""
_NOT_FINITE = "not_finite"


@dataclass(frozen=True)
class ErrorSize:
    """The largest error over the outputs of one run; infinite where an output holds NaN or infinity for a number."""

    measure: str
    value: float

    def __str__(self) -> str:
        return f"{measure_words(self.measure)} {self.value:.2g}"


def measure_words(measure: str) -> str:
    """What a measure is called."""
    return measure.replace("_", " ")


def error_size(metrics: Metrics, measure: str | None = None) -> ErrorSize | None:
    """By one measure, or the most telling one that there is; None without any."""
    for name in MEASURES if measure is None else (measure,):
        values = [of_output[name] for of_output in metrics.values() if name in of_output]
        if any(of_output.get(_NOT_FINITE, 0) > 0 for of_output in metrics.values()):
            values.append(math.inf)
        if values:
            return ErrorSize(name, max(math.inf if math.isnan(value) else value for value in values))
    return None

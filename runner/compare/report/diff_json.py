"""Differences as plain JSON values: NaN and Inf, for which JSON has no numbers, as null and strings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeAlias, cast

from ..difference import Difference, Equality, is_divergent
from ..preflight import Remark
from ..statistics.rows import Breakdown
from ..statistics.runs import RunsReport

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MOST_ROWS = 1000


def comparison(remarks: Sequence[Remark], found: Sequence[Difference]) -> dict[str, Json]:
    """A whole comparison of two sources: how many records came out how, the first divergent one, and all of them."""
    first = next(filter(is_divergent, found), None)
    counts = Counter(each.outcome.value for each in found)
    return {
        "counts": {outcome.value: counts[outcome.value] for outcome in Equality},
        "first_divergent": None if first is None else first.name,
        "preflight": plain(remarks),
        "tensors": [difference(each) for each in found],
    }


def difference(found: Difference) -> Json:
    """Everything about one name but its heat map; of the rows over tolerance the first thousand."""
    return {
        "name": found.name,
        "kernel": found.kernel or None,
        "only_in": found.only_in or None,
        "compared_as": found.cast or None,
        "outcome": found.outcome.value,
        "reason": found.reason,
        "identical": found.identical,
        "statistics": plain(found.statistics),
        "judgement": plain(found.judgement),
        "rows": rows(found.rows),
        "patterns": plain(found.findings),
    }


def rows(found: Breakdown | None) -> Json:
    """Slices with elements over tolerance."""
    if found is None:
        return None
    over = found.slices_over()
    return {
        "axis": found.axis,
        "length": found.length,
        "step": found.step,
        "over": len(over),
        "first": [plain(found.slice(number)) for number in over[:_MOST_ROWS]],
    }


def runs(name: str, report: RunsReport) -> Json:
    """A report on several runs."""
    return {"name": name, "is_race": report.is_race, **cast(dict[str, Json], plain(report))}


def plain(value: object) -> Json:
    """Dataclasses as objects, enums by value, sequences as lists."""
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, object], value).items()
        return {str(key): plain(item) for key, item in items}
    if isinstance(value, Sequence):
        return [plain(item) for item in cast(Sequence[object], value)]
    raise TypeError(f"no JSON for a {type(value).__name__}")

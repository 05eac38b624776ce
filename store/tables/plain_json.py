"""Columns of plain values as JSON: texts in a row or by name, and numbers by name.

As every JSON value that is kept they say their version: `{"schema_version": 2, "values": ...}`. One of version 1 is
the bare values.
"""

import math
from typing import Any, cast

from sqlalchemy import JSON
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from ..documents.versions import VERSION, brought_up_to_date

_VALUES = "values"
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})

Texts = dict[str, str]
"""By name."""
Numbers = dict[str, float]
"""By name."""
Metrics = dict[str, dict[str, float]]
"""By output, and by what was measured of it."""


def _with_version(bare: object) -> dict[str, Any]:
    return {_VALUES: bare}


_UPGRADES = (_with_version,)


class PlainJson(TypeDecorator[Any]):
    """Values that JSON has words for, with their version."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> Any:
        """The value with the newest version."""
        return None if value is None else {VERSION: 1 + len(_UPGRADES), _VALUES: value}

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Any | None:
        """The bare value, whatever version it was written with. Raises `DocumentError`."""
        return None if value is None else brought_up_to_date(value, _UPGRADES, kind="column")[_VALUES]


class JsonMetrics(PlainJson):
    """Measured numbers. JSON has no word for infinities and not-a-number, and PostgreSQL takes none: these are the
    texts `nan`, `inf` and `-inf`."""

    cache_ok = True

    def process_bind_param(self, value: Metrics | None, dialect: Dialect) -> Any:
        """Numbers as JSON can hold them."""
        if value is None:
            return None
        written = {
            name: {key: _written(number) for key, number in numbers.items()}
            for name, numbers in value.items()
        }
        return super().process_bind_param(written, dialect)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Metrics | None:
        """Numbers as they were measured."""
        read = super().process_result_value(value, dialect)
        if read is None:
            return None
        return {
            name: {key: float(n) if n in _NOT_FINITE else n for key, n in numbers.items()}
            for name, numbers in cast(dict[str, dict[str, Any]], read).items()
        }


def _written(number: float) -> float | str:
    finite = not isinstance(number, float) or math.isfinite(number)
    return number if finite else str(number)

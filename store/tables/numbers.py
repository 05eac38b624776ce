"""Measured numbers in the store. JSON has no word for infinities and not-a-number, and PostgreSQL takes none."""

import math
from typing import Any, cast

from sqlalchemy import JSON
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_NOT_FINITE = frozenset({"nan", "inf", "-inf"})

Numbers = dict[str, dict[str, float]]
"""By name, and by what was measured of it."""


class JsonNumbers(TypeDecorator[Numbers]):
    """Named numbers as JSON, those that are not finite as the words `nan`, `inf` and `-inf`."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Numbers | None, dialect: Dialect) -> Any:
        """Numbers as JSON can hold them."""
        if value is None:
            return None
        return {
            name: {key: _written(number) for key, number in numbers.items()}
            for name, numbers in value.items()
        }

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Numbers | None:
        """Stored numbers, infinities and NaN among them."""
        if value is None:
            return None
        read = cast(dict[str, dict[str, Any]], value)
        return {
            name: {key: float(n) if n in _NOT_FINITE else n for key, n in numbers.items()}
            for name, numbers in read.items()
        }


def _written(number: float) -> float | str:
    finite = not isinstance(number, float) or math.isfinite(number)
    return number if finite else str(number)

"""What `make test` leaves to `make test-all` of a test that asks the same of many values."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

FULL_EXAMPLES = 100
"""Of hypothesis's own profile; the profile `quick` has fewer."""


def quick_first(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """The values as parameters of a test, all but the first `quick` of them marked as long; tuples are several."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[] if ordinal < quick else [pytest.mark.long],
        )
        for ordinal, value in enumerate(values)
    ]


def examples(full: int) -> int:
    """How many examples a property is asked of in this profile, where a full run asks `full`."""
    return max(5, full * settings().max_examples // FULL_EXAMPLES)

"""What a minimizer asks of an oracle, and what it is answered."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)
"""A candidate: a subset of elements that are kept, or a reduced program."""

Subset = frozenset[int]
"""The elements that a candidate keeps, by their numbers."""


class Answer(Enum):
    """INTERESTING: the failure looked for. SLIPPED: another one. INVALID: does not build or run, or cannot be told."""

    INTERESTING = "interesting"
    NOT = "not"
    SLIPPED = "slipped"
    INVALID = "invalid"


@dataclass(frozen=True)
class Query(Generic[C]):
    """Is one of the first `runs` runs of the candidate interesting?"""

    candidate: C
    runs: int = 1


@dataclass(frozen=True)
class Trial(Generic[C]):
    """One run of a candidate for the caller to make; `number` counts a candidate's runs from 0."""

    candidate: C
    number: int

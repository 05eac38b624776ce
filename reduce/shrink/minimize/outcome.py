"""What a run of a candidate can end with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

Candidate = frozenset[int]


class Outcome(Enum):
    """INTERESTING: the failure looked for. SLIPPED: another one. INVALID: does not build or run, or cannot be told."""

    INTERESTING = "interesting"
    NOT = "not"
    SLIPPED = "slipped"
    INVALID = "invalid"


@dataclass(frozen=True)
class Query:
    """Is one of the first `runs` runs of the candidate (elements that are kept) interesting?"""

    candidate: Candidate
    runs: int = 1


@dataclass(frozen=True)
class Run:
    """One run of a candidate for the caller to make; `number` counts a candidate's runs from 0."""

    candidate: Candidate
    number: int

"""What a bisection needs before it can go on."""

from dataclasses import dataclass
from typing import TypeAlias

from .history import HistoryQuestion
from .probes import WantedProbe


@dataclass(frozen=True)
class GivenData:
    """Freeze the golden data that the user named."""


@dataclass(frozen=True)
class SavedData:
    """Freeze the golden data that a finished probe of the good end saved."""

    probe: int
    commit: str


@dataclass(frozen=True)
class Narrowed:
    """So many candidates are left; the search takes about so many more steps, one after the other; None where that
    cannot be told. runs: where runs contradict each other, between which numbers of runs it mostly ends."""

    candidates: int
    expected_steps: float | None
    runs: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Confirming:
    """One commit is left, and is confirmed until the wanted confidence is reached. `runs` as of `Narrowed`."""

    commit: str
    confidence: float
    wanted: float
    runs: tuple[int, int] | None = None


@dataclass(frozen=True)
class Notice:
    """A sentence for the report."""

    text: str


@dataclass(frozen=True)
class GoodEnd:
    """The good end that was looked for."""

    commit: str


Note: TypeAlias = Narrowed | Confirming | Notice | GoodEnd
"""What is worth telling, or keeping, and changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What has to happen: start and cancel these probes, answer these questions, freeze this golden data.

    Where all are empty, it waits for the probes that are running. `cancel` gives the numbers of running probes.
    """

    start: tuple[WantedProbe, ...] = ()
    cancel: tuple[int, ...] = ()
    load: tuple[HistoryQuestion, ...] = ()
    freeze: GivenData | SavedData | None = None
    notes: tuple[Note, ...] = ()

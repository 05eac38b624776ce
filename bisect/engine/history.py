"""Questions that a bisection has to the history of its repositories, each with the type of its answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...runner.verdict.compiler_errors import CompilerError
from ..commits.moved_pin import MovedPin
from ..commits.moved_yardstick import MovedYardstick
from ..commits.range import LoadedRange, Range
from ..result import PinRecord
from ..search.evidence.blamed_file import BlamedFile
from .probes import Target


@dataclass(frozen=True, kw_only=True)
class AskRange:
    """Which commits does a range hold? Answer: a `LoadedRange`, or None where no commit of it can change a result."""

    ordinal: int
    """Of the ranges of this bisection, from 1."""
    range: Range


@dataclass(frozen=True, kw_only=True)
class AskBlamedFile:
    """Which candidates of a range hold what an error blames that made a commit of it untestable? Answer: a
    `BlamedFile`, or None where the error names no file that the range changes."""

    ordinal: int
    """Of the range, as in `AskRange`."""
    candidates: tuple[str, ...]
    commit: str
    error: CompilerError


@dataclass(frozen=True, kw_only=True)
class AskTarget:
    """What is built for a commit? Answer: a `Target`, or None where the commit pins nothing that can be had."""

    repository: str
    commit: str
    held: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class AskFirstParents:
    """Which commits lead to one along first parents? Answer: a `FirstParents`."""

    repository: str
    commit: str
    unit: Literal["commits", "days"]


@dataclass(frozen=True, kw_only=True)
class FirstParents:
    """A commit and its first parents, itself first, and how far each lies behind it, in the unit that was asked for.

    is_whole: the last one is a root; else a shallow clone ends there.
    """

    commits: tuple[str, ...]
    distances: tuple[float, ...]
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True)
class AskMovedPins:
    """Which searched pins differ between two commits of their holder? Answer: a tuple of `MovedPin`."""

    repository: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class AskYardstick:
    """What of how the case measures differs between two commits of its repository? Answer: a `MovedYardstick`, or None
    where nothing does, or it cannot be told from the rest."""

    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class AskMergeBase:
    """Where did two commits part? Answer: a full commit id, or None where they share no history."""

    repository: str
    one: str
    other: str


@dataclass(frozen=True, kw_only=True)
class AskPatches:
    """Which patches is a commit tested with? Answer: a tuple of full commit ids."""

    repository: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class AskApplies:
    """On top of which commits can the change of one be made? Answer: a tuple of full commit ids, or None where git is
    too old to try it without a worktree."""

    repository: str
    change: str
    commits: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AskSameChange:
    """Which of some commits make the same change as another one? Answer: a tuple of full commit ids."""

    repository: str
    commit: str
    among: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AskPins:
    """What does every pin of the stack say at both ends? Answer: a tuple of `PinRecord`."""

    good: Target
    bad: Target


HistoryQuestion: TypeAlias = (
    AskRange
    | AskBlamedFile
    | AskTarget
    | AskFirstParents
    | AskMovedPins
    | AskYardstick
    | AskMergeBase
    | AskPatches
    | AskApplies
    | AskSameChange
    | AskPins
)
HistoryAnswer: TypeAlias = (
    LoadedRange
    | BlamedFile
    | Target
    | FirstParents
    | MovedYardstick
    | tuple[MovedPin, ...]
    | tuple[PinRecord, ...]
    | tuple[str, ...]
    | str
    | None
)

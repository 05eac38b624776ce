"""The questions that a bisection asks about the history of its repositories, each with the type of its answer.

The `Ask...` classes are the questions, `HistoryQuestion` is any of them, and `HistoryAnswer` any answer. `descent` says
where to search inside a pinned repository, once a commit that moves the pin is to blame. `perturb_range` returns a
range as it is run under a perturbation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...runner.case.case import PERTURBATION_KEY, perturbed_content_key
from ...runner.stack import Model
from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import Judgement, Seeks
from ..search.belief import Outcome
from ..search.testability import BlamedFile
from .range import LoadedRange, Range, Target, search_outcome


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A range of the pinned repository. `base` is the merge base of pins on diverged lines.

    The move of the pin brought in the change that is found in the range. Where the range seeks the opposite of what was
    asked, the move took the change away, for example a fix by a roll backwards.
    """

    range: Range
    base: str | None = None


def has_diverged(base: str | None, *, old: str, new: str) -> bool:
    """Return whether two pins lie on lines that diverged at `base`.

    Then a judgement of the base decides which line to search.
    """
    return base is not None and base not in (old, new)


def descent(
    base: str | None,
    *,
    target: str,
    old: str,
    new: str,
    held: Mapping[str, str],
    seeks: Seeks,
    base_judgement: Judgement | None = None,
) -> Descent | str:
    """Return the range that a pin's move from `old` to `new` makes suspect, or the reason why there is none.

    The case behaves with the old pin as at the old end of the outer range, and with the new pin as at its new end.

    base: the merge base of both pins, or None where they share no history.
    base_judgement: the judgement of the case with the pin at the merge base. Between diverged lines it says on which
    one the change lies.

    Raises `ValueError` where `base_judgement` is needed and missing.
    """

    def make_range(first: str, last: str, sought: Seeks) -> Range:
        return Range(repository=target, old=first, new=last, held=held, seeks=sought)

    if base is None:
        return "which share no history"
    if base == old:
        return Descent(range=make_range(old, new, seeks))
    if base == new:
        return Descent(range=make_range(new, old, seeks.opposite))
    if base_judgement is None:
        raise ValueError(f"expected what the case does at the merge base {base}, found nothing")
    match search_outcome(base_judgement, seeks):
        case Outcome.GOOD:
            return Descent(range=make_range(base, new, seeks), base=base)
        case Outcome.BAD:
            return Descent(range=make_range(base, old, seeks.opposite), base=base)
        case Outcome.SKIP:
            return f"on two lines, whose merge base {base[:12]} cannot be judged"


@dataclass(frozen=True, kw_only=True)
class MovedPin:
    """A pin that a commit moves from one value to another. `held_name` is its name among revisions.

    versions: the releases for which both values stand, if they do.
    """

    path: str
    held_name: str
    old: str
    new: str
    versions: tuple[str, str] | None = None

    @property
    def move(self) -> str:
        """Describe the move.

        >>> MovedPin(path="isa.pin", held_name="isa", old="0" * 40, new="1" * 40).move
        'from 000000000000 to 111111111111'
        """
        old, new = self.versions or (self.old[:12], self.new[:12])
        return f"from {old} to {new}"


@dataclass(frozen=True, kw_only=True)
class CheckChange:
    """How two commits measure differently, and two commits of the private clone with the measures exchanged."""

    changes: tuple[str, ...]
    new_with_old: str
    old_with_new: str


@dataclass(frozen=True, kw_only=True)
class OfferedPerturbation:
    """A perturbation that can be tried on this machine: its name, its key among others, and what it changes."""

    name: str
    key: str
    description: str

    def content(self, of: str) -> str:
        """Return the content key of a run of some content under it."""
        return perturbed_content_key(of, self.key)


def perturb_range(loaded: LoadedRange, perturbation: OfferedPerturbation) -> LoadedRange:
    """Return a range as it is run under a perturbation: the same commits and builds, with contents of their own.

    Contents that others could not build are expected to fail in the same way under it.
    """
    contents = {
        commit: None if content is None else perturbation.content(content)
        for commit, content in loaded.contents.items()
    }
    return replace(
        loaded,
        range=replace(loaded.range, held={**loaded.range.held, PERTURBATION_KEY: perturbation.name}),
        contents=contents,
        old_content=perturbation.content(loaded.old_content),
        new_content=perturbation.content(loaded.new_content),
        earlier_skips={
            perturbation.content(content): errors for content, errors in loaded.earlier_skips.items()
        },
        builds={
            perturbation.content(content): build
            for content in (*filter(None, loaded.contents.values()), loaded.old_content)
            if (build := loaded.build_of(content))
        },
    )


@dataclass(frozen=True, kw_only=True)
class AskRange:
    """Which commits does a range hold? Answer: a `LoadedRange`, or None where no commit of it can change a result.

    A very long range is one stretch at first. Opening a stretch reads its commits, or cuts it in two where it is too
    long for that.
    """

    ordinal: int
    """The number of the range among those of this bisection, from 1."""
    range: Range
    opened: tuple[str, ...] = ()
    """The last commits of the stretches to open, in this order, after the stretch that is the whole range."""
    whole: bool = False
    """Whether all commits are read, however many there are."""

    @property
    def reads_on(self) -> bool:
        """Return whether a part of the range was read before."""
        return bool(self.opened) or self.whole


@dataclass(frozen=True, kw_only=True)
class AskUndone:
    """Did a commit that was not read undo what this commit of a range changes? Answer: a bool."""

    ordinal: int
    """The number of the range, as in `AskRange`."""
    commit: str


@dataclass(frozen=True, kw_only=True)
class AskBlamedFile:
    """Which candidates of a range hold the file that an error blames? The error made a commit of the range untestable.

    Answer: a `BlamedFile`, or None where the error names no file that the range changes.
    """

    ordinal: int
    """The number of the range, as in `AskRange`."""
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
    """Which commits lead to a commit along first parents? Answer: a `FirstParents`."""

    repository: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class FirstParents:
    """A commit and its first parents, itself first.

    `is_whole` says that the last one is a root. Otherwise a shallow clone ends there.
    """

    commits: tuple[str, ...]
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True)
class AskMovedPins:
    """Which searched pins differ between two commits of their holder? Answer: a tuple of `MovedPin`."""

    repository: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class AskCheckChange:
    """What of how the case measures differs between two commits of its repository?

    Answer: a `CheckChange`, or None where nothing differs, or where it cannot be separated from the rest.
    """

    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class AskMergeBase:
    """Where did two commits diverge? Answer: a full commit id, or None where they share no history."""

    repository: str
    one: str
    other: str


@dataclass(frozen=True, kw_only=True)
class AskPatches:
    """With which patches is a commit tested? Answer: a tuple of full commit ids."""

    repository: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class AskApplies:
    """On top of which commits can the change of another one be made?

    Answer: a tuple of full commit ids, or None where git is too old to try it without a worktree.
    """

    repository: str
    change: str
    commits: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AskSameChange:
    """Which of some commits make the same change as another one? Answer: a tuple of full commit ids."""

    repository: str
    commit: str
    among: tuple[str, ...]


class PinRecord(Model):
    """The values of a pin at both ends.

    A searched pin follows its holder's commits. A frozen one has the value `frozen_at` in every run. That is None if
    the pin has no value at the bad end.
    """

    name: str
    holder: str
    path: str
    value_good: str | None
    value_bad: str | None
    searched: bool
    frozen_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class AskPins:
    """What does every pin of the stack say at both ends? Answer: a tuple of `PinRecord`."""

    good: Target
    bad: Target


HistoryQuestion: TypeAlias = (
    AskRange
    | AskUndone
    | AskBlamedFile
    | AskTarget
    | AskFirstParents
    | AskMovedPins
    | AskCheckChange
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
    | CheckChange
    | tuple[MovedPin, ...]
    | tuple[PinRecord, ...]
    | tuple[str, ...]
    | str
    | bool
    | None
)

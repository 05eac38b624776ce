"""Where to look inside of a pinned repository, once a commit that moves its pin is to blame by that move."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...store.vocabulary import Judgement, Seeks
from ..search.evidence.knowledge import Outcome
from .range import Range, outcome_of


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A range of the pinned repository. `base` is the merge base of pins on diverged lines.

    The move brought in what is found in the range, or, where the range seeks the opposite of what was asked, took it
    away: a fix, say, by a roll backwards.
    """

    range: Range
    base: str | None = None


def parted(base: str | None, *, old: str, new: str) -> bool:
    """Whether two pins lie on lines that parted at `base`, so that it has to be judged on which of them to look."""
    return base is not None and base not in (old, new)


def descent(
    base: str | None,
    *,
    target: str,
    old: str,
    new: str,
    held: Mapping[str, str],
    seeks: Seeks,
    of_base: Judgement | None = None,
) -> Descent | str:
    """The range that a pin's move from `old` to `new` makes suspect, or why there is none.

    With the old pin the case does as at the old end of the range above, with the new pin as at its new end. base: the
    merge base of both, None where they share no history. of_base: what the case does with the pin there: between lines
    that diverged it says on which of them the change lies. Raises `ValueError` where it is needed and missing.
    """

    def between(first: str, last: str, sought: Seeks) -> Range:
        return Range(repository=target, old=first, new=last, held=held, seeks=sought)

    if base is None:
        return "which share no history"
    if base == old:
        return Descent(range=between(old, new, seeks))
    if base == new:
        return Descent(range=between(new, old, seeks.opposite))
    if of_base is None:
        raise ValueError(f"expected what the case does at the merge base {base}, found nothing")
    match outcome_of(of_base, seeks):
        case Outcome.GOOD:
            return Descent(range=between(base, new, seeks), base=base)
        case Outcome.BAD:
            return Descent(range=between(base, old, seeks.opposite), base=base)
        case Outcome.SKIP:
            return f"on two lines, whose merge base {base[:12]} cannot be judged"

"""Where to look inside of a pinned repository, once a commit that moves its pin is to blame by that move."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...runner.git.repository import GitRepository
from ...store.vocabulary import Judgement, Seeks
from ..search.evidence.knowledge import Outcome
from .stage import Range, outcome_of


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A range of the pinned repository. `base` is the merge base of pins on diverged lines.

    The move brought in what is found in the range, or, where the range seeks the opposite of what was asked, took it
    away: a fix, say, by a roll backwards.
    """

    range: Range
    base: str | None = None


def descent(
    repository: GitRepository,
    *,
    target: str,
    old: str,
    new: str,
    held: Mapping[str, str],
    seeks: Seeks,
    judge: Callable[[str], Judgement],
) -> Descent | str:
    """The range that a pin's move from `old` to `new` makes suspect, or why there is none.

    With the old pin the case does as at the old end of the range above, with the new pin as at its new end. `judge`
    tells what it does with the pin at another commit: between lines that diverged, their merge base says on which of
    them the change lies.
    """

    def between(first: str, last: str, sought: Seeks) -> Range:
        return Range(repository=target, old=first, new=last, held=held, seeks=sought)

    base = repository.merge_base(old, new)
    if base is None:
        return "which share no history"
    if base == old:
        return Descent(range=between(old, new, seeks))
    if base == new:
        return Descent(range=between(new, old, seeks.opposite))
    match outcome_of(judge(base), seeks):
        case Outcome.GOOD:
            return Descent(range=between(base, new, seeks), base=base)
        case Outcome.BAD:
            return Descent(range=between(base, old, seeks.opposite), base=base)
        case Outcome.SKIP:
            return f"on two lines, whose merge base {base[:12]} cannot be judged"

"""Which kind of edit searches next, until none finds anything."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class EditSchedule:
    """The kinds take turns, in their order and round after round, until each has searched the same best program in
    vain: no single edit of any kind makes it smaller. What they ask a second time the memory answers.

    turns: searches that have ended.
    in_vain: those of the last ones that found nothing.

    >>> schedule = EditSchedule(2)
    >>> for better in (True, False, False):
    ...     schedule = schedule.after(better=better)
    >>> schedule.done
    True
    """

    kinds: int
    turns: int = 0
    in_vain: int = 0

    @property
    def done(self) -> bool:
        """Whether all kinds have searched in vain since the last success."""
        return self.in_vain >= self.kinds

    @property
    def kind(self) -> int:
        """The place of the kind whose turn it is."""
        return self.turns % self.kinds

    @property
    def again(self) -> bool:
        """Whether that kind has searched before."""
        return self.turns >= self.kinds

    def after(self, *, better: bool) -> EditSchedule:
        """The next turn; `better` says whether this one made the program smaller."""
        return replace(self, turns=self.turns + 1, in_vain=0 if better else self.in_vain + 1)

"""A stretch of history between a change and its undoing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """`end` undoes what `start`, an ancestor of it, has changed; inside are the commits from `start` on before it.

    `reverted`: `end` says so itself, which people do when something was wrong in between.
    """

    start: int
    end: int
    reverted: bool = False

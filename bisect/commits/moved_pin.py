"""A pin that moves from one commit to the next."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MovedPin:
    """A pin that a commit moves from one value to another. `held_name` is what it is called among revisions."""

    path: str
    held_name: str
    old: str
    new: str

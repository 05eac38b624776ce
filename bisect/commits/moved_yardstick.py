"""How a case measures, where that differs from one commit to the next."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MovedYardstick:
    """What two commits measure differently with, and commits with it exchanged, which the private clone keeps."""

    changes: tuple[str, ...]
    new_with_old: str
    old_with_new: str

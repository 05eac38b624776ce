"""A pin that moves from one commit to the next."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MovedPin:
    """A pin that a commit moves from one value to another. `held_name` is what it is called among revisions.

    told: both as people know them, where they stand for releases.
    """

    path: str
    held_name: str
    old: str
    new: str
    told: tuple[str, str] | None = None

    @property
    def move(self) -> str:
        """From where to where.

        >>> MovedPin(path="isa.pin", held_name="isa", old="0" * 40, new="1" * 40).move
        'from 000000000000 to 111111111111'
        """
        old, new = self.told or (self.old[:12], self.new[:12])
        return f"from {old} to {new}"

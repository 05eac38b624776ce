"""What one of the two, the product or git, made of a regression."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """named: the commits it blames, confirmed. left: those among which it could not tell. untestable: runs that were
    skips. builds: those made anew, None where what builds is not told apart from what runs. layers: the repositories
    searched. commits: in the ranges searched."""

    named: tuple[str, ...]
    left: int
    runs: int
    untestable: int
    builds: int | None
    minutes: float
    layers: tuple[str, ...]
    commits: int

    def verdict(self, culprit: str) -> str:
        """How it compares with the truth, in a word."""
        if not self.named:
            return f"left open among {self.left}" if self.left else "no answer"
        return "named" if self.named == (culprit,) else "WRONG"

"""Lines of a summary on the terminal: of each list the first entries, or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from .diff_text import printable

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SummaryLines:
    """Prints a line in a style; with `whole`, of each list all entries are printed."""

    console: Console
    whole: bool = False

    def __call__(self, text: str, style: str = "") -> None:
        """Print one line."""
        self.console.print(Text(printable(text), style=style), soft_wrap=True)

    def first(self, entries: Sequence[T], most: int) -> Sequence[T]:
        """The entries to print: at most so many, but where all were asked for."""
        return entries if self.whole else entries[:most]

    def left_out(self, entries: Sequence[object], most: int) -> int:
        """How many entries `first` leaves out."""
        return len(entries) - len(self.first(entries, most))

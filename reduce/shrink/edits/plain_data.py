"""Give plain values to one input after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..program.candidate import Candidate, Plain
from .choices import Choices


@dataclass(frozen=True)
class PlainData:
    """`inputs` tells the names of a candidate's inputs that were recorded with several values."""

    inputs: Callable[[Candidate], Sequence[str]]
    name: str = "data"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """At each input, each kind of plain values, plainest first."""
        places = [partial(_alternatives, name) for name in self.inputs(best)]
        return Choices.search(best, places, rate=rate)


def _alternatives(name: str, best: Candidate) -> Sequence[Candidate]:
    return [replace(best, plain=tuple({**dict(best.plain), name: kind.value}.items())) for kind in Plain]

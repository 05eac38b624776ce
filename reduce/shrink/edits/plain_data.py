"""Plain values for one input after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..program.candidate import Candidate
from ..program.pair import BuildPair
from ..program.render.plain_values import Plain


@dataclass(frozen=True)
class PlainData:
    """For each input, the values to try, plainest first."""

    pair: BuildPair
    name: str = "data"

    def inputs(self, reduction: Candidate) -> tuple[str, ...]:
        """Inputs of the reduced program that hold several values, in the order of its arguments."""
        return tuple(
            one.buffer.name
            for one in self.pair.failing_cut(reduction).tensors
            if one.initial is not None and one.initial.size and bool((one.initial != one.initial[0]).any())
        )

    def alternatives(self, reduction: Candidate, name: str) -> Sequence[Candidate]:
        """`reduction` with each kind of plain values for one input."""
        known = dict(reduction.plain)
        return [
            replace(reduction, plain=tuple(sorted({**known, name: kind.value}.items()))) for kind in Plain
        ]

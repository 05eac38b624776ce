"""Plain values for one input after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..program.candidate import Pair
from ..program.model import Reduction
from ..program.render.plain_values import Plain


@dataclass(frozen=True)
class PlainData:
    """For each input, the values to try, plainest first."""

    pair: Pair
    name: str = "data"

    def inputs(self, reduction: Reduction) -> tuple[str, ...]:
        """Inputs of the reduced program that hold several values, in the order of its arguments."""
        return tuple(
            one.buffer.name
            for one in self.pair.failing_cut(reduction).tensors
            if one.initial is not None and one.initial.size and bool((one.initial != one.initial[0]).any())
        )

    def alternatives(self, reduction: Reduction, name: str) -> Sequence[Reduction]:
        """`reduction` with each kind of plain values for one input."""
        known = dict(reduction.plain)
        return [
            replace(reduction, plain=tuple(sorted({**known, name: kind.value}.items()))) for kind in Plain
        ]

"""A reduced program, as what is left of the whole one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Candidate:
    """A reduced program: ordinals of the failing build's tasks that stay, kernels taken from the reference, sizes that
    became smaller ones, inputs that hold plain values, statements that both builds' kernels do without (the kernel,
    the text, and which of that text), kernels whose text is another one, merged as in `merged.py`, and tasks that run
    in fewer blocks.
    """

    tasks: tuple[int, ...]
    collapsed: tuple[str, ...] = ()
    extents: tuple[tuple[int, int], ...] = ()
    plain: tuple[tuple[str, str], ...] = ()
    statements: tuple[tuple[str, str, int], ...] = ()
    rewritten: tuple[tuple[str, str], ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def is_new_to_the_reference(self) -> bool:
        """Whether what the reference makes of the inputs has to be computed anew."""
        return bool(self.extents or self.plain or self.statements or self.rewritten or self.blocks)

    @property
    def key(self) -> str:
        """Names the candidate in the journal of tests."""
        parts = [",".join(map(str, self.tasks)), ",".join(self.collapsed)]
        if self.is_new_to_the_reference:
            parts += [",".join(f"{one}={other}" for one, other in (*self.extents, *self.plain))]
            parts += [
                hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
                for texts in (self.statements, self.rewritten)
                if texts
            ]
            parts += [f"{task} in {count}" for task, count in self.blocks]
        return ";".join(parts)

    @property
    def digest(self) -> str:
        """Names a folder of the candidate."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

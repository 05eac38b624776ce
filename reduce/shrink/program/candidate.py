"""A reduced program, as what was taken from the whole one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum


class Plain(Enum):
    """What all elements of an input are, the plainest first."""

    ZEROS = "zeros"
    ONES = "ones"
    FIRST = "its first value"


@dataclass(frozen=True)
class Candidate:
    """A reduced program.

    tasks: ordinals of the failing build's tasks that stay.
    collapsed: kernels taken from the reference.
    extents: sizes along an axis, and the smaller ones that they became.
    plain: inputs that hold plain values, and which (`Plain`).
    statements: those that both builds' kernels do without: the kernel, the text, and which of that text.
    rewritten: kernels whose text is another one, merged as in `render/merged.py`.
    blocks: tasks that run in fewer blocks, and in how many.
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
            parts += [",".join(f"{before}={after}" for before, after in (*self.extents, *self.plain))]
            parts += [
                hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
                for texts in (self.statements, self.rewritten)
                if texts
            ]
            parts += [f"{task} in {count}" for task, count in self.blocks]
        return ";".join(parts)

    @property
    def digest(self) -> str:
        """Names a folder that holds something of the candidate."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

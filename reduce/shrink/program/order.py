"""Which of two reduced programs is the smaller one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .candidate import Candidate, Plain
from .model import Program, ProgramTask, private_name

_RECORDED = len(Plain)
"""The rank of an input that holds its recorded values; those of plain ones are 0, 1, and so on, plainest first."""


@dataclass(frozen=True, order=True, kw_only=True)
class CandidateSize:
    """The first of these numbers in which two candidates differ tells which is smaller.

    `failing_kernels` are those not taken from the reference, `blocks` those of all tasks together, `elements` those of
    all tensors that tasks are given. What was taken away counts below zero: by how many ranks inputs are plainer than
    recorded, statements dropped, and bytes of kernels' merged texts. `key` is the candidate itself as a text, so that
    two candidates of one size are one candidate; before it, `rewritten` kernels are counted.
    """

    tasks: int
    kernels: int
    failing_kernels: int
    blocks: int
    elements: int
    plainness: int
    statements: int
    source_bytes: int
    rewritten: int
    key: str


@dataclass(frozen=True, kw_only=True)
class TaskSize:
    """What counts of a task of the whole program: the names of its kernels, in how many blocks it runs, the shapes
    (elements) of its tensors, and the names that its inputs may have in a reduced program."""

    kernels: tuple[str, ...]
    blocks: int
    shapes: tuple[tuple[int, ...], ...]
    inputs: frozenset[str]

    @classmethod
    def of(cls, program: Program, task: ProgramTask) -> TaskSize:
        """The size of a task that a build submitted."""
        return cls(
            kernels=task.kernels,
            blocks=task.blocks or 1,
            shapes=tuple(argument.region.shape for argument in task.arguments),
            inputs=frozenset(_input_names(program, task)),
        )


@dataclass(frozen=True, kw_only=True)
class CandidateOrder:
    """A total order on the candidates that are made of one program; `tasks` are by ordinal.

    `merged_bytes` tells the size of a kernel's merged text (`render/merged.py`) before anything makes it smaller.
    """

    tasks: tuple[TaskSize, ...]
    merged_bytes: Callable[[str], int]

    @property
    def whole(self) -> Candidate:
        """The program that nothing was taken from."""
        return Candidate(tuple(range(len(self.tasks))))

    def kernels(self, candidate: Candidate) -> frozenset[str]:
        """Names of the kernels that its tasks use."""
        return frozenset(name for task in candidate.tasks for name in self.tasks[task].kernels)

    def extents(self, candidate: Candidate) -> tuple[int, ...]:
        """All sizes above 1 that its tasks are given along an axis in the whole program, the largest first."""
        sizes = {size for shape in self._shapes(candidate) for size in shape if size > 1}
        return tuple(sorted(sizes, reverse=True))

    def canonical(self, candidate: Candidate) -> Candidate:
        """The same reduced program without what says nothing of it: edits of tasks, kernels and tensors that are gone,
        sizes and numbers of blocks that are as they were. Everything is sorted."""
        tasks = tuple(sorted(set(candidate.tasks)))
        kernels, extents = self.kernels(candidate), set(self.extents(candidate))
        inputs = frozenset[str]().union(*(self.tasks[task].inputs for task in tasks))
        return Candidate(
            tasks=tasks,
            collapsed=tuple(sorted(kernels.intersection(candidate.collapsed))),
            extents=tuple(
                sorted(edit for edit in candidate.extents if edit[0] in extents and edit[1] != edit[0])
            ),
            plain=tuple(sorted(edit for edit in candidate.plain if edit[0] in inputs)),
            statements=tuple(sorted({edit for edit in candidate.statements if edit[0] in kernels})),
            rewritten=tuple(sorted(edit for edit in candidate.rewritten if edit[0] in kernels)),
            blocks=tuple(
                sorted(
                    (task, count)
                    for task, count in candidate.blocks
                    if task in tasks and count != self.tasks[task].blocks
                )
            ),
        )

    def size(self, candidate: Candidate) -> CandidateSize:
        """The size of a candidate in its canonical form."""
        kernels, blocks, extents = self.kernels(candidate), dict(candidate.blocks), dict(candidate.extents)
        return CandidateSize(
            tasks=len(candidate.tasks),
            kernels=len(kernels),
            failing_kernels=len(kernels.difference(candidate.collapsed)),
            blocks=sum(blocks.get(task, self.tasks[task].blocks) for task in candidate.tasks),
            elements=sum(
                math.prod(extents.get(size, size) for size in shape) for shape in self._shapes(candidate)
            ),
            plainness=sum(_rank(value) - _RECORDED for _, value in candidate.plain),
            statements=-len(candidate.statements),
            source_bytes=sum(
                len(text.encode()) - self.merged_bytes(kernel) for kernel, text in candidate.rewritten
            ),
            rewritten=len(candidate.rewritten),
            key=repr(candidate),
        )

    def is_smaller(self, candidate: Candidate, other: Candidate) -> bool:
        """Whether `candidate` comes before `other`; both canonical."""
        return self.size(candidate) < self.size(other)

    def _shapes(self, candidate: Candidate) -> Iterator[tuple[int, ...]]:
        return (shape for task in candidate.tasks for shape in self.tasks[task].shapes)


def _rank(value: str) -> int:
    return [kind.value for kind in Plain].index(value)


def _input_names(program: Program, task: ProgramTask) -> Iterator[str]:
    for argument in task.arguments:
        name = program.buffers[argument.buffer].name
        yield name
        yield private_name(name, task, argument)

"""What the command answered, as causes in the order in which it names them, and whether that is the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum

from precision_bisect.runner.localization import Divergence

from .fault import Cause, Change, Ending, Fault
from .sources import Sources

_ORDERS = frozenset({Change.DIRECTION, Change.ORDER, Change.BUFFER})
"""Told by two tasks that nothing orders, too."""


class Grade(Enum):
    """How good an answer is; the last two are those of a case that passes."""

    FIRST = "right first"
    AMONG_THREE = "among the first three"
    WRONG = "wrong"
    NOTHING = "nothing found"
    ERROR = "no answer"
    CLEARED = "nothing blamed"
    BLAMED = "blamed"


@dataclass(frozen=True)
class Named:
    """One cause as the command names it.

    kernel: of the task at fault. tensors: what it leaves wrong. classes: of its error. kernels_changed: those whose
    source is said to be the cause. lines: of other sources, said to be the cause. unordered: whether two tasks without
    an order are.
    """

    kernel: str | None
    tensors: frozenset[str]
    classes: frozenset[str]
    kernels_changed: frozenset[str] = frozenset()
    lines: frozenset[str] = frozenset()
    unordered: bool = False

    def is_task_of(self, cause: Cause) -> bool:
        """Whether it names a task that is at fault."""
        return self.kernel in cause.kernels

    def is_right(self, cause: Cause, planted: frozenset[str]) -> bool:
        """Whether task, tensor, class and change are right; `planted` are the orchestration's lines that changed."""
        return (
            self.is_task_of(cause)
            # A task that is not there leaves no tensor.
            and (cause.change is Change.MISSING_TASK or bool(self.tensors & cause.tensors))
            and self.classes <= cause.classes
            and self._tells_change(cause, planted)
        )

    def _tells_change(self, cause: Cause, planted: frozenset[str]) -> bool:
        if cause.change is Change.KERNEL:
            return bool(self.kernels_changed) and self.kernels_changed <= cause.kernels
        return bool(self.lines & planted) or (cause.change in _ORDERS and self.unordered)


def named(divergence: Divergence) -> tuple[Named, ...]:
    """The causes that a localization names, best first; where it names none, each first divergent kernel."""
    if divergence.causes:
        return tuple(
            Named(
                kernel=cause.kernel,
                tensors=frozenset({cause.tensor} if cause.tensor is not None else ()),
                classes=frozenset({cause.task_class} if cause.task_class is not None else ()),
                kernels_changed=frozenset(
                    change.kernel for change in cause.changes if change.part == "kernel" and change.kernel
                ),
                lines=frozenset(
                    line[1:].strip()
                    for change in cause.changes
                    if change.part != "kernel"
                    for line in change.diff
                ),
            )
            for cause in divergence.causes
        )
    unordered = {
        name for edge in divergence.missing_edges for name in (edge.before_kernel, edge.after_kernel)
    }
    causes: list[Named] = []
    for kernel in dict.fromkeys(entry.kernel for entry in divergence.first_divergent):
        entries = [entry for entry in divergence.first_divergent if entry.kernel == kernel]
        classes = frozenset[str](entry.task_class for entry in entries)
        causes.append(
            Named(
                kernel=kernel,
                tensors=frozenset(entry.tensor for entry in entries if entry.tensor is not None),
                classes=classes,
                kernels_changed=frozenset({kernel} if "introduced" in classes else ()),
                unordered=kernel in unordered,
            )
        )
    return tuple(causes)


def grade(good: Sources, fault: Fault, divergence: Divergence | None) -> Grade:
    """How good the answer is, of a fault planted in the good sources; None: the command ended with an error."""
    if divergence is None:
        return Grade.ERROR
    answers = named(divergence)
    if fault.ending is Ending.PASS:
        return Grade.BLAMED if answers else Grade.CLEARED
    if fault.ending is Ending.STALL:
        stalled = [task.kernel for task in divergence.stall.tasks] if divergence.stall else []
        right = any(kernel in cause.kernels for kernel in stalled for cause in fault.causes)
        return Grade.FIRST if right else Grade.NOTHING if not stalled else Grade.WRONG
    if not answers:
        return Grade.NOTHING
    right = [
        any(answer.is_right(cause, _planted(good, cause.alone or fault.sources)) for cause in fault.causes)
        for answer in answers[:3]
    ]
    if right[0]:
        return Grade.FIRST
    return Grade.AMONG_THREE if any(right) else Grade.WRONG


def task_is_right(fault: Fault, divergence: Divergence | None) -> bool:
    """Whether the kernel named first is at fault, whatever is said about it."""
    answers = named(divergence) if divergence is not None else ()
    return bool(answers) and any(answers[0].is_task_of(cause) for cause in fault.causes)


def _planted(good: Sources, bad: Sources) -> frozenset[str]:
    """Lines that only one of the orchestrations has, or has elsewhere. Of two that changed places either one moved, so
    they are compared from both ends."""
    ours, theirs = ([line.strip() for line in sources.orchestration.splitlines()] for sources in (bad, good))
    return frozenset((*_moved(theirs, ours), *_moved(theirs[::-1], ours[::-1]))) - {""}


def _moved(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for kind, start, stop, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (*before[start:stop], *after[first:last])

"""What the command answered, as causes in the order in which it names them, and whether that is the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from precision_bisect.runner.localization.divergence import Divergence

from .fault import Cause, Change, Ending, Fault

_ORDERS = frozenset({Change.DIRECTION, Change.ORDER, Change.BUFFER})
"""Named alike today: as two tasks that nothing orders."""


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
    """One cause as the command names it: a kernel, the tensors of its tasks, their classes, and what changed."""

    kernel: str
    tensors: frozenset[str]
    classes: frozenset[str]
    changes: frozenset[Change]

    def is_task_of(self, cause: Cause) -> bool:
        """Whether it names a task that is at fault."""
        return self.kernel in cause.kernels

    def is_right(self, cause: Cause) -> bool:
        """Whether task, tensor, class and change are right."""
        return (
            self.is_task_of(cause)
            and bool(self.tensors & cause.tensors)
            and self.classes <= cause.classes
            and (cause.change in self.changes or bool(cause.change in _ORDERS and self.changes & _ORDERS))
        )


def named(divergence: Divergence) -> tuple[Named, ...]:
    """The causes that a localization names, a kernel once, best first."""
    unordered = {
        name for edge in divergence.missing_edges for name in (edge.before_kernel, edge.after_kernel)
    }
    kernels = list(dict.fromkeys(entry.kernel for entry in divergence.first_divergent))
    causes: list[Named] = []
    for kernel in kernels:
        entries = [entry for entry in divergence.first_divergent if entry.kernel == kernel]
        classes = frozenset(entry.task_class for entry in entries)
        changes = {Change.KERNEL} if "introduced" in classes else set[Change]()
        if kernel in unordered:
            changes |= _ORDERS
        causes.append(
            Named(
                kernel,
                frozenset(entry.tensor for entry in entries if entry.tensor is not None),
                frozenset(classes),
                frozenset(changes),
            )
        )
    return tuple(causes)


def grade(fault: Fault, divergence: Divergence | None) -> Grade:
    """How good the answer is; None: the command ended with an error."""
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
    if _is_any(answers[0], fault.causes):
        return Grade.FIRST
    return Grade.AMONG_THREE if any(_is_any(one, fault.causes) for one in answers[:3]) else Grade.WRONG


def task_is_right(fault: Fault, divergence: Divergence | None) -> bool:
    """Whether the kernel named first is at fault, whatever is said about it."""
    answers = named(divergence) if divergence is not None else ()
    return bool(answers) and any(answers[0].is_task_of(cause) for cause in fault.causes)


def _is_any(answer: Named, causes: Sequence[Cause]) -> bool:
    return any(answer.is_right(cause) for cause in causes)

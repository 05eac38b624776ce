"""Which task of one build corresponds to which of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from .task_list import KernelTask, TaskList


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Pairs of ordinals, failing to reference, in the order of both; and what of either has no counterpart."""

    reference_of: Mapping[int, int]
    only_failing: tuple[int, ...]
    only_reference: tuple[int, ...]


def align(failing: TaskList, reference: TaskList) -> Alignment:
    """Match tasks in submission order.

    Tasks of one kernel name with arguments of the same use and shape are the anchors; between two anchors, equally many
    tasks are paired if the shapes of their arguments agree one by one: a compiler may have renamed a kernel, changed a
    type or a direction. Nothing else is paired.
    """
    failing_signatures = [_signature(task) for task in failing.tasks]
    reference_signatures = [_signature(task) for task in reference.tasks]
    pairs: dict[int, int] = {}
    for kind, first, last, start, stop in SequenceMatcher(
        None, failing_signatures, reference_signatures, autojunk=False
    ).get_opcodes():
        between = zip(failing.tasks[first:last], reference.tasks[start:stop], strict=False)
        if kind == "equal" or (
            kind == "replace"
            and last - first == stop - start
            and all(_same_shapes(*pair) for pair in between)
        ):
            pairs.update(zip(range(first, last), range(start, stop), strict=True))
    matched = set(pairs.values())
    return Alignment(
        reference_of=pairs,
        only_failing=tuple(ordinal for ordinal in range(len(failing)) if ordinal not in pairs),
        only_reference=tuple(ordinal for ordinal in range(len(reference)) if ordinal not in matched),
    )


def _signature(task: KernelTask) -> tuple[object, ...]:
    return (
        task.kernels,
        *((argument.type, shape) for argument, shape in zip(task.task.arguments, _shapes(task), strict=True)),
    )


def _shapes(task: KernelTask) -> list[tuple[int, ...] | None]:
    return [None if argument.region is None else argument.region.shape for argument in task.task.arguments]


def _same_shapes(first: KernelTask, second: KernelTask) -> bool:
    return _shapes(first) == _shapes(second)

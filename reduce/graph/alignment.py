"""Which task of one build corresponds to which of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest

import numpy as np

from .task_list import KernelTask, TaskList

_MOST_PAIRS = 250_000
"""Tasks times tasks that are compared one by one; larger stretches are told apart by kernels and shapes alone."""
_SAME_KERNEL = 4.0


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Pairs of ordinals, failing to reference, in the order of both; and what of either has no counterpart."""

    reference_of: Mapping[int, int]
    only_failing: tuple[int, ...]
    only_reference: tuple[int, ...]


def align(
    failing: TaskList,
    reference: TaskList,
    *,
    uses: tuple[Sequence[object], Sequence[object]] = ((), ()),
) -> Alignment:
    """Match tasks in submission order.

    Tasks of one kernel name with arguments of the same use and place are the anchors: at both ends as many as there
    are, then the longest stretches. Between two anchors, tasks are paired in order so that as much as possible of
    kernels, uses, shapes and places agrees: a compiler may have renamed a kernel, or narrowed or moved a view. A pair
    has the same kernels, or ones of like names (`_renamed`), or the same shapes. `uses` is what else anchors must have
    in common, by ordinal.
    """
    renamed = _as_named_there(failing.tasks, reference.tasks)
    ours, theirs = (
        list(zip_longest(map(_placed, tasks), used))
        for tasks, used in zip((renamed, reference.tasks), uses, strict=True)
    )
    head = _alike_ahead(ours, theirs)
    tail = _alike_ahead(ours[head:][::-1], theirs[head:][::-1])
    last, stop = len(ours) - tail, len(theirs) - tail
    pairs = {task: task for task in range(head)}
    for kind, *stretch in _opcodes(ours[head:last], theirs[head:stop]):
        here, here_end, there, there_end = (head + place for place in stretch)
        if kind == "equal":
            pairs.update(zip(range(here, here_end), range(there, there_end), strict=True))
        elif kind == "replace":
            between = _between(renamed[here:here_end], reference.tasks[there:there_end])
            pairs.update({here + task: there + counterpart for task, counterpart in between})
    pairs.update(zip(range(last, len(ours)), range(stop, len(theirs)), strict=True))
    matched = set(pairs.values())
    return Alignment(
        reference_of=pairs,
        only_failing=tuple(ordinal for ordinal in range(len(failing)) if ordinal not in pairs),
        only_reference=tuple(ordinal for ordinal in range(len(reference)) if ordinal not in matched),
    )


def _as_named_there(failing: Sequence[KernelTask], reference: Sequence[KernelTask]) -> Sequence[KernelTask]:
    """The failing build's tasks by the names of the reference's kernels, where these differ by a part at one end."""
    here, there = ({name for task in side for name in task.kernels} for side in (failing, reference))
    there_of = _renamed(here - there, there - here)
    if not there_of:
        return failing
    return [
        replace(task, kernels=tuple(there_of.get(name, name) for name in task.kernels)) for task in failing
    ]


def _renamed(here: Set[str], there: Set[str]) -> Mapping[str, str]:
    """Each name with the one of `there` that it goes on from, or ends with, behind or before a `_`, or the other way
    about: `y_v2` and `y`. No name is in two pairs, and those with most in common come first."""
    alike = [
        (min(len(name), len(other)), name, other)
        for name in here
        for other in there
        if _goes_on(name, other) or _goes_on(other, name)
    ]
    found: dict[str, str] = {}
    for _, name, other in sorted(alike, reverse=True):
        if name not in found and other not in found.values():
            found[name] = other
    return found


def _goes_on(longer: str, shorter: str) -> bool:
    return longer.startswith(f"{shorter}_") or longer.endswith(f"_{shorter}")


def _alike_ahead(failing: Sequence[object], reference: Sequence[object]) -> int:
    """How many at the beginning are the same."""
    pairs = zip(failing, reference, strict=False)
    return next(
        (place for place, (one, other) in enumerate(pairs) if one != other), min(len(failing), len(reference))
    )


def _opcodes(
    failing: Sequence[object], reference: Sequence[object]
) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, failing, reference, autojunk=False).get_opcodes()


def _between(failing: Sequence[KernelTask], reference: Sequence[KernelTask]) -> Iterator[tuple[int, int]]:
    """Pairs of places in two stretches that have no task in common as it stands."""
    if len(failing) * len(reference) <= _MOST_PAIRS:
        yield from _best_pairs(failing, reference)
        return
    for kind, first, last, start, stop in _opcodes(
        [(task.kernels, tuple(_shapes(task))) for task in failing],
        [(task.kernels, tuple(_shapes(task))) for task in reference],
    ):
        if kind == "equal":
            yield from zip(range(first, last), range(start, stop), strict=True)


def _best_pairs(failing: Sequence[KernelTask], reference: Sequence[KernelTask]) -> Iterator[tuple[int, int]]:
    """The pairs in the order of both with the most agreement (S. Needleman and C. Wunsch, J. Mol. Biol. 48, 1970,
    without a cost for gaps)."""
    agreement = np.array([[_agreement(task, other) for other in reference] for task in failing])
    best = np.zeros((len(failing) + 1, len(reference) + 1))
    for task in range(len(failing) - 1, -1, -1):
        for other in range(len(reference) - 1, -1, -1):
            best[task, other] = max(
                best[task + 1, other],
                best[task, other + 1],
                agreement[task, other] + best[task + 1, other + 1],
            )
    task = other = 0
    while task < len(failing) and other < len(reference):
        together = agreement[task, other] + best[task + 1, other + 1]
        if agreement[task, other] > 0 and together >= best[task, other]:
            yield task, other
            task, other = task + 1, other + 1
        elif best[task + 1, other] >= best[task, other + 1]:
            task += 1
        else:
            other += 1


def _agreement(task: KernelTask, other: KernelTask) -> float:
    """How much speaks for two tasks being the same; 0 where neither kernels nor shapes agree."""
    same_kernels, same_shapes = task.kernels == other.kernels, _shapes(task) == _shapes(other)
    if not (same_kernels or same_shapes):
        return 0.0
    arguments = zip(task.task.arguments, other.task.arguments, strict=False)
    agreeing = sum(
        (first.type == second.type) + (first.region == second.region) for first, second in arguments
    )
    most = 2 * max(len(task.task.arguments), len(other.task.arguments), 1)
    return _SAME_KERNEL * same_kernels + same_shapes + agreeing / most


def _placed(task: KernelTask) -> tuple[object, ...]:
    """Kernels, and how and where the arguments are used: what stays from run to run."""
    return (
        task.kernels,
        *((argument.type, argument.region) for argument in task.task.arguments),
    )


def _shapes(task: KernelTask) -> list[tuple[int, ...] | None]:
    return [None if argument.region is None else argument.region.shape for argument in task.task.arguments]

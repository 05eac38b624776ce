"""The kernel tasks of one run as a graph, and which task of one build corresponds to which of another.

`TaskList` holds the tasks that ran kernels in the order of their submission, with the tasks whose results each reads.
`align` matches the tasks of two builds, and `shared_graph` is the graph of the matched tasks with the dependencies of
both. `missing_edges` finds tasks that touch the same elements
without waiting for each other. `unexpected_writers` finds who overwrites what a task reads.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import Enum
from functools import cached_property
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from ...runner.build_output.directory import KernelConfig
from ...runner.build_output.task_graph import (
    ArgumentType,
    EdgeSource,
    GraphArgument,
    GraphTask,
    Region,
    RegionIndex,
    TaskGraph,
    may_overlap,
)


@dataclass(frozen=True, kw_only=True)
class KernelTask:
    """A task that ran a kernel; `ordinal` counts such tasks from 0 in submission order.

    `result_bytes` is the size of what it writes, as dumped: an in-out tensor is dumped before and after. `all_bytes` is
    the size of all its arguments.
    """

    ordinal: int
    task: GraphTask
    kernels: tuple[str, ...]
    result_bytes: int
    all_bytes: int

    @property
    def name(self) -> str:
        """Return the names of its kernels."""
        return "+".join(self.kernels)


@dataclass(frozen=True)
class TaskList:
    """All kernel tasks of a graph."""

    graph: TaskGraph
    tasks: tuple[KernelTask, ...]

    @classmethod
    def from_graph(cls, graph: TaskGraph, config: KernelConfig) -> TaskList:
        """The kernel tasks of `graph`, with the names of `config`."""
        submitted = sorted(graph.tasks.values(), key=lambda task: task.position)
        running = [task for task in submitted if task.runs_a_kernel]
        return cls(
            graph, tuple(_kernel_task(graph, config, ordinal, task) for ordinal, task in enumerate(running))
        )

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def tasks_by_id(self) -> dict[int, KernelTask]:
        """Return the tasks by the runtime's id."""
        return {task.task.task_id: task for task in self.tasks}

    @property
    def all_bytes(self) -> int:
        """Return the size of a dump of everything."""
        return sum(task.all_bytes for task in self.tasks)

    @cached_property
    def predecessors(self) -> tuple[frozenset[int], ...]:
        """Return for each task the ordinals of the earlier tasks whose results it reads, by the regions that both name.

        Where regions do not tell, edges of the graph count. These are all edges in a graph without arguments. Otherwise
        they are the edges to the task that the runtime allocated a buffer for.
        """
        read: list[set[int]] = [set() for _ in self.tasks]
        for edge in self.graph.edges:
            above, task = self.tasks_by_id.get(edge.predecessor), self.tasks_by_id.get(edge.successor)
            tells = not self.graph.annotated or edge.source is EdgeSource.CREATOR
            if tells and above is not None and task is not None:
                read[task.ordinal].add(above.ordinal)
        writers = defaultdict[int, RegionIndex[int]](RegionIndex)
        for task in self.tasks:
            for tensor, region in regions(task, writing=False):
                read[task.ordinal].update(written.owner for written in writers[tensor].overlapping(region))
            for tensor, region in regions(task, writing=True):
                writers[tensor].overwrite(region, task.ordinal)
        return tuple(frozenset(read[task.ordinal] - {task.ordinal}) for task in self.tasks)


def regions(task: KernelTask, *, writing: bool) -> list[tuple[int, Region]]:
    """The parts of buffers that a task was declared to read, or to write, each with the buffer's id."""
    return [
        (argument.tensor_id, argument.region)
        for argument in task.task.arguments
        if argument.tensor_id is not None
        and argument.region is not None
        and (argument.type.may_write if writing else argument.type.may_read)
    ]


def _kernel_task(graph: TaskGraph, config: KernelConfig, ordinal: int, task: GraphTask) -> KernelTask:
    ids = [kernel for kernel in task.kernels or () if kernel >= 0]
    names = tuple(
        config.kernels[number].name if number in config.kernels else f"kernel {number}" for number in ids
    )
    # Buffers that the runtime allocated for the task stand in the edges, not in its arguments.
    made = sum(_tensor_bytes(graph, tensor) for tensor in graph.tensors_created_by(task.task_id))
    inputs = sum(_bytes(argument) for argument in task.arguments if not argument.type.may_write)
    results = sum(
        _bytes(argument) * (2 if argument.type.may_read else 1)
        for argument in task.arguments
        if argument.type.may_write
    )
    return KernelTask(
        ordinal=ordinal,
        task=task,
        kernels=names,
        result_bytes=results + made,
        all_bytes=inputs + results + made,
    )


def _bytes(argument: GraphArgument) -> int:
    region = argument.region
    if region is None or region.dtype is None:
        return 0
    return math.prod(region.shape) * region.dtype.itemsize


def _tensor_bytes(graph: TaskGraph, tensor_id: int) -> int:
    tensor = graph.tensors.get(tensor_id)
    if tensor is None or tensor.dtype is None or tensor.buffer_numel is None:
        return 0
    return tensor.buffer_numel * tensor.dtype.itemsize


_MOST_PAIRS = 250_000
"""At most this many pairs of tasks are compared one by one. Larger stretches are matched by kernels and shapes alone.
"""
_SAME_KERNEL_WEIGHT = 4.0
"""Equal kernels weigh this much in a pair of tasks. Equal shapes and equal arguments weigh at most 1 each, so kernels
decide."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The matched tasks of two builds, in an order that both share, and the unmatched tasks of each.

    `reference_of` maps ordinals of the failing build to ordinals of the reference.
    """

    reference_of: Mapping[int, int]
    only_failing: tuple[int, ...]
    only_reference: tuple[int, ...]


def align(
    failing: TaskList,
    reference: TaskList,
    *,
    extra_keys: tuple[Sequence[object], Sequence[object]] = ((), ()),
) -> Alignment:
    """Match tasks in submission order.

    An anchor is a pair of tasks with equal kernels, argument types and argument regions. Anchors come first from the
    common prefix and suffix, then from the longest equal runs between them. Between two anchors, tasks are paired in
    order so that kernels, argument types, shapes and regions agree as much as possible. A compiler may have renamed a
    kernel, or narrowed or moved a view. A pair has the same kernels, kernels of like names
    (`_match_renamed_kernels`), or the same shapes. `extra_keys` holds one more value per task of each build. The two
    tasks of an anchor must agree in it.
    """
    renamed = _rename_as_reference(failing.tasks, reference.tasks)
    failing_keys, reference_keys = (
        list(zip_longest(map(_anchor_key, tasks), extra))
        for tasks, extra in zip((renamed, reference.tasks), extra_keys, strict=True)
    )
    head = _common_prefix_length(failing_keys, reference_keys)
    tail = _common_prefix_length(failing_keys[head:][::-1], reference_keys[head:][::-1])
    failing_end, reference_end = len(failing_keys) - tail, len(reference_keys) - tail
    pairs = {task: task for task in range(head)}
    for kind, *stretch in _opcodes(failing_keys[head:failing_end], reference_keys[head:reference_end]):
        first, last, start, stop = (head + place for place in stretch)
        if kind == "equal":
            pairs.update(zip(range(first, last), range(start, stop), strict=True))
        elif kind == "replace":
            between = _pairs_between(renamed[first:last], reference.tasks[start:stop])
            pairs.update({first + task: start + counterpart for task, counterpart in between})
    pairs.update(
        zip(range(failing_end, len(failing_keys)), range(reference_end, len(reference_keys)), strict=True)
    )
    matched = set(pairs.values())
    return Alignment(
        reference_of=pairs,
        only_failing=tuple(ordinal for ordinal in range(len(failing)) if ordinal not in pairs),
        only_reference=tuple(ordinal for ordinal in range(len(reference)) if ordinal not in matched),
    )


def _rename_as_reference(
    failing: Sequence[KernelTask], reference: Sequence[KernelTask]
) -> Sequence[KernelTask]:
    """The failing build's tasks with the reference's kernel names.

    A name is replaced where one of the two names is the other plus a prefix or suffix.
    """
    failing_names, reference_names = (
        {name for task in build for name in task.kernels} for build in (failing, reference)
    )
    reference_name_of = _match_renamed_kernels(
        failing_names - reference_names, reference_names - failing_names
    )
    if not reference_name_of:
        return failing
    return [
        replace(task, kernels=tuple(reference_name_of.get(name, name) for name in task.kernels))
        for task in failing
    ]


def _match_renamed_kernels(failing: Set[str], reference: Set[str]) -> Mapping[str, str]:
    """Pair kernel names of which one is the other plus a prefix or suffix joined by `_`: `y_v2` and `y`.

    Either name may be the longer one. No name is in two pairs, and the names with most in common are paired first.
    """
    alike = [
        (min(len(name), len(other)), name, other)
        for name in failing
        for other in reference
        if _extends_name(name, other) or _extends_name(other, name)
    ]
    found: dict[str, str] = {}
    for _, name, other in sorted(alike, reverse=True):
        if name not in found and other not in found.values():
            found[name] = other
    return found


def _extends_name(longer: str, shorter: str) -> bool:
    return longer.startswith(f"{shorter}_") or longer.endswith(f"_{shorter}")


def _common_prefix_length(failing: Sequence[object], reference: Sequence[object]) -> int:
    """Return how many elements at the beginning are the same."""
    pairs = zip(failing, reference, strict=False)
    return next(
        (place for place, (one, other) in enumerate(pairs) if one != other), min(len(failing), len(reference))
    )


def _opcodes(
    failing: Sequence[object], reference: Sequence[object]
) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, failing, reference, autojunk=False).get_opcodes()


def _pairs_between(
    failing: Sequence[KernelTask], reference: Sequence[KernelTask]
) -> Iterator[tuple[int, int]]:
    """Pairs of places in two stretches that have no identical task in common."""
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
    """The order-preserving pairs whose total agreement is highest.

    The method is that of S. Needleman and C. Wunsch, J. Mol. Biol. 48, 1970, without a cost for gaps.
    """
    agreement = np.array([[_agreement(task, other) for other in reference] for task in failing])
    best = np.zeros((len(failing) + 1, len(reference) + 1))
    for row in range(len(failing) - 1, -1, -1):
        for column in range(len(reference) - 1, -1, -1):
            best[row, column] = max(
                best[row + 1, column],
                best[row, column + 1],
                agreement[row, column] + best[row + 1, column + 1],
            )
    row = column = 0
    while row < len(failing) and column < len(reference):
        together = agreement[row, column] + best[row + 1, column + 1]
        if agreement[row, column] > 0 and together >= best[row, column]:
            yield row, column
            row, column = row + 1, column + 1
        elif best[row + 1, column] >= best[row, column + 1]:
            row += 1
        else:
            column += 1


def _agreement(task: KernelTask, other: KernelTask) -> float:
    """Return how strongly two tasks agree; 0 where neither kernels nor shapes do."""
    same_kernels, same_shapes = task.kernels == other.kernels, _shapes(task) == _shapes(other)
    if not (same_kernels or same_shapes):
        return 0.0
    arguments = zip(task.task.arguments, other.task.arguments, strict=False)
    agreeing = sum(
        (first.type == second.type) + (first.region == second.region) for first, second in arguments
    )
    most = 2 * max(len(task.task.arguments), len(other.task.arguments), 1)
    return _SAME_KERNEL_WEIGHT * same_kernels + same_shapes + agreeing / most


def _anchor_key(task: KernelTask) -> tuple[object, ...]:
    """The kernels, and the type and region of each argument. These stay the same from run to run."""
    return (
        task.kernels,
        *((argument.type, argument.region) for argument in task.task.arguments),
    )


def _shapes(task: KernelTask) -> list[tuple[int, ...] | None]:
    return [None if argument.region is None else argument.region.shape for argument in task.task.arguments]


Mask = npt.NDArray[np.bool_]
Bits = int
"""A set of tasks takes an eighth of a mask's memory: bit `t` is task `t`."""


def bits_of(mask: Mask) -> Bits:
    """The tasks of a mask as bits.

    >>> bin(bits_of(np.array([True, False, True])))
    '0b101'
    """
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def mask_of(bits: Bits, length: int) -> Mask:
    """The tasks of `bits` as a mask of `length` elements."""
    packed = np.frombuffer(bits.to_bytes((length + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little").astype(np.bool_)


@dataclass(frozen=True, kw_only=True)
class Dag:
    """Tasks 0 ... n - 1 in dependency order.

    Attributes:
        predecessors: for each task, those whose results it reads; all have smaller numbers.
        sizes: bytes of each task's results.

    Raises:
        ValueError: the two differ in length, or a predecessor does not come before its task.
    """

    predecessors: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.predecessors) != len(self.sizes):
            raise ValueError(
                f"{len(self.predecessors)} tasks with predecessors, {len(self.sizes)} with sizes"
            )
        for task, above in enumerate(self.predecessors):
            if any(not 0 <= predecessor < task for predecessor in above):
                raise ValueError(f"expected predecessors of task {task} among those before it, found {above}")

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def ancestors(self) -> tuple[Bits, ...]:
        """Return for each task the tasks whose results reach it, and the task itself; n x n bits."""
        reach: list[Bits] = []
        for task, above in enumerate(self.predecessors):
            bits = 1 << task
            for predecessor in above:
                bits |= reach[predecessor]
            reach.append(bits)
        return tuple(reach)

    def with_descendants(self, tasks: Mask) -> Mask:
        """The given tasks and all that their results reach."""
        reached = tasks.tolist()
        for task, above in enumerate(self.predecessors):
            reached[task] = reached[task] or any(reached[predecessor] for predecessor in above)
        return np.array(reached, np.bool_)

    def with_ancestors(self, tasks: Mask) -> Mask:
        """The given tasks and all their ancestors."""
        reaching = tasks.tolist()
        for task in range(len(self) - 1, -1, -1):
            if reaching[task]:
                for predecessor in self.predecessors[task]:
                    reaching[predecessor] = True
        return np.array(reaching, np.bool_)

    def bytes_of(self, tasks: Mask) -> int:
        """Bytes of the results of all tasks in a mask."""
        return int(np.asarray(self.sizes, np.int64)[tasks].sum())

    def with_predecessors(self, tasks: Mask) -> Mask:
        """The mask of the given tasks and of the tasks that they read from."""
        widened = tasks.copy()
        for task in np.flatnonzero(tasks):
            widened[list(self.predecessors[task])] = True
        return widened


def unexpected_writers(
    failing: TaskList, reference: TaskList, alignment: Alignment, *, reader: KernelTask, argument: int
) -> tuple[KernelTask, ...]:
    """Earlier tasks that write what `reader` has as argument `argument`, and do not write it in the reference.

    If any of them come after the last expected writer, only those are returned. Such writers reveal a buffer that the
    compiler assigned to two live tensors.
    """
    counterpart = reference.tasks[alignment.reference_of[reader.ordinal]]
    writers = writers_before(failing, reader, argument)
    expected_writers = writers_before(reference, counterpart, argument)
    unexpected = [
        ordinal for ordinal in writers if alignment.reference_of.get(ordinal) not in expected_writers
    ]
    last_expected = max((ordinal for ordinal in writers if ordinal not in unexpected), default=-1)
    after = [ordinal for ordinal in unexpected if ordinal > last_expected]
    return tuple(failing.tasks[ordinal] for ordinal in after or unexpected)


def writers_before(tasks: TaskList, reader: KernelTask, argument: int) -> list[int]:
    """Ordinals of the earlier tasks that write into an argument of `reader`."""
    read = _argument(reader, argument)
    if read is None or read.tensor_id is None or read.region is None:
        return []
    return [
        task.ordinal
        for task in tasks.tasks[: reader.ordinal]
        if any(
            tensor == read.tensor_id and may_overlap(region, read.region)
            for tensor, region in regions(task, writing=True)
        )
    ]


def _argument(task: KernelTask, index: int) -> GraphArgument | None:
    return next((argument for argument in task.task.arguments if argument.index == index), None)


def shared_graph(failing: TaskList, reference: TaskList, reference_of: Mapping[int, int]) -> Dag:
    """The graph of the matched tasks, with the dependencies of both builds.

    `reference_of` maps failing ordinals to reference ordinals. The failing build may lack some dependencies that it
    needs. A task without a counterpart is skipped: its readers depend on what it reads.
    """
    ordinals = sorted(reference_of)
    failing_of = {counterpart: task for task, counterpart in reference_of.items()}
    failing_predecessors = predecessors_among(failing, reference_of.keys())
    reference_predecessors = predecessors_among(reference, failing_of.keys())
    nodes = {ordinal: node for node, ordinal in enumerate(ordinals)}
    return Dag(
        predecessors=tuple(
            tuple(
                sorted(
                    nodes[predecessor]
                    for predecessor in failing_predecessors[ordinal]
                    | {failing_of[task] for task in reference_predecessors[reference_of[ordinal]]}
                )
            )
            for ordinal in ordinals
        ),
        sizes=tuple(
            max(
                failing.tasks[ordinal].result_bytes,
                reference.tasks[reference_of[ordinal]].result_bytes,
            )
            for ordinal in ordinals
        ),
    )


def induced_graph(tasks: TaskList, kept: Sequence[int]) -> Dag:
    """The dependency graph of the tasks `kept`, whose ordinals must ascend.

    Dependencies pass through skipped tasks.
    """
    above = predecessors_among(tasks, set(kept))
    nodes = {ordinal: node for node, ordinal in enumerate(kept)}
    return Dag(
        predecessors=tuple(tuple(sorted(nodes[task] for task in above[ordinal])) for ordinal in kept),
        sizes=tuple(tasks.tasks[ordinal].result_bytes for ordinal in kept),
    )


def predecessors_among(tasks: TaskList, kept: Set[int]) -> list[set[int]]:
    """For each task, its predecessors among the `kept` ones, directly or through skipped tasks."""
    kept_above: list[set[int]] = []
    for above in tasks.predecessors:
        direct = {task for task in above if task in kept}
        kept_above.append(direct.union(*(kept_above[task] for task in above if task not in kept)))
    return kept_above


class Hazard(Enum):
    """What goes wrong if the two tasks run in the other order, or at once."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


@dataclass(frozen=True, kw_only=True)
class MissingEdge:
    """`after` was submitted later than `before`, touches what `before` writes or reads, and does not wait for it.

    `before_argument` and `after_argument` are the indices of the conflicting arguments of `before` and `after`.
    """

    before: KernelTask
    after: KernelTask
    before_argument: int
    after_argument: int
    hazard: Hazard
    cause: str


def missing_edges(tasks: TaskList) -> tuple[MissingEdge, ...]:
    """All missing edges of a graph with arguments, ordered by the later task.

    Of several missing edges between the same two tasks, only the first is returned. Regions are compared exactly,
    element by element where needed. Bounds alone decide if one region exceeds 2**24 elements, one has gaps, and they
    are not boxes of one layout.
    """
    if not tasks.graph.annotated:
        return ()
    ancestors = ancestors_by_position(tasks.graph)
    edges: dict[tuple[int, int], MissingEdge] = {}
    for uses in _uses_by_buffer(tasks).values():
        earlier = RegionIndex[tuple[KernelTask, GraphArgument]]()
        for after, second, region in uses:
            for use in earlier.near(region):
                before, first = use.owner
                key = before.ordinal, after.ordinal
                if before is after or key in edges:
                    continue
                hazard = _hazard(first, second)
                ordered = is_waited_for(ancestors, before, after)
                if hazard is not None and not ordered and may_overlap(use.region, region):
                    edges[key] = MissingEdge(
                        before=before,
                        after=after,
                        before_argument=first.index,
                        after_argument=second.index,
                        hazard=hazard,
                        cause=_cause(hazard, after, second),
                    )
            earlier.add(region, (after, second))
    return tuple(edges[key] for key in sorted(edges, key=lambda key: (key[1], key[0])))


def ancestors_by_position(graph: TaskGraph) -> tuple[Bits, ...]:
    """For the task at each position, the positions of the tasks that it waits for, and its own. Edges lead forward."""
    position = {task.task_id: task.position for task in graph.tasks.values()}
    above: list[set[int]] = [set() for _ in position]
    for edge in graph.edges:
        if edge.predecessor in position and edge.successor in position:
            above[position[edge.successor]].add(position[edge.predecessor])
    forward = tuple(
        tuple(sorted(before for before in waited if before < task)) for task, waited in enumerate(above)
    )
    return Dag(predecessors=forward, sizes=(0,) * len(above)).ancestors


def is_waited_for(ancestors: Sequence[Bits], before: KernelTask, after: KernelTask) -> bool:
    """Return whether the second task waits for the first, directly or not. `ancestors`: by `ancestors_by_position`."""
    return bool(ancestors[after.task.position] >> before.task.position & 1)


def _uses_by_buffer(tasks: TaskList) -> dict[int, list[tuple[KernelTask, GraphArgument, Region]]]:
    uses: dict[int, list[tuple[KernelTask, GraphArgument, Region]]] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            if argument.tensor_id is not None and argument.region is not None:
                uses.setdefault(argument.tensor_id, []).append((task, argument, argument.region))
    return uses


def _hazard(first: GraphArgument, second: GraphArgument) -> Hazard | None:
    if first.type.may_write:
        return Hazard.READ_AFTER_WRITE if second.type.may_read else Hazard.WRITE_AFTER_WRITE
    return Hazard.WRITE_AFTER_READ if second.type.may_write else None


def _cause(hazard: Hazard, after: KernelTask, second: GraphArgument) -> str:
    if hazard is Hazard.READ_AFTER_WRITE:
        if after.task.in_manual_scope:
            return "in a manual scope only set_dependencies orders tasks"
        return "the runtime recorded no edge for what was declared"
    if hazard is Hazard.WRITE_AFTER_WRITE and second.type is ArgumentType.OUTPUT_EXISTING:
        return "add_output where add_inout belongs, if the kernel reads what was there"
    return "a buffer is used again before its last reader or writer is done"

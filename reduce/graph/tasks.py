"""The kernel tasks of a run, and the correspondence between the tasks of two builds.

`TaskList` holds the tasks in submission order, with their predecessors. `align` matches the tasks of two builds, and
`shared_graph` has the dependencies of both. `missing_edges` finds unordered tasks that touch the same elements.
`unexpected_writers` finds tasks that overwrite an argument of another task.
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
    """A task that ran a kernel. `ordinal` counts such tasks from 0 in submission order.

    `result_bytes` is the size of a dump of its results. An in-out tensor counts twice, because it is dumped before and
    after. `all_bytes` is the size of a dump of all its arguments.
    """

    ordinal: int
    task: GraphTask
    kernels: tuple[str, ...]
    result_bytes: int
    all_bytes: int

    @property
    def name(self) -> str:
        """Return the names of the kernels, joined by `+`."""
        return "+".join(self.kernels)


@dataclass(frozen=True)
class TaskList:
    """All kernel tasks of a graph."""

    graph: TaskGraph
    tasks: tuple[KernelTask, ...]

    @classmethod
    def from_graph(cls, graph: TaskGraph, config: KernelConfig) -> TaskList:
        """Return the kernel tasks of a graph. `config` has the names of the kernels."""
        submitted = sorted(graph.tasks.values(), key=lambda task: task.position)
        running = [task for task in submitted if task.runs_a_kernel]
        return cls(
            graph, tuple(_kernel_task(graph, config, ordinal, task) for ordinal, task in enumerate(running))
        )

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def tasks_by_id(self) -> dict[int, KernelTask]:
        """Return the tasks by the runtime's ids."""
        return {task.task.task_id: task for task in self.tasks}

    @property
    def all_bytes(self) -> int:
        """Return the size of a dump of everything."""
        return sum(task.all_bytes for task in self.tasks)

    @cached_property
    def predecessors(self) -> tuple[frozenset[int], ...]:
        """Return for each task the ordinals of the earlier tasks whose results it reads.

        The regions of arguments decide. In a graph without arguments, all its edges count. In other graphs, an edge
        counts if the runtime allocated a buffer for its first task.
        """
        predecessors: list[set[int]] = [set() for _ in self.tasks]
        for edge in self.graph.edges:
            before, task = self.tasks_by_id.get(edge.predecessor), self.tasks_by_id.get(edge.successor)
            counts = not self.graph.annotated or edge.source is EdgeSource.CREATOR
            if counts and before is not None and task is not None:
                predecessors[task.ordinal].add(before.ordinal)
        writers = defaultdict[int, RegionIndex[int]](RegionIndex)
        for task in self.tasks:
            for tensor, region in regions(task, writing=False):
                written = writers[tensor].find_overlapping(region)
                predecessors[task.ordinal].update(each.owner for each in written)
            for tensor, region in regions(task, writing=True):
                writers[tensor].overwrite(region, task.ordinal)
        return tuple(frozenset(predecessors[task.ordinal] - {task.ordinal}) for task in self.tasks)


def regions(task: KernelTask, *, writing: bool) -> list[tuple[int, Region]]:
    """Return the regions that a task declares to write, or to read, each with the id of its buffer."""
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
    # For a buffer that the runtime allocated, only edges have the id. The task's argument has none.
    allocated = sum(_tensor_bytes(graph, tensor) for tensor in graph.tensors_created_by(task.task_id))
    inputs = sum(_bytes(argument) for argument in task.arguments if not argument.type.may_write)
    # An in-out tensor is dumped before and after the task.
    results = sum(
        _bytes(argument) * (2 if argument.type.may_read else 1)
        for argument in task.arguments
        if argument.type.may_write
    )
    return KernelTask(
        ordinal=ordinal,
        task=task,
        kernels=names,
        result_bytes=results + allocated,
        all_bytes=inputs + results + allocated,
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


_MAX_PAIRS = 250_000
"""`_best_pairs` scores at most this many task pairs.

Larger stretches are matched only where kernels and shapes are equal."""
_SAME_KERNEL_WEIGHT = 4.0
"""Equal kernels outweigh the rest within one pair, because shapes and arguments add at most 1 each."""


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The matched tasks of two builds, and the unmatched tasks of each. Matched tasks have the same order in both.

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
    """Match the tasks of two builds in submission order.

    An anchor is a pair of tasks with equal kernels, argument types and regions. Anchors are the common prefix and
    suffix, and then the longest equal runs between them. Between two anchors, an alignment in task order maximizes the
    total `_agreement` of the pairs. A compiler may have renamed a kernel, or narrowed or moved a view. The tasks of a
    pair have the same kernels, kernels with similar names (`_match_renamed_kernels`), or the same shapes.

    `extra_keys` holds an additional key for each task, by build. The two tasks of an anchor must have equal keys.
    """
    renamed = _rename_as_reference(failing.tasks, reference.tasks)
    failing_keys, reference_keys = (
        list(zip_longest(map(_anchor_key, tasks), extra))
        for tasks, extra in zip((renamed, reference.tasks), extra_keys, strict=True)
    )
    head = _common_prefix_length(failing_keys, reference_keys)
    tail = _common_prefix_length(failing_keys[head:][::-1], reference_keys[head:][::-1])
    failing_tail_start, reference_tail_start = len(failing_keys) - tail, len(reference_keys) - tail
    pairs = {task: task for task in range(head)}
    for kind, *stretch in _opcodes(
        failing_keys[head:failing_tail_start], reference_keys[head:reference_tail_start]
    ):
        failing_start, failing_stop, reference_start, reference_stop = (head + place for place in stretch)
        if kind == "equal":
            pairs.update(
                zip(range(failing_start, failing_stop), range(reference_start, reference_stop), strict=True)
            )
        elif kind == "replace":
            inner = _pairs_between(
                renamed[failing_start:failing_stop], reference.tasks[reference_start:reference_stop]
            )
            pairs.update({failing_start + task: reference_start + counterpart for task, counterpart in inner})
    pairs.update(
        zip(
            range(failing_tail_start, len(failing_keys)),
            range(reference_tail_start, len(reference_keys)),
            strict=True,
        )
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
    """Return the failing build's tasks with the reference's names of renamed kernels."""
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
    """Pair each two kernel names that differ by a prefix or suffix joined with `_`, such as `y` and `y_v2`.

    No name is in two pairs. The names with most in common are paired first.
    """
    candidates = [
        (min(len(name), len(other)), name, other)
        for name in failing
        for other in reference
        if _extends_name(name, other) or _extends_name(other, name)
    ]
    found: dict[str, str] = {}
    for _, name, other in sorted(candidates, reverse=True):
        if name not in found and other not in found.values():
            found[name] = other
    return found


def _extends_name(longer: str, shorter: str) -> bool:
    return longer.startswith(f"{shorter}_") or longer.endswith(f"_{shorter}")


def _common_prefix_length(failing: Sequence[object], reference: Sequence[object]) -> int:
    """Return how many elements at the beginning are equal."""
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
    """Yield pairs of indices in two stretches of tasks between two anchors."""
    if len(failing) * len(reference) <= _MAX_PAIRS:
        yield from _best_pairs(failing, reference)
        return
    for kind, failing_start, failing_stop, reference_start, reference_stop in _opcodes(
        [(task.kernels, tuple(_shapes(task))) for task in failing],
        [(task.kernels, tuple(_shapes(task))) for task in reference],
    ):
        if kind == "equal":
            yield from zip(
                range(failing_start, failing_stop), range(reference_start, reference_stop), strict=True
            )


def _best_pairs(failing: Sequence[KernelTask], reference: Sequence[KernelTask]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of indices, in order, with the highest total agreement.

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
        as_pair = agreement[row, column] + best[row + 1, column + 1]
        if agreement[row, column] > 0 and as_pair >= best[row, column]:
            yield row, column
            row, column = row + 1, column + 1
        elif best[row + 1, column] >= best[row, column + 1]:
            row += 1
        else:
            column += 1


def _agreement(task: KernelTask, other: KernelTask) -> float:
    """Return how strongly two tasks agree. 0 if neither their kernels nor their shapes are equal.

    Tasks without arguments have no shapes that could be equal.
    """
    shapes = _shapes(task)
    same_kernels, same_shapes = task.kernels == other.kernels, bool(shapes) and shapes == _shapes(other)
    if not (same_kernels or same_shapes):
        return 0.0
    arguments = zip(task.task.arguments, other.task.arguments, strict=False)
    agreeing = sum(
        (first.type == second.type) + (first.region == second.region) for first, second in arguments
    )
    most = 2 * max(len(task.task.arguments), len(other.task.arguments), 1)
    return _SAME_KERNEL_WEIGHT * same_kernels + same_shapes + agreeing / most


def _anchor_key(task: KernelTask) -> tuple[object, ...]:
    """Return the kernels of a task, and the type and region of each argument. These are the same in every run."""
    return (
        task.kernels,
        *((argument.type, argument.region) for argument in task.task.arguments),
    )


def _shapes(task: KernelTask) -> list[tuple[int, ...] | None]:
    return [None if argument.region is None else argument.region.shape for argument in task.task.arguments]


Mask = npt.NDArray[np.bool_]
Bits = int
"""A set of tasks as an integer, in which bit `t` is task `t`. It takes an eighth of a mask's memory."""


def bits_of(mask: Mask) -> Bits:
    """Return the tasks of a mask as bits.

    >>> bin(bits_of(np.array([True, False, True])))
    '0b101'
    """
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def mask_of(bits: Bits, length: int) -> Mask:
    """Return the tasks of `bits` as a mask of `length` elements."""
    packed = np.frombuffer(bits.to_bytes((length + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little").astype(np.bool_)


@dataclass(frozen=True, kw_only=True)
class Dag:
    """Tasks 0 ... n - 1 in dependency order.

    Attributes:
        predecessors: for each task, the tasks whose results it reads. They have smaller numbers.
        sizes: the bytes of each task's results.

    Raises:
        ValueError: the attributes differ in length, or a predecessor does not come before its task.
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
        """Return for each task the tasks whose results reach it, and the task itself. This takes n x n bits."""
        ancestors: list[Bits] = []
        for task, above in enumerate(self.predecessors):
            bits = 1 << task
            for predecessor in above:
                bits |= ancestors[predecessor]
            ancestors.append(bits)
        return tuple(ancestors)

    def with_descendants(self, tasks: Mask) -> Mask:
        """Return the given tasks and all that their results reach."""
        reached = tasks.tolist()
        for task, above in enumerate(self.predecessors):
            reached[task] = reached[task] or any(reached[predecessor] for predecessor in above)
        return np.array(reached, np.bool_)

    def with_ancestors(self, tasks: Mask) -> Mask:
        """Return the given tasks and all their ancestors."""
        reaching = tasks.tolist()
        for task in range(len(self) - 1, -1, -1):
            if reaching[task]:
                for predecessor in self.predecessors[task]:
                    reaching[predecessor] = True
        return np.array(reaching, np.bool_)

    def bytes_of(self, tasks: Mask) -> int:
        """Return the bytes of the results of all tasks in a mask."""
        return int(np.asarray(self.sizes, np.int64)[tasks].sum())

    def with_predecessors(self, tasks: Mask) -> Mask:
        """Return the given tasks and their predecessors."""
        mask = tasks.copy()
        for task in np.flatnonzero(tasks):
            mask[list(self.predecessors[task])] = True
        return mask


def unexpected_writers(
    failing: TaskList, reference: TaskList, alignment: Alignment, *, reader: KernelTask, argument: int
) -> tuple[KernelTask, ...]:
    """Return the earlier tasks that write an argument of `reader`, and do not write it in the reference.

    If any unexpected writer follows the last expected one, return only those that follow. An unexpected writer suggests
    that two live tensors share a buffer.
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
    """Return the ordinals of the earlier tasks that write into an argument of `reader`."""
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
    """Return the graph of the matched tasks, with the dependencies of both builds.

    `reference_of` maps ordinals of the failing build to ordinals of the reference. The failing build may lack a needed
    dependency, so the graph also has the reference's. An unmatched task hands its predecessors on to its successors.
    """
    ordinals = sorted(reference_of)
    failing_of = {counterpart: task for task, counterpart in reference_of.items()}
    failing_predecessors = predecessors_among(failing, reference_of.keys())
    reference_predecessors = predecessors_among(reference, failing_of.keys())
    node_of = {ordinal: node for node, ordinal in enumerate(ordinals)}

    def predecessors(ordinal: int) -> set[int]:
        in_reference = reference_predecessors[reference_of[ordinal]]
        return failing_predecessors[ordinal] | {failing_of[task] for task in in_reference}

    return Dag(
        predecessors=tuple(
            tuple(sorted(node_of[task] for task in predecessors(ordinal))) for ordinal in ordinals
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
    """Return the dependency graph of the tasks `kept`, whose ordinals must ascend.

    Dependencies pass through the other tasks.
    """
    predecessors = predecessors_among(tasks, set(kept))
    node_of = {ordinal: node for node, ordinal in enumerate(kept)}
    return Dag(
        predecessors=tuple(
            tuple(sorted(node_of[task] for task in predecessors[ordinal])) for ordinal in kept
        ),
        sizes=tuple(tasks.tasks[ordinal].result_bytes for ordinal in kept),
    )


def predecessors_among(tasks: TaskList, kept: Set[int]) -> list[set[int]]:
    """Return for each task its predecessors among the `kept` ones, directly or through other tasks."""
    found: list[set[int]] = []
    for predecessors in tasks.predecessors:
        direct = {task for task in predecessors if task in kept}
        found.append(direct.union(*(found[task] for task in predecessors if task not in kept)))
    return found


class Hazard(Enum):
    """The conflict of two tasks that run in the other order, or at once."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


@dataclass(frozen=True, kw_only=True)
class MissingEdge:
    """Two tasks that touch the same elements, of which the later one, `after`, does not wait for `before`.

    `before_argument` and `after_argument` are the indices of their conflicting arguments. `cause` is in words.
    """

    before: KernelTask
    after: KernelTask
    before_argument: int
    after_argument: int
    hazard: Hazard
    cause: str


def missing_edges(tasks: TaskList) -> tuple[MissingEdge, ...]:
    """Return the missing edges of a graph, ordered by the later task. Empty for a graph without arguments.

    Of several missing edges between two tasks, only the first is returned. Regions that are too large for an exact
    comparison count as overlapping (`may_overlap`).
    """
    if not tasks.graph.annotated:
        return ()
    ancestors = ancestors_by_position(tasks.graph)
    edges: dict[tuple[int, int], MissingEdge] = {}
    for uses in _uses_by_buffer(tasks).values():
        earlier = RegionIndex[tuple[KernelTask, GraphArgument]]()
        for after, second, region in uses:
            for use in earlier.find_near(region):
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
    """Return for each position of a task the positions of the tasks that it waits for, and its own.

    Edges to an earlier position are ignored.
    """
    position = {task.task_id: task.position for task in graph.tasks.values()}
    predecessors: list[set[int]] = [set() for _ in position]
    for edge in graph.edges:
        if edge.predecessor in position and edge.successor in position:
            before, after = position[edge.predecessor], position[edge.successor]
            if before < after:
                predecessors[after].add(before)
    dag = Dag(predecessors=tuple(tuple(sorted(each)) for each in predecessors), sizes=(0,) * len(position))
    return dag.ancestors


def is_waited_for(ancestors: Sequence[Bits], before: KernelTask, after: KernelTask) -> bool:
    """Return whether `after` waits for `before`, directly or not. `ancestors` are those of `ancestors_by_position`."""
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

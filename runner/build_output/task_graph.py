"""Reads the task graph of one run: the submitted tasks in order, and which task waited for which.

`TaskGraph` is the graph. An argument of a task is a `Region` of a buffer. `overlap` compares two regions exactly.
`RegionIndex` finds the regions near another one.

`deps.json` is read as the runtimes of all eras write it. The first graphs (version 1, May 2026) have only pairs of task
ids. Then came arguments and tensors, placed at first by `raw_shapes` and `offset`, and since May 20 by `strides` and
`start_offset`. The `Json` classes are the records of the file. `GraphReader` converts them.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..tensor import DType, contiguous_strides
from .args_dump import Extents, Int64, format_task_id, parse_uint64
from .files import Folder, MalformedFileError, json_reader


class ArgumentType(Enum):
    """How a task uses a tensor. The runtime allocates an OUTPUT. An OUTPUT_EXISTING existed before.

    The runtime writes UNKNOWN for a tensor that takes no part in dependencies (`add_no_dep`).
    """

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
    INOUT = "INOUT"
    OUTPUT_EXISTING = "OUTPUT_EXISTING"
    UNKNOWN = "UNKNOWN"

    @property
    def may_read(self) -> bool:
        """Return whether the task is declared to read the tensor, or its use is unknown."""
        return self in (ArgumentType.INPUT, ArgumentType.INOUT, ArgumentType.UNKNOWN)

    @property
    def may_write(self) -> bool:
        """Return whether the task is declared to write the tensor, or its use is unknown."""
        return self is not ArgumentType.INPUT


class EdgeSource(Enum):
    """Why one task waits for another: by an explicit dependency, as the buffer's creator, or by overlapping regions."""

    EXPLICIT = "explicit"
    CREATOR = "creator"
    TENSORMAP = "tensormap"


@dataclass(frozen=True, kw_only=True)
class Region:
    """A strided part of a buffer, which begins at `start_offset`. All numbers are in elements."""

    dtype: DType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int

    @property
    def bounds(self) -> range:
        """Return the positions from the first element to the last. Regions with disjoint bounds do not overlap."""
        if 0 in self.shape:
            return range(self.start_offset, self.start_offset)
        reach = sum(stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True))
        return range(self.start_offset, self.start_offset + reach + 1)


@dataclass(frozen=True, kw_only=True)
class GraphArgument:
    """One tensor argument of a task.

    `tensor_id` is a hash of an address, and differs between runs. `tensor_id` and `region` are None for a tensor that
    the runtime allocates for the task. The edges to later tasks have its id.
    """

    index: int
    type: ArgumentType
    tensor_id: int | None
    region: Region | None


@dataclass(frozen=True, kw_only=True)
class GraphTask:
    """A task that the orchestration submitted.

    Attributes:
        position: 0, 1, ... in submission order.
        kernels: function ids on (cube core, first vector core, second), -1 for no kernel. None if the graph does not
            say.
        in_manual_scope: whether the task has only explicit dependencies.
        blocks: the number of instances of the kernel; None if the graph does not say.
    """

    task_id: int
    position: int
    kernels: tuple[int, ...] | None
    in_manual_scope: bool
    blocks: int | None
    arguments: tuple[GraphArgument, ...]

    @property
    def runs_a_kernel(self) -> bool:
        """Return whether the task runs a kernel, or its kernels are unknown. Allocations and barriers run none."""
        return self.kernels is None or any(kernel >= 0 for kernel in self.kernels)


@dataclass(frozen=True, kw_only=True)
class GraphTensor:
    """A buffer that tasks share, at one time of its life. `buffer_numel` is its size in elements; None if unknown."""

    tensor_id: int
    buffer_address: int
    dtype: DType | None
    buffer_numel: int | None


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A dependency: the task `successor` waits for the task `predecessor`. A pair of tasks may have several.

    Attributes:
        argument: the index of the successor's argument; None for an explicit dependency.
        source: None in graphs that have only pairs.
        tensor_id: that of the argument, if the graph has it.
    """

    predecessor: int
    successor: int
    argument: int | None
    source: EdgeSource | None
    tensor_id: int | None


JsonUint64 = str | int
"""A 64-bit number as the file spells it: a decimal string, or in version 1 a plain number."""

ShortString = Annotated[str, msgspec.Meta(max_length=64)]
KernelIds = Annotated[list[Int64], msgspec.Meta(max_length=8)]


class JsonArgument(msgspec.Struct, gc=False):
    """An argument of a task, as the file spells it. It has no `tensor_id` if the runtime allocates the tensor."""

    idx: Int64
    type: ShortString
    tensor_id: JsonUint64 | None = None
    dtype: ShortString | None = None
    shape: Extents | None = None
    start_offset: JsonUint64 = 0
    strides: Extents | None = None
    offset: Extents | None = None


class JsonTask(msgspec.Struct, gc=False):
    """A task, as the file spells it."""

    task_id: JsonUint64
    args: list[JsonArgument]
    scope: ShortString = "auto"
    kernel_ids: KernelIds | None = None
    block_num: Int64 | None = None


class JsonTensor(msgspec.Struct, gc=False):
    """A tensor, as the file spells it. `raw_shapes` is one shape, in spite of its name."""

    tensor_id: JsonUint64
    dtype: ShortString
    buffer_addr: JsonUint64 = 0
    buffer_numel: JsonUint64 | None = None
    raw_shapes: Extents | None = None


class JsonEdge(msgspec.Struct, gc=False):
    """A dependency, as the file spells it. The regions that a file may give are not read."""

    pred: JsonUint64
    succ: JsonUint64
    arg: Int64 = -1
    source: ShortString | None = None
    tensor_id: JsonUint64 | None = None


class JsonGraph(msgspec.Struct):
    """All of `deps.json`."""

    edges: list[JsonEdge | tuple[JsonUint64, JsonUint64]]
    tasks: list[JsonTask] | None = None
    tensors: list[JsonTensor] = []


def read_tensor(tensor: JsonTensor) -> GraphTensor:
    """Convert one entry of `tensors`. Raises `ValueError` for a malformed number."""
    numel = _optional_uint64(tensor.buffer_numel)
    if numel is None and tensor.raw_shapes is not None:
        numel = math.prod(tensor.raw_shapes)
    return GraphTensor(
        tensor_id=parse_uint64(tensor.tensor_id),
        buffer_address=parse_uint64(tensor.buffer_addr),
        dtype=_known_dtype(tensor.dtype),
        buffer_numel=numel,
    )


class GraphReader:
    """Converts tasks and edges. Its methods raise `ValueError` for malformed values.

    Early graphs have offsets per axis instead of strides. `raw_shapes`, the buffers' shapes by tensor id, give the
    strides.
    """

    def __init__(self, raw_shapes: Mapping[int, list[int]]) -> None:
        self._raw_shapes = raw_shapes

    def read_task(self, task: JsonTask, position: int) -> GraphTask:
        """Convert entry `position` of `tasks`."""
        if task.scope not in ("auto", "manual"):
            raise ValueError(f"expected the scope auto or manual, found {task.scope!r}")
        return GraphTask(
            task_id=parse_uint64(task.task_id),
            position=position,
            kernels=None if task.kernel_ids is None else tuple(task.kernel_ids),
            in_manual_scope=task.scope == "manual",
            blocks=task.block_num,
            arguments=tuple(self._read_argument(argument) for argument in task.args),
        )

    def read_edge(self, edge: JsonEdge | tuple[JsonUint64, JsonUint64]) -> Edge:
        """Convert one entry of `edges`, which is annotated or only a pair."""
        if isinstance(edge, tuple):
            edge = JsonEdge(pred=edge[0], succ=edge[1])
        return Edge(
            predecessor=parse_uint64(edge.pred),
            successor=parse_uint64(edge.succ),
            argument=edge.arg if edge.arg >= 0 else None,
            source=None if edge.source is None else EdgeSource(edge.source),
            tensor_id=_optional_uint64(edge.tensor_id),
        )

    def _read_argument(self, argument: JsonArgument) -> GraphArgument:
        tensor_id = _optional_uint64(argument.tensor_id)
        return GraphArgument(
            index=argument.idx,
            type=ArgumentType(argument.type),
            tensor_id=tensor_id,
            region=self._read_region(argument, tensor_id),
        )

    def _read_region(self, argument: JsonArgument, tensor_id: int | None) -> Region | None:
        shape, strides = argument.shape, argument.strides
        if shape is None:
            return None
        start = parse_uint64(argument.start_offset)
        if strides is None:
            raw_shape = self._raw_shapes.get(tensor_id, shape) if tensor_id is not None else shape
            strides = list(contiguous_strides(tuple(raw_shape)))
            offsets = argument.offset or [0] * len(strides)
            start = sum(o * s for o, s in zip(offsets, strides, strict=True))
        if len(strides) != len(shape) or min(*shape, *strides, start, 0) < 0:
            raise ValueError(f"expected a region, found shape {shape}, strides {strides}, start {start}")
        return Region(
            dtype=_known_dtype(argument.dtype), shape=tuple(shape), strides=tuple(strides), start_offset=start
        )


def _optional_uint64(number: JsonUint64 | None) -> int | None:
    return None if number is None else parse_uint64(number)


def _known_dtype(spelling: str | None) -> DType | None:
    """Return the element type; None if it is unknown, or not given."""
    try:
        return None if spelling is None else DType.parse(spelling)
    except ValueError:
        return None


MAX_BYTES = 256 * 2**20
"""A larger graph is not read. One of this size has about 600,000 edges, and takes ten times the memory."""


_read_graph = json_reader(JsonGraph)


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """The tasks by id, and the edges between them.

    Attributes:
        annotated: whether arguments and tensors are known, and tasks are in submission order. Early graphs have only
            pairs of task ids. Their tasks are in topological order.
        unlisted: the ids in edges that no task has. They are allocations at the start of a scope, or tasks whose record
            was lost. An allocation has only edges of source `CREATOR`.
    """

    tasks: Mapping[int, GraphTask]
    tensors: Mapping[int, GraphTensor]
    edges: tuple[Edge, ...]
    annotated: bool
    unlisted: frozenset[int]

    @classmethod
    def open(cls, path: Path) -> TaskGraph:
        """Read `deps.json`, of any era.

        Raises:
            BuildOutputError: it is missing, too large, malformed, or its edges form a cycle.
        """
        folder = Folder.open(path.parent, expected="the folder of a task graph")
        data = folder.read(path.name, expected="a task graph", limit=MAX_BYTES)
        try:
            graph = _build_graph(_read_graph(data))
            _ = graph.topological_order
        except ValueError as error:
            raise MalformedFileError(
                path=path, expected="a task graph", found=f"one that does not fit: {error}"
            ) from error
        return graph

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Return the task ids in submission order, except that each task follows those that it waits for.

        Raises:
            ValueError: the edges form a cycle.
        """
        waiting = {task: len(predecessors) for task, predecessors in self._predecessors.items()}
        ready = [(self.tasks[task].position, task) for task in self.tasks if not waiting.get(task)]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, task = heapq.heappop(ready)
            order.append(task)
            for successor in self._successors[task]:
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heapq.heappush(ready, (self.tasks[successor].position, successor))
        if len(order) < len(self.tasks):
            stuck = min(set(self.tasks) - set(order))
            raise ValueError(f"a cycle of tasks waiting for each other at {format_task_id(stuck)}")
        return tuple(order)

    def predecessors(self, task_id: int) -> list[int]:
        """Return the listed tasks that `task_id` directly waits for, in topological order."""
        return self._sort_tasks(self._predecessors[task_id])

    def ancestors(self, task_id: int) -> list[int]:
        """Return all listed tasks that must end before `task_id` starts, in topological order."""
        return self._sort_tasks(_reachable(task_id, self._predecessors))

    def descendants(self, task_id: int) -> list[int]:
        """Return all listed tasks that cannot start before `task_id` ends, in topological order."""
        return self._sort_tasks(_reachable(task_id, self._successors))

    def tensors_created_by(self, task_id: int) -> list[int]:
        """Return the ids of tensors that the runtime allocated for `task_id`, if a later task uses them."""
        return list(dict.fromkeys(self._created_tensors.get(task_id, [])))

    @cached_property
    def _predecessors(self) -> defaultdict[int, set[int]]:
        return _adjacency((edge.successor, edge.predecessor) for edge in self.edges if self._is_listed(edge))

    @cached_property
    def _successors(self) -> defaultdict[int, set[int]]:
        return _adjacency((edge.predecessor, edge.successor) for edge in self.edges if self._is_listed(edge))

    @cached_property
    def _created_tensors(self) -> dict[int, list[int]]:
        created: dict[int, list[int]] = {}
        for edge in self.edges:
            if edge.source is EdgeSource.CREATOR and edge.tensor_id is not None:
                created.setdefault(edge.predecessor, []).append(edge.tensor_id)
        return created

    def _is_listed(self, edge: Edge) -> bool:
        return edge.predecessor in self.tasks and edge.successor in self.tasks

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {task: rank for rank, task in enumerate(self.topological_order)}

    def _sort_tasks(self, tasks: Iterable[int]) -> list[int]:
        return sorted(tasks, key=self._ranks.__getitem__)


def _build_graph(json_graph: JsonGraph) -> TaskGraph:
    raw_shapes = {
        parse_uint64(tensor.tensor_id): tensor.raw_shapes
        for tensor in json_graph.tensors
        if tensor.raw_shapes is not None
    }
    reader = GraphReader(raw_shapes)
    edges = tuple(reader.read_edge(edge) for edge in json_graph.edges)
    named = {task for edge in edges for task in (edge.predecessor, edge.successor)}
    if json_graph.tasks is None:
        tasks = _bare_tasks(named, edges)
    else:
        tasks = {
            task.task_id: task
            for task in map(reader.read_task, json_graph.tasks, range(len(json_graph.tasks)))
        }
        if len(tasks) < len(json_graph.tasks):
            raise ValueError("expected every task once, found a task id twice")
    return TaskGraph(
        tasks=tasks,
        tensors={tensor.tensor_id: tensor for tensor in map(read_tensor, json_graph.tensors)},
        edges=edges,
        annotated=json_graph.tasks is not None,
        unlisted=frozenset(named - tasks.keys()),
    )


def _bare_tasks(named: set[int], edges: tuple[Edge, ...]) -> dict[int, GraphTask]:
    """Return tasks of which only the ids are known, in topological order."""

    def number_tasks(order: Iterable[int]) -> dict[int, GraphTask]:
        return {
            task_id: GraphTask(
                task_id=task_id,
                position=position,
                kernels=None,
                in_manual_scope=False,
                blocks=None,
                arguments=(),
            )
            for position, task_id in enumerate(order)
        }

    id_ordered_graph = TaskGraph(
        tasks=number_tasks(sorted(named)), tensors={}, edges=edges, annotated=False, unlisted=frozenset()
    )
    return number_tasks(id_ordered_graph.topological_order)


def _adjacency(pairs: Iterable[tuple[int, int]]) -> defaultdict[int, set[int]]:
    adjacent: defaultdict[int, set[int]] = defaultdict(set)
    for start, end in pairs:
        adjacent[start].add(end)
    return adjacent


def _reachable(start: int, adjacent: Mapping[int, set[int]]) -> set[int]:
    """Return all tasks that are reachable from `start`."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        for task in adjacent.get(waiting.pop(), ()):
            if task not in seen:
                seen.add(task)
                waiting.append(task)
    return seen


MAX_ELEMENTS = 1 << 24
"""Regions with more elements are not compared element by element."""


class TooLargeError(ValueError):
    """The regions are too large to be compared element by element."""


def overlap(first: Region, second: Region) -> bool:
    """Return whether two regions of one buffer share an element.

    Raises:
        TooLargeError: bounds and layout do not decide, and a region has more than `MAX_ELEMENTS` elements.
    """
    a, b = first.bounds, second.bounds
    if not a or not b or a.stop <= b.start or b.stop <= a.start:
        return False
    if _has_no_gaps(first) and _has_no_gaps(second):
        return True
    if first.strides == second.strides and (disjoint := _are_boxes_disjoint(first, second)) is not None:
        return not disjoint
    return bool(np.intersect1d(_elements(first), _elements(second)).size)


def covers(outer: Region, inner: Region) -> bool:
    """Return whether `outer` is known to have every element of `inner`: it is equal, or a contiguous run around it."""
    if outer == inner:
        return True
    bounds = outer.bounds
    return _has_no_gaps(outer) and bounds.start <= inner.bounds.start and inner.bounds.stop <= bounds.stop


def may_overlap(first: Region, second: Region) -> bool:
    """Return whether two regions of a buffer share an element, or are too large to be compared."""
    try:
        return overlap(first, second)
    except TooLargeError:
        return True


def _has_no_gaps(region: Region) -> bool:
    """Return whether the elements are one contiguous run of the buffer, in any order."""
    step = 1
    for stride, extent in sorted(zip(region.strides, region.shape, strict=True)):
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def _are_boxes_disjoint(first: Region, second: Region) -> bool | None:
    """Return whether two boxes of one row-major array share no element; None if the regions are no such boxes."""
    strides = first.strides
    if not strides or strides[-1] != 1 or 0 in strides or any(a % b for a, b in pairwise(strides)):
        return None
    disjoint = False
    offset_a, offset_b = first.start_offset, second.start_offset
    for axis, stride in enumerate(strides):
        start_a, offset_a = divmod(offset_a, stride)
        start_b, offset_b = divmod(offset_b, stride)
        extent_a, extent_b = first.shape[axis], second.shape[axis]
        if axis and max(start_a + extent_a, start_b + extent_b) * stride > strides[axis - 1]:
            return None  # the box extends into the next row
        disjoint |= start_a + extent_a <= start_b or start_b + extent_b <= start_a
    return disjoint


def _elements(region: Region) -> npt.NDArray[np.int64]:
    """Return the offsets of all elements in the buffer. Raises `TooLargeError` if there are too many."""
    if math.prod(region.shape) > MAX_ELEMENTS:
        raise TooLargeError(f"a region of shape {region.shape}")
    offsets = np.array([region.start_offset], np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        offsets = (offsets[:, None] + stride * np.arange(extent)).ravel()
    return offsets


Owner = TypeVar("Owner")


@dataclass(frozen=True)
class IndexedRegion(Generic[Owner]):
    """A region of an index, with its owner. `number` counts the regions in the order in which they were added."""

    number: int
    region: Region
    owner: Owner


class RegionIndex(Generic[Owner]):
    """Regions of one buffer. It finds those near a region without a visit to all others.

    Regions of similar length are in one list, sorted by their starts. In such a list, the regions whose bounds meet a
    range are neighbours. Empty regions are not stored, because they share no element with any other.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_length: dict[int, list[tuple[int, int, IndexedRegion[Owner]]]] = {}
        """Entries of start, number and region, by `_length_class`."""

    def add(self, region: Region, owner: Owner) -> None:
        """Add a region, even if an equal one is in the index."""
        bounds = region.bounds
        if bounds:
            entries = self._by_length.setdefault(_length_class(bounds), [])
            insort(entries, (bounds.start, self._count, IndexedRegion(self._count, region, owner)))
            self._count += 1

    def drop(self, dropped: Iterable[IndexedRegion[Owner]]) -> None:
        """Drop regions that are in the index."""
        for each in dropped:
            bounds = each.region.bounds
            entries = self._by_length[_length_class(bounds)]
            del entries[bisect_left(entries, (bounds.start, each.number))]

    def find_near(self, region: Region) -> list[IndexedRegion[Owner]]:
        """Return the regions whose bounds meet those of `region`, in the order in which they were added."""
        bounds = region.bounds
        if not bounds:
            return []
        found: list[IndexedRegion[Owner]] = []
        for length_class, entries in self._by_length.items():
            first = bisect_left(entries, (bounds.start - (1 << length_class),))
            last = bisect_left(entries, (bounds.stop,))
            found += [each for _, _, each in entries[first:last] if each.region.bounds.stop > bounds.start]
        return sorted(found, key=lambda each: each.number)

    def find_overlapping(self, region: Region) -> list[IndexedRegion[Owner]]:
        """Return the regions that may share an element with `region`, in the order in which they were added."""
        return [each for each in self.find_near(region) if may_overlap(region, each.region)]

    def overwrite(self, region: Region, owner: Owner) -> None:
        """Add a region, and drop the regions that it covers."""
        self.drop(each for each in self.find_near(region) if covers(region, each.region))
        self.add(region, owner)


def _length_class(bounds: range) -> int:
    """Return the number of bits of the length of a range. `len` fails for ranges beyond 2**63."""
    return (bounds.stop - bounds.start).bit_length()

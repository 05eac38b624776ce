"""Reads the task graph of one run: which tasks were submitted, in which order, and which task waited for which.

`deps.json` is read as the runtimes of all eras write it. The first graphs (version 1, May 2026) hold pairs of task ids
only. Then came arguments and tensors, placed at first by `raw_shapes` and `offset`, and since May 20 by `strides` and
`start_offset`. Kernel ids, blocks and flags came one by one.

The `Json` classes are the file's records. `GraphReader` makes the parts of a `TaskGraph` from them.

An argument is a strided region of a buffer. `overlap` compares two regions exactly. `RegionIndex` holds many, and finds
those near another one.
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
from .args_dump import Extents, Int64, format_task_id, parse_task_id, parse_uint64
from .files import Folder, MalformedFileError, json_reader


class ArgumentType(Enum):
    """How a task uses a tensor. The runtime allocates an OUTPUT; an OUTPUT_EXISTING was there before.

    The runtime writes UNKNOWN for a tensor that takes no part in dependencies (`add_no_dep`).
    """

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
    INOUT = "INOUT"
    OUTPUT_EXISTING = "OUTPUT_EXISTING"
    UNKNOWN = "UNKNOWN"

    @property
    def may_read(self) -> bool:
        """Return whether the task was declared to read it, or nothing was declared."""
        return self in (ArgumentType.INPUT, ArgumentType.INOUT, ArgumentType.UNKNOWN)

    @property
    def may_write(self) -> bool:
        """Return whether the task was declared to write it, or nothing was declared."""
        return self is not ArgumentType.INPUT


class EdgeSource(Enum):
    """Says why one task waits for another: it was told to, the other made the buffer, or their regions overlap."""

    EXPLICIT = "explicit"
    CREATOR = "creator"
    TENSORMAP = "tensormap"


@dataclass(frozen=True, kw_only=True)
class Region:
    """A part of a buffer: `shape` elements, `strides` apart, from `start_offset` on. All are in elements."""

    dtype: DType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int

    @property
    def bounds(self) -> range:
        """Return the elements from the first one touched to the last one. Two regions with disjoint bounds do not
        overlap."""
        if 0 in self.shape:
            return range(self.start_offset, self.start_offset)
        reach = sum(stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True))
        return range(self.start_offset, self.start_offset + reach + 1)


@dataclass(frozen=True, kw_only=True)
class GraphArgument:
    """One tensor argument of a task.

    `tensor_id` and `region` are None for a tensor that the runtime allocates for the task. The edges from the task name
    it. `tensor_id` hashes an address and differs from run to run.
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
        kernels: function ids on (cube core, first vector core, second), -1 where the task has none there; None where
            the graph does not say.
        in_manual_scope: whether the task waits only for the tasks it was told to.
        blocks: how many instances of the kernel ran; None where the graph does not say.
    """

    task_id: int
    position: int
    kernels: tuple[int, ...] | None
    in_manual_scope: bool
    blocks: int | None
    arguments: tuple[GraphArgument, ...]

    @property
    def runs_a_kernel(self) -> bool:
        """Return whether the task runs a kernel. Allocations and pure barriers run none. Unknown counts as True."""
        return self.kernels is None or any(kernel >= 0 for kernel in self.kernels)


@dataclass(frozen=True, kw_only=True)
class GraphTensor:
    """A version of a buffer that tasks share.

    `buffer_numel` is the buffer's size in elements, or None if the file does not give it.
    """

    tensor_id: int
    buffer_address: int
    version: int
    dtype: DType | None
    buffer_numel: int | None


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A dependency: `successor` waits for `predecessor`. A pair of tasks may have several.

    Attributes:
        argument: index of the successor's argument; None for an explicit dependency.
        source: None in graphs that hold only pairs.
        covered: whether the predecessor wrote everything that the successor reads; None if the runtime did not compare
            regions.
        flags: `wait`, `retain`; empty before August 2026.
    """

    predecessor: int
    successor: int
    argument: int | None
    source: EdgeSource | None
    covered: bool | None
    flags: tuple[str, ...]
    tensor_id: int | None
    consumer: Region | None
    producer: Region | None


JsonUint64 = str | int
"""A 64-bit number as the file spells it: a decimal string, or in version 1 a plain number."""

ShortString = Annotated[str, msgspec.Meta(max_length=64)]
KernelIds = Annotated[list[Int64], msgspec.Meta(max_length=8)]


class JsonArgument(msgspec.Struct, gc=False):
    """An argument of a task. `tensor_id` is absent if the runtime allocates the tensor."""

    idx: Int64
    type: ShortString
    tensor_id: JsonUint64 | None = None
    dtype: ShortString | None = None
    shape: Extents | None = None
    start_offset: JsonUint64 = 0
    strides: Extents | None = None
    offset: Extents | None = None


class JsonTask(msgspec.Struct, gc=False):
    """A task as the file spells it."""

    task_id: JsonUint64
    args: list[JsonArgument]
    scope: ShortString = "auto"
    kernel_ids: KernelIds | None = None
    block_num: Int64 | None = None
    early_dispatch: bool = False


class JsonTensor(msgspec.Struct, gc=False):
    """A tensor as the file spells it. `raw_shapes` is one shape, in spite of its name."""

    tensor_id: JsonUint64
    dtype: ShortString
    buffer_addr: JsonUint64 = 0
    version: Int64 = 0
    buffer_numel: JsonUint64 | None = None
    raw_shapes: Extents | None = None


class JsonEdge(msgspec.Struct, gc=False):
    """A dependency as the file spells it."""

    pred: JsonUint64
    succ: JsonUint64
    arg: Int64 = -1
    source: ShortString | None = None
    flags: list[ShortString] = []
    overlap: ShortString | None = None
    tensor_id: JsonUint64 | None = None
    consumer_dtype: ShortString | None = None
    consumer_shape: Extents | None = None
    consumer_start_offset: JsonUint64 = 0
    consumer_strides: Extents | None = None
    consumer_offset: Extents | None = None
    producer_shape: Extents | None = None
    producer_start_offset: JsonUint64 = 0
    producer_strides: Extents | None = None
    producer_offset: Extents | None = None


class JsonGraph(msgspec.Struct):
    """All of `deps.json`."""

    edges: list[JsonEdge | tuple[JsonUint64, JsonUint64]]
    tasks: list[JsonTask] | None = None
    tensors: list[JsonTensor] = []


def read_tensor(tensor: JsonTensor) -> GraphTensor:
    """Read one entry of `tensors`. Raises `ValueError` for a malformed number, as all functions here do."""
    numel = None if tensor.buffer_numel is None else parse_uint64(tensor.buffer_numel)
    if numel is None and tensor.raw_shapes is not None:
        numel = 1
        for extent in tensor.raw_shapes:
            numel *= extent
    return GraphTensor(
        tensor_id=parse_uint64(tensor.tensor_id),
        buffer_address=parse_uint64(tensor.buffer_addr),
        version=tensor.version,
        dtype=_dtype(tensor.dtype),
        buffer_numel=numel,
    )


class GraphReader:
    """Reads tasks and edges.

    Early graphs give offsets per axis instead of strides. The reader needs the buffers' shapes to place their tensors.
    """

    def __init__(self, raw_shapes: Mapping[int, list[int]]) -> None:
        self._raw_shapes = raw_shapes

    def read_task(self, task: JsonTask, position: int) -> GraphTask:
        """Read the task that is entry `position` of `tasks`."""
        if task.scope not in ("auto", "manual"):
            raise ValueError(f"expected the scope auto or manual, found {task.scope!r}")
        return GraphTask(
            task_id=parse_task_id(task.task_id),
            position=position,
            kernels=None if task.kernel_ids is None else tuple(task.kernel_ids),
            in_manual_scope=task.scope == "manual",
            blocks=task.block_num,
            arguments=tuple(self._read_argument(argument) for argument in task.args),
        )

    def read_edge(self, edge: JsonEdge | tuple[JsonUint64, JsonUint64]) -> Edge:
        """Read one entry of `edges`, annotated or a bare pair."""
        if isinstance(edge, tuple):
            edge = JsonEdge(pred=edge[0], succ=edge[1])
        tensor_id = _optional(edge.tensor_id)
        dtype = None if edge.consumer_dtype is None else _dtype(edge.consumer_dtype)
        return Edge(
            predecessor=parse_task_id(edge.pred),
            successor=parse_task_id(edge.succ),
            argument=edge.arg if edge.arg >= 0 else None,
            source=None if edge.source is None else EdgeSource(edge.source),
            covered=None if edge.overlap is None else edge.overlap == "covered",
            flags=tuple(edge.flags),
            tensor_id=tensor_id,
            consumer=self._read_region(
                dtype,
                edge.consumer_shape,
                edge.consumer_strides,
                edge.consumer_start_offset,
                edge.consumer_offset,
                tensor_id,
            ),
            producer=self._read_region(
                dtype,
                edge.producer_shape,
                edge.producer_strides,
                edge.producer_start_offset,
                edge.producer_offset,
                tensor_id,
            ),
        )

    def _read_argument(self, argument: JsonArgument) -> GraphArgument:
        tensor_id = _optional(argument.tensor_id)
        return GraphArgument(
            index=argument.idx,
            type=ArgumentType(argument.type),
            tensor_id=tensor_id,
            region=self._read_region(
                None if argument.dtype is None else _dtype(argument.dtype),
                argument.shape,
                argument.strides,
                argument.start_offset,
                argument.offset,
                tensor_id,
            ),
        )

    def _read_region(
        self,
        dtype: DType | None,
        shape: list[int] | None,
        strides: list[int] | None,
        flat_offset: JsonUint64,
        axis_offsets: list[int] | None,
        tensor_id: int | None,
    ) -> Region | None:
        if shape is None:
            return None
        start = parse_uint64(flat_offset)
        if strides is None:
            raw_shape = self._raw_shapes.get(tensor_id, shape) if tensor_id is not None else shape
            strides = list(contiguous_strides(tuple(raw_shape)))
            start = sum(o * s for o, s in zip(axis_offsets or [0] * len(strides), strides, strict=True))
        if (
            len(strides) != len(shape)
            or min(shape, default=0) < 0
            or min(strides, default=0) < 0
            or start < 0
        ):
            raise ValueError(f"expected a region, found shape {shape}, strides {strides}, start {start}")
        return Region(dtype=dtype, shape=tuple(shape), strides=tuple(strides), start_offset=start)


def _optional(number: JsonUint64 | None) -> int | None:
    return None if number is None else parse_uint64(number)


def _dtype(spelling: str) -> DType | None:
    try:
        return DType.parse(spelling)
    except ValueError:
        return None


MOST_BYTES = 256 * 2**20
"""A larger graph, in bytes, is not read: it has about 600,000 edges. Reading takes up to ten times its size in
memory."""


_read_graph = json_reader(JsonGraph)


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """The tasks by id, and the edges between them.

    Attributes:
        annotated: whether arguments and tensors are known. If so, tasks are in submission order. Early graphs hold
            pairs of task ids only. Their tasks are in topological order.
        unlisted: ids that edges name but no task has. They are allocations at a scope's start, or tasks whose record
            was lost. An allocation has only edges whose source is `CREATOR`.
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
        data = folder.read(path.name, expected="a task graph", limit=MOST_BYTES)
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
        """Return the task ids, each after those it waits for, and in submission order where the edges allow it.

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
        """Return the listed tasks that `task_id` waits for, in topological order."""
        return self._sort_tasks(self._predecessors[task_id])

    def ancestors(self, task_id: int) -> list[int]:
        """Return all listed tasks that must end before `task_id` starts, in topological order."""
        return self._sort_tasks(_reachable(task_id, self._predecessors))

    def descendants(self, task_id: int) -> list[int]:
        """Return all tasks that `task_id` can reach, in topological order."""
        return self._sort_tasks(_reachable(task_id, self._successors))

    def tensors_created_by(self, task_id: int) -> list[int]:
        """Return the ids of tensors that the runtime allocated for `task_id`.

        Tensors that no later task uses are missing.
        """
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
    """Return tasks that only have ids, positioned in topological order."""

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
    """Return everything reachable from `start`, except itself."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        for task in adjacent.get(waiting.pop(), ()):
            if task not in seen:
                seen.add(task)
                waiting.append(task)
    return seen


MOST_ELEMENTS = 1 << 24
"""Regions with more elements are not listed element by element. Their bounds decide, and the answer is not exact."""


class TooLargeError(ValueError):
    """The regions are too large to be compared element by element."""


def overlap(first: Region, second: Region) -> bool:
    """Return whether two regions of one buffer share an element.

    Raises:
        TooLargeError: neither bounds nor layout tell, and the regions have more than `MOST_ELEMENTS`.
    """
    a, b = first.bounds, second.bounds
    if not a or not b or a.stop <= b.start or b.stop <= a.start:
        return False
    if _has_no_gaps(first) and _has_no_gaps(second):
        return True
    if first.strides == second.strides and (apart := _are_boxes_disjoint(first, second)) is not None:
        return not apart
    return bool(np.intersect1d(_elements(first), _elements(second)).size)


def covers(outer: Region, inner: Region) -> bool:
    """Return whether `outer` surely has every element of `inner`: it is the same, or a run without gaps around it."""
    if outer == inner:
        return True
    bounds = outer.bounds
    return _has_no_gaps(outer) and bounds.start <= inner.bounds.start and inner.bounds.stop <= bounds.stop


def may_overlap(first: Region, second: Region) -> bool:
    """Return whether two regions of a buffer share an element, or are too large to say."""
    try:
        return overlap(first, second)
    except TooLargeError:
        return True


def _has_no_gaps(region: Region) -> bool:
    """Return whether the elements are one run of the buffer, in any order."""
    step = 1
    axes = sorted(zip(region.strides, region.shape, strict=True))
    for stride, extent in axes:
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def _are_boxes_disjoint(first: Region, second: Region) -> bool | None:
    """Return whether two boxes of one row-major layout share no element; None if they are not boxes of one layout."""
    strides = first.strides
    if not strides or strides[-1] != 1 or any(b <= 0 or a % b for a, b in pairwise(strides)):
        return None
    apart = False
    rest_a, rest_b = first.start_offset, second.start_offset
    for axis, stride in enumerate(strides):
        start_a, rest_a = divmod(rest_a, stride)
        start_b, rest_b = divmod(rest_b, stride)
        extent_a, extent_b = first.shape[axis], second.shape[axis]
        if axis and max(start_a + extent_a, start_b + extent_b) * stride > strides[axis - 1]:
            return None  # a row runs into the next
        apart |= start_a + extent_a <= start_b or start_b + extent_b <= start_a
    return apart


def _elements(region: Region) -> npt.NDArray[np.int64]:
    """Offsets of all elements in the buffer."""
    if math.prod(region.shape) > MOST_ELEMENTS:
        raise TooLargeError(f"a region of shape {region.shape}")
    offsets = np.array([region.start_offset], np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        offsets = (offsets[:, None] + stride * np.arange(extent)).ravel()
    return offsets


Owner = TypeVar("Owner")


@dataclass(frozen=True)
class IndexedRegion(Generic[Owner]):
    """A region with whom it belongs to; regions of an index are numbered as they come."""

    number: int
    region: Region
    owner: Owner


class RegionIndex(Generic[Owner]):
    """Regions of one buffer, found without a look at those that lie elsewhere.

    Regions of like length stand together, sorted by their starts: in each such list, those whose bounds meet a range
    are neighbours. Empty regions share nothing, and are left out.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_length: dict[int, list[tuple[int, int, IndexedRegion[Owner]]]] = {}
        """Start, number and region, by the bits in the length of the bounds."""

    def add(self, region: Region, owner: Owner) -> None:
        """Add a region; equal ones may be there."""
        bounds = region.bounds
        if bounds:
            alike = self._by_length.setdefault(_length_class(bounds), [])
            insort(alike, (bounds.start, self._count, IndexedRegion(self._count, region, owner)))
            self._count += 1

    def drop(self, dropped: Iterable[IndexedRegion[Owner]]) -> None:
        """Drop regions that are in the index."""
        for each in dropped:
            bounds = each.region.bounds
            alike = self._by_length[_length_class(bounds)]
            del alike[bisect_left(alike, (bounds.start, each.number))]

    def near(self, region: Region) -> list[IndexedRegion[Owner]]:
        """The regions whose bounds meet those of the given one, in the order in which they were added."""
        bounds = region.bounds
        if not bounds:
            return []
        found: list[IndexedRegion[Owner]] = []
        for bits, alike in self._by_length.items():
            first = bisect_left(alike, (bounds.start - (1 << bits),))
            last = bisect_left(alike, (bounds.stop,))
            found += [each for _, _, each in alike[first:last] if each.region.bounds.stop > bounds.start]
        return sorted(found, key=lambda each: each.number)

    def overlapping(self, region: Region) -> list[IndexedRegion[Owner]]:
        """The regions that share an element with the given one, or are too large to say, in the order of `near`."""
        return [each for each in self.near(region) if may_overlap(region, each.region)]

    def overwrite(self, region: Region, owner: Owner) -> None:
        """Add a region, and drop those whose elements it surely has."""
        self.drop(each for each in self.near(region) if covers(region, each.region))
        self.add(region, owner)


def _length_class(bounds: range) -> int:
    """The bits in the number of elements, which `len` does not count beyond 2**63."""
    return (bounds.stop - bounds.start).bit_length()

"""Runs tasks of a build alone, on given inputs.

A `TaskReplayer` writes an orchestration that submits one task of the original, or several one after the other. Its
entry arguments are whole buffers, so that the tensors of a task lie where the run had them. The shape of a buffer
follows from the strides of the regions in it. Guards around each buffer show what a task writes outside of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...runner.build_output.directory import Direction, TensorFolder
from ...runner.build_output.files import MalformedFileError
from ...runner.build_output.orchestration import Argument, BlockKind, Orchestration, Submit, Usage
from ...runner.build_output.task_graph import GraphArgument, Region
from ...runner.case.preflight import EntryTensor
from ...runner.errors import UserError
from ...runner.tensor import DType, Storage, TensorView, contiguous_strides
from ...store.durable_files import replace_file
from ..graph.submits import find_submits, launch_statements
from ..graph.tasks import KernelTask, TaskList
from .replay import RecordedBuild, Replayer, TaskValues, WorkingCopy, results_of, to_dtype


class LayoutError(UserError):
    """A region of a buffer cannot be expressed by the views of an orchestration."""


@dataclass(frozen=True)
class View:
    """The view `view(shape, offsets)` of a buffer, followed by `transpose(i, j)` if there is a swap."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    swap: tuple[int, int] | None


def buffer_shape(elements: int, regions: Iterable[Region]) -> tuple[int, ...]:
    """Return the row-major shape of a buffer in which all regions are boxes.

    Raises:
        LayoutError: there is none.
    """
    used = list(regions)
    rank = max(len(region.shape) for region in used)
    strides = {
        stride
        for region in used
        for stride, extent in zip(region.strides, region.shape, strict=True)
        if extent > 1
    }
    distinct_strides = sorted(strides | {1}, reverse=True)
    if (
        any(outer % inner for outer, inner in pairwise(distinct_strides))
        or elements % distinct_strides[0]
        or len(distinct_strides) > rank
    ):
        raise LayoutError(f"expected regions of one row-major buffer, found strides {sorted(strides)}")
    shape = (
        elements // distinct_strides[0],
        *(outer // inner for outer, inner in pairwise(distinct_strides)),
    )
    return (1,) * (rank - len(shape)) + shape


def view_of(region: Region, shape: tuple[int, ...]) -> View:
    """Return the view that takes `region` out of a buffer of `shape`.

    Raises:
        LayoutError: the region is not a box of the buffer, even after swapping two axes.
    """
    strides = contiguous_strides(shape)
    is_inside = 0 <= region.start_offset < math.prod(shape)
    offsets = np.unravel_index(region.start_offset, shape) if is_inside else (0,) * len(shape)
    rank = len(shape)
    for order in _axis_orders(rank):
        extents = (
            [region.shape[order.index(axis)] for axis in range(rank)] if rank == len(region.shape) else []
        )
        fits = (
            bool(extents)
            and (is_inside or 0 in extents)
            and all(
                extent == 1 or region.strides[order.index(axis)] == strides[axis]
                for axis, extent in enumerate(extents)
            )
        )
        if fits and all(int(o) + e <= s for o, e, s in zip(offsets, extents, shape, strict=True)):
            moved = [axis for axis in range(rank) if order[axis] != axis]
            swap = (moved[0], moved[1]) if moved else None
            return View(tuple(extents), tuple(int(offset) for offset in offsets), swap)
    raise LayoutError(
        f"expected a box of a buffer {shape}, found shape {region.shape}, strides {region.strides}, "
        f"offset {region.start_offset}"
    )


def _axis_orders(rank: int) -> Iterable[list[int]]:
    """Yield the axes in order, then each order in which two of them are swapped."""
    yield list(range(rank))
    for first in range(rank):
        for second in range(first + 1, rank):
            order = list(range(rank))
            order[first], order[second] = second, first
            yield order


def view_statements(
    region: Region, shape: tuple[int, ...], *, tensor: str, variable: str
) -> tuple[list[str], str]:
    """Return the statements that take `region` out of the tensor `tensor` of `shape`, and the name of the result.

    The name is `variable`, or `tensor` if the region is the whole tensor. Raises the same errors as `view_of`.
    """
    view = view_of(region, shape)
    if view.shape == shape and view.swap is None:
        return [], tensor
    rank = len(view.shape)
    swap = "" if view.swap is None else f".transpose({view.swap[0]}, {view.swap[1]})"
    return [
        f"uint32_t {variable}_shapes[{rank}] = {{{', '.join(map(str, view.shape))}}};",
        f"uint32_t {variable}_offsets[{rank}] = {{{', '.join(map(str, view.offsets))}}};",
        f"const auto {variable} = {tensor}.view({variable}_shapes, {variable}_offsets){swap};",
    ], variable


def flat_indices(region: Region) -> npt.NDArray[Any]:
    """Return the flat positions in the buffer of a region's elements, in the region's own row-major order."""
    indices = np.array([region.start_offset], np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        indices = (indices[:, None] + stride * np.arange(extent)).ravel()
    return indices


def region_array(buffer: Storage, region: Region) -> Storage:
    """Return a region of a flat buffer, as an array of the region's shape that shares the buffer's memory.

    Raises:
        LayoutError: the region reaches out of the buffer.
    """
    bounds = region.bounds
    if bounds and (bounds.start < 0 or bounds.stop > buffer.size or min(region.strides, default=0) < 0):
        raise LayoutError(f"expected a region within {buffer.size} elements, found elements {bounds}")
    item_bytes = buffer.dtype.itemsize
    return np.lib.stride_tricks.as_strided(
        buffer[region.start_offset :], region.shape, [stride * item_bytes for stride in region.strides]
    )


_GUARD = 4096
"""At least this many bytes lie behind each buffer. A task that accesses them is at fault."""

_MAX_BUFFER_BYTES = 1 << 29
"""The buffers of one task take at most this many bytes. Larger buffers are not recreated for a lone task."""


@dataclass(frozen=True, kw_only=True)
class ParentBuffer:
    """A buffer that is recreated for a lone task and holds its tensors.

    It has `shape` elements, row-major. The elements from `start` to `stop` correspond to the buffer in the recorded
    run. All others are guards. `tensor_id` is None if the runtime allocated the buffer for the task.
    """

    tensor_id: int | None
    dtype: DType
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def elements(self) -> int:
        """Return the number of elements, with the guards."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Return the number of bytes, with the guards."""
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor of a task. It is a region of the buffer with this index."""

    buffer_index: int
    region: Region


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The buffers of a task, and where its tensors lie in them, by argument index.

    `inexact_reason` is empty if every tensor lies where the run had it. Otherwise it gives the reason.
    """

    buffers: tuple[ParentBuffer, ...]
    tensors: Mapping[int, PlacedTensor]
    inexact_reason: str = ""

    @classmethod
    def from_task(cls, tasks: TaskList, task: KernelTask, values: TaskValues) -> Placement:
        """Return the recorded geometry of a task. The recorded values give the shape of a tensor without a region.

        Raises:
            LayoutError: a buffer's size is not known, it is too large, or a tensor is no box of a row-major buffer.
        """
        arguments_by_buffer: dict[int | tuple[str, int], list[GraphArgument]] = {}
        regions: dict[int, Region] = {}
        for argument in task.task.arguments:
            known = argument.tensor_id is not None and argument.region is not None
            key = argument.tensor_id if known and argument.tensor_id is not None else ("own", argument.index)
            arguments_by_buffer.setdefault(key, []).append(argument)
            regions[argument.index] = _recorded_region(argument, values)
        buffers: list[ParentBuffer] = []
        tensors: dict[int, PlacedTensor] = {}
        for arguments in arguments_by_buffer.values():
            inside = {argument.index: regions[argument.index] for argument in arguments}
            buffers.append(_recorded_buffer(tasks, arguments[0].tensor_id, inside))
            tensors |= {index: PlacedTensor(len(buffers) - 1, region) for index, region in inside.items()}
        placement = cls(buffers=tuple(buffers), tensors=tensors)
        if placement.bytes > _MAX_BUFFER_BYTES:
            raise LayoutError(
                f"expected buffers of up to {_MAX_BUFFER_BYTES} bytes, found {placement.bytes} bytes of them"
            )
        return placement

    @classmethod
    def with_separate_buffers(cls, task: KernelTask, values: TaskValues, *, why: str) -> Placement:
        """Return a placement with each tensor in a buffer of its own, without gaps. `why` is its `inexact_reason`.

        Raises:
            LayoutError: neither the shape nor a value of a tensor is known.
        """
        recorded = {argument.index: _recorded_region(argument, values) for argument in task.task.arguments}
        packed = {
            index: replace(region, strides=contiguous_strides(region.shape), start_offset=0)
            for index, region in recorded.items()
        }
        return cls(
            buffers=tuple(
                _guarded_buffer({index: region}, tensor_id=None, elements=math.prod(region.shape))
                for index, region in packed.items()
            ),
            tensors={
                index: PlacedTensor(number, region) for number, (index, region) in enumerate(packed.items())
            },
            inexact_reason=why,
        )

    @property
    def bytes(self) -> int:
        """Return the bytes of all buffers, with their guards."""
        return sum(buffer.bytes for buffer in self.buffers)

    def with_front_guard(self) -> Placement:
        """Return the same placement with a guard before each buffer too.

        The first axis of each buffer and all offsets into the buffer grow by the guard.
        """
        fronts = [math.prod(buffer.shape[1:]) * _guard_rows(buffer) for buffer in self.buffers]
        return replace(
            self,
            buffers=tuple(
                replace(
                    buffer,
                    shape=(buffer.shape[0] + _guard_rows(buffer), *buffer.shape[1:]),
                    start=buffer.start + front,
                    stop=buffer.stop + front,
                )
                for buffer, front in zip(self.buffers, fronts, strict=True)
            ),
            tensors={
                index: PlacedTensor(
                    placed.buffer_index,
                    replace(
                        placed.region, start_offset=placed.region.start_offset + fronts[placed.buffer_index]
                    ),
                )
                for index, placed in self.tensors.items()
            },
        )


def _recorded_region(argument: GraphArgument, values: TaskValues) -> Region:
    if argument.region is not None and argument.region.dtype is not None:
        return argument.region
    view = values.after.get(argument.index, values.before.get(argument.index))
    if view is None:
        raise LayoutError(f"argument {argument.index}: expected a recorded value or a region, found neither")
    if argument.region is not None:
        return replace(argument.region, dtype=view.dtype)
    return Region(dtype=view.dtype, shape=view.shape, strides=contiguous_strides(view.shape), start_offset=0)


def _recorded_buffer(tasks: TaskList, tensor_id: int | None, regions: Mapping[int, Region]) -> ParentBuffer:
    """Return the buffer that held `regions` in the run. The keys of `regions` are argument indices."""
    tensor = None if tensor_id is None else tasks.graph.tensors.get(tensor_id)
    reach = max(region.bounds.stop for region in regions.values())
    listed = None if tensor is None else tensor.buffer_numel
    return _guarded_buffer(regions, tensor_id=tensor_id, elements=max(reach, listed or 0))


def _guarded_buffer(regions: Mapping[int, Region], *, tensor_id: int | None, elements: int) -> ParentBuffer:
    """Return a buffer of `elements` elements that holds `regions`, with a guard behind it.

    The keys of `regions` are argument indices.
    """
    dtypes = {region.dtype for region in regions.values()}
    dtype = next(iter(dtypes)) if len(dtypes) == 1 else None
    if dtype is None:
        found = ", ".join(sorted("an unknown one" if each is None else each.value for each in dtypes))
        raise LayoutError(f"arguments {sorted(regions)}: expected one dtype in one buffer, found {found}")
    if elements * dtype.itemsize > _MAX_BUFFER_BYTES:
        raise LayoutError(
            f"arguments {sorted(regions)}: expected a buffer of up to {_MAX_BUFFER_BYTES} bytes, found "
            f"{elements} elements"
        )
    shape = _fit_shape(max(elements, 1), list(regions.values()))
    unguarded = ParentBuffer(tensor_id=tensor_id, dtype=dtype, shape=shape, start=0, stop=elements)
    return replace(unguarded, shape=(shape[0] + _guard_rows(unguarded), *shape[1:]))


def _fit_shape(elements: int, regions: Sequence[Region]) -> tuple[int, ...]:
    """Return the row-major shape of a buffer of at least `elements` elements in which all regions are boxes.

    The shape fits all strides of the regions if possible, or else only those of axes with several elements.
    """
    widest_stride = max(stride for region in regions for stride in (*region.strides, 1))
    regions_with_all_axes = [
        Region(dtype=None, shape=(2,) * len(r.strides), strides=r.strides, start_offset=0) for r in regions
    ]
    try:
        return _shape_of_rows(widest_stride, elements, regions, fitted=regions_with_all_axes)
    except LayoutError:
        strides_of_long_axes = [
            s for r in regions for s, extent in zip(r.strides, r.shape, strict=True) if extent > 1
        ]
        return _shape_of_rows(max([*strides_of_long_axes, 1]), elements, regions, fitted=regions)


def _shape_of_rows(
    row: int, elements: int, regions: Sequence[Region], *, fitted: Sequence[Region]
) -> tuple[int, ...]:
    """Return the shape of at least `elements` elements, in rows of `row`, that has the strides of `fitted`.

    Raises `LayoutError` if one of `regions` is no box in it.
    """
    shape = buffer_shape(math.ceil(elements / row) * row, fitted)
    for region in regions:
        view_of(region, shape)
    return shape


def _guard_rows(buffer: ParentBuffer) -> int:
    """Return how many indices of the first axis the guard takes."""
    row = math.prod(buffer.shape[1:]) * buffer.dtype.itemsize
    return math.ceil(_GUARD / max(row, 1))


ADD_METHODS = {
    Usage.INPUT: "add_input",
    Usage.OUTPUT: "add_output",
    Usage.INOUT: "add_inout",
    Usage.NO_DEPENDENCY: "add_no_dep",
}
_ENTRY_TENSOR_REFERENCE = re.compile(r"\b(\w+)\.tensor\(\s*\d+\s*\)\.ref\(\)")
_PREDECESSOR_VARIABLE, _RESULT_VARIABLE = "precision_bisect_before", "precision_bisect_done"
_WORD = re.compile(r"[A-Za-z_]\w*")
_LITERAL_WORDS = frozenset(
    (
        *("to_u64", "float_to_u64", "static_cast", "uint64_t", "int64_t", "uint32_t", "int32_t"),
        *("float", "double", "bool", "true", "false", "f", "u", "ul", "ull", "e"),
    )
)


class SingleTaskError(UserError):
    """The task cannot be taken out of its orchestration by edits of text."""


@dataclass(frozen=True, kw_only=True)
class LoneCall:
    """The submission of one task alone.

    `tensors` has, for each argument, the index of an entry tensor and the argument's region in it. `scalars` are
    expressions. `blocks` is the number of blocks that the task ran in. If it is None, the source's number is kept.
    """

    submit: Submit
    tensors: tuple[tuple[int, Region], ...]
    scalars: tuple[str, ...]
    blocks: int | None


def format_scalars(submit: Submit, recorded: Mapping[int, int | float | bool | None]) -> tuple[str, ...]:
    """Return the scalar arguments of a task as source text.

    `recorded` maps argument index to value. These values replace expressions that are not literals.

    Raises:
        SingleTaskError: a value was not recorded exactly.
    """
    tensors = len(submit.tensor_arguments)
    scalars = [argument for argument in submit.arguments if argument.usage is Usage.SCALAR]
    return tuple(
        scalar_text(argument, recorded.get(tensors + position)) for position, argument in enumerate(scalars)
    )


def isolate_calls(
    orchestration: Orchestration, calls: Sequence[LoneCall], shapes: Sequence[tuple[int, ...]]
) -> bytes:
    """Return the source with an entry function that submits only `calls`. Each task waits for the one before it.

    `shapes` are the entry tensors' shapes, in elements.

    Raises:
        SingleTaskError: the dialect or a submit is not understood well enough.
        LayoutError: a region is no box of its tensor.
    """
    if orchestration.entry is None or orchestration.expected_arg_count is None:
        raise SingleTaskError("orchestration: expected an entry function and its argument count, found none")
    lines = [entry_tensor(orchestration, index, entry_name(index)) for index in range(len(shapes))]
    if len(calls) > 1:
        lines.append(f"PTO2TaskId {_PREDECESSOR_VARIABLE}[1];")
    for number, call in enumerate(calls):
        lines += _submit_lines(orchestration, call, shapes, number=number, call_count=len(calls))
    entry, count = orchestration.entry, orchestration.expected_arg_count.span
    body = "{\n" + "\n".join(f"    {line}" for line in lines) + "\n}"
    edits = sorted(((entry, body), (count, str(len(shapes)))), reverse=True)
    source = orchestration.source
    for span, text in edits:
        source = source[: span.start] + text.encode() + source[span.end :]
    return source


def _submit_lines(
    orchestration: Orchestration,
    call: LoneCall,
    shapes: Sequence[tuple[int, ...]],
    *,
    number: int,
    call_count: int,
) -> list[str]:
    """Return the lines that submit call `number`, counted from 0, of `call_count` calls."""
    submit = call.submit
    if submit.declaration is None or not all(argument.is_added_once for argument in submit.arguments):
        raise SingleTaskError(
            "orchestration: expected a task with arguments of its own that are always added, found "
            + ("none" if submit.declaration is None else "some in a branch")
        )
    variable = submit.arguments_variable
    lines = [_scope(orchestration, submit) + "{"]
    tensors: list[str] = []
    for index, (argument, (tensor, region)) in enumerate(
        zip(submit.tensor_arguments, call.tensors, strict=True)
    ):
        views, text = view_statements(
            region, shapes[tensor], tensor=entry_name(tensor), variable=f"argument_{index}"
        )
        lines += views
        tensors.append(f"{variable}.{ADD_METHODS[argument.usage]}({text});")
    lines += [orchestration.text(submit.declaration), *tensors]
    lines += [f"{variable}.add_scalar({scalar});" for scalar in call.scalars]
    lines += launch_statements(orchestration, submit, call.blocks)
    lines += [f"{variable}.set_dependencies({_PREDECESSOR_VARIABLE}, 1);"] if number else []
    statement, result = orchestration.text(submit.statement), submit.result
    if number + 1 < call_count:
        named = statement if result is not None else f"const auto {_RESULT_VARIABLE} = {statement}"
        lines += [named, f"{_PREDECESSOR_VARIABLE}[0] = {result or _RESULT_VARIABLE}.task_id();"]
    else:
        lines.append(statement)
    return [*lines, "}"]


def entry_name(index: int) -> str:
    """Return the name of a tensor in the entry function and in the harness."""
    return f"alone_{index}"


def entry_tensor(orchestration: Orchestration, index: int, name: str) -> str:
    """Return the declaration of an entry tensor, in the form in which the source declares another one.

    Raises:
        SingleTaskError: the source shows no way to declare one.
    """
    for template in orchestration.entry_tensors:
        statement = orchestration.text(template.statement)
        named, names = re.subn(rf"\b{re.escape(template.name)}\b", name, statement)
        placed, places = re.subn(rf"([(\[]\s*){template.index}(\s*[)\]])", rf"\g<1>{index}\g<2>", named)
        # A tensor that is made from an argument's address has a shape and a type of its own.
        if names == 1 and places == 1 and "make_tensor" not in statement:
            return placed
    entry = orchestration.entry
    accessed = _ENTRY_TENSOR_REFERENCE.search(orchestration.text(entry)) if entry is not None else None
    if accessed is None:
        raise SingleTaskError(
            "orchestration: expected an argument declared in one statement with its index, found none"
        )
    return f"const auto& {name} = {accessed[1]}.tensor({index}).ref();"


def _scope(orchestration: Orchestration, submit: Submit) -> str:
    """Return the head of the innermost scope around the submit, or an empty text."""
    scopes = [b for b in submit.blocks if b.kind in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE)]
    if not scopes:
        return ""
    head = orchestration.source[scopes[-1].span.start : scopes[-1].body.start].decode("utf-8", "replace")
    return head if head.strip() else ""


def scalar_text(argument: Argument, recorded: int | float | bool | None) -> str:
    """Return a scalar argument as source text. A literal stays, and anything else becomes the recorded value.

    Raises:
        SingleTaskError: the value was not recorded exactly.
    """
    if all(word in _LITERAL_WORDS for word in _WORD.findall(argument.text)):
        return argument.text
    # Some runtimes record a float to six digits only. An integer has the exact bits.
    if isinstance(recorded, int):
        return f"static_cast<uint64_t>({int(recorded) & (2**64 - 1)}ull)"
    raise SingleTaskError(
        f"orchestration: expected the exact value of the scalar {argument.text!r}, found {recorded}"
    )


class Fill(Enum):
    """The byte that fills all memory of a lone task but its inputs.

    `LOW` and `HIGH` are two poisons, which are finite numbers in all types. `ZERO` is what fresh memory holds.
    """

    LOW = 0x3A
    HIGH = 0xC5
    ZERO = 0


class OverlappingTensorsError(LayoutError):
    """Tensors of a task overlap, and should hold different values in the same memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IsolatedTask:
    """A task of a build, where its tensors lie, and how it is submitted. An instance equals only itself."""

    build: RecordedBuild
    task: KernelTask
    placement: Placement
    call: LoneCall
    """The call of the task. It counts its tensors from the task's own first buffer."""

    @classmethod
    def from_build(
        cls, build: RecordedBuild, task: KernelTask, values: TaskValues, *, front_guard: bool = False
    ) -> IsolatedTask:
        """Take a task out of its build's orchestration. Writes no files. `values` are those recorded for the task.

        Raises:
            SingleTaskError: the task cannot be found in the orchestration, or taken out of it.
            LayoutError: neither the shape nor a value of a tensor was recorded.
        """
        try:
            placement = Placement.from_task(build.tasks, task, values)
        except LayoutError as error:
            placement = Placement.with_separate_buffers(task, values, why=str(error))
        if front_guard:
            placement = placement.with_front_guard()
        shapes = [buffer.shape for buffer in placement.buffers]
        submits = find_submits(build.orchestration, task)
        possible_calls = [_lone_call(submit, task, placement, values) for submit in submits]
        # Submits that give the same source are as good as one.
        calls = {isolate_calls(build.orchestration, [call], shapes): call for call in possible_calls}
        if len(calls) != 1:
            raise SingleTaskError(
                f"{build.build}: expected one way to submit {task.name} alone, found {len(calls)}"
            )
        return cls(build=build, task=task, placement=placement, call=next(iter(calls.values())))


@dataclass(frozen=True)
class PreparedTask:
    """A task to run on these contents of its buffers. Contents are flat, and include the memory around its tensors."""

    alone: IsolatedTask
    contents: tuple[Storage, ...]

    @classmethod
    def prepare(cls, alone: IsolatedTask, inputs: Mapping[int, TensorView], fill: Fill) -> PreparedTask:
        """Return a task whose tensors hold `inputs`, by argument index. All other memory holds `fill`.

        Raises:
            LayoutError: a value has another size than the tensor.
            OverlappingTensorsError: two tensors should hold different values in the same memory.
        """
        placement = alone.placement
        contents = tuple(_fill_buffer(buffer, fill) for buffer in placement.buffers)
        written: list[tuple[int, Storage, Storage]] = []
        for index, view in inputs.items():
            placed = placement.tensors[index]
            region = region_array(contents[placed.buffer_index], placed.region)
            if region.size != view.numel:
                raise LayoutError(
                    f"argument {index}: expected {region.shape}, found values of shape {view.shape}"
                )
            dtype = placement.buffers[placed.buffer_index].dtype
            region[...] = to_dtype(view, dtype).contiguous().reshape(region.shape)
            written.append((index, region, region.copy()))
        for index, region, value in written:
            if region.tobytes() != value.tobytes():
                raise OverlappingTensorsError(
                    f"argument {index} of {alone.task.name} lies where another one does, and should hold other values"
                )
        return cls(alone, contents)


@dataclass(frozen=True, kw_only=True)
class LoneResult:
    """The results of one task, by argument index, and its flat buffers after the run.

    `buffers` includes the memory around the tensors. It is None if the harness does not hand the buffers back.
    """

    results: Mapping[int, TensorView]
    buffers: tuple[Storage, ...] | None


class TaskReplayer:
    """Runs some tasks of one build, one after the other, any number of times."""

    def __init__(self, tasks: Sequence[IsolatedTask], *, folder: Path) -> None:
        """Edit another copy of the build in the new folder `folder`.

        Raises:
            SingleTaskError: the tasks cannot be submitted in one orchestration.
        """
        build = tasks[0].build
        self._tasks = tuple(tasks)
        self._config = build.config
        self._folder = folder
        self._buffers: list[ParentBuffer] = []
        calls: list[LoneCall] = []
        for alone in tasks:
            calls.append(_shift_buffers(len(self._buffers), alone.call))
            self._buffers += alone.placement.buffers
        copy = WorkingCopy.create(build.build, folder / "build")
        copy.write_orchestration(
            isolate_calls(build.orchestration, calls, [buffer.shape for buffer in self._buffers])
        )
        # As outputs, all buffers are handed back by the harness, even those that no task declares to write.
        copy.write_signature([Direction.INOUT] * len(self._buffers))
        with suppress(MalformedFileError):  # All kernels are compiled if the list cannot be shortened.
            copy.keep_kernels({name for alone in tasks for name in alone.task.kernels})
        self._replayer = Replayer(
            copy=copy,
            toolchain=build.replayer.toolchain,
            folder=folder / "runs",
            timeout=build.replayer.timeout,
            objects=build.replayer.objects,
        )

    def run(self, contents: Sequence[Sequence[Storage]]) -> tuple[LoneResult, ...]:
        """Run all tasks, each with its part of `contents` in its buffers. Return what each task left.

        Raises:
            ReplayError: the tasks did not run to their end.
            IncompleteDumpError: results were not dumped completely.
        """
        data = self._folder / f"data-{self._replayer.runs + 1}"
        images = [image for buffers in contents for image in buffers]
        for index, (buffer, image) in enumerate(zip(self._buffers, images, strict=True)):
            for kind in ("in", "out"):
                _save(buffer, image, data / kind / f"{entry_name(index)}.pt")
        arguments = [
            EntryTensor(
                name=entry_name(index),
                dtype=buffer.dtype.torch_name,
                shape=buffer.shape,
                is_output=True,
                has_input=True,
            )
            for index, buffer in enumerate(self._buffers)
        ]
        replay = self._replayer.run(arguments, data=data, dump_level=2, dep_gen=True)
        assert replay.dump is not None
        assert replay.graph is not None
        tasks = TaskList.from_graph(replay.graph, self._config).tasks
        outputs = None if replay.outputs is None else _read_buffers(replay.outputs, len(images))
        results: list[LoneResult] = []
        first = 0
        for alone, task in zip(self._tasks, tasks, strict=True):
            own = slice(first, first + len(alone.placement.buffers))
            first = own.stop
            buffers = None if outputs is None else tuple(outputs[own])
            results.append(LoneResult(results=results_of(replay.dump, task), buffers=buffers))
        return tuple(results)


def _lone_call(submit: Submit, task: KernelTask, placement: Placement, values: TaskValues) -> LoneCall:
    tensors = [placement.tensors[argument.index] for argument in task.task.arguments]
    return LoneCall(
        submit=submit,
        tensors=tuple((placed.buffer_index, placed.region) for placed in tensors),
        scalars=format_scalars(submit, values.scalars),
        blocks=task.task.blocks,
    )


def _shift_buffers(first: int, call: LoneCall) -> LoneCall:
    return replace(call, tensors=tuple((first + tensor, region) for tensor, region in call.tensors))


def _fill_buffer(buffer: ParentBuffer, fill: Fill) -> Storage:
    # Only whether a truth value is 0 matters.
    byte = fill.value & 1 if buffer.dtype is DType.BOOL else fill.value
    return np.full(buffer.elements * buffer.dtype.itemsize, byte, np.uint8).view(buffer.dtype.storage)


def _read_buffers(outputs: TensorFolder, count: int) -> list[Storage]:
    return [np.ravel(outputs.tensor(entry_name(index)).contiguous()) for index in range(count)]


def _save(buffer: ParentBuffer, image: Storage, path: Path) -> None:
    import torch

    view = TensorView.from_contiguous(path.stem, buffer.dtype, buffer.shape, image)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial, partial.open("wb") as stream:
        torch.save(view.torch(), stream)  # pyright: ignore[reportUnknownMemberType]

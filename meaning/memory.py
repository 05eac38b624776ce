"""Runs a program on the bytes that the compiler assigned, and finds tiles that spoil each other.

From the pass `InitMemRef` on, each tile's type says where its bytes lie, and its elements are kept there. A kernel has
one buffer for each memory space, or one for each allocation before addresses are assigned. A buffer is poisoned when
the kernel begins, and knows for each byte the statement that wrote it last. A tile knows who wrote its bytes when it
was made. If an operation reads a tile and finds another writer, that is a `Finding`:

- `OVERWRITTEN`: another tile was written over it.
- `NEVER_WRITTEN`: no one wrote the bytes, or not as a part of this tile.
- `OVER_OPERAND`: an operation's result, or its scratch, lies on an operand that it still reads. The table of
  `operations` says what each operation may do, row by row of the tile.
- `TOO_LARGE`: a tile reaches past its allocation or its memory space.
- `IN_RESERVED`: a tile lies in bytes that are reserved for a pipe between cores.
- `DISPLACED`: a view's type says that it lies outside of the tile that it is a view of.

A tile keeps its elements aside if they are not ordered row by row: a part of a fractal tile, or a packed mask. Only the
writers of its bytes are watched.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import torch

from .arithmetic import ArithmeticMode, decode_bytes, encode_bytes, poison
from .execution import Execution, Frame, updated_tile
from .ir import (
    CAPACITIES_950,
    Constant,
    Definition,
    DumpLine,
    ElementType,
    IrProgram,
    MemoryReference,
    MemorySpace,
    TileType,
)
from .operations import Operation
from .values import Array, Finding, FindingKind, Invocation, OperationError, Value, require_integers

Tensor = torch.Tensor

MAX_FINDINGS = 100
"""A run keeps this many findings. One wrong address can spoil thousands of tiles, and the first ones explain it."""

BYTE_CALLS = 16
"""This many calls of each kernel run on bytes. Its later calls use the same bytes again."""

_MAX_BUFFER_BYTES = 4 << 20
"""A space or an allocation of unknown size has this limit. It is above all known ones, and bounds a hostile dump."""


@dataclass(frozen=True)
class _Event:
    """A write of bytes."""

    name: str
    place: DumpLine


_RegionKey = tuple[MemorySpace, str | None]


@dataclass(frozen=True)
class _Use:
    """An operation that is about to read or write, and the kernel that it belongs to."""

    operation: str
    frame: Frame
    place: DumpLine


class _Region:
    """The bytes of a space or an allocation. `writers` are indices of events, and 0 for bytes never written."""

    def __init__(self) -> None:
        self.content = torch.full((0,), 0xFF, dtype=torch.uint8)
        self.writers = torch.zeros(0, dtype=torch.int32)

    def reserve(self, size: int) -> None:
        missing = size - self.content.numel()
        if missing > 0:
            self.content = torch.cat([self.content, torch.full((missing,), 0xFF, dtype=torch.uint8)])
            self.writers = torch.cat([self.writers, torch.zeros(missing, dtype=torch.int32)])


@dataclass(frozen=True)
class _Layout:
    """The place of a tile's elements in a region. Strides are in bytes, one for each axis."""

    key: _RegionKey
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int
    is_fractal: bool = False
    """Whether the elements stand block by block. The strides are those of a row-major tile of as many bytes."""

    @cached_property
    def end(self) -> int:
        """Return the byte after the last one."""
        if 0 in self.shape:
            return self.offset
        last = sum((length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True))
        return self.offset + last + self.width

    @property
    def is_dense(self) -> bool:
        """Return whether no bytes lie between the elements."""
        return self.end - self.offset == math.prod(self.shape) * self.width

    @cached_property
    def is_row_major(self) -> bool:
        """Return whether the elements follow one another without gaps, row by row."""
        dense = _dense_strides(self.shape, self.width)
        return all(
            length <= 1 or stride == step
            for length, stride, step in zip(self.shape, self.strides, dense, strict=True)
        )

    def is_at(self, other: _Layout) -> bool:
        """Return whether both begin at the same byte."""
        return (self.key, self.offset) == (other.key, other.offset)

    def overlaps(self, other: _Layout) -> bool:
        """Return whether both have a byte between their ends."""
        return self.key == other.key and self.offset < other.end and other.offset < self.end

    def view(self, region: Tensor) -> Tensor:
        """Return the tile's bytes in a region. The last axis is the bytes of an element."""
        return region.as_strided((*self.shape, self.width), (*self.strides, 1), self.offset)


@dataclass(frozen=True)
class _Placement:
    """A tile's bytes, and the events that had written them when it was made.

    An expected writer of -1 marks a byte that has not been written as a part of the tile.
    """

    region: _Region
    layout: _Layout
    name: str
    expected_writers: Tensor
    keeps_elements: bool
    """Whether the elements cannot be read from the bytes one by one."""
    packed_layout: _Layout | None = None
    """For a part of wider rows, where its own type puts it without gaps."""
    variable: str = ""
    """The variable that an operation made it for. A view's type may state only where its source begins."""
    future_layout: _Layout | None = None
    """Where its type says that it lies, if the compiler has not moved it there yet."""


@dataclass
class _Kernel:
    """The memory of one kernel that runs. No tile may lie in the bytes that are `reserved` for pipes."""

    regions: dict[_RegionKey, _Region] = field(default_factory=dict[_RegionKey, _Region])
    allocated: dict[str, int] = field(default_factory=dict[str, int])
    reserved: list[tuple[MemorySpace, int, int]] = field(default_factory=list[tuple[MemorySpace, int, int]])


class MemoryExecution(Execution):
    """Runs a program, and gathers `findings`.

    With `addresses_assigned`, offsets count from the start of a memory space, and otherwise of an allocation. With
    `is_planned`, the results of a loop or branch must lie where they are read. Before, the compiler still moves them.
    """

    def __init__(
        self,
        program: IrProgram,
        *,
        addresses_assigned: bool,
        is_planned: bool = True,
        capacities: Mapping[MemorySpace, int] = CAPACITIES_950,
    ) -> None:
        super().__init__(program, ArithmeticMode.STATED)
        self.findings: list[Finding] = []
        self._absolute = addresses_assigned
        self._is_planned = is_planned
        self._capacities = capacities
        self._kernels: WeakKeyDictionary[Frame, _Kernel] = WeakKeyDictionary()
        self._placements: WeakKeyDictionary[Array, _Placement] = WeakKeyDictionary()
        self._layouts: dict[int, _Layout] = {}
        self._calls: Counter[str] = Counter()
        self._events: list[_Event] = [_Event("nothing", program.entry.place)]
        self._seen: set[tuple[FindingKind, DumpLine, str, str | None]] = set()

    # Hooks of `Execution`

    def enter(self, frame: Frame) -> None:
        """Give a kernel its own memory. After `BYTE_CALLS` calls, it runs on values alone."""
        count = self._calls[frame.function.name] + 1
        self._calls[frame.function.name] = count
        if count <= BYTE_CALLS:
            self._kernels[frame] = _Kernel()

    def no_effect(self, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine) -> Value:
        """Note how large an allocation is, and which bytes are reserved for a pipe."""
        kernel = self._kernels.get(frame)
        if kernel is None:
            return super().no_effect(call, frame, target, place)
        sizes = [each for each in call.operands if isinstance(each, int)]
        if target is not None and call.name in ("tile.alloc", "tensor.alloc") and sizes:
            kernel.allocated[target.name] = sizes[-1]
        base, size = call.attributes.get("base"), call.attributes.get("size")
        is_pipe = call.name == "system.reserve_buffer" and self._absolute
        if is_pipe and isinstance(base, int) and isinstance(size, int) and base >= 0:
            space = MemorySpace.MAT if frame.function.role == "AIC" else MemorySpace.VEC
            kernel.reserved.append((space, base, base + size))
        return super().no_effect(call, frame, target, place)

    def perform(
        self, operation: Operation, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Value:
        """Read the operands from their bytes, compute, and write the result to its bytes."""
        if not self._placements and frame not in self._kernels:
            return super().perform(operation, call, frame, target, place)
        use = _Use(call.name, frame, place)
        operands, read = self._read_operands(operation, call, use)
        self._use_scratch(operation, call, read, use)
        layout = None if target is None else self._layout(target, frame, place, is_view=operation.is_view)
        if target is None:
            result = operation.compute(replace(call, operands=tuple(operands)))
            return self._update_in_place(operation, call, result, use)
        if layout is None:
            return operation.compute(replace(call, operands=tuple(operands)))
        if operation.is_view:
            source = self._placement(call.operands[0])
            if source is not None:
                view = self._new(operation.compute(call), target, frame)
                stated, layout = layout, _actual_layout(source, layout)
                placed = _view_placement(source, call, layout, target)
                begins_elsewhere = placed.layout is layout and layout.offset != source.layout.offset
                if layout.key != source.layout.key or begins_elsewhere:
                    event = self._event(source.name, place)
                    self._report(FindingKind.DISPLACED, use, target.name, layout, event)
                    placed = self._move_placement(replace(placed, name=target.name), layout, frame)
                future_layout = None if source.future_layout is None else stated
                self._placements[view] = replace(placed, variable=target.name, future_layout=future_layout)
                return view
        self._check_overlaps(operation, read, operands, layout, target.name, use)
        result = self._new(operation.compute(replace(call, operands=tuple(operands))), target, frame)
        updated = next((placement for index, placement in read if index == operation.updates), None)
        part = None
        if operation.writes_nothing:
            part = torch.zeros(result.shape, dtype=torch.bool)
        elif updated is not None and operation.writes_part:
            part = operation.written_part(call, result.shape)
        self._write(result, layout, target.name, use, updated, part)
        return result

    def _update_in_place(self, operation: Operation, call: Invocation, result: Value, use: _Use) -> Value:
        """Give the tile that a statement without a target changes its new elements, and write them to its bytes."""
        tile = updated_tile(operation, call, result)
        if tile is None or not isinstance(result, Array):
            return result
        tile.numbers = result.numbers
        placement = self._placement(tile)
        if placement is not None:
            part = operation.written_part(call, tile.shape) if operation.writes_part else None
            name = placement.variable or placement.name
            self._write(tile, placement.layout, name, use, placement, part)
        return tile

    def _placement(self, value: Value) -> _Placement | None:
        """Return the placement of a value. None if it is no tile, or has no bytes."""
        return self._placements.get(value) if self._placements and isinstance(value, Array) else None

    def _new(self, value: Value, target: Definition, frame: Frame) -> Array:
        """Return a new tile with the value, which may be an operand, in the stated shape and type."""
        stated = super().coerce(value, target, frame)
        if not isinstance(stated, Array):
            raise OperationError(f"expected a tile for {target.name}, found something else")
        return Array(stated.numbers, stated.dtype, stated.valid)

    def _read_operands(
        self, operation: Operation, call: Invocation, use: _Use
    ) -> tuple[list[Value], list[tuple[int, _Placement]]]:
        """Return the operands as their bytes hold them, and the placements of those that are read."""
        operands = list(call.operands)
        read: list[tuple[int, _Placement]] = []
        scratch = operation.scratch_operands(len(operands))
        for index, operand in enumerate(call.operands):
            placement = self._placement(operand)
            is_read = operation.reads is None or index in operation.reads
            if placement is None or index in scratch or not (is_read or index == operation.updates):
                continue
            if isinstance(operand, Array) and not operation.is_view:
                fetched = self._fetch(operand, placement, use, ignores_unwritten=not is_read)
                if index in operation.needs_dense and placement.packed_layout is not None:
                    self._write(operand, placement.packed_layout, placement.variable, use, content=fetched)
                    placement = self._placements[operand]
                operands[index] = fetched
            read.append((index, placement))
        return operands, read

    def operand(self, call: Invocation, index: int, frame: Frame, place: DumpLine) -> Array:
        """Read a tile that another core will get."""
        array = call.array(index)
        placement = self._placements.get(array)
        return array if placement is None else self._fetch(array, placement, _Use(call.name, frame, place))

    def receive_tile(
        self, value: Array, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Array:
        """Write a tile from another core where its type says."""
        if target is None:
            return value
        result = self._new(value, target, frame)
        layout = self._layout(target, frame, place, is_view=False, may_be_reserved=True)
        if layout is not None:
            self._write(result, layout, target.name, _Use(call.name, frame, place))
        return result

    def coerce(self, value: Value, target: Definition, frame: Frame) -> Value:
        """Look for a tile that gets another name without an operation where its new type says."""
        stated = super().coerce(value, target, frame)
        placement = self._placement(value)
        if placement is None or not isinstance(stated, Array):
            return stated
        layout = self._layout(target, frame, frame.function.place, is_view=True, reports=False)
        if layout is None or placement.variable == target.name or placement.layout.is_at(layout):
            if stated is not value:
                self._placements[stated] = _reshape(placement, stated.shape)
            return stated
        renamed = replace(stated)
        if self._is_planned:
            self._placements[renamed] = self._move_placement(placement, layout, frame)
        else:
            self._placements[renamed] = replace(_reshape(placement, stated.shape), future_layout=layout)
        return renamed

    def carry(self, initial: Value, value: Value, frame: Frame, place: DumpLine) -> Value:
        """Return the value for the next iteration, which looks for a tile where the loop's initial value was.

        Before the planner has run, the compiler still moves tiles. Then the tile is kept as it is now.
        """
        wanted, found = self._placement(initial), self._placement(value)
        if wanted is None or found is None or not isinstance(value, Array):
            return value
        if wanted.layout.shape != found.layout.shape or wanted.layout.is_at(found.layout):
            return value
        if not self._is_planned:
            kept = self._fetch(value, found, _Use("the loop", frame, place))
            return replace(kept, numbers=kept.numbers.copy())
        moved = replace(value)
        self._placements[moved] = replace(found, region=wanted.region, layout=wanted.layout)
        return moved

    # Bytes

    def _layout(
        self,
        target: Definition,
        frame: Frame,
        place: DumpLine,
        *,
        is_view: bool,
        may_be_reserved: bool = False,
        reports: bool = True,
    ) -> _Layout | None:
        """Return where a tile's type puts it. None if the type does not say it, or if it is out of bounds."""
        type_, kernel = target.type, self._kernels.get(frame)
        if kernel is None or not isinstance(type_, TileType) or (reference := type_.reference) is None:
            return None
        layout = self._layouts.get(id(type_)) or self._stated_layout(type_, reference, frame)
        if layout is None:
            return None
        (space, base), offset = layout.key, layout.offset
        if self._absolute:
            limit = self._capacities.get(space, _MAX_BUFFER_BYTES)
        else:
            limit = kernel.allocated.get(base or "", _MAX_BUFFER_BYTES)
        extent = reference.size if is_view else max(reference.size, layout.end - offset)
        is_outside = offset < 0 or offset + extent > limit
        if not reports:
            return None if is_outside else layout
        if is_outside or (not is_view and not type_.is_fractal and layout.end - offset > reference.size):
            self._report(FindingKind.TOO_LARGE, _Use("", frame, place), target.name, layout, None)
        for reserved_space, first, end in kernel.reserved:
            if reserved_space is space and not may_be_reserved and offset < end and first < layout.end:
                self._report(FindingKind.IN_RESERVED, _Use("", frame, place), target.name, layout, None)
        return None if is_outside else layout

    def _stated_layout(self, type_: TileType, reference: MemoryReference, frame: Frame) -> _Layout | None:
        """Return where a type's memory reference puts a tile. The layout is cached if it depends on no variable."""
        stated = self.resolve_result(type_, frame)
        if stated is None or type_.space is None:
            return None
        try:
            (offset,) = require_integers(self.plain(reference.offset, frame), "the offset of a MemRef")
        except OperationError:
            return None
        if offset < 0 and reference.base is None:
            return None
        width = max(1, type_.dtype.bits // 8)
        by_columns = type_.layout == "col_major" and not type_.is_fractal
        strides = _dense_strides(stated.shape, width, by_columns=by_columns)
        key = (type_.space, None if self._absolute else reference.base)
        layout = _Layout(key, offset, stated.shape, strides, width, type_.is_fractal)
        if self.is_constant(type_) and isinstance(reference.offset, Constant):
            self._layouts[id(type_)] = layout
        return layout

    def _region(self, layout: _Layout, frame: Frame) -> _Region:
        regions = self._kernels[frame].regions
        region = regions.get(layout.key)
        if region is None:
            region = regions[layout.key] = _Region()
        region.reserve(layout.end)
        return region

    def _fetch(
        self, array: Array, placement: _Placement, use: _Use, *, ignores_unwritten: bool = False
    ) -> Array:
        """Read a tile back from memory. Report bytes whose last writer is not the expected one."""
        layout, region = placement.layout, placement.region
        compares_all = placement.keeps_elements or ignores_unwritten or array.shape != layout.shape
        current, expected = layout.view(region.writers), placement.expected_writers
        if not compares_all and not array.is_wholly_valid:
            window = tuple(slice(0, length) for length in array.valid)
            current, expected = current[window], expected[window]
        is_lost = False
        if not torch.equal(current, expected):
            differs = (current != expected) & (expected > 0)
            is_lost = bool(differs.any())
            foreign = differs & (current > 0)
            if is_lost and foreign.any():
                self._report_bytes(FindingKind.OVERWRITTEN, foreign, current, placement, use)
            # A tile that is read elsewhere than it was written may find bytes that no one has written.
            missing = differs & (current == 0)
            if not compares_all:
                missing |= expected <= 0
            if (is_lost or not compares_all) and missing.any():
                self._report_bytes(FindingKind.NEVER_WRITTEN, missing, current, placement, use)
        if placement.keeps_elements:
            numbers = poison(array.shape, array.dtype, self.arithmetic) if is_lost else array.numbers
            return Array(numbers, array.dtype, array.valid)
        numbers = decode_bytes(layout.view(region.content), array.dtype)
        if numbers.shape != array.shape:
            numbers = numbers.rearrange(lambda each: each.reshape(array.shape))
        return Array(numbers, array.dtype, array.valid)

    def _write(
        self,
        result: Array,
        layout: _Layout,
        name: str,
        use: _Use,
        updated: _Placement | None = None,
        part: Tensor | None = None,
        content: Array | None = None,
    ) -> None:
        """Write a tile's valid elements to its bytes, and note the event as their writer.

        updated: the tile that the operation changes, whose other bytes keep their expected writers.
        part: the elements that the operation writes. None if it writes all valid ones.
        content: the elements to write if they are not those of `result`.
        """
        numbers = (result if content is None else content).numbers
        region = self._region(layout, use.frame)
        event = self._event(name, use.place)
        keeps_elements = (
            result.dtype is ElementType.BOOL or result.dtype.bits < 8 or result.shape != layout.shape
        )
        byte_shape = (*layout.shape, layout.width)
        if part is not None and updated is not None:
            # The other elements' writers are known only if both tiles lie in memory in the same way.
            keeps_elements |= updated.keeps_elements or updated.expected_writers.shape != byte_shape
        if keeps_elements:
            layout = replace(layout, shape=(layout.end - layout.offset,), strides=(1,), width=1)
        if keeps_elements or (part is None and result.is_wholly_valid):
            if not keeps_elements:
                layout.view(region.content).copy_(encode_bytes(numbers, result.dtype))
            layout.view(region.writers).fill_(event)
            expected_writers = torch.full((*layout.shape, layout.width), event, dtype=torch.int32)
            self._placements[result] = _Placement(region, layout, name, expected_writers, keeps_elements)
            return
        box = _written_box(result, layout, updated, part)
        if box is not None:
            others = torch.full(byte_shape, -1, dtype=torch.int32)
            expected_writers = others if updated is None or part is None else updated.expected_writers.clone()
            expected_writers[box] = event
            layout.view(region.content)[box] = encode_bytes(
                numbers.rearrange(lambda each: each[box]), result.dtype
            )
            layout.view(region.writers)[box] = event
        else:
            mask, touched, previous = _written_masks(result, layout, updated, part, event)
            content_bytes, writers = layout.view(region.content), layout.view(region.writers)
            content_bytes.copy_(torch.where(touched, encode_bytes(numbers, result.dtype), content_bytes))
            writers.copy_(torch.where(touched, event, writers))
            expected_writers = torch.where(mask, event, previous).to(torch.int32)
        self._placements[result] = _Placement(region, layout, name, expected_writers, False)

    def _use_scratch(
        self, operation: Operation, call: Invocation, read: Sequence[tuple[int, _Placement]], use: _Use
    ) -> None:
        """Overwrite the scratch operands of an operation."""
        for index in operation.scratch_operands(len(call.operands)):
            placement = self._placement(call.operands[index])
            if placement is None:
                continue
            for _, other in read:
                if other.layout.overlaps(placement.layout):
                    event = self._event(placement.name, use.place)
                    self._report(FindingKind.OVER_OPERAND, use, other.name, other.layout, event)
            event = self._event(f"{use.operation}'s scratch {placement.name}", use.place)
            placement.layout.view(placement.region.writers).fill_(event)
            placement.layout.view(placement.region.content).fill_(0xFF)

    def _check_overlaps(
        self,
        operation: Operation,
        read: Sequence[tuple[int, _Placement]],
        operands: list[Value],
        layout: _Layout,
        name: str,
        use: _Use,
    ) -> None:
        """Poison operand rows that the result overwrites before they are read, or all if no order is known."""
        for index, placement in read:
            if not placement.layout.overlaps(layout):
                continue
            keeps_order = placement.layout.is_fractal is layout.is_fractal
            if keeps_order and _is_in_place(operation, index, placement, layout):
                continue
            lost = _lost_rows(placement.layout, layout) if keeps_order else None
            if lost is None and keeps_order and index in operation.in_place | operation.by_rows:
                continue
            event = self._event(name, use.place)
            self._report(FindingKind.OVER_OPERAND, use, placement.name, placement.layout, event, lost)
            operand = operands[index]
            if isinstance(operand, Array):
                rows = slice(lost[0], lost[1] + 1) if lost and len(operand.shape) == 2 else slice(None)
                numbers = operand.numbers.copy()
                numbers.rearrange(lambda each, rows=rows: each[rows]).assign(
                    poison((), operand.dtype, self.arithmetic)
                )
                operands[index] = replace(operand, numbers=numbers)

    def _move_placement(self, placement: _Placement, layout: _Layout, frame: Frame) -> _Placement:
        """Return the placement of the same tile at other bytes."""
        region = self._region(layout, frame)
        if (
            placement.keeps_elements
            or placement.expected_writers.numel() != layout.view(region.writers).numel()
        ):
            layout = replace(placement.layout, key=layout.key, offset=layout.offset)
            region.reserve(layout.end)
        expected_writers = placement.expected_writers.reshape((*layout.shape, layout.width))
        return _Placement(region, layout, placement.name, expected_writers, placement.keeps_elements)

    # Findings

    def _event(self, name: str, place: DumpLine) -> int:
        self._events.append(_Event(name, place))
        return len(self._events) - 1

    def _report_bytes(
        self, kind: FindingKind, wrong: Tensor, current: Tensor, placement: _Placement, use: _Use
    ) -> None:
        """Report the writer of the first wrong byte, in the order of the elements, and the first and last wrong row."""
        rows = wrong.reshape(wrong.shape[0], -1).any(-1).nonzero().reshape(-1)
        event = int(current[wrong][0]) if kind is FindingKind.OVERWRITTEN else None
        layout = placement.layout
        first = [int(index) for index in wrong.nonzero()[0]]
        offset = layout.offset + sum(
            index * stride for index, stride in zip(first, (*layout.strides, 1), strict=True)
        )
        first_to_last, shown = (int(rows[0]), int(rows[-1])), replace(layout, offset=offset)
        self._report(kind, use, placement.name, shown, event, first_to_last, int(wrong.sum()))

    def _report(
        self,
        kind: FindingKind,
        use: _Use,
        tile: str,
        layout: _Layout,
        event: int | None,
        rows: tuple[int, int] | None = None,
        count: int | None = None,
    ) -> None:
        writer = self._events[event] if event is not None else None
        key = (kind, use.place, tile, writer.name if writer else None)
        if key in self._seen or len(self.findings) >= MAX_FINDINGS:
            return
        self._seen.add(key)
        self.findings.append(
            Finding(
                kind=kind,
                function=use.frame.function.name,
                operation=use.operation,
                place=use.place,
                tile=tile,
                other=writer.name if writer else None,
                written_at=writer.place if writer else None,
                space=layout.key[0],
                base=layout.key[1],
                first_byte=layout.offset,
                bytes=count if count is not None else layout.end - layout.offset,
                rows=rows,
            )
        )


def _written_box(
    result: Array, layout: _Layout, updated: _Placement | None, part: Tensor | None
) -> tuple[slice, ...] | None:
    """Return the slices that take all elements that a write writes. None if these are no box.

    A result at other bytes than the updated tile has a copy of the other elements, so it writes more than a box.
    """
    if part is None:
        return tuple(slice(0, length) for length in result.valid)
    if updated is None or not result.is_wholly_valid or not updated.layout.is_at(layout):
        return None
    places = part.nonzero()
    if not len(places):
        return None
    box = tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in places.unbind(1))
    return box if len(places) == part[box].numel() else None


def _written_masks(
    result: Array, layout: _Layout, updated: _Placement | None, part: Tensor | None, event: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return, byte by byte, what an event writes, what it touches, and the expected writers of the other bytes."""
    byte_shape = (*layout.shape, layout.width)
    written = torch.zeros(result.shape, dtype=torch.bool)
    written[tuple(slice(0, length) for length in result.valid)] = True
    previous = torch.full(byte_shape, -1, dtype=torch.int32)
    is_copy = False
    if part is not None:
        stays = written & ~part
        written = part
        if updated is not None:
            # A result at other bytes has a copy of the other elements.
            is_copy = not updated.layout.is_at(layout)
            copied = torch.where(updated.expected_writers > 0, event, -1).to(torch.int32)
            previous = torch.where(
                stays.unsqueeze(-1), copied if is_copy else updated.expected_writers, previous
            )
    mask = written.unsqueeze(-1).expand(byte_shape)
    return mask, torch.ones_like(mask) if is_copy else mask, previous


def _dense_strides(shape: tuple[int, ...], width: int, *, by_columns: bool = False) -> tuple[int, ...]:
    """Return the strides in bytes of a tile without gaps, row by row or column by column."""
    strides = [0] * len(shape)
    step = width
    for axis in range(len(shape)) if by_columns else reversed(range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _actual_layout(source: _Placement, layout: _Layout) -> _Layout:
    """Return where a view lies. It follows its source until the compiler has moved that to its stated place."""
    if source.future_layout is None or source.future_layout.key != layout.key:
        return layout
    offset = layout.offset - source.future_layout.offset + source.layout.offset
    return replace(layout, key=source.layout.key, offset=offset)


def _is_in_place(operation: Operation, index: int, placement: _Placement, layout: _Layout) -> bool:
    """Return whether each element of the result lies where the operand has it, or before it."""
    if index not in operation.in_place or placement.layout.offset != layout.offset:
        return False
    if placement.keeps_elements:
        return True
    operand = placement.layout
    if layout.width > operand.width:
        return False
    if _axes(operand) == _axes(layout):
        return True
    is_same_size = math.prod(operand.shape) == math.prod(layout.shape)
    return is_same_size and operand.is_row_major and layout.is_row_major


def _axes(layout: _Layout) -> list[tuple[int, int]]:
    """Return the length of each axis that is longer than 1, and its stride in elements."""
    return [
        (length, stride // layout.width)
        for length, stride in zip(layout.shape, layout.strides, strict=True)
        if length != 1
    ]


def _lost_rows(operand: _Layout, result: _Layout) -> tuple[int, int] | None:
    """Return the first and last operand row that is overwritten before it is read, if both go row by row."""
    if len(operand.shape) != 2 or len(result.shape) != 2:
        return None
    is_repeated = operand.shape[0] == 1 and math.prod(operand.shape) < math.prod(result.shape)
    lost: list[int] = []
    for row in range(operand.shape[0]):
        first = operand.offset + row * operand.strides[0]
        # These rows of the result are written before this row is read for the last time.
        earlier = result.shape[0] - 1 if is_repeated else min(row, result.shape[0])
        if earlier > 0 and result.offset < _row_end(operand, row) and first < _row_end(result, earlier - 1):
            lost.append(row)
    return (lost[0], lost[-1]) if lost else None


def _row_end(layout: _Layout, row: int) -> int:
    return layout.offset + row * layout.strides[0] + (layout.shape[1] - 1) * layout.strides[1] + layout.width


def _view_placement(source: _Placement, call: Invocation, layout: _Layout, target: Definition) -> _Placement:
    """Return the placement of another view of a tile's bytes, with the same writers.

    A view keeps its elements aside if their order in memory is unknown.
    """
    kind = call.name.rpartition(".")[2]
    if kind == "set_validshape" and not source.keeps_elements:
        return source
    if kind == "reshape":
        return _lay_out(source, layout)
    opaque = replace(source, keeps_elements=True)
    if kind != "slice" or source.keeps_elements:
        return opaque
    shape, offsets = tuple(call.integers(1)), call.integers(2)
    is_part_of_fractal = (
        isinstance(target.type, TileType) and target.type.is_fractal and shape != source.layout.shape
    )
    if is_part_of_fractal or len(shape) != len(source.layout.shape) or layout.shape != shape:
        return opaque
    window = tuple(slice(at, at + length) for at, length in zip(offsets, shape, strict=True))
    expected_writers = source.expected_writers[window]
    if tuple(expected_writers.shape[:-1]) != shape:
        return opaque
    steps = zip(offsets, source.layout.strides, strict=True)
    offset = source.layout.offset + sum(at * stride for at, stride in steps)
    part = replace(layout, offset=offset, strides=source.layout.strides)
    # To be read without gaps, such a part has to be copied to the bytes that its own type states.
    packed_layout = layout if not part.is_dense or offset != layout.offset else None
    return replace(source, layout=part, expected_writers=expected_writers, packed_layout=packed_layout)


def _reshape(placement: _Placement, shape: tuple[int, ...]) -> _Placement:
    """Return the same bytes under another shape of as many elements."""
    layout = placement.layout
    if shape == layout.shape:
        return placement
    return _lay_out(placement, replace(layout, shape=shape, strides=_dense_strides(shape, layout.width)))


def _lay_out(placement: _Placement, layout: _Layout) -> _Placement:
    """Return the same bytes in another layout. Elements whose order would change are kept aside."""
    old = placement.layout
    is_same = (layout.shape, layout.strides, layout.width) == (old.shape, old.strides, old.width)
    keeps_order = layout.width == old.width and layout.is_row_major and old.is_row_major
    if placement.keeps_elements or not (
        is_same or (keeps_order and math.prod(layout.shape) == math.prod(old.shape))
    ):
        return replace(placement, keeps_elements=True)
    expected_writers = placement.expected_writers.reshape(*layout.shape, layout.width)
    return replace(placement, layout=layout, expected_writers=expected_writers)

"""Runs a program on the bytes that the compiler assigned, and says which tile was put over which.

From the pass `InitMemRef` on, each tile's type says where its bytes lie. Here a tile's elements are kept there: each
kernel has one buffer for each memory space, and before addresses are assigned one for each allocation. Buffers are
poisoned when the kernel begins. Beside each byte stands the statement that wrote it last. A tile remembers who wrote
its bytes when it was made. Where an operation reads a tile and finds another writer, that is a `Finding`:

- `OVERWRITTEN`: another tile was written over it.
- `NEVER_WRITTEN`: no one wrote the bytes, or not as a part of this tile.
- `OVER_OPERAND`: an operation's result, or its room to work in, lies on an operand that it still reads. Whether it may
  is said by the table of `operations`, row by row of the tile.
- `TOO_LARGE`: a tile reaches past its allocation or its memory space.
- `IN_RESERVED`: a tile lies in bytes that a pipe between cores has for itself.
- `DISPLACED`: a view's type says that it lies elsewhere than what it is a view of.

A tile whose elements are not ordered row by row keeps its elements aside: a part of a fractal tile, or a packed mask.
Only the writers of its bytes are watched.

"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import torch

from .arithmetic import ArithmeticMode, Numbers, decode_bytes, encode_bytes, poison
from .execution import Execution, Frame
from .ir import Definition, DumpLine, ElementType, IrProgram, MemorySpace, TileType
from .operations import Operation
from .values import Array, Finding, FindingKind, Invocation, OperationError, Value, require_integers

Tensor = torch.Tensor

CAPACITIES: Mapping[MemorySpace, int] = {
    MemorySpace.VEC: 248 << 10,
    MemorySpace.MAT: 512 << 10,
    MemorySpace.LEFT: 64 << 10,
    MemorySpace.RIGHT: 64 << 10,
    MemorySpace.ACC: 256 << 10,
    MemorySpace.BIAS: 4 << 10,
}
"""Each space of the largest board (Ascend 950) has this many bytes. A caller who knows of a smaller board gives its
own."""

CAPACITIES_910B: Mapping[MemorySpace, int] = {
    **CAPACITIES,
    MemorySpace.VEC: 192 << 10,
    MemorySpace.ACC: 128 << 10,
    MemorySpace.BIAS: 1 << 10,
}
"""Each space of a smaller board (Ascend 910B) has this many bytes."""

MOST_FINDINGS = 100
"""A run keeps this many findings: one wrong address can spoil thousands of tiles, and the first ones explain it."""

BYTE_CALLS = 16
"""This many calls of each kernel run on bytes. Its later calls use the same bytes again."""

_LARGEST_BUFFER = 4 << 20
"""A space or an allocation of unknown size has this limit. It is above all known ones, and bounds a hostile dump."""


@dataclass(frozen=True)
class _Event:
    """Something that wrote bytes."""

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
    """The bytes of a space or an allocation; `writers` are indices of events, 0 for no one."""

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
    """Says where the elements of a tile lie in a region; strides are in bytes, one for each axis."""

    key: _RegionKey
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int

    @property
    def end(self) -> int:
        if 0 in self.shape:
            return self.offset
        last = sum((length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True))
        return self.offset + last + self.width

    def view(self, of: Tensor) -> Tensor:
        """The tile's bytes: its axes, and one more for the bytes of an element."""
        return of.as_strided((*self.shape, self.width), (*self.strides, 1), self.offset)


@dataclass(frozen=True)
class _Placement:
    """A tile's bytes and who had written them when it was made; -1 where it has not been written as a part of it."""

    region: _Region
    layout: _Layout
    name: str
    versions: Tensor
    keeps_elements: bool
    """Its elements cannot be read from the bytes one by one."""
    dense: _Layout | None = None
    """Says where its own type puts a part of wider rows without gaps."""
    variable: str = ""
    """The variable that an operation made it for. A view's type may state only where its source begins."""


@dataclass
class _Kernel:
    """The memory of one kernel that runs; `reserved` are the pipes' own bytes, of which no tile may have one."""

    regions: dict[_RegionKey, _Region] = field(default_factory=dict[_RegionKey, _Region])
    allocated: dict[str, int] = field(default_factory=dict[str, int])
    reserved: list[tuple[MemorySpace, int, int]] = field(default_factory=list[tuple[MemorySpace, int, int]])


class MemoryExecution(Execution):
    """Runs a program, and gathers `findings`.

    `addresses_assigned` says what the offsets count from. `is_planned` says that what a loop or a branch hands on must
    lie where its next reader looks for it. Before the planner has run, the compiler has still to bring it there.
    """

    def __init__(
        self,
        program: IrProgram,
        *,
        addresses_assigned: bool,
        is_planned: bool = True,
        capacities: Mapping[MemorySpace, int] = CAPACITIES,
    ) -> None:
        super().__init__(program, ArithmeticMode.STATED)
        self.findings: list[Finding] = []
        self._absolute = addresses_assigned
        self._is_planned = is_planned
        self._capacities = capacities
        self._kernels: WeakKeyDictionary[Frame, _Kernel] = WeakKeyDictionary()
        self._placements: WeakKeyDictionary[Array, _Placement] = WeakKeyDictionary()
        self._calls: Counter[str] = Counter()
        self._events: list[_Event] = [_Event("nothing", program.entry.place)]
        self._seen: set[tuple[FindingKind, DumpLine, str, str | None]] = set()

    # What happens while the program runs

    def enter(self, frame: Frame) -> None:
        """A kernel begins with memory of its own; the later calls of one that is called often run on values alone."""
        count = self._calls[frame.function.name] + 1
        self._calls[frame.function.name] = count
        if count <= BYTE_CALLS:
            self._kernels[frame] = _Kernel()

    def no_effect(self, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine) -> Value:
        """Note how large an allocation is, and which bytes a pipe has for itself."""
        kernel = self._kernels.get(frame)
        sizes = [each for each in call.operands if isinstance(each, int)]
        if (
            kernel is not None
            and target is not None
            and call.name in ("tile.alloc", "tensor.alloc")
            and sizes
        ):
            kernel.allocated[target.name] = sizes[-1]
        base, size = call.attributes.get("base"), call.attributes.get("size")
        is_pipe = call.name == "system.reserve_buffer" and self._absolute
        if kernel is not None and is_pipe and isinstance(base, int) and isinstance(size, int) and base >= 0:
            space = MemorySpace.MAT if frame.function.role == "AIC" else MemorySpace.VEC
            kernel.reserved.append((space, base, base + size))
        return super().no_effect(call, frame, target, place)

    def perform(
        self, row: Operation, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Value:
        """Read the operands from their bytes, compute, and write the result to its own."""
        use = _Use(call.name, frame, place)
        operands, read = self._read_operands(row, call, use)
        self._use_scratch(row, call, read, use)
        layout = None if target is None else self._layout(target, frame, place, is_view=row.is_view)
        if target is None or layout is None:
            return row.compute(replace(call, operands=tuple(operands)))
        if row.is_view:
            source = self._placements.get(call.operands[0]) if isinstance(call.operands[0], Array) else None
            if source is not None:
                view = self._new(row.compute(call), target, frame)
                placed = _view_placement(source, call, layout, target)
                if layout.key != source.layout.key or placed.layout.offset != _view_offset(source, placed):
                    event = self._event(source.name, place)
                    self._report(FindingKind.DISPLACED, use, target.name, layout, event)
                    placed = self._move_placement(replace(placed, name=target.name), layout, frame)
                self._placements[view] = replace(placed, variable=target.name)
                return view
        self._check_overlaps(row, read, operands, layout, target.name, use)
        result = self._new(row.compute(replace(call, operands=tuple(operands))), target, frame)
        updated = next((placement for index, placement in read if index == row.updates), None)
        part = None
        if row.writes_nothing:
            part = torch.zeros(result.shape, dtype=torch.bool)
        elif updated is not None and row.writes_part:
            part = _written_part(row, call, result)
        self._write(result, layout, target.name, use, updated, part)
        return result

    def _new(self, value: Value, target: Definition, frame: Frame) -> Array:
        """A tile of its own: the value may be an operand."""
        stated = super().coerce(value, target, frame)
        if not isinstance(stated, Array):
            raise OperationError(f"expected a tile for {target.name}, found something else")
        return Array(stated.numbers, stated.dtype, stated.valid)

    def _read_operands(
        self, row: Operation, call: Invocation, use: _Use
    ) -> tuple[list[Value], list[tuple[int, _Placement]]]:
        """The operands with what their bytes hold; a view of the same bytes reads nothing yet."""
        operands = list(call.operands)
        read: list[tuple[int, _Placement]] = []
        for index, operand in enumerate(call.operands):
            placement = self._placements.get(operand) if isinstance(operand, Array) else None
            if placement is None or not isinstance(operand, Array) or index in row.room(len(operands)):
                continue
            is_read = row.reads is None or index in row.reads
            if is_read or index == row.updates:
                if not row.is_view:
                    fetched = self._fetch(operand, placement, use, only_written=not is_read)
                    if index in row.needs_dense and placement.dense is not None:
                        self._write(operand, placement.dense, placement.variable, use, content=fetched)
                        placement = self._placements[operand]
                    operands[index] = fetched
                read.append((index, placement))
        return operands, read

    def operand(self, call: Invocation, index: int, frame: Frame, place: DumpLine) -> Array:
        """A tile that another core will get."""
        array = call.array(index)
        placement = self._placements.get(array)
        return array if placement is None else self._fetch(array, placement, _Use(call.name, frame, place))

    def receive_tile(
        self, value: Array, call: Invocation, frame: Frame, target: Definition | None, place: DumpLine
    ) -> Array:
        """A tile that came from another core is written where its type says."""
        stated = super().coerce(value, target, frame) if target is not None else value
        if target is None or not isinstance(stated, Array):
            return value
        result = Array(stated.numbers, stated.dtype, stated.valid)
        layout = self._layout(target, frame, place, is_view=False, may_be_reserved=True)
        if layout is not None:
            self._write(result, layout, target.name, _Use(call.name, frame, place))
        return result

    def coerce(self, value: Value, target: Definition, frame: Frame) -> Value:
        """A tile that gets another name without an operation is where its new type says, and was written elsewhere."""
        stated = super().coerce(value, target, frame)
        placement = self._placements.get(value) if isinstance(value, Array) else None
        if placement is None or not isinstance(stated, Array):
            return stated
        layout = self._layout(target, frame, frame.function.place, is_view=True, reports=False)
        is_there = placement.variable == target.name or layout is None or _is_same_place(placement, layout)
        if layout is None or is_there or not self._is_planned:
            if stated is not value:
                self._placements[stated] = _reshape(placement, stated.shape)
            return stated
        renamed = Array(stated.numbers, stated.dtype, stated.valid)
        self._placements[renamed] = self._move_placement(placement, layout, frame)
        return renamed

    def carry(self, initial: Value, value: Value) -> Value:
        """The next iteration looks for a tile where the loop's initial value was."""
        if not self._is_planned or not isinstance(initial, Array) or not isinstance(value, Array):
            return value
        first, last = self._placements.get(initial), self._placements.get(value)
        if first is None or last is None or first.layout.shape != last.layout.shape:
            return value
        if (first.layout.key, first.layout.offset) == (last.layout.key, last.layout.offset):
            return value
        moved = Array(value.numbers, value.dtype, value.valid)
        self._placements[moved] = replace(last, region=first.region, layout=first.layout)
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
        """Where a tile's type puts it; None where it says nothing, or nothing that can be kept."""
        type_, kernel = target.type, self._kernels.get(frame)
        if (
            not isinstance(type_, TileType)
            or type_.reference is None
            or type_.space is None
            or kernel is None
        ):
            return None
        stated, reference = self.resolve_result(type_, frame), type_.reference
        if stated is None:
            return None
        try:
            (offset,) = require_integers(self.plain(reference.offset, frame), "the offset of a MemRef")
        except OperationError:
            return None
        base = None if self._absolute else reference.base
        if offset < 0 and reference.base is None:
            return None
        width = max(1, type_.dtype.bits // 8)
        layout = _Layout((type_.space, base), offset, stated.shape, _dense(stated.shape, width, type_), width)
        limit = (
            self._capacities.get(type_.space, _LARGEST_BUFFER)
            if self._absolute
            else kernel.allocated.get(base or "")
        )
        largest = reference.size if is_view else max(reference.size, layout.end - offset)
        is_outside = offset < 0 or offset + largest > (_LARGEST_BUFFER if limit is None else limit)
        if not reports:
            return None if is_outside else layout
        if is_outside or (not is_view and not type_.is_fractal and layout.end - offset > reference.size):
            self._report(FindingKind.TOO_LARGE, _Use("", frame, place), target.name, layout, None)
        for space, first, end in kernel.reserved:
            if space is type_.space and not may_be_reserved and offset < end and first < layout.end:
                self._report(FindingKind.IN_RESERVED, _Use("", frame, place), target.name, layout, None)
        return None if is_outside else layout

    def _region(self, layout: _Layout, frame: Frame) -> _Region:
        region = self._kernels[frame].regions.setdefault(layout.key, _Region())
        region.reserve(layout.end)
        return region

    def _fetch(self, array: Array, placement: _Placement, use: _Use, *, only_written: bool = False) -> Array:
        """A tile's elements from its bytes, after their writers have been compared."""
        layout, region = placement.layout, placement.region
        whole = placement.keeps_elements or only_written or array.shape != layout.shape
        window = tuple(slice(0, length) for length in (layout.shape if whole else array.valid))
        current, expected = layout.view(region.writers)[window], placement.versions[window]
        is_lost = False
        if not torch.equal(current, expected):
            foreign = (current != expected) & (expected > 0)
            is_lost = bool(foreign.any())
            if is_lost:
                self._report_bytes(FindingKind.OVERWRITTEN, foreign, current, placement, use)
            missing = expected <= 0
            if not whole and missing.any():
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
        """Writes a tile's valid elements; of one that is updated in part, it keeps who wrote the rest."""
        numbers = (result if content is None else content).numbers
        region = self._region(layout, use.frame)
        event = self._event(name, use.place)
        keeps = result.dtype is ElementType.BOOL or result.dtype.bits < 8 or result.shape != layout.shape
        if keeps:
            layout = replace(layout, shape=(layout.end - layout.offset,), strides=(1,), width=1)
            region.writers[layout.offset : layout.end] = event
            versions = torch.full((*layout.shape, 1), event, dtype=torch.int32)
            self._placements[result] = _Placement(region, layout, name, versions, True)
            return
        if part is None and result.is_wholly_valid:
            layout.view(region.content).copy_(encode_bytes(numbers, result.dtype))
            layout.view(region.writers).fill_(event)
            versions = torch.full((*layout.shape, layout.width), event, dtype=torch.int32)
            self._placements[result] = _Placement(region, layout, name, versions, False)
            return
        window = tuple(slice(0, length) for length in result.valid)
        written = torch.zeros(result.shape, dtype=torch.bool)
        written[window] = True
        previous = torch.full((*layout.shape, layout.width), -1, dtype=torch.int32)
        if part is not None:
            stays = written & ~part
            written = part
            if updated is not None and updated.versions.shape == previous.shape:
                # What lies elsewhere was copied with the rest.
                is_same = (updated.layout.key, updated.layout.offset) == (layout.key, layout.offset)
                copied = torch.where(updated.versions > 0, event, -1).to(torch.int32)
                previous = torch.where(stays.unsqueeze(-1), updated.versions if is_same else copied, previous)
        mask = written.unsqueeze(-1).expand(*layout.shape, layout.width)
        held, writers = layout.view(region.content), layout.view(region.writers)
        is_copy = updated is not None and part is not None and not _is_same_place(updated, layout)
        touched = torch.ones_like(mask) if is_copy else mask
        held.copy_(torch.where(touched, encode_bytes(numbers, result.dtype), held))
        writers.copy_(torch.where(touched, event, writers))
        versions = torch.where(mask, event, previous).to(torch.int32)
        self._placements[result] = _Placement(region, layout, name, versions, False)

    def _use_scratch(
        self, row: Operation, call: Invocation, read: Sequence[tuple[int, _Placement]], use: _Use
    ) -> None:
        """Overwrites the room that an operation works in."""
        for index in row.room(len(call.operands)):
            operand = call.operands[index]
            placement = self._placements.get(operand) if isinstance(operand, Array) else None
            if placement is None:
                continue
            for _, other in read:
                if _overlap(other.layout, placement.layout):
                    self._report(
                        FindingKind.OVER_OPERAND,
                        use,
                        other.name,
                        other.layout,
                        self._event(placement.name, use.place),
                    )
            event = self._event(f"{use.operation}'s room {placement.name}", use.place)
            placement.layout.view(placement.region.writers).fill_(event)
            placement.layout.view(placement.region.content).fill_(0xFF)

    def _check_overlaps(
        self,
        row: Operation,
        read: Sequence[tuple[int, _Placement]],
        operands: list[Value],
        layout: _Layout,
        name: str,
        use: _Use,
    ) -> None:
        """Rows of an operand that the result covers before they are read are lost: they become poison."""
        for index, placement in read:
            if not _overlap(placement.layout, layout) or _is_in_place(row, index, placement, layout):
                continue
            lost = _lost_rows(placement.layout, layout)
            if lost is None and index in row.in_place | row.by_rows:
                continue
            event = self._event(name, use.place)
            self._report(FindingKind.OVER_OPERAND, use, placement.name, placement.layout, event, lost)
            operand = operands[index]
            if lost is not None and isinstance(operand, Array) and len(operand.shape) == 2:
                numbers = operand.numbers.copy()
                numbers.centre[lost[0] : lost[1] + 1] = poison((), operand.dtype, self.arithmetic).centre
                operands[index] = Array(numbers, operand.dtype, operand.valid)

    def _move_placement(self, placement: _Placement, layout: _Layout, frame: Frame) -> _Placement:
        """The same tile, looked for at other bytes."""
        region = self._region(layout, frame)
        if placement.keeps_elements or placement.versions.numel() != layout.view(region.writers).numel():
            layout = replace(placement.layout, key=layout.key, offset=layout.offset)
            region.reserve(layout.end)
        versions = placement.versions.reshape((*layout.shape, layout.width))
        return _Placement(region, layout, placement.name, versions, placement.keeps_elements)

    # Findings

    def _event(self, name: str, place: DumpLine) -> int:
        self._events.append(_Event(name, place))
        return len(self._events) - 1

    def _report_bytes(
        self, kind: FindingKind, wrong: Tensor, current: Tensor, placement: _Placement, use: _Use
    ) -> None:
        """Reports the first wrong byte's writer, and the rows that are concerned."""
        rows = wrong.reshape(wrong.shape[0], -1).any(-1).nonzero().reshape(-1)
        event = int(current[wrong][0]) if kind is FindingKind.OVERWRITTEN else None
        first_row = int(rows[0])
        inner = wrong[first_row].reshape(-1).nonzero().reshape(-1)
        layout = placement.layout
        offset = (
            layout.offset + first_row * layout.strides[0] + (int(inner[0]) if len(layout.shape) == 2 else 0)
        )
        self._report(
            kind,
            use,
            placement.name,
            replace(layout, offset=offset),
            event,
            (first_row, int(rows[-1])),
            int(wrong.sum()),
        )

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
        if key in self._seen or len(self.findings) >= MOST_FINDINGS:
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


def _dense(shape: tuple[int, ...], width: int, type_: TileType) -> tuple[int, ...]:
    """Strides in bytes of a tile without gaps, row by row or column by column."""
    order = (
        range(len(shape))
        if type_.layout == "col_major" and not type_.is_fractal
        else range(len(shape) - 1, -1, -1)
    )
    strides = [0] * len(shape)
    step = width
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _is_dense(layout: _Layout) -> bool:
    return layout.end - layout.offset == math.prod(layout.shape) * layout.width


def _overlap(one: _Layout, other: _Layout) -> bool:
    return one.key == other.key and one.offset < other.end and other.offset < one.end


def _is_same_place(placement: _Placement | None, layout: _Layout) -> bool:
    return placement is not None and (placement.layout.key, placement.layout.offset) == (
        layout.key,
        layout.offset,
    )


def _is_in_place(row: Operation, index: int, placement: _Placement, layout: _Layout) -> bool:
    """The result has each element where the operand has it, or before it."""
    if index not in row.in_place or placement.layout.offset != layout.offset:
        return False
    if placement.keeps_elements:
        return True
    mine = placement.layout
    return (
        math.prod(mine.shape) == math.prod(layout.shape)
        and layout.width <= mine.width
        and (mine.strides == layout.strides or (_is_dense(mine) and _is_dense(layout)))
    )


def _lost_rows(operand: _Layout, result: _Layout) -> tuple[int, int] | None:
    """The rows of an operand that rows of the result cover which are written before: row by row, from the first on."""
    if len(operand.shape) != 2 or len(result.shape) != 2:
        return None
    lost: list[int] = []
    for row in range(operand.shape[0]):
        first = operand.offset + row * operand.strides[0]
        end = first + (operand.shape[1] - 1) * operand.strides[1] + operand.width
        # Rows of the result before this one; at least its first, for an operand that is read again for each row.
        earlier = min(max(row, 1), result.shape[0])
        covered = (
            result.offset
            + (earlier - 1) * result.strides[0]
            + (result.shape[1] - 1) * result.strides[1]
            + result.width
        )
        if result.offset < end and first < covered and row > 0:
            lost.append(row)
    return (lost[0], lost[-1]) if lost else None


def _view_placement(source: _Placement, call: Invocation, layout: _Layout, target: Definition) -> _Placement:
    """Another view of a tile's bytes: they were written as they were, and lie where the new type says."""
    kind = call.name.rpartition(".")[2]
    is_fractal = isinstance(target.type, TileType) and target.type.is_fractal
    opaque = replace(source, keeps_elements=True)
    if source.keeps_elements or kind not in ("reshape", "slice", "set_validshape"):
        return opaque
    if kind == "set_validshape":
        return source
    if kind == "reshape":
        if not _is_dense(source.layout) or not _is_dense(layout) or layout.width != source.layout.width:
            return opaque
        return replace(source, layout=layout, versions=source.versions.reshape(*layout.shape, layout.width))
    shape, offsets = call.integers(1), call.integers(2)
    is_whole = tuple(shape) == source.layout.shape
    if (
        (is_fractal and not is_whole)
        or len(shape) != len(source.layout.shape)
        or layout.shape != tuple(shape)
    ):
        return opaque
    window = tuple(slice(at, at + length) for at, length in zip(offsets, shape, strict=True))
    versions = source.versions[window]
    if tuple(versions.shape[:-1]) != tuple(shape):
        return opaque
    steps = zip(offsets, source.layout.strides, strict=True)
    offset = source.layout.offset + sum(at * stride for at, stride in steps)
    part = replace(layout, offset=offset, strides=source.layout.strides)
    return replace(
        source, layout=part, versions=versions, dense=layout if _is_moved_or_sparse(part, layout) else None
    )


def _is_moved_or_sparse(part: _Layout, stated: _Layout) -> bool:
    """A part that is put together first goes to the bytes that its own type states."""
    return not _is_dense(part) or part.offset != stated.offset


def _view_offset(source: _Placement, view: _Placement) -> int:
    """Where a view begins: a part, which was placed by its source, where it is; any other, where its source is."""
    is_part = view.layout.shape != source.layout.shape and view.layout.strides == source.layout.strides
    return view.layout.offset if is_part else source.layout.offset


def _reshape(placement: _Placement, shape: tuple[int, ...]) -> _Placement:
    """The same bytes under another shape of as many elements."""
    layout = placement.layout
    if placement.keeps_elements or shape == layout.shape:
        return placement
    if not _is_dense(layout) or math.prod(shape) != math.prod(layout.shape):
        return replace(placement, keeps_elements=True)
    strides = tuple(math.prod(shape[axis + 1 :]) * layout.width for axis in range(len(shape)))
    return replace(
        placement,
        layout=replace(layout, shape=shape, strides=strides),
        versions=placement.versions.reshape(*shape, layout.width),
    )


def _written_part(row: Operation, call: Invocation, result: Array) -> Tensor:
    """Which elements an update writes: it is run on a target of zeros and sources of ones."""
    marks: list[Value] = []
    for index, operand in enumerate(call.operands):
        if isinstance(operand, Array):
            value = int(index != row.updates)
            marks.append(Array(Numbers(torch.full(operand.shape, value)), ElementType.INT32, operand.valid))
        else:
            marks.append(1 if isinstance(operand, float) else operand)
    if call.name.endswith(".write"):
        marks[2] = 1
    marked = row.compute(
        replace(
            call,
            operands=tuple(marks),
            result=None,
            arithmetic=ArithmeticMode.STATED,
            attributes=_plain_attributes(call),
        )
    )
    assert isinstance(marked, Array)
    return (marked.numbers.centre != 0).reshape(result.shape)


def _plain_attributes(call: Invocation) -> Mapping[str, Value]:
    return {name: value for name, value in call.attributes.items() if name in ("transpose",)}

"""An orchestration that allocates what another version of it does: so their buffers compare by what is in them.

A compiler that gives a tensor the buffer of another one allocates fewer, and counts all that follow anew. These lines
make no difference by themselves, and no one of them can be changed alone; which tensor lies in which buffer can.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...runner.build_output.orchestration.cpp_syntax import Span
from ...runner.build_output.orchestration.model import Allocation, CreateInfo, Origin, TensorName
from ...runner.build_output.orchestration.orchestration import Orchestration
from .text_changes import SourceLine, source_lines

_SHAPES = re.compile(r"TensorCreateInfo\s+\w+\s*[({]\s*(\w+)")
_PLACE = re.compile(rb"(\bget_ref\(\s*)\w+(\s*\))")
_MOST_LINES = 4
"""Of the declaration of one allocation, from its shape on."""


def with_allocations_of(reference: Orchestration, failing: Orchestration) -> tuple[SourceLine, ...]:
    """The lines of `failing`, with the batches of allocations that `reference` has where these hold all of its own and
    more: nothing lies in those. A batch that is not surely understood is left as it is."""
    lines = list(source_lines(failing.source))
    added: dict[int, list[bytes]] = {}
    for allocation in failing.allocations:
        other = _larger_batch(reference, failing, allocation)
        tensors = None if other is None else _tensors_of(failing, allocation)
        if other is None or tensors is None:
            continue
        declared = _missing_declarations(reference, failing, other)
        own = _only_line(failing, allocation.statement)
        theirs = _only_line(reference, other.statement)
        if declared is None or own is None or theirs is None:
            continue
        for before, text in declared:
            added.setdefault(own if before is None else before, []).extend(text)
        _change(lines, own, reference.source.splitlines(keepends=True)[theirs])
        for line, place in tensors:
            place_there = other.infos.index(allocation.infos[place])
            _change(lines, line, _PLACE.sub(rb"\g<1>%d\g<2>" % place_there, lines[line].text))
    return tuple(_with(lines, added))


def _larger_batch(
    reference: Orchestration, failing: Orchestration, allocation: Allocation
) -> Allocation | None:
    """The reference's batch of the same name, where it allocates more than the same tensors, each of them once."""
    others = [other for other in reference.allocations if other.variable == allocation.variable]
    ours = [other for other in failing.allocations if other.variable == allocation.variable]
    if len(others) != 1 or len(ours) != 1:
        return None
    infos, more = allocation.infos, others[0].infos
    once = len(set(infos)) == len(infos) and len(set(more)) == len(more)
    return others[0] if once and set(infos) < set(more) else None


def _tensors_of(failing: Orchestration, allocation: Allocation) -> list[tuple[int, int]] | None:
    """The line and the place in the batch of each tensor that is taken from it; None where some may be missed."""
    named = [
        tensor
        for tensor in failing.tensors
        if tensor.origin is Origin.ALLOCATED and tensor.base == allocation.variable
    ]
    mentioned = re.findall(rf"\b{re.escape(allocation.variable)}\b".encode(), failing.source)
    found = [(_line_of(failing, tensor), tensor.index) for tensor in named]
    if len(mentioned) != 1 + len(named):
        return None
    known = [
        (line, place)
        for line, place in found
        if line is not None and place is not None and place < len(allocation.infos)
    ]
    return known if len(known) == len(named) else None


def _line_of(failing: Orchestration, tensor: TensorName) -> int | None:
    line = _only_line(failing, tensor.statement)
    text = b"" if line is None else failing.source.splitlines(keepends=True)[line]
    return line if len(_PLACE.findall(text)) == 1 else None


def _missing_declarations(
    reference: Orchestration, failing: Orchestration, batch: Allocation
) -> list[tuple[int | None, list[bytes]]] | None:
    """What declares the allocations that `failing` does not: the line to put it before, None for the batch's own, and
    its lines. None where they are not found."""
    known, infos = {info.name for info in failing.create_infos}, reference.create_infos
    order = [info.name for info in infos]
    found: list[tuple[int | None, list[bytes]]] = []
    for name in sorted(set(batch.infos) - known, key=lambda name: order.index(name) if name in order else -1):
        if order.count(name) != 1:
            return None
        place = order.index(name)
        declared = _declaration(reference, infos[place])
        if declared is None:
            return None
        text = reference.source.splitlines(keepends=True)[declared.start : declared.stop]
        found.append((_place_before(failing, order[place + 1 :], batch), text))
    return found


def _place_before(failing: Orchestration, following: Sequence[str], batch: Allocation) -> int | None:
    """The line at which the first of the allocations that follow in the same batch is declared."""
    own: Mapping[str, CreateInfo] = {info.name: info for info in failing.create_infos}
    for name in following:
        if name in own and name in batch.infos:
            declared = _declaration(failing, own[name])
            return None if declared is None else declared.start
    return None


def _declaration(orchestration: Orchestration, info: CreateInfo) -> range | None:
    """The lines that declare an allocation, its shape first; None where they do not stand together."""
    last = _only_line(orchestration, info.statement)
    shapes = _SHAPES.search(orchestration.text(info.statement))
    if last is None or shapes is None:
        return None
    lines = orchestration.source.splitlines(keepends=True)
    for first in range(last - 1, max(-1, last - _MOST_LINES), -1):
        if re.search(rf"\b{re.escape(shapes[1])}\s*\[".encode(), lines[first]):
            return range(first, last + 1)
    return None


def _only_line(orchestration: Orchestration, statement: Span) -> int | None:
    """The line, from 0, of a statement that has one for itself; None where it has not."""
    before = orchestration.source[: statement.start].rpartition(b"\n")[2]
    after = orchestration.source[statement.end :].partition(b"\n")[0].strip(b" \t\r;")
    several = "\n" in orchestration.text(statement)
    if several or before.strip() or (after and not after.startswith(b"//")):
        return None
    return orchestration.source.count(b"\n", 0, statement.start)


def _change(lines: list[SourceLine], line: int, text: bytes) -> None:
    lines[line] = SourceLine(text, lines[line].number, lines[line].written)


def _with(lines: Sequence[SourceLine], added: Mapping[int, Sequence[bytes]]) -> list[SourceLine]:
    """The lines, with others put before some of them; those stand in no file."""
    whole: list[SourceLine] = []
    for place, line in enumerate(lines):
        whole += [SourceLine(text, line.number, b"") for text in added.get(place, ())]
        whole.append(line)
    return whole

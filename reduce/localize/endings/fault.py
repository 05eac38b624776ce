"""The buffer by which the address of a crash lies, and the tasks that use it."""

from __future__ import annotations

from ....runner.build_output.orchestration.orchestration import Orchestration
from ....runner.localization.crash import Fault, NearBuffer
from ....store.words import plural
from ...graph.tensor_names import tensor_name
from ...rewrite.fault_address import ToldBuffer, ToldFault
from ...rewrite.first_submits import submits_of_kernels

_NULL = 1 << 16
"""No system maps a page below."""
_FARTHEST = 1 << 34
"""Bytes that an index of 32 bits reaches; an address beyond is not made from the buffer's."""


def fault_by_buffers(told: ToldFault, position: int, orchestration: Orchestration) -> Fault:
    """Where the address lies, of a crash of the task at `position`."""
    uses: dict[tuple[int, int], list[ToldBuffer]] = {}
    for buffer in told.buffers:
        uses.setdefault((buffer.address, buffer.size), []).append(buffer)
    holding = [place for place in uses if place[0] <= told.address < sum(place)]
    own = [place for place, users in uses.items() if any(user.task == position for user in users)]
    near = [place for place in own if _distance(told.address, place) <= _FARTHEST]
    if told.address < _NULL:
        near = []
    return Fault(
        address=hex(told.address),
        buffers=tuple(
            NearBuffer(
                tensor=_name(uses[place], position, orchestration),
                size=place[1],
                offset=told.address - place[0],
                tasks=tuple(sorted({user.task for user in uses[place]})),
            )
            for place in holding or sorted(near, key=lambda place: _distance(told.address, place))
        ),
    )


def fault_in_words(fault: Fault) -> str:
    """The address, with the nearest of the buffers."""
    if int(fault.address, 16) < _NULL:
        return f"address {fault.address}, by a null pointer"
    if not fault.buffers:
        return f"address {fault.address}, far from all of its tensors"
    near = fault.buffers[0]
    name = near.tensor or "a tensor"
    tasks = f"task{'s' if len(near.tasks) > 1 else ''} {', '.join(map(str, near.tasks))}"
    if 0 <= near.offset < near.size:
        return f"byte {near.offset} of {name}, which {tasks} may touch"
    beyond = (
        f"{plural(-near.offset, 'byte')} before the first"
        if near.offset < 0
        else f"{plural(near.offset - near.size + 1, 'byte')} past the last"
    )
    return f"an address {beyond} of the {near.size} of {name} (of {tasks}), the nearest of its tensors"


def _distance(address: int, place: tuple[int, int]) -> int:
    """Bytes from a buffer, given as its address and size, to an address outside of it."""
    start, size = place
    return start - address if address < start else address - (start + size) + 1


def _name(users: list[ToldBuffer], position: int, orchestration: Orchestration) -> str | None:
    user = next((each for each in users if each.task == position), users[0])
    submits = submits_of_kernels(orchestration)
    return tensor_name(orchestration, [submits[user.submit]], user.argument)

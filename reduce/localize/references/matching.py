"""Which tasks wrote the tensors of which values are known, by the tensors' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....runner.build_output.golden_data import GoldenData, TensorFolder
from ....runner.build_output.graph.model import Region
from ....runner.errors import UserError
from ....runner.tensor.view import TensorView
from ...graph.tensor_names import entry_tensor, tensor_name
from ...replay.recorded_build import RecordedBuild
from .final_outputs import last_writes, part_of

_Writes = Mapping[tuple[int, int], tuple[str, Region]]


@dataclass(frozen=True, kw_only=True)
class MatchedValues:
    """What tasks should leave, by ordinal and argument index, as far as it is known; and the recorded tensors that say
    nothing of it, with the reason."""

    expected: Mapping[int, Mapping[int, TensorView]]
    not_compared: tuple[str, ...]


def match_values(failing: RecordedBuild, recorded: TensorFolder | None) -> MatchedValues:
    """The golden outputs of the build's data, and `recorded` tensors by their names in the orchestration, as results of
    the tasks that wrote them last.

    Raises:
        BuildOutputError: a file is no tensor.
        UserError: there are recorded tensors, and none of them says anything of the build.
    """
    golden = GoldenData.open(failing.data).outputs
    expected: dict[int, dict[int, TensorView]] = {}
    for (ordinal, index), part in _parts(golden, last_writes(failing, entry_tensor)):
        expected.setdefault(ordinal, {})[index] = part
    if recorded is None:
        return MatchedValues(expected=expected, not_compared=())
    writes = last_writes(failing, tensor_name)
    why = {name: _why_not(failing, name, recorded.tensor(name), writes) for name in recorded.names}
    not_compared = tuple(f"{name}: {text}" for name, text in why.items() if text)
    usable = {key: place for key, place in writes.items() if why.get(place[0]) == ""}
    for (ordinal, index), part in _parts(recorded, usable):
        expected.setdefault(ordinal, {})[index] = part
    if all(why.values()):
        raise UserError(
            f"--reference-data {recorded.folder.root}: expected <tensor>.pt by the names of the orchestration, "
            f"found {'; '.join(not_compared)[:400] or 'none'}"
        )
    return MatchedValues(expected=expected, not_compared=not_compared)


def _parts(values: TensorFolder, writes: _Writes) -> Iterator[tuple[tuple[int, int], TensorView]]:
    for key, (name, region) in writes.items():
        part = part_of(values.tensor(name), region) if name in values.names else None
        if part is not None:
            yield key, part


def _why_not(failing: RecordedBuild, name: str, value: TensorView, writes: _Writes) -> str:
    """Why a recorded tensor says nothing of the one of that name; empty where it does."""
    places = {key: region for key, (other, region) in writes.items() if other == name}
    arguments = [
        argument
        for ordinal, index in places
        for argument in failing.tasks.tasks[ordinal].task.arguments
        if argument.index == index
    ]
    buffers = {argument.tensor_id for argument in arguments if argument.tensor_id is not None}
    if not buffers:
        return "no task is known to write a tensor of that name last"
    if len(buffers) > 1:
        return f"{len(buffers)} buffers have that name"
    sizes = failing.tasks.graph.tensors.get(buffers.pop())
    if sizes is not None and sizes.buffer_numel not in (None, value.numel):
        return f"{value.numel} elements, where the build's tensor has {sizes.buffer_numel}"
    types = {region.dtype for region in places.values()} - {None, value.dtype}
    unlike = [dtype for dtype in types if dtype and not (dtype.is_floating and value.dtype.is_floating)]
    return f"{value.dtype.value}, where the build's tensor is {unlike[0].value}" if unlike else ""

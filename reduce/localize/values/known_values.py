"""What tensors should hold, by name: recorded values and golden outputs, in place of a build to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....runner.build_output.golden_data import GoldenData, TensorFolder
from ....runner.build_output.graph.model import GraphArgument, Region
from ....runner.errors import UserError
from ....runner.tensor.view import TensorView
from ...graph.task_list import KernelTask, may_overlap
from ...graph.tensor_names import entry_tensor, tensor_name
from ...replay.side import Side
from ...rewrite.single_task import submits_of
from ..search.final_outputs import last_writes, part_of


@dataclass(frozen=True, kw_only=True)
class KnownValues:
    """What tasks should leave, by ordinal and argument index, as far as it is known.

    Only what no later task writes over is: a value tells what a tensor holds in the end.
    """

    side: Side
    expected: Mapping[int, Mapping[int, TensorView]]
    not_compared: tuple[str, ...]
    """Recorded tensors with which nothing can be compared, and why."""

    @classmethod
    def of(cls, side: Side, recorded: TensorFolder | None) -> KnownValues:
        """The golden outputs of the side's data, and `recorded` tensors by their names in the orchestration.

        Raises:
            BuildOutputError: a file is no tensor.
            UserError: nothing can be compared.
        """
        golden = GoldenData.open(side.data).outputs
        found: dict[int, dict[int, TensorView]] = {}
        for key, part in _parts(side, golden, last_writes(side, entry_tensor)):
            found.setdefault(key[0], {})[key[1]] = part
        not_compared: list[str] = []
        if recorded is not None:
            writes = last_writes(side, tensor_name)
            why = {name: _why_not(side, name, recorded.tensor(name), writes) for name in recorded.names}
            not_compared = [f"{name}: {text}" for name, text in why.items() if text]
            usable = {key: at for key, at in writes.items() if why.get(at[0]) == ""}
            for key, part in _parts(side, recorded, usable):
                found.setdefault(key[0], {})[key[1]] = part
            if all(why.values()):
                raise UserError(
                    f"--reference-data {recorded.folder.root}: expected <tensor>.pt by the names of the orchestration, "
                    f"found {'; '.join(not_compared)[:400] or 'none'}"
                )
        if not found:
            raise UserError(
                f"{side.build}: expected outputs whose last writers can be told, found none; use --reference"
            )
        return cls(side=side, expected=found, not_compared=tuple(not_compared))

    def tells_all_of(self, ordinal: int) -> bool:
        """Whether all that a task leaves is known."""
        return all(
            argument.index in self.expected.get(ordinal, {})
            for argument in self.side.tasks.tasks[ordinal].task.arguments
            if argument.type.may_write
        )

    def inputs_of(self, task: KernelTask) -> dict[int, TensorView] | None:
        """All tensors that a task should read; None where one of them is not known."""
        found: dict[int, TensorView] = {}
        for argument in task.task.arguments:
            if argument.type.may_read:
                value = self._input(task, argument)
                if value is None:
                    return None
                found[argument.index] = value
        return found

    def _input(self, task: KernelTask, argument: GraphArgument) -> TensorView | None:
        region = argument.region
        writers = [
            (other, written)
            for other in self.side.tasks.tasks
            for written in other.task.arguments
            if region is not None
            and written.type.may_write
            and written.tensor_id == argument.tensor_id
            and written.region is not None
            and may_overlap(written.region, region)
        ]
        if region is None or len(writers) > 1:
            return None
        if writers:
            # One writer of the very same part, before the task: what it left is what the task reads.
            other, written = writers[0]
            same = other.ordinal < task.ordinal and written.region == region
            return self.expected.get(other.ordinal, {}).get(written.index) if same else None
        inputs = GoldenData.open(self.side.data).inputs
        name = entry_tensor(
            self.side.orchestration, submits_of(self.side.orchestration, task), argument.index
        )
        return part_of(inputs.tensor(name), region) if name in inputs.names else None


Writes = Mapping[tuple[int, int], tuple[str, Region]]


def _parts(side: Side, values: TensorFolder, writes: Writes) -> Iterator[tuple[tuple[int, int], TensorView]]:
    for key, (name, region) in writes.items():
        part = part_of(values.tensor(name), region) if name in values.names else None
        if part is not None:
            yield key, part


def _why_not(side: Side, name: str, value: TensorView, writes: Writes) -> str:
    """Why a recorded tensor says nothing of the one of that name; empty where it does."""
    places = {key: region for key, (other, region) in writes.items() if other == name}
    arguments = [
        argument
        for ordinal, index in places
        for argument in side.tasks.tasks[ordinal].task.arguments
        if argument.index == index
    ]
    buffers = {argument.tensor_id for argument in arguments if argument.tensor_id is not None}
    if not buffers:
        return "no task is known to write a tensor of that name last"
    if len(buffers) > 1:
        return f"{len(buffers)} buffers have that name"
    sizes = side.tasks.graph.tensors.get(buffers.pop())
    if sizes is not None and sizes.buffer_numel not in (None, value.numel):
        return f"{value.numel} elements, where the build's tensor has {sizes.buffer_numel}"
    types = {region.dtype for region in places.values()} - {None, value.dtype}
    unlike = [one for one in types if one and not (one.is_floating and value.dtype.is_floating)]
    return f"{value.dtype.value}, where the build's tensor is {unlike[0].value}" if unlike else ""

"""Makes the program model from a run's graph and dump and the orchestration's text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .....runner.build_output.args.dump import ArgsDump
from .....runner.build_output.args.records import DumpStage, Kind
from .....runner.build_output.graph.model import GraphArgument, Region
from .....runner.build_output.kernel_config import KernelConfig
from .....runner.build_output.orchestration.model import BlockKind, Submit, Usage
from .....runner.build_output.orchestration.orchestration import Orchestration
from .....runner.case.entry_arguments import EntryArgument, EntryTensor
from .....runner.tensor.view import contiguous_strides
from ....graph.task_list import KernelTask, TaskList
from ....graph.tensor_names import submit_lines, tensor_name
from ....rewrite.geometry import LayoutError, buffer_shape, view_of
from ....rewrite.launch import tells_blocks
from ....rewrite.single_task import scalar_text, submits_of
from ..model import Buffer, NotReducibleError, Program, ProgramArgument, ProgramTask
from .allocated import allocated_buffers


def extract(
    orchestration: Orchestration,
    config: KernelConfig,
    tasks: TaskList,
    dump: ArgsDump,
    arguments: Sequence[EntryArgument],
) -> Program:
    """The straight-line program of one run.

    Raises:
        NotReducibleError: submits that cannot be told from the text.
        LayoutError: the layout of a buffer cannot be told.
    """
    submits = _submits(orchestration, tasks)
    allocated = allocated_buffers(orchestration, tasks, submits)
    placed = {task.ordinal: _placed(tasks, task, dump, allocated) for task in tasks.tasks}
    uses: dict[int, list[tuple[KernelTask, GraphArgument]]] = {}
    for task in tasks.tasks:
        for argument in placed[task.ordinal]:
            assert argument.tensor_id is not None
            uses.setdefault(argument.tensor_id, []).append((task, argument))
    edges = [
        (edge.predecessor, edge.successor) for edge in tasks.graph.edges if edge.predecessor in tasks.by_id
    ]
    waiting = {task_id for edge in edges for task_id in edge}
    entries = {argument.name: argument for argument in arguments if isinstance(argument, EntryTensor)}
    buffers: list[Buffer] = []
    numbers: dict[int, int] = {}
    for tensor_id, used in uses.items():
        names = [tensor_name(orchestration, submits[task.ordinal], argument.index) for task, argument in used]
        numbers[tensor_id] = len(buffers)
        buffers.append(_buffer(tasks, tensor_id, [argument for _, argument in used], names, buffers, entries))
    return Program(
        orchestration=orchestration,
        config=config,
        tasks=tuple(
            ProgramTask(
                ordinal=task.ordinal,
                kernels=task.kernels,
                submit=submits[task.ordinal][0],
                arguments=tuple(_argument(argument, numbers) for argument in placed[task.ordinal]),
                scalars=_scalars(submits[task.ordinal], dump, task),
                blocks=task.task.blocks if tells_blocks(orchestration, submits[task.ordinal][0]) else None,
                unordered=task.task.in_manual_scope and task.task.task_id not in waiting,
            )
            for task in tasks.tasks
        ),
        buffers=tuple(buffers),
    )


def _submits(orchestration: Orchestration, tasks: TaskList) -> dict[int, tuple[Submit, ...]]:
    """The submits that may have made each task. Where several made as many tasks, each once, they did so in order."""
    submits_by_task = {task.ordinal: _alike(orchestration, task) for task in tasks.tasks}
    makers: dict[tuple[Submit, ...], list[int]] = {}
    for ordinal, submits in submits_by_task.items():
        makers.setdefault(submits, []).append(ordinal)
    for submits, ordinals in makers.items():
        if len(ordinals) == len(submits) and not any(_may_repeat(submit) for submit in submits):
            submits_by_task.update(
                {ordinal: (submit,) for ordinal, submit in zip(ordinals, submits, strict=True)}
            )
    return submits_by_task


def _may_repeat(submit: Submit) -> bool:
    return any(block.kind not in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE) for block in submit.blocks)


def _alike(orchestration: Orchestration, task: KernelTask) -> tuple[Submit, ...]:
    submits = submits_of(orchestration, task)
    if not submits or any(_not_understood(submit) for submit in submits):
        found = [
            f"line {line}: {why}"
            for submit, line in zip(
                orchestration.submits, submit_lines(orchestration, orchestration.submits), strict=True
            )
            if _may_make(submit, task) and (why := _not_understood(submit)) is not None
        ]
        raise NotReducibleError(
            f"{task.name} (task {task.ordinal}): expected a submit with arguments of its own in the orchestration, "
            f"found {'; '.join(found) or 'none'}; write the submit out there"
        )
    return submits


def _may_make(submit: Submit, task: KernelTask) -> bool:
    """Whether a submit names the task's kernels, or one that the text does not settle."""
    own = set(task.task.kernels or ())
    return any(kernel.func_id is None or kernel.func_id in own - {-1} for kernel in submit.kernels)


def _not_understood(submit: Submit) -> str | None:
    """Why a submit does not tell what its task is given; None where it does."""
    unsettled = [kernel.text for kernel in submit.kernels if kernel.func_id is None]
    if unsettled:
        return f"its kernel is `{unsettled[0]}`, of which the text does not tell one value"
    if submit.declaration is None:
        return f"its arguments `{submit.parameters}` are declared elsewhere"
    added = [argument.text for argument in submit.arguments if not argument.plain]
    return f"its argument `{added[0]}` is added in a branch or a loop" if added else None


def _placed(
    tasks: TaskList, task: KernelTask, dump: ArgsDump, allocated: Mapping[tuple[int, int], int]
) -> list[GraphArgument]:
    """All arguments with buffer and region; one that the runtime allocated for the task is a buffer of its own."""
    unplaced = [
        argument for argument in task.task.arguments if argument.tensor_id is None or argument.region is None
    ]
    told = {place: allocated.get((task.ordinal, place)) for place in range(len(unplaced))}
    untold = [place for place, tensor_id in told.items() if tensor_id is None]
    others = [
        tensor_id
        for tensor_id in tasks.graph.tensors_created_by(task.task.task_id)
        if tensor_id not in told.values()
    ]
    if others and len(others) != len(untold):
        raise NotReducibleError(
            f"{task.name} (task {task.ordinal}): expected to know which outputs are used later, "
            f"found {len(others)} of {len(untold)}"
        )
    # What nobody uses later has no name in the graph.
    told |= dict(zip(untold, others or [_unused(task, place) for place in untold], strict=True))
    placed: list[GraphArgument] = []
    for argument in task.task.arguments:
        if argument not in unplaced:
            placed.append(argument)
            continue
        records = [
            record
            for record in dump.find(task_id=task.task.task_id, stage=DumpStage.AFTER_COMPLETION)
            if record.arg_index == argument.index
        ]
        if len(records) != 1:
            raise NotReducibleError(
                f"{task.name} (task {task.ordinal}): expected the values of argument {argument.index} once, "
                f"found them {len(records)} times; record it with a later runtime"
            )
        view = dump.tensor(records[0])
        region = Region(
            dtype=view.dtype, shape=view.shape, strides=contiguous_strides(view.shape), start_offset=0
        )
        placed.append(replace(argument, tensor_id=told[unplaced.index(argument)], region=region))
    return placed


def _unused(task: KernelTask, place: int) -> int:
    """An id that no buffer of the graph has."""
    return -1 - place - task.ordinal * 1000


def _buffer(
    tasks: TaskList,
    tensor_id: int,
    used: Sequence[GraphArgument],
    names: Sequence[str | None],
    earlier: Sequence[Buffer],
    entries: Mapping[str, EntryTensor],
) -> Buffer:
    regions = [argument.region for argument in used if argument.region is not None]
    dtypes = {region.dtype for region in regions}
    dtype = dtypes.pop()
    tensor = tasks.graph.tensors.get(tensor_id)
    listed = None if tensor is None else tensor.buffer_numel
    elements = math.prod(regions[0].shape) if tensor_id < 0 else listed
    if dtypes or dtype is None or elements is None:
        raise NotReducibleError(
            f"buffer {names[0]}: expected one element type and a known size, found neither or several"
        )
    entry = next((entries[name] for name in names if name is not None and name in entries), None)
    if entry is not None and math.prod(entry.shape) != elements:
        entry = None
    # An orchestration may take an argument's elements under a shape of its own.
    if entry is not None and _fit(regions, entry.shape):
        shape = entry.shape
    else:
        shape = buffer_shape(elements, regions)
        for region in regions:
            view_of(region, shape)
    # What a helper returns is spelled as a call of it, which is no name.
    spelled = [name for name in names if name is not None and name.isidentifier()]
    name = entry.name if entry is not None else next(iter(spelled), "buffer")
    taken = {buffer.name for buffer in earlier} | ({*entries} if entry is None else set[str]())
    unique = name if name not in taken else f"{name}_{len(earlier)}"
    return Buffer(number=len(earlier), name=unique, dtype=dtype, shape=shape, is_entry=entry is not None)


def _fit(regions: Sequence[Region], shape: tuple[int, ...]) -> bool:
    try:
        for region in regions:
            view_of(region, shape)
    except LayoutError:
        return False
    return True


def _argument(argument: GraphArgument, numbers: Mapping[int, int]) -> ProgramArgument:
    assert argument.tensor_id is not None
    assert argument.region is not None
    return ProgramArgument(
        index=argument.index,
        type=argument.type,
        buffer=numbers[argument.tensor_id],
        region=argument.region,
    )


def _scalars(submits: Sequence[Submit], dump: ArgsDump, task: KernelTask) -> tuple[str, ...]:
    records = dump.find(task_id=task.task.task_id, stage=DumpStage.BEFORE_DISPATCH)
    recorded = {record.arg_index: record.value for record in records if record.kind is Kind.SCALAR}
    added = [argument for argument in submits[0].arguments if argument.usage is Usage.SCALAR]
    first = len(submits[0].tensor_arguments)
    scalars: list[str] = []
    for position, argument in enumerate(added):
        value = recorded.get(first + position)
        if isinstance(value, int):
            scalars.append(f"static_cast<uint64_t>({int(value) & (2**64 - 1)}ull)")
        else:
            scalars.append(scalar_text(argument, value))
    return tuple(scalars)

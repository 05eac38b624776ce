"""Records one full run of a build, and makes a program model from the recording.

`Recorder` runs a build. A `Recording` holds the run's tasks and all values that the tasks read and wrote. `extract`
makes the `Program` from the run's graph and dump, and from the text of the orchestration.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ...runner.build_output.args_dump import ArgsDump, ArgumentKind, DumpStage
from ...runner.build_output.directory import GoldenData, KernelConfig, TensorFolder
from ...runner.build_output.orchestration import BlockKind, Orchestration, Origin, Submit, Usage
from ...runner.build_output.task_graph import GraphArgument, Region, TaskGraph
from ...runner.case.preflight import EntryArgument, EntryTensor, entry_arguments
from ...runner.tensor import TensorView, contiguous_strides
from ...store.durable_files import create_folder
from ...store.vocabulary import Verdict
from ..graph.submits import find_submits, sets_block_count, submit_lines, tensor_name
from ..graph.tasks import KernelTask, TaskList
from ..replay.replay import (
    OUTPUTS,
    FailedRunError,
    Replayer,
    TaskValues,
    WorkingCopy,
    same_outputs,
    values_of,
)
from ..replay.task_replay import LayoutError, buffer_shape, scalar_text, view_of
from ..replay.toolchain import Toolchain
from .program import Buffer, NotReducibleError, Program, ProgramArgument, ProgramTask

_ENDING_FILE = "ended.json"


_MAX_GOOD_RUNS = 4
"""A good build that misses the golden data with other outputs each time is run at most this often."""


@dataclass(frozen=True, kw_only=True)
class Recorder:
    """Records runs of one build below `folder`. Runs that the folder already holds are opened, and not repeated.

    `data` is the case's golden data. `timeout` limits a run, in seconds.
    """

    build: Path
    data: Path
    toolchain: Toolchain
    folder: Path
    timeout: float

    def record(self) -> Recording:
        """Return the first run whose outputs pass.

        A run that misses the golden data is repeated, because chance may be the reason. The first run is returned if
        two runs in a row leave the same wrong outputs, or if no run passes.

        Raises:
            UserError: a run ends before its outputs are compared.
            BuildOutputError: the build or its records cannot be read.
        """
        verdict, first = self._record_compared(0)
        recording = first
        for number in range(1, _MAX_GOOD_RUNS):
            if verdict is Verdict.PASS:
                return recording
            previous = recording
            verdict, recording = self._record_compared(number)
            if verdict is not Verdict.PASS and same_outputs(previous.outputs, recording.outputs):
                return first
        return recording if verdict is Verdict.PASS else first

    def _record_compared(self, number: int) -> tuple[Verdict, Recording]:
        attempt = self.attempt(number)
        if attempt.recording is None or not attempt.is_compared:
            raise FailedRunError(
                f"{self.build}: expected its outputs compared, found {attempt.verdict.value}: {attempt.why[:200]}; "
                f"see {self._run_folder(number) / 'run.log.gz'}",
                reason=attempt.why,
            )
        return attempt.verdict, attempt.recording

    def attempt(self, number: int) -> Attempt:
        """Return run `number` of the build, from the folder or from a new run. The run may end in any way.

        Raises:
            BuildOutputError: the build cannot be read.
        """
        copy, data = self.open_copy(), GoldenData.open(self.data)
        parts = copy.build()
        arguments = entry_arguments(parts, data)
        done = self._run_folder(number)
        if not done.exists():
            self._run(copy, arguments, number)
        verdict, signature, why, seconds = json.loads((done / _ENDING_FILE).read_text(encoding="utf-8"))
        recording = None
        # A process that dies leaves no records, or incomplete ones.
        if (done / "dfx_outputs" / "deps.json").is_file() and (done / "dfx_outputs" / "args_dump").is_dir():
            kept = WorkingCopy(done).build()
            recording = Recording(
                copy=copy,
                toolchain=self.toolchain,
                arguments=arguments,
                dump=kept.args_dump(),
                tasks=TaskList.from_graph(
                    _require_arguments(kept.task_graph(), self.build), parts.kernel_config()
                ),
                data=data,
                seconds=seconds,
                outputs=TensorFolder.open(done / OUTPUTS) if (done / OUTPUTS).is_dir() else None,
            )
        return Attempt(verdict=Verdict(verdict), signature=signature, why=why, recording=recording)

    def open_copy(self) -> WorkingCopy:
        """Open the copy of the build. Makes the copy if there is none."""
        path = self.folder / "build"
        if not path.exists():
            with create_folder(path) as partial:
                WorkingCopy.create(self.build, partial)
        return WorkingCopy(path)

    def _run(self, copy: WorkingCopy, arguments: tuple[EntryArgument, ...], number: int) -> None:
        """Run the copy with all records. The run's folder gets its final name once it is complete."""
        runs = self.folder / f"run-{number}"
        WorkingCopy(runs).discard()
        replayer = Replayer(copy=copy, toolchain=self.toolchain, folder=runs, timeout=self.timeout)
        ran = replayer.classify(arguments, data=self.data, dump_level=2, dep_gen=True, save_outputs=True)
        replayer.keep_records(ran)
        shown = ran.classification
        text = json.dumps([shown.verdict.value, shown.signature, ran.reason, ran.seconds])
        (ran.folder / _ENDING_FILE).write_text(text, encoding="utf-8")
        ran.folder.rename(self._run_folder(number))

    def _run_folder(self, number: int) -> Path:
        return self.folder / f"recorded-{number}"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of a build, and how it ended. `why` is the reason in words.

    `recording` is None if the run left no graph or no dump.
    """

    verdict: Verdict
    signature: str | None
    why: str
    recording: Recording | None

    @property
    def is_compared(self) -> bool:
        """Return whether the run's outputs were compared."""
        return self.verdict.traits.compares_outputs


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One recorded run of a build. `copy` is an unedited copy of the build, and `data` the case's golden data."""

    copy: WorkingCopy
    toolchain: Toolchain
    arguments: tuple[EntryArgument, ...]
    dump: ArgsDump
    tasks: TaskList
    data: GoldenData
    seconds: float
    outputs: TensorFolder | None = None
    """The outputs of the run. None if it ended without outputs, or if the harness does not give them."""

    @cached_property
    def program(self) -> Program:
        """Return the program that the run submitted."""
        parts = self.copy.build()
        return extract(parts.orchestration(), parts.kernel_config(), self.tasks, self.dump, self.arguments)

    @cached_property
    def _values(self) -> dict[int, TaskValues]:
        return {}

    def values(self, ordinal: int) -> TaskValues:
        """Return all tensors and scalars of a task.

        Raises:
            IncompleteDumpError: the dump of a tensor is incomplete.
        """
        if ordinal not in self._values:
            self._values[ordinal] = values_of(self.dump, self.tasks.tasks[ordinal])
        return self._values[ordinal]

    def has_finished(self, ordinal: int) -> bool:
        """Return whether a task ran to its end."""
        task_id = self.tasks.tasks[ordinal].task.task_id
        return bool(self.dump.find(task_id=task_id, stage=DumpStage.AFTER_COMPLETION))


def _require_arguments(graph: TaskGraph, build: Path) -> TaskGraph:
    if not graph.annotated:
        raise NotReducibleError(f"{build}: expected a task graph with arguments, found pairs of tasks only")
    return graph


def same_bits(first: Mapping[int, TensorView], second: Mapping[int, TensorView]) -> bool:
    """Return whether two tasks left the same bits in all their tensors."""
    return first.keys() == second.keys() and all(
        np.array_equal(view.contiguous(), second[index].contiguous()) for index, view in first.items()
    )


def extract(
    orchestration: Orchestration,
    config: KernelConfig,
    tasks: TaskList,
    dump: ArgsDump,
    arguments: Sequence[EntryArgument],
) -> Program:
    """Return the straight-line program of one run.

    Raises:
        NotReducibleError: the text does not determine the submit of a task, or an argument's buffer.
        LayoutError: no shape of a buffer fits all its uses.
    """
    submits = _submits(orchestration, tasks)
    allocated = allocated_buffers(orchestration, tasks, submits)
    placed = {task.ordinal: _place_arguments(tasks, task, dump, allocated) for task in tasks.tasks}
    uses: dict[int, list[tuple[KernelTask, GraphArgument]]] = {}
    for task in tasks.tasks:
        for argument in placed[task.ordinal]:
            assert argument.tensor_id is not None
            uses.setdefault(argument.tensor_id, []).append((task, argument))
    ordered = {
        task_id
        for edge in tasks.graph.edges
        if edge.predecessor in tasks.tasks_by_id
        for task_id in (edge.predecessor, edge.successor)
    }
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
                blocks=task.task.blocks
                if sets_block_count(orchestration, submits[task.ordinal][0])
                else None,
                unordered=task.task.in_manual_scope and task.task.task_id not in ordered,
            )
            for task in tasks.tasks
        ),
        buffers=tuple(buffers),
    )


def _submits(orchestration: Orchestration, tasks: TaskList) -> dict[int, tuple[Submit, ...]]:
    """Return the submits that may have made each task, by the task's ordinal.

    Some tasks have the same few submits. If there are as many such tasks as submits, and each submit runs once, then
    the order says which submit made which task.
    """
    submits_by_task = {task.ordinal: _matching_submits(orchestration, task) for task in tasks.tasks}
    tasks_by_submits: dict[tuple[Submit, ...], list[int]] = {}
    for ordinal, submits in submits_by_task.items():
        tasks_by_submits.setdefault(submits, []).append(ordinal)
    for submits, ordinals in tasks_by_submits.items():
        if len(ordinals) == len(submits) and not any(_may_repeat(submit) for submit in submits):
            submits_by_task.update(
                {ordinal: (submit,) for ordinal, submit in zip(ordinals, submits, strict=True)}
            )
    return submits_by_task


def _matching_submits(orchestration: Orchestration, task: KernelTask) -> tuple[Submit, ...]:
    submits = find_submits(orchestration, task)
    if not submits or any(_ambiguity(submit) for submit in submits):
        found = [
            f"line {line}: {why}"
            for submit, line in zip(
                orchestration.submits, submit_lines(orchestration, orchestration.submits), strict=True
            )
            if _may_make(submit, task) and (why := _ambiguity(submit)) is not None
        ]
        raise NotReducibleError(
            f"{task.name} (task {task.ordinal}): expected a submit with arguments of its own in the orchestration, "
            f"found {'; '.join(found) or 'none'}; write the submit out there"
        )
    return submits


def _may_repeat(submit: Submit) -> bool:
    return any(block.kind not in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE) for block in submit.blocks)


def _may_make(submit: Submit, task: KernelTask) -> bool:
    """Return whether a submit names one of the task's kernels, or a kernel that only a run determines."""
    own = set(task.task.kernels or ())
    return any(kernel.func_id is None or kernel.func_id in own - {-1} for kernel in submit.kernels)


def _ambiguity(submit: Submit) -> str | None:
    """Return why the text does not determine the arguments of a submit. None if it does."""
    unsettled = [kernel.text for kernel in submit.kernels if kernel.func_id is None]
    if unsettled:
        return f"its kernel is `{unsettled[0]}`, of which the text does not tell one value"
    if submit.declaration is None:
        return f"its arguments `{submit.arguments_variable}` are declared elsewhere"
    added = [argument.text for argument in submit.arguments if not argument.is_added_once]
    return f"its argument `{added[0]}` is added in a branch or a loop" if added else None


_REFERENCE = re.compile(r"(\w+)\.get_ref\(\s*(\d+)\s*\)")


def allocated_buffers(
    orchestration: Orchestration, tasks: TaskList, submits: Mapping[int, Sequence[Submit]]
) -> dict[tuple[int, int], int]:
    """Return the ids of the buffers that the runtime allocated for outputs of tasks.

    The key is the ordinal of the task, and the index among its allocated outputs. `submits` are those that may have
    made each task. An output is missing if no later task uses it, or if the possible submits do not agree.

    The graph names such a buffer where a later task uses it, but does not say which output it is. The text does:
    `outs.get_ref(1)` is the second output of the task that was last submitted as `outs`.
    """
    allocated: dict[tuple[int, int], int] = {}
    task_of_variable: dict[str, int] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            outputs = {_output(orchestration, submit, argument.index) for submit in submits[task.ordinal]}
            output = outputs.pop() if len(outputs) == 1 else None
            if output is None or argument.tensor_id is None:
                continue
            variable, index = output
            if variable in task_of_variable:
                allocated.setdefault((task_of_variable[variable], index), argument.tensor_id)
        variables = {submit.result for submit in submits[task.ordinal]}
        # Any of these variables may stand for this task from here on.
        for variable in variables - {None}:
            task_of_variable.pop(str(variable), None)
        if len(variables) == 1 and (variable := variables.pop()) is not None:
            task_of_variable[variable] = task.ordinal
    return allocated


def _output(orchestration: Orchestration, submit: Submit, argument: int) -> tuple[str, int] | None:
    """Return which output of which submit a tensor argument is, or is a view of.

    The result is the variable that the other submit assigned, and the index of its output. It is None for an argument
    that is no output.
    """
    if argument >= len(submit.tensor_arguments):
        return None
    bound = {tensor.name: tensor for tensor in orchestration.tensors}
    text, seen = submit.tensor_arguments[argument].text, set[str]()
    while (tensor := bound.get(text)) is not None and text not in seen:
        seen.add(text)
        if tensor.origin is Origin.TASK_OUTPUT and tensor.index is not None:
            return tensor.base, tensor.index
        if tensor.origin not in (Origin.VIEW, Origin.ALIAS):
            return None
        # A view of a view is spelled `tensor.view(...).transpose(...)`.
        text = tensor.base.partition(".")[0].strip()
    reference = _REFERENCE.match(text)
    return None if reference is None else (reference[1], int(reference[2]))


def _place_arguments(
    tasks: TaskList, task: KernelTask, dump: ArgsDump, allocated: Mapping[tuple[int, int], int]
) -> list[GraphArgument]:
    """Return the task's arguments, each with its buffer and region.

    The graph gives neither for an output that the runtime allocated. Such an output fills a buffer of its own.
    """
    unplaced = [
        argument for argument in task.task.arguments if argument.tensor_id is None or argument.region is None
    ]
    known = {place: allocated.get((task.ordinal, place)) for place in range(len(unplaced))}
    unknown = [place for place, tensor_id in known.items() if tensor_id is None]
    others = [
        tensor_id
        for tensor_id in tasks.graph.tensors_created_by(task.task.task_id)
        if tensor_id not in known.values()
    ]
    if others and len(others) != len(unknown):
        raise NotReducibleError(
            f"{task.name} (task {task.ordinal}): expected to know which outputs are used later, "
            f"found {len(others)} of {len(unknown)}"
        )
    # The graph has no id for a buffer that no later task uses. A negative id is none of the graph's.
    ids = others or [-1 - place - task.ordinal * 1000 for place in unknown]
    tensor_ids = known | dict(zip(unknown, ids, strict=True))
    placed: list[GraphArgument] = []
    for argument in task.task.arguments:
        if argument in unplaced:
            tensor_id = tensor_ids[unplaced.index(argument)]
            argument = replace(argument, tensor_id=tensor_id, region=_dumped_region(task, argument, dump))
        placed.append(argument)
    return placed


def _dumped_region(task: KernelTask, argument: GraphArgument, dump: ArgsDump) -> Region:
    """Return the region that fills a buffer of the shape that the dump gives for an output."""
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
    return Region(dtype=view.dtype, shape=view.shape, strides=contiguous_strides(view.shape), start_offset=0)


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
    recorded = {record.arg_index: record.value for record in records if record.kind is ArgumentKind.SCALAR}
    arguments = [argument for argument in submits[0].arguments if argument.usage is Usage.SCALAR]
    scalars: list[str] = []
    # A submit's scalars come after its tensors.
    for index, argument in enumerate(arguments, start=len(submits[0].tensor_arguments)):
        value = recorded.get(index)
        if isinstance(value, int):
            scalars.append(f"static_cast<uint64_t>({int(value) & (2**64 - 1)}ull)")
        else:
            scalars.append(scalar_text(argument, value))
    return tuple(scalars)


def _buffer(
    tasks: TaskList,
    tensor_id: int,
    used: Sequence[GraphArgument],
    names: Sequence[str | None],
    earlier: Sequence[Buffer],
    entries: Mapping[str, EntryTensor],
) -> Buffer:
    """Return the buffer that some arguments use.

    `names` are the names that the text gives it in its uses. Raises `NotReducibleError` if its type or size is unclear.
    """
    regions = [argument.region for argument in used if argument.region is not None]
    dtypes = {region.dtype for region in regions}
    dtype = dtypes.pop()
    tensor = tasks.graph.tensors.get(tensor_id)
    recorded = None if tensor is None else tensor.buffer_numel
    elements = math.prod(regions[0].shape) if tensor_id < 0 else recorded
    if dtypes or dtype is None or elements is None:
        raise NotReducibleError(
            f"buffer {names[0]}: expected one element type and a known size, found neither or several"
        )
    entry = next((entries[name] for name in names if name is not None and name in entries), None)
    if entry is not None and math.prod(entry.shape) != elements:
        entry = None
    # An orchestration may view an argument's elements with a shape of its own.
    if entry is not None and _fit(regions, entry.shape):
        shape = entry.shape
    else:
        shape = buffer_shape(elements, regions)
        for region in regions:
            view_of(region, shape)
    # The text names the result of a helper by a call.
    identifiers = (name for name in names if name is not None and name.isidentifier())
    name = entry.name if entry is not None else next(identifiers, "buffer")
    taken = {buffer.name for buffer in earlier} | ({*entries} if entry is None else set[str]())
    unique = name if name not in taken else f"{name}_{len(earlier)}"
    return Buffer(number=len(earlier), name=unique, dtype=dtype, shape=shape, is_entry=entry is not None)


def _fit(regions: Sequence[Region], shape: tuple[int, ...]) -> bool:
    """Return whether all regions can be written as views of a buffer of this shape."""
    try:
        for region in regions:
            view_of(region, shape)
    except LayoutError:
        return False
    return True

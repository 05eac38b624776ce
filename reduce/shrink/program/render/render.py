"""A reduced program as the text of an orchestration, in the words of the source it was made from."""

from __future__ import annotations

from collections.abc import Sequence

from .....runner.build_output.kernel_config import Direction
from .....runner.case.entry_arguments import EntryTensor
from ....rewrite.geometry import view_text
from ....rewrite.launch import launch_statements
from ....rewrite.single_task import ADD_METHODS, USAGES, entry_tensor
from ..cut.cut import Cut, CutTensor
from ..model import Buffer, NotReducibleError, ProgramTask
from .standing import standing_dependencies


def orchestration_source(cut: Cut) -> bytes:
    """The source with an entry function that submits the tasks one after the other; every buffer is an argument.

    Raises:
        NotReducibleError: the source does not show how an entry function looks in its dialect.
    """
    original = cut.program.orchestration
    if original.entry is None or original.expected_arg_count is None:
        raise NotReducibleError("orchestration: expected an entry function, and its argument count")
    names = {tensor.buffer.number: _name(tensor.buffer) for tensor in cut.tensors}
    buffers = {tensor.buffer.number: tensor.buffer for tensor in cut.tensors}
    lines = [
        entry_tensor(original, index, names[tensor.buffer.number]) for index, tensor in enumerate(cut.tensors)
    ]
    lines.append("PTO2_SCOPE() {")
    for task in cut.tasks:
        lines += [f"    {line}" for line in _task(cut, task, buffers, names)]
    lines.append("}")
    body = "{\n" + "\n".join(f"    {line}" for line in lines) + "\n}"
    edits = ((original.entry, body), (original.expected_arg_count.span, str(len(cut.tensors))))
    source = original.source
    for span, text in sorted(edits, reverse=True):
        source = source[: span.start] + text.encode() + source[span.end :]
    return source


def entry_tensors(cut: Cut) -> tuple[EntryTensor, ...]:
    """The arguments as the golden harness is told of them."""
    return tuple(
        EntryTensor(
            name=tensor.buffer.name,
            dtype=tensor.buffer.dtype.torch_name,
            shape=tensor.buffer.shape,
            is_output=tensor.expected is not None,
            has_input=tensor.initial is not None,
        )
        for tensor in cut.tensors
    )


def signature(cut: Cut) -> tuple[Direction, ...]:
    """What the tasks do with each tensor."""
    return tuple(_direction(cut, tensor) for tensor in cut.tensors)


def _direction(cut: Cut, tensor: CutTensor) -> Direction:
    uses = [a.type for task in cut.tasks for a in task.arguments if a.buffer == tensor.buffer.number]
    # What the twin alone writes is an output all the same.
    if not any(use.may_write for use in uses) and tensor.expected is None:
        return Direction.IN
    return Direction.OUT if tensor.initial is None else Direction.INOUT


def _name(buffer: Buffer) -> str:
    return f"ext_{buffer.name}"


def _task(cut: Cut, task: ProgramTask, buffers: dict[int, Buffer], names: dict[int, str]) -> Sequence[str]:
    original, submit = cut.program.orchestration, task.submit
    assert submit.declaration is not None
    # Who was told to wait names others by variables that are not there. Out of a manual scope, tasks wait for what they
    # read, as far as that was written out of one too.
    scope = "PTO2_SCOPE(PTO2ScopeMode::MANUAL) " if task.unordered else ""
    lines = [f"{scope}{{  // task {task.ordinal} of the original: {task.name}"]
    added: list[str] = []
    for argument in task.arguments:
        views, text = view_text(
            argument.region,
            buffers[argument.buffer].shape,
            tensor=names[argument.buffer],
            variable=f"argument_{argument.index}",
        )
        lines += [f"    {line}" for line in views]
        added.append(f"    {submit.parameters}.{ADD_METHODS[USAGES[argument.type]]}({text});")
    lines.append(f"    {original.text(submit.declaration)}")
    lines += added
    lines += [f"    {submit.parameters}.add_scalar({scalar});" for scalar in task.scalars]
    lines += [f"    {text}" for text in launch_statements(original, submit, task.blocks)]
    lines += [f"    {text}" for text in standing_dependencies(original, submit)]
    return [*lines, f"    {original.text(submit.statement)}", "}"]

"""An orchestration that submits one task of another one, alone, on tensors that are its entry arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...runner.build_output.graph.model import ArgumentType
from ...runner.build_output.orchestration.model import Argument, BlockKind, Submit, SubmitKind, Usage
from ...runner.build_output.orchestration.orchestration import Orchestration
from ...runner.errors import UserError
from ..graph.task_list import KernelTask
from .launch import launch_statements

ADD_METHODS = {
    Usage.INPUT: "add_input",
    Usage.OUTPUT: "add_output",
    Usage.INOUT: "add_inout",
    Usage.NO_DEPENDENCY: "add_no_dep",
}
USAGES = {
    ArgumentType.INPUT: Usage.INPUT,
    ArgumentType.OUTPUT: Usage.OUTPUT,
    ArgumentType.OUTPUT_EXISTING: Usage.OUTPUT,
    ArgumentType.INOUT: Usage.INOUT,
    ArgumentType.UNKNOWN: Usage.NO_DEPENDENCY,
}
_ACCESS = re.compile(r"\b(\w+)\.tensor\(\s*\d+\s*\)\.ref\(\)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OF_LITERALS = frozenset(
    (
        *("to_u64", "float_to_u64", "static_cast", "uint64_t", "int64_t", "uint32_t", "int32_t"),
        *("float", "double", "bool", "true", "false", "f", "u", "ul", "ull", "e"),
    )
)


class SingleTaskError(UserError):
    """The task cannot be taken out of its orchestration by editing text."""


def submits_of(orchestration: Orchestration, task: KernelTask) -> tuple[Submit, ...]:
    """The submits in the text that may have made a task: those of its kernels, with its tensors; where each submit of
    the text makes one task, the one at its place."""
    kernels = tuple(number for number in task.task.kernels or () if number >= 0)
    usages = [USAGES[argument.type] for argument in task.task.arguments]
    candidates = tuple(
        submit
        for submit in orchestration.submits
        if tuple(kernel.func_id for kernel in submit.kernels if kernel.func_id != -1) == kernels
        and [argument.usage for argument in submit.tensor_arguments] == usages
    )
    line = _straight_line(orchestration)
    placed = line[task.ordinal] if task.ordinal < len(line) else None
    return (placed,) if placed in candidates else candidates


def _straight_line(orchestration: Orchestration) -> tuple[Submit, ...]:
    """The submits that run kernels, where each stands in the entry function, outside of loops, branches and lambdas;
    else none."""
    entry = orchestration.entry
    submits = tuple(submit for submit in orchestration.submits if submit.kind is not SubmitKind.DUMMY)
    straight = entry is not None and all(
        entry.start < submit.statement.start < entry.end
        and submit.kind is not SubmitKind.GRAPH
        and all(block.kind in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE) for block in submit.blocks)
        for submit in submits
    )
    return submits if straight else ()


def alone(
    orchestration: Orchestration,
    submit: Submit,
    *,
    scalars: Mapping[int, int | float | bool | None],
    blocks: int | None,
) -> bytes:
    """The source with an entry function that submits one task; tensor i of the entry is tensor i of the task.

    `scalars` are the values recorded for the task, by argument index, and `blocks` how many it ran in: they stand in
    for variables of loops.

    Raises:
        SingleTaskError: the dialect or the submit is not understood well enough.
    """
    if orchestration.entry is None or orchestration.expected_arg_count is None or submit.declaration is None:
        raise SingleTaskError(
            "orchestration: expected an entry function, its argument count and a task with arguments of its own"
        )
    tensors = submit.tensor_arguments
    if not all(argument.plain for argument in submit.arguments):
        raise SingleTaskError(
            "orchestration: expected arguments that are always added, found some in a branch"
        )
    parameters = submit.parameters
    lines = [entry_tensor(orchestration, index, _name(index)) for index in range(len(tensors))]
    lines.append(_scope(orchestration, submit) + "{")
    lines.append(orchestration.text(submit.declaration))
    lines += [
        f"{parameters}.{ADD_METHODS[argument.usage]}({_name(index)});"
        for index, argument in enumerate(tensors)
    ]
    lines += _scalars(parameters, submit.arguments, len(tensors), scalars)
    lines += launch_statements(orchestration, submit, blocks)
    lines += [orchestration.text(submit.statement), "}"]
    entry, count = orchestration.entry, orchestration.expected_arg_count.span
    body = "{\n" + "\n".join(f"    {line}" for line in lines) + "\n}"
    edits = sorted(((entry, body), (count, str(len(tensors)))), reverse=True)
    source = orchestration.source
    for span, text in edits:
        source = source[: span.start] + text.encode() + source[span.end :]
    return source


def _name(index: int) -> str:
    return f"alone_{index}"


def entry_tensor(orchestration: Orchestration, index: int, name: str) -> str:
    """The declaration of an entry tensor, in the words in which the source declares another one.

    Raises:
        SingleTaskError: the source shows no way to declare one.
    """
    for template in orchestration.entry_tensors:
        statement = orchestration.text(template.statement)
        named, names = re.subn(rf"\b{re.escape(template.name)}\b", name, statement)
        placed, places = re.subn(rf"([(\[]\s*){template.index}(\s*[)\]])", rf"\g<1>{index}\g<2>", named)
        # One that is made anew from an argument's address has a shape and a type of its own.
        if names == 1 and places == 1 and "make_tensor" not in statement:
            return placed
    entry = orchestration.entry
    accessed = _ACCESS.search(orchestration.text(entry)) if entry is not None else None
    if accessed is None:
        raise SingleTaskError(
            "orchestration: expected an argument declared in one statement with its index, found none"
        )
    return f"const auto& {name} = {accessed[1]}.tensor({index}).ref();"


def _scope(orchestration: Orchestration, submit: Submit) -> str:
    """The head of the innermost scope around the submit."""
    scopes = [b for b in submit.blocks if b.kind in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE)]
    if not scopes:
        return ""
    head = orchestration.source[scopes[-1].span.start : scopes[-1].body.start].decode("utf-8", "replace")
    return head if head.strip() else ""


def _scalars(
    parameters: str,
    arguments: Sequence[Argument],
    tensors: int,
    recorded: Mapping[int, int | float | bool | None],
) -> list[str]:
    added = [argument for argument in arguments if argument.usage is Usage.SCALAR]
    return [
        f"{parameters}.add_scalar({scalar_text(argument, recorded.get(tensors + position))});"
        for position, argument in enumerate(added)
    ]


def scalar_text(argument: Argument, recorded: int | float | bool | None) -> str:
    """A scalar argument as source text: its own where that is a literal, else the recorded value.

    Raises `SingleTaskError` where the value was not recorded exactly.
    """
    if all(word in _OF_LITERALS for word in _WORD.findall(argument.text)):
        return argument.text
    # A float is recorded to six digits by some runtimes; its bits, where the dump has those, are exact.
    if isinstance(recorded, int):
        return f"static_cast<uint64_t>({int(recorded) & (2**64 - 1)}ull)"
    raise SingleTaskError(
        f"orchestration: expected the exact value of the scalar {argument.text!r}, found {recorded}"
    )

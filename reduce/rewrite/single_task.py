"""An orchestration that submits one task of another one alone, or some in turn, on tensors that are entry arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...runner.build_output.graph.model import ArgumentType, Region
from ...runner.build_output.orchestration.model import Argument, BlockKind, Submit, SubmitKind, Usage
from ...runner.build_output.orchestration.orchestration import Orchestration
from ...runner.errors import UserError
from ..graph.task_list import KernelTask
from .geometry import view_text
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
_BEFORE, _DONE = "precision_bisect_before", "precision_bisect_done"
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


@dataclass(frozen=True, kw_only=True)
class LoneCall:
    """One task as it is submitted apart from the others. `tensors` are, in the order of its arguments, the entry's
    tensor that each is a region of; `scalars` expressions; `blocks` how many it ran in, None where that stays as it is
    written."""

    submit: Submit
    tensors: tuple[tuple[int, Region], ...]
    scalars: tuple[str, ...]
    blocks: int | None


def scalars_of(submit: Submit, recorded: Mapping[int, int | float | bool | None]) -> tuple[str, ...]:
    """The scalar arguments of a task as source text. `recorded` are its values, by argument index: they stand in for
    variables of loops.

    Raises:
        SingleTaskError: a value was not recorded exactly.
    """
    tensors = len(submit.tensor_arguments)
    added = [argument for argument in submit.arguments if argument.usage is Usage.SCALAR]
    return tuple(
        scalar_text(argument, recorded.get(tensors + position)) for position, argument in enumerate(added)
    )


def in_turn(
    orchestration: Orchestration, calls: Sequence[LoneCall], shapes: Sequence[tuple[int, ...]]
) -> bytes:
    """The source with an entry function that submits some tasks and no other, each once the one before it is done.
    `shapes` are those of its tensors, in elements.

    Raises:
        SingleTaskError: the dialect or a submit is not understood well enough.
        LayoutError: a region is no box of its tensor.
    """
    if orchestration.entry is None or orchestration.expected_arg_count is None:
        raise SingleTaskError("orchestration: expected an entry function and its argument count, found none")
    lines = [entry_tensor(orchestration, index, entry_name(index)) for index in range(len(shapes))]
    if len(calls) > 1:
        lines.append(f"PTO2TaskId {_BEFORE}[1];")
    for number, call in enumerate(calls):
        lines += _submitted(orchestration, call, shapes, number=number, of=len(calls))
    entry, count = orchestration.entry, orchestration.expected_arg_count.span
    body = "{\n" + "\n".join(f"    {line}" for line in lines) + "\n}"
    edits = sorted(((entry, body), (count, str(len(shapes)))), reverse=True)
    source = orchestration.source
    for span, text in edits:
        source = source[: span.start] + text.encode() + source[span.end :]
    return source


def _submitted(
    orchestration: Orchestration,
    call: LoneCall,
    shapes: Sequence[tuple[int, ...]],
    *,
    number: int,
    of: int,
) -> list[str]:
    """The lines that submit one of `of` tasks."""
    submit = call.submit
    if submit.declaration is None or not all(argument.plain for argument in submit.arguments):
        raise SingleTaskError(
            "orchestration: expected a task with arguments of its own that are always added, found "
            + ("none" if submit.declaration is None else "some in a branch")
        )
    parameters = submit.parameters
    lines = [_scope(orchestration, submit) + "{"]
    added: list[str] = []
    for index, (argument, (tensor, region)) in enumerate(
        zip(submit.tensor_arguments, call.tensors, strict=True)
    ):
        views, text = view_text(
            region, shapes[tensor], tensor=entry_name(tensor), variable=f"argument_{index}"
        )
        lines += views
        added.append(f"{parameters}.{ADD_METHODS[argument.usage]}({text});")
    lines += [orchestration.text(submit.declaration), *added]
    lines += [f"{parameters}.add_scalar({scalar});" for scalar in call.scalars]
    lines += launch_statements(orchestration, submit, call.blocks)
    lines += [f"{parameters}.set_dependencies({_BEFORE}, 1);"] if number else []
    statement, result = orchestration.text(submit.statement), submit.result
    if number + 1 < of:
        named = statement if result is not None else f"const auto {_DONE} = {statement}"
        lines += [named, f"{_BEFORE}[0] = {result or _DONE}.task_id();"]
    else:
        lines.append(statement)
    return [*lines, "}"]


def entry_name(index: int) -> str:
    """What the entry function calls a tensor, and what the harness is told."""
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

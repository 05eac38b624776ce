"""Writes a reduced program as a build directory.

The orchestration is written as text, in the form of the source that it was made from. Dependencies that a submit
declares by hand stay with the task if they name no other task. Kernels lose statements.

`set_blocks` and `set_plain_values` change a cut itself. A task in fewer blocks does a part of its work, and knows how
many blocks there are. Plain values are zeros, ones, or an input's first value everywhere.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tree_sitter import Node

from ...runner.build_output.directory import Direction
from ...runner.build_output.orchestration import (
    Orchestration,
    Span,
    Submit,
    declarator_name,
    descendants,
    parse_cpp,
    span_of,
    text_of,
)
from ...runner.case.preflight import EntryTensor
from ...runner.tensor import DType, TensorView
from ...store.durable_files import replace_file
from ..graph.submits import USAGES, launch_statements
from ..replay.replay import WorkingCopy, to_dtype
from ..replay.task_replay import ADD_METHODS, entry_tensor, view_statements
from .program import Array, Buffer, Candidate, Cut, CutTensor, NotReducibleError, PlainValue, ProgramTask

_SET = "set_dependencies"


def explicit_dependencies(orchestration: Orchestration, submit: Submit) -> list[str]:
    """Statements that set dependencies, with the declarations that they use.

    Statements that name a variable from elsewhere are left out, because the task that it stands for may be gone.
    """
    spans = [span for span in submit.other_statements if _SET in orchestration.text(span)]
    if not spans:
        return []
    root = parse_cpp(orchestration.source)
    declared = {
        declarator_name(node.child_by_field_name("declarator")): node
        for node in descendants(root)
        if node.type == "declaration" and span_of(node) < spans[0]
    }
    statements: list[str] = []
    for span in spans:
        names = [
            text_of(node)
            for node in descendants(root)
            if node.type == "identifier"
            and span_of(node) in span
            and text_of(node) != submit.arguments_variable
        ]
        arrays = [declared[name] for name in names if name in declared]
        used = {
            text_of(node)
            for array in arrays
            for node in descendants(array.child_by_field_name("declarator") or array)
            if node.type == "identifier"
        }
        if len(arrays) == len(names) and not (used - set(names)) & declared.keys():
            statements += [*map(text_of, arrays), orchestration.text(span)]
    return statements


def orchestration_source(cut: Cut) -> bytes:
    """The source with an entry function that submits the tasks one after the other. Every buffer is an argument.

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
    """The arguments in the form that the golden harness takes."""
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
    """Return what the tasks do with each tensor."""
    return tuple(_direction(cut, tensor) for tensor in cut.tensors)


def _direction(cut: Cut, tensor: CutTensor) -> Direction:
    uses = [a.type for task in cut.tasks for a in task.arguments if a.buffer == tensor.buffer.number]
    # What only the twin writes is an output all the same.
    if not any(use.may_write for use in uses) and tensor.expected is None:
        return Direction.IN
    return Direction.OUT if tensor.initial is None else Direction.INOUT


def _name(buffer: Buffer) -> str:
    return f"ext_{buffer.name}"


def _task(cut: Cut, task: ProgramTask, buffers: dict[int, Buffer], names: dict[int, str]) -> Sequence[str]:
    original, submit = cut.program.orchestration, task.submit
    assert submit.declaration is not None
    # Dependencies name other tasks by variables that are not there. Outside of a manual scope, tasks wait for what they
    # read, if that was written outside of one too.
    scope = "PTO2_SCOPE(PTO2ScopeMode::MANUAL) " if task.unordered else ""
    lines = [f"{scope}{{  // task {task.ordinal} of the original: {task.name}"]
    added: list[str] = []
    for argument in task.arguments:
        views, text = view_statements(
            argument.region,
            buffers[argument.buffer].shape,
            tensor=names[argument.buffer],
            variable=f"argument_{argument.index}",
        )
        lines += [f"    {line}" for line in views]
        added.append(f"    {submit.arguments_variable}.{ADD_METHODS[USAGES[argument.type]]}({text});")
    lines.append(f"    {original.text(submit.declaration)}")
    lines += added
    lines += [f"    {submit.arguments_variable}.add_scalar({scalar});" for scalar in task.scalars]
    lines += [f"    {text}" for text in launch_statements(original, submit, task.blocks)]
    lines += [f"    {text}" for text in explicit_dependencies(original, submit)]
    return [*lines, f"    {original.text(submit.statement)}", "}"]


_STATEMENT_KINDS = frozenset(
    (
        *("expression_statement", "declaration", "for_statement", "while_statement", "do_statement"),
        *("if_statement", "switch_statement", "return_statement", "for_range_loop"),
    )
)


@dataclass(frozen=True, order=True)
class StatementName:
    """A statement by its text: the `occurrence`-th with that text, from 0. The name is the same in every source that
    has it."""

    text: str
    occurrence: int


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of a kernel's source.

    `needs` are the indices of the statements that it cannot do without. These are the statement around it, the
    declarations of names in it, and earlier statements with one of its variables that may have written it. Without one
    of these it would not compile, or would read memory that nothing has set.
    """

    name: StatementName
    span: Span
    needs: frozenset[int]
    in_block: bool
    stays: bool
    """Whether it returns a value. A function that ends without doing so has undefined behaviour, and sometimes
    never ends."""


@dataclass(frozen=True)
class KernelText:
    """The two builds' sources of one kernel."""

    kernel: str
    failing: bytes
    reference: bytes


def list_statements(source: bytes) -> tuple[Statement, ...]:
    """All statements in functions, outer ones before what is in them. Declarations at the top level are not among
    them."""
    statements: list[Statement] = []
    seen = Counter[str]()
    named: dict[str, list[int]] = {}
    constant: set[str] = set()

    def needs(node: Node, parent: int | None) -> frozenset[int]:
        """Record what the statement names and declares, and return what it needs."""
        place = len(statements)
        before = {statement for name in _names(node) for statement in named.get(name, ())}
        for name in _names(node) & named.keys() - constant:
            named[name].append(place)
        for declared in _declared_names(node):
            named[declared] = [place]
            if text_of(node).startswith("const"):
                constant.add(declared)
        return frozenset(before if parent is None else {*before, parent})

    def visit(node: Node, parent: int | None, inside: bool) -> None:
        for child in node.named_children:
            below = parent
            if inside and child.type in _STATEMENT_KINDS and _is_full_statement(child, node):
                text = " ".join(text_of(child).split())
                below = len(statements)
                statements.append(
                    Statement(
                        name=StatementName(text, seen[text]),
                        span=span_of(child),
                        needs=needs(child, parent),
                        in_block=node.type == "compound_statement",
                        stays=child.type == "return_statement" and child.named_child_count > 0,
                    )
                )
                seen[text] += 1
            visit(child, below, inside or child.type == "function_definition")

    visit(parse_cpp(source), None, False)
    return tuple(statements)


def _names(node: Node) -> set[str]:
    return {text_of(part) for part in descendants(node) if part.type == "identifier"}


def _declared_names(node: Node) -> list[str]:
    if node.type != "declaration":
        return []
    return [
        name
        for declarator in node.children_by_field_name("declarator")
        if (name := declarator_name(declarator))
    ]


def _is_full_statement(child: Node, node: Node) -> bool:
    """Return whether it is a full statement. The parts of a loop's head are statements to the grammar too."""
    bodies = (node.child_by_field_name(name) for name in ("body", "consequence"))
    return node.type == "compound_statement" or any(body == child for body in bodies)


def remove_statements(source: bytes, names: Set[StatementName]) -> bytes:
    """The source without these statements. An empty statement stays where the grammar needs one."""
    dropped = [statement for statement in list_statements(source) if statement.name in names]
    for statement in sorted(dropped, key=lambda statement: statement.span, reverse=True):
        if any(statement.span in other.span for other in dropped if other is not statement):
            continue
        source = (
            source[: statement.span.start]
            + (b"" if statement.in_block else b";")
            + source[statement.span.end :]
        )
    return source


@dataclass(frozen=True, kw_only=True)
class CandidateBuild:
    """The build directory of a candidate, with its frozen data below `data/`."""

    path: Path
    cut: Cut

    @property
    def arguments(self) -> tuple[EntryTensor, ...]:
        """Return the arguments of its entry function."""
        return entry_tensors(self.cut)


def make_build(copied: WorkingCopy, cut: Cut, folder: Path) -> WorkingCopy:
    """Make a copy of a build in the new folder `folder`, with a reduced program in place of the whole and the data for
    it."""
    copy = WorkingCopy.create(copied.path, folder)
    copy.write_orchestration(orchestration_source(cut))
    copy.write_signature(signature(cut))
    copy.keep_kernels({name for task in cut.tasks for name in task.kernels})
    for tensor in cut.tensors:
        for kind, values in (("in", tensor.initial), ("out", tensor.expected)):
            if values is not None:
                save(tensor.view(values), folder / "data" / kind / f"{tensor.buffer.name}.pt")
    # The harness needs both folders, even for a program without inputs.
    (folder / "data" / "in").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "out").mkdir(parents=True, exist_ok=True)
    return copy


def kernel_source(name: str, copy: WorkingCopy) -> Path | None:
    """The source of a kernel. None if the build has no such kernel, or not its source."""
    build = copy.build()
    kernel = build.kernel_config().kernel_named(name)
    return None if kernel is None or kernel.external else build.folder.locate(kernel.source)


def drop_statements(copy: WorkingCopy, candidate: Candidate) -> None:
    """Drop the candidate's statements from a build's kernels."""
    for kernel, dropped in dropped_statements(candidate).items():
        source = kernel_source(kernel, copy)
        if source is not None:
            source.write_bytes(remove_statements(source.read_bytes(), dropped))


def dropped_statements(candidate: Candidate) -> dict[str, set[StatementName]]:
    """Names of the statements that a candidate drops, by kernel."""
    names: dict[str, set[StatementName]] = {}
    for kernel, text, occurrence in candidate.statements:
        names.setdefault(kernel, set()).add(StatementName(text, occurrence))
    return names


def take_kernel(name: str, source: WorkingCopy, copy: WorkingCopy) -> None:
    """Replace the copy's source and binary of a kernel by another build's, if both have the kernel."""
    origin_build, target_build = source.build(), copy.build()
    taken = origin_build.kernel_config().kernel_named(name)
    replaced = target_build.kernel_config().kernel_named(name)
    if taken is None or replaced is None or taken.external or replaced.external:
        return
    origin = origin_build.folder.locate(taken.source)
    target = target_build.folder.locate(replaced.source)
    for file in origin.parent.glob(f"{origin.stem}.*"):
        shutil.copy2(file, target.with_name(target.stem + file.suffix))


def save(view: TensorView, path: Path) -> None:
    """Write a tensor as the harness reads it."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial, partial.open("wb") as stream:
        torch.save(view.torch().contiguous().clone(), stream)  # pyright: ignore[reportUnknownMemberType]


@dataclass(frozen=True, kw_only=True)
class KernelTexts:
    """Reads the sources of kernels, by their names, in copies of both builds."""

    failing: WorkingCopy
    reference: WorkingCopy

    def full_texts(self, candidate: Candidate, kernels: Iterable[str]) -> tuple[KernelText, ...]:
        """The texts of those `kernels` of a candidate that are in both builds, with all their statements. A kernel that
        is taken from the reference has the reference's source twice."""
        texts = (self._text(name, collapsed=name in candidate.collapsed) for name in sorted(kernels))
        return tuple(text for text in texts if text is not None)

    def _text(self, name: str, *, collapsed: bool) -> KernelText | None:
        reference = kernel_source(name, self.reference)
        failing = reference if collapsed else kernel_source(name, self.failing)
        if failing is None or reference is None:
            return None
        return KernelText(name, failing.read_bytes(), reference.read_bytes())


def set_blocks(cut: Cut, blocks: Mapping[int, int]) -> Cut:
    """The cut with other numbers of blocks, by ordinals of its tasks.

    Elements that no block writes any more must be the same in all runs. So outputs of these tasks start as zeros where
    they had no contents. Expected values are those with all blocks, and have to be computed anew.
    """
    written = {
        argument.buffer
        for task in cut.tasks
        if task.ordinal in blocks
        for argument in task.arguments
        if argument.type.may_write
    }
    return replace(
        cut,
        tasks=tuple(replace(task, blocks=blocks.get(task.ordinal, task.blocks)) for task in cut.tasks),
        tensors=tuple(
            _start_with_zeros(tensor) if tensor.buffer.number in written else tensor for tensor in cut.tensors
        ),
    )


def _start_with_zeros(tensor: CutTensor) -> CutTensor:
    if tensor.initial is not None or tensor.expected is None:
        return tensor
    return replace(tensor, initial=np.zeros_like(tensor.expected))


def set_plain_values(cut: Cut, plain: Mapping[str, PlainValue]) -> Cut:
    """The cut with plain values for the named inputs. Expected values have to be computed anew."""
    if not plain:
        return cut
    return replace(
        cut,
        tensors=tuple(
            replace(tensor, initial=_plain_contents(tensor, tensor.initial, plain[tensor.buffer.name]))
            if tensor.initial is not None and tensor.buffer.name in plain
            else tensor
            for tensor in cut.tensors
        ),
    )


def _plain_contents(tensor: CutTensor, values: Array, plain: PlainValue) -> Array:
    if plain is PlainValue.FIRST:
        return np.full_like(values, values[0]) if values.size else values
    number = np.array([1.0 if plain is PlainValue.ONES else 0.0], np.float32)
    value = to_dtype(TensorView.from_contiguous("plain", DType.FLOAT32, (1,), number), tensor.buffer.dtype)
    return np.full_like(values, value.contiguous()[0])

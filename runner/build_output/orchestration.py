"""Reads an orchestration source: which tasks it submits, with which arguments, in which loops and scopes.

`Orchestration` is one source, with its `Submit`s. Each part of it has its exact place in the text, so that it can be
edited. `tree_sitter` parses the C++. `OrchestrationReader` visits the syntax tree in source order. `Bindings` knows
which names stand for tensors and arguments of the entry function, `Constants` which stand for numbers.

The dialects of all eras are read. A `PTOParam`, `Arg`, `L0TaskArgs` or `CoreTaskArgs` collects a task's arguments, and
`pto2_rt_submit_...` or `rt_submit_...` submits the task. External tensors come from `args[i]`, `orch[i].to_tensor()`,
`from_tensor_arg(orch_args.tensor(i))` or `orch_args.tensor(i).ref()`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Set
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import PurePath

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from .files import Folder, MalformedFileError


@dataclass(frozen=True, order=True)
class Span:
    """The bytes from `start` up to `end` of a source file."""

    start: int
    end: int

    def text_in(self, source: bytes) -> str:
        """Return the text of these bytes of `source`."""
        return source[self.start : self.end].decode("utf-8", "replace")

    def __contains__(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


class Usage(Enum):
    """How a task uses an argument, by the call that adds it: `add_input`, `add_output` and so on."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"
    NO_DEPENDENCY = "no_dep"
    SCALAR = "scalar"


class BlockKind(Enum):
    """What surrounds a statement. In a manual scope the runtime infers no dependencies.

    A branch may not be executed. It is a case, an operand of `?:` or `&&`, or what `#if` guards, for example.
    A statement in a lambda runs whenever the lambda is called, perhaps never.
    """

    LOOP = "loop"
    LAMBDA = "lambda"
    BRANCH = "branch"
    SCOPE = "scope"
    MANUAL_SCOPE = "manual_scope"


class SubmitKind(Enum):
    """The cores that a task runs on. A dummy only orders other tasks. A graph is a prepared set of tasks."""

    AIC = "aic"
    AIV = "aiv"
    MIXED = "mixed"
    DUMMY = "dummy"
    GRAPH = "graph"


class Origin(Enum):
    """Where the tensor of a name comes from."""

    ENTRY = "an argument of the orchestration"
    ALLOCATED = "a batch of allocations"
    TASK_OUTPUT = "an output allocated for a task"
    VIEW = "a view of another tensor"
    ALIAS = "another name of a tensor"
    CREATED = "created in place"


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """A loop, branch, scope or lambda. `span` is the whole statement, and `body` its body with the braces."""

    kind: BlockKind
    span: Span
    body: Span


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a task.

    Attributes:
        text: the tensor, create info or scalar, as it is spelled.
        expression: the place of `text`.
        statement: the place of the statement that adds the argument.
        is_added_once: False if the statement is in a loop or branch, and the declaration of the arguments is outside.
    """

    usage: Usage
    text: str
    expression: Span
    statement: Span
    is_added_once: bool


@dataclass(frozen=True, kw_only=True)
class DumpMarker:
    """A call such as `params.dump(a, b)`. Without names, all arguments of the task are dumped."""

    names: tuple[str, ...]
    statement: Span


NO_KERNEL = -1
"""The function id that stands for no kernel. It is the runtime's `INVALID_KERNEL_ID`."""


@dataclass(frozen=True)
class KernelReference:
    """A kernel as the source names it.

    `func_id` is `NO_KERNEL` for an empty slot, and None if the name's value is unknown.
    """

    text: str
    func_id: int | None


TaskSignature = tuple[tuple[int | None, ...], tuple[Usage, ...]]
"""The function ids of the kernels that a task runs, and how it uses its tensors."""


@dataclass(frozen=True, kw_only=True)
class Submit:
    """One call that submits a task. In a loop it submits many.

    Attributes:
        kind: the cores that the task runs on.
        kernels: in slot order (cube, first vector core, second). Empty for a dummy or graph.
        arguments_variable: the name of the variable that collects the arguments.
        declaration: where that variable is declared. None if the reader did not find the declaration. Then `arguments`
            is empty.
        arguments: in the order of the `add_...` calls. The runtime's argument index instead numbers all tensors first,
            then the scalars.
        dumps: the dump markers on the variable.
        other_statements: the places of other calls on the variable, for dependencies and block counts.
        result: the variable that the declaration initializes with the task's outputs, if any.
        function: the name of the function that the submit is in.
        blocks: the blocks around the submit, outermost first.
        statement: the place of the statement that the call is in.
    """

    kind: SubmitKind
    kernels: tuple[KernelReference, ...]
    arguments_variable: str
    declaration: Span | None
    arguments: tuple[Argument, ...]
    dumps: tuple[DumpMarker, ...]
    other_statements: tuple[Span, ...]
    result: str | None
    function: str
    blocks: tuple[CodeBlock, ...]
    statement: Span

    @cached_property
    def tensor_arguments(self) -> tuple[Argument, ...]:
        """Return the arguments that are tensors, in the order of the runtime's argument index."""
        return tuple(argument for argument in self.arguments if argument.usage is not Usage.SCALAR)

    @cached_property
    def signature(self) -> TaskSignature:
        """Return the kernels that the task runs, and how it uses its tensors."""
        kernels = tuple(kernel.func_id for kernel in self.kernels if kernel.func_id != NO_KERNEL)
        return kernels, tuple(argument.usage for argument in self.tensor_arguments)

    @property
    def in_manual_scope(self) -> bool:
        """Return whether the innermost scope is manual."""
        scopes = [b.kind for b in self.blocks if b.kind in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE)]
        return bool(scopes) and scopes[-1] is BlockKind.MANUAL_SCOPE


@dataclass(frozen=True, kw_only=True)
class CreateInfo:
    """The shape and type of a tensor to be allocated. `shape` holds the extents as source text; None if unknown."""

    name: str
    shape: tuple[str, ...] | None
    dtype: str
    statement: Span


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A call `alloc_tensors(infos...)`. The tensors are members of `variable`, in the order of `infos`."""

    variable: str
    infos: tuple[str, ...]
    blocks: tuple[CodeBlock, ...]
    statement: Span


@dataclass(frozen=True, kw_only=True)
class TensorName:
    """A name bound to a tensor.

    Attributes:
        base: the tensor that it views or renames, or the variable that contains it. Empty for `ENTRY` and `CREATED`.
        index: its index among that variable's members, or among the entry function's tensors. Otherwise None.
        expression: the place of the expression that the name is bound to.
        blocks: the blocks around the statement, outermost first.
    """

    name: str
    origin: Origin
    base: str
    index: int | None
    expression: Span
    blocks: tuple[CodeBlock, ...]
    statement: Span


@dataclass(frozen=True, kw_only=True)
class ScalarBinding:
    """A statement that reads `orch_args.scalar(index)` into the variable, or member, `name`."""

    name: str
    index: int
    statement: Span


MAX_BYTES = 2 * 2**20
"""A larger orchestration source is not read. Its syntax tree takes many times its size."""
ENTRY_FUNCTION = "aicpu_orchestration_entry"
ENTRY_PREFIX = "ext_"
"""In generated code, names of entry arguments begin with this prefix."""


@dataclass(frozen=True)
class Number:
    """An integer in the source, and its place."""

    value: int
    span: Span


@dataclass(frozen=True, kw_only=True)
class Orchestration:
    """One orchestration source, with everything in source order.

    Attributes:
        source: the text that all spans refer to.
        entry: the place of the entry function's body with its braces; None if there is no such function.
        expected_arg_count: the number of arguments, tensors and scalars, that the runtime expects.
        tensors: all names of tensors. Those of origin `ENTRY` are arguments of the orchestration.
        entry_scalars: the scalar arguments of the orchestration.
        syntax_errors: the places that the parser did not understand. Submits and names in them are missing.
    """

    source: bytes
    entry: Span | None
    expected_arg_count: Number | None
    tensors: tuple[TensorName, ...]
    entry_scalars: tuple[ScalarBinding, ...]
    create_infos: tuple[CreateInfo, ...]
    allocations: tuple[Allocation, ...]
    submits: tuple[Submit, ...]
    syntax_errors: tuple[Span, ...]

    @classmethod
    def open(
        cls, folder: Folder, relative: PurePath | str, *, entry_function: str = ENTRY_FUNCTION
    ) -> Orchestration:
        """Read the file `relative` to the build's folder.

        Raises:
            BuildOutputError: it is missing, outside of the folder, too large, or nested too deeply.
        """
        source = folder.read(relative, expected="an orchestration source", limit=MAX_BYTES)
        try:
            return cls.parse(source, entry_function=entry_function)
        except RecursionError as error:
            raise MalformedFileError(
                path=folder.locate(relative), expected="an orchestration source", found="nesting too deep"
            ) from error

    @classmethod
    def parse(cls, source: bytes, *, entry_function: str = ENTRY_FUNCTION) -> Orchestration:
        """Read the text `source`. Raises `RecursionError` if blocks are nested several hundred levels deep."""
        root = parse_cpp(source)
        constants = Constants.from_tree(root)
        entry = _find_function(root, entry_function)
        bindings = Bindings(constants, _parameter_names(entry))
        reader = OrchestrationReader(bindings)
        reader.visit(root)
        body = entry.child_by_field_name("body") if entry is not None else None
        return cls(
            source=source,
            entry=span_of(body) if body is not None else None,
            expected_arg_count=_expected_arg_count(root, constants),
            tensors=tuple(bindings.tensors),
            entry_scalars=tuple(bindings.entry_scalars),
            create_infos=tuple(bindings.create_infos),
            allocations=tuple(reader.allocations),
            submits=tuple(reader.submits),
            syntax_errors=syntax_errors(root),
        )

    @property
    def entry_tensors(self) -> tuple[TensorName, ...]:
        """Return the tensor arguments of the orchestration."""
        return tuple(tensor for tensor in self.tensors if tensor.origin is Origin.ENTRY)

    @cached_property
    def tensors_by_name(self) -> Mapping[str, TensorName]:
        """Return the tensors by name. The last binding of a name counts."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def entry_names(self) -> Set[str]:
        """Return the names of the tensor arguments without `ENTRY_PREFIX`, except ambiguous ones."""
        bindings = Counter(tensor.name for tensor in self.tensors)
        names: set[str] = set()
        for tensor in self.entry_tensors:
            short = tensor.name.removeprefix(ENTRY_PREFIX)
            if bindings[tensor.name] == 1 and (short == tensor.name or short not in bindings):
                names.add(short)
        return names

    @cached_property
    def submits_by_signature(self) -> Mapping[TaskSignature, tuple[Submit, ...]]:
        """Return the submits by their signatures."""
        found: dict[TaskSignature, list[Submit]] = {}
        for submit in self.submits:
            found.setdefault(submit.signature, []).append(submit)
        return {signature: tuple(submits) for signature, submits in found.items()}

    @cached_property
    def straight_line_submits(self) -> tuple[Submit, ...]:
        """Return the submits that run kernels, in source order, if the entry function executes none of them twice.

        The result is empty if one of them is a graph, in another function, or in a loop, branch or lambda. So the
        tasks of a run come from these submits in order. The last submits have no task if the function returns early.
        """
        entry = self.entry
        if entry is None:
            return ()

        def is_in_straight_line(submit: Submit) -> bool:
            in_scopes = all(
                block.kind in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE) for block in submit.blocks
            )
            in_entry = entry.start < submit.statement.start < entry.end
            return in_entry and in_scopes and submit.kind is not SubmitKind.GRAPH

        submits = tuple(submit for submit in self.submits if submit.kind is not SubmitKind.DUMMY)
        return submits if all(map(is_in_straight_line, submits)) else ()

    def text(self, span: Span) -> str:
        """Return the source text at `span`."""
        return span.text_in(self.source)


def _find_function(root: Node, name: str) -> Node | None:
    definitions = (node for node in descendants(root) if node.type == "function_definition")
    return next(
        (each for each in definitions if declarator_name(each.child_by_field_name("declarator")) == name),
        None,
    )


def _parameter_names(function: Node | None) -> frozenset[str]:
    if function is None:
        return frozenset()
    declarator = function.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    declared = parameters.named_children if parameters is not None else []
    return frozenset(declarator_name(one.child_by_field_name("declarator")) for one in declared) - {""}


def _expected_arg_count(root: Node, constants: Constants) -> Number | None:
    for node in descendants(root):
        if node.type != "initializer_pair" or len(node.named_children) != 2:
            continue
        designator, value = node.named_children
        if text_of(designator) == ".expected_arg_count":
            number = constants.number(text_of(value))
            return None if number is None else Number(number, span_of(value))
    return None


# The name is `rt_submit_aiv_task` today, and was `pto2_rt_submit_aiv_task` before May 2026.
_SUBMIT = re.compile(r"(?:pto2_)?rt_submit_(?:(aic|aiv|dummy)_)?(task|graph)\Z")
_USAGE = {
    "add_input": Usage.INPUT,
    "add_output": Usage.OUTPUT,
    "add_inout": Usage.INOUT,
    "add_no_dep": Usage.NO_DEPENDENCY,
    "add_scalar": Usage.SCALAR,
    "add_scalars": Usage.SCALAR,
    "make_input_param": Usage.INPUT,
    "make_output_param": Usage.OUTPUT,
    "make_inout_param": Usage.INOUT,
    "make_scalar_param": Usage.SCALAR,
}
_LOOPS = frozenset({"for_statement", "for_range_loop", "while_statement", "do_statement"})
_COLLECTOR_TYPES = re.compile(r"Arg|Param")


@dataclass
class _ArgumentCollector:
    """The arguments, dumps and other calls collected so far for one variable.

    `depth` is the number of blocks around its declaration.
    """

    declaration: Span
    depth: int
    arguments: list[Argument] = field(default_factory=list[Argument])
    dumps: list[DumpMarker] = field(default_factory=list[DumpMarker])
    others: list[Span] = field(default_factory=list[Span])


class OrchestrationReader:
    """Visits the nodes of a file in source order. Collects its `submits` and `allocations`."""

    def __init__(self, bindings: Bindings) -> None:
        self.submits: list[Submit] = []
        self.allocations: list[Allocation] = []
        self._bindings = bindings
        self._function = ""
        self._blocks: list[CodeBlock] = []
        self._scopes: list[dict[str, _ArgumentCollector]] = [{}]

    def visit(self, node: Node) -> None:
        """Visit `node` and everything in it."""
        match node.type:
            case "function_definition":
                self._visit_function(node)
            case "compound_statement":
                self._visit_compound(node)
            case "if_statement":
                self._visit_if(node)
            case "switch_statement":
                self._visit_switch(node)
            case "preproc_if" | "preproc_ifdef" if self._function:
                with self._block(BlockKind.BRANCH, node, None):
                    self._visit_children(node)
            case "declaration":
                self._visit_declaration(node)
            case "expression_statement" | "return_statement":
                self._visit_expression(node, node, result=None)
            case _ if node.type in _LOOPS:
                with self._block(BlockKind.LOOP, node, node.child_by_field_name("body")):
                    self._visit_children(node)
            case _ if node.type.endswith("_expression"):
                self._visit_expression(node, node, result=None)
            case _:
                self._visit_children(node)

    def _visit_children(self, node: Node) -> None:
        for child in node.named_children:
            self.visit(child)

    def _visit_function(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            return
        declarator = node.child_by_field_name("declarator")
        name = declarator_name(declarator)
        if name == "PTO2_SCOPE":
            # To the parser, the macro with its braces is the definition of a function.
            with self._block(_scope_kind(text_of(declarator)), node, body):
                self.visit(body)
            return
        outer, self._function = self._function, name
        self.visit(body)
        self._function = outer

    def _visit_compound(self, node: Node) -> None:
        guard = next((child for child in node.named_children if _is_scope_guard(child)), None)
        self._scopes.append({})
        if guard is None:
            self._visit_children(node)
        else:
            with self._block(_scope_kind(text_of(guard)), node, node):
                self._visit_children(node)
        self._scopes.pop()

    def _visit_if(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.visit(condition)
        for branch in (node.child_by_field_name("consequence"), node.child_by_field_name("alternative")):
            if branch is not None:
                with self._block(BlockKind.BRANCH, node, branch):
                    self.visit(branch)

    def _visit_switch(self, node: Node) -> None:
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        if condition is not None and body is not None:
            self.visit(condition)
            with self._block(BlockKind.BRANCH, node, body):
                self.visit(body)

    @contextmanager
    def _block(self, kind: BlockKind, node: Node, body: Node | None) -> Generator[None]:
        self._blocks.append(CodeBlock(kind=kind, span=span_of(node), body=span_of(body or node)))
        yield
        self._blocks.pop()

    def _visit_declaration(self, node: Node) -> None:
        type_name = text_of(node.child_by_field_name("type"))
        for declarator in node.children_by_field_name("declarator"):
            name = declarator_name(declarator)
            value = declarator.child_by_field_name("value")
            if _COLLECTOR_TYPES.search(type_name):
                collector = _ArgumentCollector(span_of(node), len(self._blocks))
                self._scopes[-1][name] = collector
                if value is not None and value.type == "initializer_list":
                    self._add_initializers(collector, value, node)
            elif value is not None:
                self._visit_expression(value, node, result=name)
            self._bindings.declare(node, declarator, tuple(self._blocks))

    def _add_initializers(self, collector: _ArgumentCollector, listed: Node, statement: Node) -> None:
        """Add the arguments of `PTOParam params[] = {make_input_param(a), ...}`, as written until March 2026."""
        for call in listed.named_children:
            _, function = callee(call)
            if function in _USAGE:
                self._add(collector, _USAGE[function], call_arguments(call), statement)

    def _visit_expression(self, node: Node, statement: Node, *, result: str | None) -> None:
        """Visit the calls and assignments within an expression, in source order."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            body = part.child_by_field_name("body")
            if part.type == "lambda_expression" and body is not None:
                with self._block(BlockKind.LAMBDA, part, body):
                    self.visit(body)
                continue
            if branches := _branches(part):
                for child in part.named_children:
                    with self._block(BlockKind.BRANCH, part, child) if child in branches else nullcontext():
                        self._visit_expression(child, statement, result=result)
                continue
            if part.type == "assignment_expression":
                self._bindings.assign(statement, part)
            elif part.type == "call_expression":
                self._visit_call(part, statement, result)
            waiting.extend(reversed(part.named_children))

    def _visit_call(self, call: Node, statement: Node, result: str | None) -> None:
        target, function = callee(call)
        if target is not None:
            collector = self._collector(root_name(target))
            if collector is not None:
                self._record_call(collector, function, call, statement)
        elif submit := _SUBMIT.match(function):
            self._submit(call, statement, core=submit[1], is_graph=submit[2] == "graph", result=result)
        elif function == "alloc_tensors" and result is not None:
            self._bindings.allocations.add(result)
            self.allocations.append(
                Allocation(
                    variable=result,
                    infos=tuple(text_of(argument) for argument in call_arguments(call)),
                    blocks=tuple(self._blocks),
                    statement=span_of(statement),
                )
            )

    def _record_call(self, collector: _ArgumentCollector, method: str, call: Node, statement: Node) -> None:
        arguments = call_arguments(call)
        if method in _USAGE:
            self._add(collector, _USAGE[method], arguments, statement)
        elif method == "dump":
            names = tuple(text_of(argument) for argument in arguments)
            collector.dumps.append(DumpMarker(names=names, statement=span_of(statement)))
        else:
            collector.others.append(span_of(statement))

    def _add(
        self, collector: _ArgumentCollector, usage: Usage, expressions: list[Node], statement: Node
    ) -> None:
        since_declaration = self._blocks[collector.depth :]
        is_added_once = not any(
            block.kind in (BlockKind.LOOP, BlockKind.BRANCH) for block in since_declaration
        )
        for expression in expressions:
            collector.arguments.append(
                Argument(
                    usage=usage,
                    text=text_of(expression),
                    expression=span_of(expression),
                    statement=span_of(statement),
                    is_added_once=is_added_once,
                )
            )

    def _collector(self, name: str) -> _ArgumentCollector | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _submit(
        self, call: Node, statement: Node, *, core: str | None, is_graph: bool, result: str | None
    ) -> None:
        arguments = [text_of(argument) for argument in call_arguments(call)]
        if arguments and arguments[0] == "rt":
            del arguments[0]
        kind, kernels = self._kernels(core, is_graph, arguments)
        last = arguments[-1] if arguments else ""
        name = next((text for text in arguments if self._collector(text)), last)
        collector = self._collector(name)
        self.submits.append(
            Submit(
                kind=kind,
                kernels=kernels,
                arguments_variable=name,
                declaration=collector.declaration if collector else None,
                arguments=tuple(collector.arguments) if collector else (),
                dumps=tuple(collector.dumps) if collector else (),
                other_statements=tuple(collector.others) if collector else (),
                result=result,
                function=self._function,
                blocks=tuple(self._blocks),
                statement=span_of(statement),
            )
        )

    def _kernels(
        self, core: str | None, is_graph: bool, arguments: list[str]
    ) -> tuple[SubmitKind, tuple[KernelReference, ...]]:
        """Return the kind of the submit, and its kernels in slot order: cube, first vector core, second."""
        kernel = self._bindings.constants.kernel
        none = kernel("INVALID_KERNEL_ID")
        worker = arguments[1] if len(arguments) > 1 else ""
        if is_graph:
            return SubmitKind.GRAPH, ()
        if core == "dummy" or not arguments:
            return SubmitKind.DUMMY, ()
        # Until March 2026 the call was `pto2_rt_submit_task(rt, id, PTO2_WORKER_VECTOR, params, n)`.
        if core == "aic" or worker == "PTO2_WORKER_CUBE":
            return SubmitKind.AIC, (kernel(arguments[0]), none, none)
        if core == "aiv" or worker == "PTO2_WORKER_VECTOR":
            return SubmitKind.AIV, (none, kernel(arguments[0]), none)
        mixed = arguments[0]
        inline = re.fullmatch(r"MixedKernels\s*\{(.*)\}", mixed, re.DOTALL)
        names = inline[1].split(",") if inline else self._bindings.array(mixed)
        kernels = tuple(kernel(name.strip()) for name in names if name.strip())
        return SubmitKind.MIXED, kernels or (KernelReference(mixed, None),)


def _branches(expression: Node) -> list[Node]:
    """Return the operands of an expression that may not be evaluated."""
    if expression.type == "conditional_expression":
        fields = ["consequence", "alternative"]
    elif text_of(expression.child_by_field_name("operator")) in ("&&", "||", "and", "or"):
        fields = ["right"]
    else:
        fields = []
    return [operand for name in fields if (operand := expression.child_by_field_name(name)) is not None]


def _scope_kind(spelled: str) -> BlockKind:
    return BlockKind.MANUAL_SCOPE if "MANUAL" in spelled else BlockKind.SCOPE


def _is_scope_guard(node: Node) -> bool:
    return node.type == "expression_statement" and text_of(node).startswith("PTO2_SCOPE_GUARD")


_TENSOR_TYPES = frozenset({"Tensor", "ChipTensor", "auto"})
_VIEW_METHODS = frozenset({"view", "transpose", "reshape", "slice", "permute", "squeeze", "unsqueeze"})
_TENSOR_FUNCTIONS = ("make_tensor", "from_tensor_arg", "from_task_arg")
_TENSOR_READS = ("*>", "to_tensor", ".data<", "from_task_arg")
"""An expression with one of these texts reads `args[i]` or `orch[i]` as a tensor."""
_KERNEL_SLOTS = ("aic_kernel_id", "aiv0_kernel_id", "aiv1_kernel_id")


@dataclass
class Bindings:
    """Collects the names that one file binds, in source order.

    What is read from `entry_parameters`, the parameters of the entry function, is an argument of the orchestration.
    """

    constants: Constants
    entry_parameters: frozenset[str]
    allocations: set[str] = field(default_factory=set[str])
    tensors: list[TensorName] = field(default_factory=list[TensorName])
    create_infos: list[CreateInfo] = field(default_factory=list[CreateInfo])
    entry_scalars: list[ScalarBinding] = field(default_factory=list[ScalarBinding])
    _arrays: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _pointers: dict[str, int] = field(default_factory=dict[str, int])
    _tensor_names: set[str] = field(default_factory=set[str])

    def declare(self, statement: Node, declarator: Node, blocks: tuple[CodeBlock, ...]) -> None:
        """Record one declarator of the declaration `statement`, with its initializer."""
        name = declarator_name(declarator)
        value = declarator.child_by_field_name("value")
        type_name = text_of(statement.child_by_field_name("type"))
        if type_name == "MixedKernels" and value is None:
            self._arrays[name] = ("INVALID_KERNEL_ID",) * len(_KERNEL_SLOTS)
        if not name or value is None:
            return
        if value.type == "initializer_list":
            self._arrays[name] = tuple(text_of(child) for child in call_arguments(value))
        elif type_name == "TensorCreateInfo":
            self._create_info(statement, name, value)
        elif type_name in _TENSOR_TYPES and (tensor := self._tensor(value)):
            origin, base, index = tensor
            self._tensor_names.add(name)
            self.tensors.append(
                TensorName(
                    name=name,
                    origin=origin,
                    base=base,
                    index=index,
                    expression=span_of(value),
                    blocks=blocks,
                    statement=span_of(statement),
                )
            )
        elif (scalar := self._entry_index(value, "scalar")) is not None:
            self.entry_scalars.append(ScalarBinding(name=name, index=scalar, statement=span_of(statement)))
        elif (pointer := self._entry_index(value, "tensor")) is not None:
            self._pointers[name] = pointer

    def assign(self, statement: Node, assignment: Node) -> None:
        """Record an assignment: of a slot of mixed kernels, or of an entry scalar to a member of a union."""
        target = assignment.child_by_field_name("left")
        value = assignment.child_by_field_name("right")
        if value is None or target is None:
            return
        field_name = text_of(target.child_by_field_name("field"))
        if field_name in _KERNEL_SLOTS and (slots := self._arrays.get(root_name(target))):
            slot = _KERNEL_SLOTS.index(field_name)
            self._arrays[root_name(target)] = (*slots[:slot], text_of(value), *slots[slot + 1 :])
        scalar = self._entry_index(value, "scalar")
        if scalar is not None:
            self.entry_scalars.append(
                ScalarBinding(name=text_of(target), index=scalar, statement=span_of(statement))
            )

    def array(self, name: str) -> tuple[str, ...]:
        """Return the elements of the array, or aggregate, `name`; empty if unknown."""
        return self._arrays.get(name, ())

    def _create_info(self, statement: Node, name: str, value: Node) -> None:
        arguments = [text_of(argument) for argument in call_arguments(value)]
        shape = self._arrays.get(arguments[0]) if arguments else None
        dtype = arguments[2] if len(arguments) > 2 else ""
        self.create_infos.append(
            CreateInfo(name=name, shape=shape, dtype=dtype, statement=span_of(statement))
        )

    def _tensor(self, value: Node) -> tuple[Origin, str, int | None] | None:
        """Return origin, base and index of the tensor that `value` evaluates to; None if it is no tensor."""
        if value.type == "identifier":
            name = text_of(value)
            return (Origin.ALIAS, name, None) if name in self._tensor_names else None
        if value.type != "call_expression":
            return None
        target, function = callee(value)
        if function == "get_ref" and target is not None:
            base = text_of(target)
            arguments = call_arguments(value)
            index = self.constants.number(text_of(arguments[0])) if arguments else None
            return Origin.ALLOCATED if base in self.allocations else Origin.TASK_OUTPUT, base, index
        if function in _VIEW_METHODS and target is not None:
            return Origin.VIEW, text_of(target), None
        makes_tensor = function.startswith(_TENSOR_FUNCTIONS)
        if makes_tensor or root_name(value) in self.entry_parameters:
            entry = self._entry_index(value, "tensor")
            if entry is not None:
                return Origin.ENTRY, "", entry
        return (Origin.CREATED, "", None) if makes_tensor else None

    def _entry_index(self, value: Node, kind: str) -> int | None:
        """Return the index of the entry function's tensor, or scalar, that `value` reads. `kind` is its method's name.

        Arguments are `orch_args.tensor(i)` and `orch_args.scalar(i)`. A tensor may also be read through a pointer from
        an earlier declaration. The first dialects had one array of tensors and scalars, `orch[i]` or `args[i]`.
        """
        for node in descendants(value):
            if node.type == "call_expression":
                target, method = callee(node)
                if method == kind and root_name(target) in self.entry_parameters:
                    return self._index(call_arguments(node))
            elif node.type == "subscript_expression":
                array = text_of(node.child_by_field_name("argument"))
                is_tensor = any(mark in text_of(value) for mark in _TENSOR_READS)
                if array in self.entry_parameters and is_tensor == (kind == "tensor"):
                    return self._index(call_arguments(node.named_children[-1]))
            elif node.type == "identifier" and kind == "tensor" and text_of(node) in self._pointers:
                return self._pointers[text_of(node)]
        return None

    def _index(self, arguments: list[Node]) -> int | None:
        return self.constants.number(text_of(arguments[0])) if len(arguments) == 1 else None


@dataclass(frozen=True)
class Constants:
    """Integers by name, from `#define`, enumerations, and constant declarations anywhere in the file."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def from_tree(cls, root: Node) -> Constants:
        """Return all constants of a file. A name with two different numbers is left out."""
        constants = cls({"INVALID_KERNEL_ID": NO_KERNEL})
        clashing: set[str] = set()
        for node in descendants(root):
            for name, expression in _definitions(node):
                number = constants.number(expression)
                if number is None:
                    continue
                if constants.numbers.setdefault(name, number) != number:
                    clashing.add(name)
        for name in clashing:
            del constants.numbers[name]
        return constants

    def number(self, expression: str) -> int | None:
        """Return the value of an expression; None if unknown.

        Literals and known names have one, also in parentheses or with a minus.
        """
        text = expression.strip().strip("()").strip()
        sign = -1 if text.startswith("-") else 1
        text = text.removeprefix("-").strip()
        if text in self.numbers:
            return sign * self.numbers[text]
        digits = text.rstrip("uUlL").replace("'", "")
        try:
            return sign * int(digits, 0) if len(digits) <= 20 else None
        except ValueError:
            return None

    def kernel(self, expression: str) -> KernelReference:
        """Return the kernel that a submit names by `expression`."""
        return KernelReference(expression, self.number(expression))


def _definitions(node: Node) -> list[tuple[str, str]]:
    """Return the constants that a node defines, each with its expression."""
    match node.type:
        case "preproc_def":
            value = text_of(node.child_by_field_name("value")).split("//")[0].split("/*")[0]
            return [(text_of(node.child_by_field_name("name")), value)]
        case "enumerator":
            return [(text_of(node.child_by_field_name("name")), text_of(node.child_by_field_name("value")))]
        case "declaration" if _is_constant(node):
            return [
                (declarator_name(declarator), text_of(declarator.child_by_field_name("value")))
                for declarator in node.children_by_field_name("declarator")
                if declarator.type == "init_declarator"
            ]
        case _:
            return []


def _is_constant(declaration: Node) -> bool:
    qualifiers = [text_of(child) for child in declaration.named_children if child.type == "type_qualifier"]
    return "constexpr" in qualifiers or "const" in qualifiers


_LANGUAGE = Language(tree_sitter_cpp.language())


def parse_cpp(source: bytes) -> Node:
    """Return the root of the syntax tree. Text that is not C++ becomes nodes of type ERROR."""
    return Parser(_LANGUAGE).parse(source).root_node


def span_of(node: Node) -> Span:
    """Return the place of a node in the source."""
    return Span(node.start_byte, node.end_byte)


def text_of(node: Node | None) -> str:
    """Return the source text of a node; empty for None."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def descendants(node: Node) -> Iterator[Node]:
    """Yield `node` and all named nodes below it, in source order."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.named_children))


def syntax_errors(root: Node) -> tuple[Span, ...]:
    """Return the places that the parser did not understand, without places inside of others."""
    found: list[Span] = []
    waiting = [root] if root.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            found.append(span_of(node))
        else:
            waiting.extend(child for child in reversed(node.children) if child.has_error)
    return tuple(found)


def declarator_name(declarator: Node | None) -> str:
    """Return the name that a declarator declares, such as `a` for `*a[2] = {}`; empty if none."""
    while declarator is not None:
        if declarator.type in ("identifier", "field_identifier"):
            return text_of(declarator)
        inner = declarator.child_by_field_name("declarator")
        if inner is None and declarator.type == "reference_declarator":
            inner = declarator.named_children[0] if declarator.named_children else None
        declarator = inner
    return ""


def call_arguments(call: Node) -> list[Node]:
    """Return the argument expressions of a call or a constructor call, without comments."""
    listed = call.child_by_field_name("arguments") or call
    return [child for child in listed.named_children if child.type != "comment"]


def callee(call: Node) -> tuple[Node | None, str]:
    """Return the object and the method's name of `object.method(...)`, or None and the function's name."""
    function = call.child_by_field_name("function")
    if function is None:
        return None, ""
    if function.type == "field_expression":
        return function.child_by_field_name("argument"), text_of(function.child_by_field_name("field"))
    if function.type == "template_function":
        return None, text_of(function.child_by_field_name("name"))
    return None, text_of(function)


def root_name(expression: Node | None) -> str:
    """Return `p` for `p`, `p.launch_spec`, `p[0]` or `p.add_input(a)`; empty for anything else."""
    while expression is not None and expression.type != "identifier":
        if expression.type in ("field_expression", "subscript_expression"):
            expression = expression.child_by_field_name("argument")
        elif expression.type == "call_expression":
            expression = expression.child_by_field_name("function")
        else:
            return ""
    return text_of(expression)

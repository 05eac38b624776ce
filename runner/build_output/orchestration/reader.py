"""Walks the syntax tree of an orchestration and gathers its submits, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tree_sitter import Node

from .bindings import Bindings
from .cpp_syntax import Span, call_arguments, callee, declared_name, root_name, span_of, text_of
from .model import (
    Allocation,
    Argument,
    BlockKind,
    CodeBlock,
    DumpMarker,
    KernelReference,
    Submit,
    SubmitKind,
    Usage,
)

# `rt_submit_aiv_task` today, `pto2_rt_submit_aiv_task` before May 2026.
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
_PARAMETER_TYPES = re.compile(r"Arg|Param")


@dataclass
class _Parameters:
    """What has been said so far to one variable that gathers a task's arguments."""

    declaration: Span
    depth: int
    arguments: list[Argument] = field(default_factory=list[Argument])
    dumps: list[DumpMarker] = field(default_factory=list[DumpMarker])
    others: list[Span] = field(default_factory=list[Span])


class OrchestrationReader:
    """Visits nodes in source order; `submits` and `allocations` fill up on the way."""

    def __init__(self, bindings: Bindings) -> None:
        self.submits: list[Submit] = []
        self.allocations: list[Allocation] = []
        self._bindings = bindings
        self._function = ""
        self._blocks: list[CodeBlock] = []
        self._scopes: list[dict[str, _Parameters]] = [{}]

    def visit(self, node: Node) -> None:
        """Takes in `node` and everything in it."""
        match node.type:
            case "function_definition":
                self._visit_function(node)
            case "compound_statement":
                self._visit_compound(node)
            case "if_statement":
                self._visit_if(node)
            case "declaration":
                self._visit_declaration(node)
            case "expression_statement" | "return_statement":
                self._visit_expression(node, node, result=None)
            case _ if node.type in _LOOPS:
                with self._block(BlockKind.LOOP, node, node.child_by_field_name("body")):
                    self._visit_children(node)
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
        name = declared_name(declarator)
        if name == "PTO2_SCOPE":
            # The macro and its braces read as the definition of a function.
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
        for branch in (node.child_by_field_name("consequence"), node.child_by_field_name("alternative")):
            if branch is not None:
                with self._block(BlockKind.BRANCH, node, branch):
                    self.visit(branch)

    @contextmanager
    def _block(self, kind: BlockKind, node: Node, body: Node | None) -> Generator[None]:
        self._blocks.append(CodeBlock(kind=kind, span=span_of(node), body=span_of(body or node)))
        yield
        self._blocks.pop()

    def _visit_declaration(self, node: Node) -> None:
        type_name = text_of(node.child_by_field_name("type"))
        for declarator in node.children_by_field_name("declarator"):
            name = declared_name(declarator)
            value = declarator.child_by_field_name("value")
            if _PARAMETER_TYPES.search(type_name):
                parameters = _Parameters(span_of(node), len(self._blocks))
                self._scopes[-1][name] = parameters
                if value is not None and value.type == "initializer_list":
                    self._add_listed(parameters, value, node)
            elif value is not None:
                self._visit_expression(value, node, result=name)
            self._bindings.declare(node, declarator, tuple(self._blocks))

    def _add_listed(self, parameters: _Parameters, listed: Node, statement: Node) -> None:
        """Arguments of `PTOParam params[] = {make_input_param(a), ...}`, the dialect until March 2026."""
        for call in listed.named_children:
            _, function = callee(call)
            if function in _USAGE:
                self._add(parameters, _USAGE[function], call_arguments(call), statement)

    def _visit_expression(self, node: Node, statement: Node, *, result: str | None) -> None:
        """Takes in the calls and assignments within an expression, in source order."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            body = part.child_by_field_name("body")
            if part.type == "lambda_expression" and body is not None:
                with self._block(BlockKind.LAMBDA, part, body):
                    self.visit(body)
                continue
            if part.type == "assignment_expression":
                self._bindings.assign(statement, part)
            elif part.type == "call_expression":
                self._visit_call(part, statement, result)
            waiting.extend(reversed(part.named_children))

    def _visit_call(self, call: Node, statement: Node, result: str | None) -> None:
        target, function = callee(call)
        if target is not None:
            parameters = self._parameters(root_name(target))
            if parameters is not None:
                self._tell(parameters, function, call, statement)
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

    def _tell(self, parameters: _Parameters, method: str, call: Node, statement: Node) -> None:
        arguments = call_arguments(call)
        if method in _USAGE:
            self._add(parameters, _USAGE[method], arguments, statement)
        elif method == "dump":
            names = tuple(text_of(argument) for argument in arguments)
            parameters.dumps.append(DumpMarker(names=names, statement=span_of(statement)))
        else:
            parameters.others.append(span_of(statement))

    def _add(self, parameters: _Parameters, usage: Usage, expressions: list[Node], statement: Node) -> None:
        repeating = self._blocks[parameters.depth :]
        plain = not any(block.kind in (BlockKind.LOOP, BlockKind.BRANCH) for block in repeating)
        for expression in expressions:
            parameters.arguments.append(
                Argument(
                    usage=usage,
                    text=text_of(expression),
                    expression=span_of(expression),
                    statement=span_of(statement),
                    plain=plain,
                )
            )

    def _parameters(self, name: str) -> _Parameters | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _submit(
        self, call: Node, statement: Node, *, core: str | None, is_graph: bool, result: str | None
    ) -> None:
        arguments = [text_of(argument) for argument in call_arguments(call)]
        if arguments and arguments[0] == "rt":
            del arguments[0]
        kind, kernels = self._kernels(core, is_graph, arguments)
        name = next(
            (text for text in arguments if self._parameters(text)), arguments[-1] if arguments else ""
        )
        parameters = self._parameters(name)
        self.submits.append(
            Submit(
                kind=kind,
                kernels=kernels,
                parameters=name,
                declaration=parameters.declaration if parameters else None,
                arguments=tuple(parameters.arguments) if parameters else (),
                dumps=tuple(parameters.dumps) if parameters else (),
                other_statements=tuple(parameters.others) if parameters else (),
                result=result,
                function=self._function,
                blocks=tuple(self._blocks),
                statement=span_of(statement),
            )
        )

    def _kernels(
        self, core: str | None, is_graph: bool, arguments: list[str]
    ) -> tuple[SubmitKind, tuple[KernelReference, ...]]:
        """Kind of the submit and its kernels in slot order: cube, first vector core, second."""
        kernel = self._bindings.constants.kernel
        none = kernel("INVALID_KERNEL_ID")
        worker = arguments[1] if len(arguments) > 1 else ""
        if is_graph:
            return SubmitKind.GRAPH, ()
        if core == "dummy" or not arguments:
            return SubmitKind.DUMMY, ()
        # `pto2_rt_submit_task(rt, id, PTO2_WORKER_VECTOR, params, n)` until March 2026.
        if core == "aic" or worker == "PTO2_WORKER_CUBE":
            return SubmitKind.AIC, (kernel(arguments[0]), none, none)
        if core == "aiv" or worker == "PTO2_WORKER_VECTOR":
            return SubmitKind.AIV, (none, kernel(arguments[0]), none)
        mixed = arguments[0]
        inline = re.fullmatch(r"MixedKernels\s*\{(.*)\}", mixed, re.DOTALL)
        names = inline[1].split(",") if inline else self._bindings.array(mixed)
        kernels = tuple(kernel(name.strip()) for name in names if name.strip())
        return SubmitKind.MIXED, kernels or (KernelReference(mixed, None),)


def _scope_kind(spelled: str) -> BlockKind:
    return BlockKind.MANUAL_SCOPE if "MANUAL" in spelled else BlockKind.SCOPE


def _is_scope_guard(node: Node) -> bool:
    return node.type == "expression_statement" and text_of(node).startswith("PTO2_SCOPE_GUARD")

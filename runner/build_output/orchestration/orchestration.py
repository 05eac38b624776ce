"""Reads an orchestration source: which tasks it submits, with which arguments, in which loops and scopes.

The dialects of all eras are read. Task arguments are gathered in a `PTOParam`, `Arg`, `L0TaskArgs` or
`CoreTaskArgs` and submitted by `pto2_rt_submit_...` or `rt_submit_...`; external tensors come from `args[i]`,
`orch[i].to_tensor()`, `from_tensor_arg(orch_args.tensor(i))` or `orch_args.tensor(i).ref()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from tree_sitter import Node

from ..files.errors import MalformedFileError
from ..files.folder import Folder
from .bindings import Bindings
from .constants import Constants
from .cpp_syntax import Span, declared_name, descendants, parse_cpp, span_of, syntax_errors, text_of
from .model import Allocation, CreateInfo, Origin, ScalarBinding, Submit, TensorName
from .reader import OrchestrationReader

MOST_BYTES = 2 * 2**20
ENTRY_FUNCTION = "aicpu_orchestration_entry"


@dataclass(frozen=True)
class Number:
    """An integer in the source, and where it is spelled."""

    value: int
    span: Span


@dataclass(frozen=True, kw_only=True)
class Orchestration:
    """One orchestration source, everything in source order.

    Attributes:
        source: the text that all spans are places in.
        entry: body of the entry function with its braces, None if there is no such function.
        expected_arg_count: how many arguments, tensors and scalars, the runtime checks for.
        tensors: every name bound to a tensor; those of origin `ENTRY` are the arguments.
        syntax_errors: places the parser did not understand: what stands there is not listed.
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
        """Reads the source `relative` to the build's folder.

        Raises:
            BuildOutputError: it is missing, outside of the folder, too large, or nested too deeply.
        """
        source = folder.read(relative, expected="an orchestration source", limit=MOST_BYTES)
        try:
            return cls.parse(source, entry_function=entry_function)
        except RecursionError as error:
            raise MalformedFileError(
                path=folder.locate(relative), expected="an orchestration source", found="nesting too deep"
            ) from error

    @classmethod
    def parse(cls, source: bytes, *, entry_function: str = ENTRY_FUNCTION) -> Orchestration:
        """Reads the text `source`; `RecursionError` where blocks nest some hundred deep."""
        root = parse_cpp(source)
        constants = Constants.of(root)
        entry = _function(root, entry_function)
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
        """The orchestration's tensor arguments under their names."""
        return tuple(tensor for tensor in self.tensors if tensor.origin is Origin.ENTRY)

    def text(self, span: Span) -> str:
        """The source text at `span`."""
        return span.of(self.source)


def _function(root: Node, name: str) -> Node | None:
    definitions = (node for node in descendants(root) if node.type == "function_definition")
    return next((n for n in definitions if declared_name(n.child_by_field_name("declarator")) == name), None)


def _parameter_names(function: Node | None) -> frozenset[str]:
    if function is None:
        return frozenset()
    declarator = function.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    declared = parameters.named_children if parameters is not None else []
    return frozenset(declared_name(one.child_by_field_name("declarator")) for one in declared) - {""}


def _expected_arg_count(root: Node, constants: Constants) -> Number | None:
    for node in descendants(root):
        if node.type != "initializer_pair" or len(node.named_children) != 2:
            continue
        designator, value = node.named_children
        if text_of(designator) == ".expected_arg_count":
            number = constants.number(text_of(value))
            return None if number is None else Number(number, span_of(value))
    return None

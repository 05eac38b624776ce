"""The parts of an orchestration source, each with its exact place in the text so that it can be edited."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .cpp_syntax import Span


class Usage(Enum):
    """How a task is given an argument (`add_input` and so on)."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"
    NO_DEPENDENCY = "no_dep"
    SCALAR = "scalar"


class BlockKind(Enum):
    """What surrounds a statement; in a manual scope no dependencies are inferred.

    What stands in a lambda runs when that is called: any number of times, or never.
    """

    LOOP = "loop"
    LAMBDA = "lambda"
    BRANCH = "branch"
    SCOPE = "scope"
    MANUAL_SCOPE = "manual_scope"


class SubmitKind(Enum):
    """Which cores a task runs on. A dummy only orders others; a graph is a prepared set of tasks."""

    AIC = "aic"
    AIV = "aiv"
    MIXED = "mixed"
    DUMMY = "dummy"
    GRAPH = "graph"


class Origin(Enum):
    """Where a tensor's name comes from."""

    ENTRY = "an argument of the orchestration"
    ALLOCATED = "a batch of allocations"
    TASK_OUTPUT = "an output allocated for a task"
    VIEW = "a view of another tensor"
    ALIAS = "another name of a tensor"
    CREATED = "created in place"


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """A loop, branch or scope: the whole statement, and its body with its braces."""

    kind: BlockKind
    span: Span
    body: Span


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument handed to a task.

    `expression` is the tensor's, create info's or scalar's text, and `statement` the one that adds it. It is
    not `plain` where it stands in a loop or branch that the arguments' declaration is outside of: then it is
    added any number of times, or none.
    """

    usage: Usage
    text: str
    expression: Span
    statement: Span
    plain: bool


@dataclass(frozen=True, kw_only=True)
class DumpMarker:
    """`dump(a, b)`; without names, every argument of the task is dumped."""

    names: tuple[str, ...]
    statement: Span


@dataclass(frozen=True)
class KernelReference:
    """A kernel as the source names it; `func_id` is -1 for no kernel, None where the name is not resolved."""

    text: str
    func_id: int | None


@dataclass(frozen=True, kw_only=True)
class Submit:
    """One submit in the text; in a loop it stands for many tasks.

    Attributes:
        kernels: in slot order (cube, first vector core, second); empty for a dummy or graph.
        parameters: name of the variable that gathers the arguments.
        declaration: where that variable is declared; None where it comes from outside of the function, and
            then `arguments` are unknown and empty.
        arguments: as added: a task's argument index counts tensors first, then scalars.
        other_statements: the rest said to the variable: dependencies, block counts.
        result: variable that takes the task's outputs, if any.
        function: function whose body the submit stands in.
        blocks: what surrounds it, outermost first.
    """

    kind: SubmitKind
    kernels: tuple[KernelReference, ...]
    parameters: str
    declaration: Span | None
    arguments: tuple[Argument, ...]
    dumps: tuple[DumpMarker, ...]
    other_statements: tuple[Span, ...]
    result: str | None
    function: str
    blocks: tuple[CodeBlock, ...]
    statement: Span

    @property
    def tensor_arguments(self) -> tuple[Argument, ...]:
        """The arguments that are tensors: their order is the runtime's argument index."""
        return tuple(argument for argument in self.arguments if argument.usage is not Usage.SCALAR)

    @property
    def in_manual_scope(self) -> bool:
        """Whether the innermost scope is manual."""
        scopes = [b.kind for b in self.blocks if b.kind in (BlockKind.SCOPE, BlockKind.MANUAL_SCOPE)]
        return bool(scopes) and scopes[-1] is BlockKind.MANUAL_SCOPE


@dataclass(frozen=True, kw_only=True)
class CreateInfo:
    """Shape and type of a tensor to be allocated; the shape's extents are expressions, None if not found."""

    name: str
    shape: tuple[str, ...] | None
    dtype: str
    statement: Span


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """`alloc_tensors(infos...)`; `variable` takes the tensors, in order."""

    variable: str
    infos: tuple[str, ...]
    blocks: tuple[CodeBlock, ...]
    statement: Span


@dataclass(frozen=True, kw_only=True)
class TensorName:
    """A name bound to a tensor.

    `base` is the tensor viewed or renamed, or the variable whose `index`-th tensor this is. For an argument
    of the orchestration, `index` is its place among the tensors.
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
    """`orch_args.scalar(index)` and the variable, or member, it is read into."""

    name: str
    index: int
    statement: Span

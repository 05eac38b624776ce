"""A typed program, as the compiler prints it after one of its passes.

`dump_reader` makes an `IrProgram` of a dump's text; `execution` runs it. The nouns are the compiler's own:

- An `IrProgram` has `Function`s. Each has a role: orchestration, group, cube (AIC), vector (AIV), both (InCore).
- A function's body is a tuple of statements. A loop carries values from one iteration to the next. A `Yield` at the
  end of a body passes values on: to the next iteration, or out of the loop or branch as its results.
- A value is a tensor (in device memory), a tile (on the chip) or a scalar. A tile's type has its memory space, layout
  and valid shape. From the pass `InitMemRef` on it also has the location of its bytes (`MemoryReference`).

All classes are immutable. Two functions whose `text` is equal mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property


@dataclass(frozen=True)
class DumpLine:
    """A line of a dump file. Lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class MeaningError(Exception):
    """A dump cannot be read or executed. The message is one line that begins with the dump's file and line.

    With `contradicts`, the dump contradicts itself. So the dump is wrong, and not only unknown to this tool.
    """

    def __init__(self, place: DumpLine, problem: str, *, contradicts: bool = False) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
        self.contradicts = contradicts


class Kind(Enum):
    """The kind of number that the bits of an element encode."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"


class ElementType(Enum):
    """The type of an element: its name in the IR, kind, size in bits, and significant bits (0 if it is no float)."""

    FP64 = ("FP64", Kind.FLOAT, 64, 53)
    FP32 = ("FP32", Kind.FLOAT, 32, 24)
    FP16 = ("FP16", Kind.FLOAT, 16, 11)
    BFLOAT16 = ("BFLOAT16", Kind.FLOAT, 16, 8)
    FP8E4M3FN = ("FP8E4M3FN", Kind.FLOAT, 8, 4)
    FP8E5M2 = ("FP8E5M2", Kind.FLOAT, 8, 3)
    INT64 = ("INT64", Kind.SIGNED, 64, 0)
    INT32 = ("INT32", Kind.SIGNED, 32, 0)
    INT16 = ("INT16", Kind.SIGNED, 16, 0)
    INT8 = ("INT8", Kind.SIGNED, 8, 0)
    INT4 = ("INT4", Kind.SIGNED, 4, 0)
    UINT64 = ("UINT64", Kind.UNSIGNED, 64, 0)
    UINT32 = ("UINT32", Kind.UNSIGNED, 32, 0)
    UINT16 = ("UINT16", Kind.UNSIGNED, 16, 0)
    UINT8 = ("UINT8", Kind.UNSIGNED, 8, 0)
    UINT4 = ("UINT4", Kind.UNSIGNED, 4, 0)
    BOOL = ("BOOL", Kind.BOOL, 8, 0)
    INDEX = ("INDEX", Kind.SIGNED, 64, 0)
    TASK_ID = ("TASK_ID", Kind.UNSIGNED, 64, 0)

    def __init__(self, label: str, kind: Kind, bits: int, significant_bits: int) -> None:
        self.label = label
        self.kind = kind
        self.bits = bits
        self.significant_bits = significant_bits

    @property
    def is_float(self) -> bool:
        """Return whether it is a floating-point type."""
        return self.kind is Kind.FLOAT

    @property
    def unit_roundoff(self) -> float:
        """Return the largest relative error of rounding to nearest in the normal range; 0 for other types."""
        return 2.0**-self.significant_bits if self.is_float else 0.0


class MemorySpace(Enum):
    """The memory in which a tile's bytes lie."""

    DDR = "DDR"
    VEC = "Vec"
    MAT = "Mat"
    LEFT = "Left"
    RIGHT = "Right"
    ACC = "Acc"
    BIAS = "Bias"
    SCALAR_LOCAL = "ScalarLocal"


CAPACITIES_950: Mapping[MemorySpace, int] = {
    MemorySpace.VEC: 248 << 10,
    MemorySpace.MAT: 512 << 10,
    MemorySpace.LEFT: 64 << 10,
    MemorySpace.RIGHT: 64 << 10,
    MemorySpace.ACC: 256 << 10,
    MemorySpace.BIAS: 4 << 10,
}
"""This maps memory spaces to their bytes on the largest board, Ascend 950.

Callers pass another map for a smaller board."""

CAPACITIES_910B: Mapping[MemorySpace, int] = {
    **CAPACITIES_950,
    MemorySpace.VEC: 192 << 10,
    MemorySpace.ACC: 128 << 10,
    MemorySpace.BIAS: 1 << 10,
}
"""This maps memory spaces to their bytes on a smaller board, Ascend 910B."""


# Expressions


@dataclass(frozen=True)
class Variable:
    """A use of a variable."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A number, a truth value, a string or None. `dtype` is the type that the dump states, if any."""

    value: int | float | bool | str | None
    dtype: ElementType | None = None


@dataclass(frozen=True)
class NamedConstant:
    """A constant that the language names, such as `Mem.Vec`, `FP32` or `SplitMode.UP_DOWN`."""

    path: str

    @property
    def last(self) -> str:
        """Return the part of the path after its last dot."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Operator:
    """An operator on scalars. `symbol` is an operator of Python, or `min`, `max`, `abs` or `neg`."""

    symbol: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Cast:
    """A scalar that is converted to another type."""

    operand: Expression
    dtype: ElementType


@dataclass(frozen=True)
class ItemList:
    """A list or tuple of values."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True)
class Subscript:
    """One item of a list or tuple, or one element of a tensor. `index` counts from 0."""

    container: Expression
    index: Expression


@dataclass(frozen=True)
class Call:
    """A call of an operation such as `tile.add`. With `is_function`, a call of another function of the program."""

    name: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, Expression]
    is_function: bool = False


Expression = Variable | Constant | NamedConstant | Operator | Cast | ItemList | Subscript | Call


# Types


@dataclass(frozen=True)
class MemoryReference:
    """The bytes of a tile: `size` bytes that begin `offset` bytes after the start of the allocation `base`.

    After the pass that assigns addresses, the offset counts from the start of the memory space. Dumps from before April
    2026 state a memory space and an address. Then `base` is None, and `offset` is the address.
    """

    base: str | None
    offset: Expression
    size: int


@dataclass(frozen=True, kw_only=True)
class ArrayType:
    """A tensor or a tile. If the valid shape is None, the whole shape is valid."""

    shape: tuple[Expression, ...]
    dtype: ElementType
    valid_shape: tuple[Expression, ...] | None = None
    stride: tuple[Expression, ...] = ()
    layout: str = ""
    reference: MemoryReference | None = None


@dataclass(frozen=True, kw_only=True)
class TensorType(ArrayType):
    """A tensor in device memory. Its layout is `ND`, `DN` or `NZ`."""


@dataclass(frozen=True, kw_only=True)
class TileType(ArrayType):
    """A tile on the chip.

    In a fractal tile, `layout` orders the blocks and `inner_layout` the elements of a block. Otherwise `layout` orders
    the elements.
    """

    space: MemorySpace | None = None
    inner_layout: str = ""
    start_offset: Expression | None = None

    @property
    def is_fractal(self) -> bool:
        """Return whether the tile stores its elements block by block, not in plain row-major or column-major order."""
        return self.inner_layout not in ("", "none_box") or self.space in (
            MemorySpace.MAT,
            MemorySpace.LEFT,
            MemorySpace.RIGHT,
            MemorySpace.ACC,
        )


@dataclass(frozen=True)
class ScalarType:
    """One number."""

    dtype: ElementType


@dataclass(frozen=True)
class OtherType:
    """A type without elements to compute with, such as a pointer (`Ptr`), a tuple or a list."""

    text: str


Type = TensorType | TileType | ScalarType | OtherType


# Statements


@dataclass(frozen=True)
class Definition:
    """A variable that a statement defines. `type` is None if the dump states none."""

    name: str
    type: Type | None = None


@dataclass(frozen=True)
class Assign:
    """Assigns a value to a variable. With several targets, each gets one item of the value."""

    targets: tuple[Definition, ...]
    value: Expression
    place: DumpLine


@dataclass(frozen=True)
class Evaluate:
    """Evaluates an expression for its effect alone."""

    value: Expression
    place: DumpLine


@dataclass(frozen=True)
class Yield:
    """Ends the body of a loop or branch, and passes values on.

    In a loop, the values enter the next iteration. After the last iteration, they are the loop's results. In a branch,
    the values are its results.

    `targets` are the variables to which the results are assigned. They are empty if the dump names none.
    """

    targets: tuple[Definition, ...]
    values: tuple[Expression, ...]
    place: DumpLine


@dataclass(frozen=True)
class Return:
    """Ends a function. `values` are its results."""

    values: tuple[Expression, ...]
    place: DumpLine


@dataclass(frozen=True)
class For:
    """A counted loop. `kind` is `range`, `parallel`, `pipeline`, `unroll`, `spmd` or `split_aiv`.

    `carried` are the variables that carry values between iterations. `initial` are their values in the first one.
    """

    variable: str
    kind: str
    start: Expression
    stop: Expression
    step: Expression
    carried: tuple[str, ...]
    initial: tuple[Expression, ...]
    body: tuple[Statement, ...]
    place: DumpLine
    attributes: Mapping[str, Expression] = field(default_factory=dict[str, Expression])


@dataclass(frozen=True)
class While:
    """A loop whose condition is tested before each iteration. `carried` and `initial` are as in `For`."""

    condition: Expression
    carried: tuple[str, ...]
    initial: tuple[Expression, ...]
    body: tuple[Statement, ...]
    place: DumpLine


@dataclass(frozen=True)
class If:
    """A conditional with two alternatives. The second may be empty."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    place: DumpLine


@dataclass(frozen=True)
class Scope:
    """A `with` block of the IR. `kind` is `at`, `cluster`, `spmd`, `scope` or the like."""

    kind: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, Expression]
    body: tuple[Statement, ...]
    place: DumpLine
    task: str | None = None
    """The variable that holds the scope's task, if the dump names one."""


@dataclass(frozen=True)
class Jump:
    """`break` or `continue`."""

    word: str
    place: DumpLine


Statement = Assign | Evaluate | Yield | Return | For | While | If | Scope | Jump


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield each statement and those nested in it, in the order of the text. Outer statements come first."""
    for statement in statements:
        yield statement
        if isinstance(statement, (For, While, Scope)):
            yield from walk(statement.body)
        elif isinstance(statement, If):
            yield from walk(statement.then)
            yield from walk(statement.otherwise)


def calls(expression: Expression) -> Iterator[Call]:
    """Yield each call in an expression. Outer calls come first."""
    if isinstance(expression, Call):
        yield expression
        for operand in (*expression.operands, *expression.attributes.values()):
            yield from calls(operand)
    elif isinstance(expression, Operator):
        for operand in expression.operands:
            yield from calls(operand)
    elif isinstance(expression, ItemList):
        for element in expression.elements:
            yield from calls(element)
    elif isinstance(expression, Cast):
        yield from calls(expression.operand)
    elif isinstance(expression, Subscript):
        yield from calls(expression.container)
        yield from calls(expression.index)


# Functions


class ParameterDirection(Enum):
    """Says whether a function reads a parameter, writes it, or both."""

    IN = "In"
    OUT = "Out"
    IN_OUT = "InOut"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function."""

    name: str
    type: Type
    direction: ParameterDirection = ParameterDirection.IN


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of a dump. If it was not understood, its body is empty, and `problem` says why and where."""

    name: str
    role: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    attributes: Mapping[str, Expression]
    place: DumpLine
    problem: MeaningError | None = None

    @cached_property
    def called_names(self) -> frozenset[str]:
        """Return the names of the operations and functions that it calls."""
        return frozenset(call.name for statement in walk(self.body) for call in _calls_of(statement))


def _calls_of(statement: Statement) -> Iterator[Call]:
    match statement:
        case Assign() | Evaluate():
            yield from calls(statement.value)
        case Yield() | Return():
            for value in statement.values:
                yield from calls(value)
        case For():
            for value in (
                *(statement.start, statement.stop, statement.step),
                *statement.initial,
                *statement.attributes.values(),
            ):
                yield from calls(value)
        case While() | If():
            yield from calls(statement.condition)
        case Scope():
            for value in (*statement.operands, *statement.attributes.values()):
                yield from calls(value)
        case Jump():
            pass


@dataclass(frozen=True, kw_only=True)
class IrProgram:
    """The functions of one dump, by name. `dimensions` are the names of sizes that are known only when it runs."""

    name: str
    file: str
    functions: Mapping[str, Function]
    dimensions: frozenset[str] = frozenset()

    @property
    def entry(self) -> Function:
        """Return the function that a caller runs. Raises `MeaningError` if the program has no functions.

        Take the first of these groups that is not empty: orchestrations; uncalled functions that are not inlined; all
        functions. Return the last uncalled function of the group, or else its last function.
        """
        called = {name for function in self.functions.values() for name in function.called_names}
        orchestrations = [each for each in self.functions.values() if each.role == "Orchestration"]
        roots = [
            each for each in self.functions.values() if each.name not in called and each.role != "Inline"
        ]
        for candidates in (orchestrations, roots, list(self.functions.values())):
            outermost = [each for each in candidates if each.name not in called] or candidates
            if outermost:
                return outermost[-1]
        raise MeaningError(DumpLine(self.file, 1), "expected a function, found none")


_PASS_SUFFIX = r"(__(ssa|rv|iter|idx|co|phi)_v\d+|__tile|_\d+)"
"""A pass adds such a suffix to a variable's name."""
_ALL_SUFFIXES = re.compile(rf"{_PASS_SUFFIX}+$")
_LAST_SUFFIX = re.compile(rf"{_PASS_SUFFIX}$")


def source_name(name: str) -> str:
    """Return a variable's name without the suffixes that passes add: its name in the source of the case."""
    return _ALL_SUFFIXES.sub("", name) or name


def shorten_to_known(name: str, known: Container[str]) -> str | None:
    """Strip pass suffixes one at a time until the name is known; None if it never is.

    A known name may itself end like a pass suffix, so `source_name` would strip too much.
    """
    while name not in known:
        shorter = _LAST_SUFFIX.sub("", name)
        if shorter in ("", name):
            return None
        name = shorter
    return name

"""A typed program, as the compiler prints it after one of its passes.

`dump_reader` makes an `IrProgram` of a dump's text; `execution` runs it. The nouns are the compiler's own:

- An `IrProgram` has `Function`s. Each has a role: orchestration, group, cube (AIC), vector (AIV), both (InCore).
- A function's body is a tuple of statements. Loops and branches hand values on. A loop carries values from one
  iteration to the next. A `Yield` at the end of a body gives what the loop or the branch results in.
- A value is a tensor (in device memory), a tile (on the chip) or a scalar. A tile's type says its memory space, its
  layout, its valid shape, and from the pass `InitMemRef` on where its bytes lie (`MemoryReference`).

Everything is a frozen value. Two functions mean the same where their `text` is equal.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from hashlib import sha256


@dataclass(frozen=True)
class DumpLine:
    """A line of a dump."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class MeaningError(Exception):
    """A dump was not understood, or its execution failed: one line that begins with a place.

    Where it `contradicts` itself, the dump is wrong, and not only not understood.
    """

    def __init__(self, place: DumpLine, problem: str, *, contradicts: bool = False) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
        self.contradicts = contradicts


class Kind(Enum):
    """The kind of number that an element's bits are."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"


class ElementType(Enum):
    """An element's type: its name in the IR, its kind, its size in bits, and its significant bits if it is a float."""

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
    def rounding_unit(self) -> float:
        """Return the largest relative error of one rounding to nearest; 0 for what is no float."""
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


# Expressions


@dataclass(frozen=True)
class Name:
    """The value of a variable."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A number, a truth value, a string or nothing; `dtype` is the one that the dump states."""

    value: int | float | bool | str | None
    dtype: ElementType | None = None


@dataclass(frozen=True)
class Symbol:
    """A name of the language: `Mem.Vec`, `FP32`, `SplitMode.UP_DOWN`."""

    path: str

    @property
    def last(self) -> str:
        """Return the last of its names."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Operator:
    """An operator of scalars: `symbol` is Python's, or `min`, `max`, `abs`, `neg`."""

    symbol: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Cast:
    """A scalar in another type."""

    operand: Expression
    dtype: ElementType


@dataclass(frozen=True)
class Items:
    """A list or tuple of values."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True)
class Item:
    """One value of several, or an element of a tensor; `index` counts from 0."""

    of: Expression
    index: Expression


@dataclass(frozen=True)
class Call:
    """An operation (`tile.add`), or a call of another function of the program (`is_function`)."""

    name: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, Expression]
    is_function: bool = False


Expression = Name | Constant | Symbol | Operator | Cast | Items | Item | Call


# Types


@dataclass(frozen=True)
class MemoryReference:
    """The bytes of a tile: `size` bytes from `offset`, counted from the allocation `base`.

    From the pass that assigns addresses on, the offset counts from the beginning of the memory space. `base` is None
    in dumps from before April 2026, whose references name their space and an address.
    """

    base: str | None
    offset: Expression
    size: int


@dataclass(frozen=True, kw_only=True)
class ArrayType:
    """A tensor or a tile. None as the valid shape stands for the whole shape."""

    shape: tuple[Expression, ...]
    dtype: ElementType
    valid_shape: tuple[Expression, ...] | None = None
    stride: tuple[Expression, ...] = ()
    layout: str = ""
    reference: MemoryReference | None = None


@dataclass(frozen=True, kw_only=True)
class TensorType(ArrayType):
    """A tensor in device memory; its layout is `ND`, `DN` or `NZ`."""


@dataclass(frozen=True, kw_only=True)
class TileType(ArrayType):
    """A tile on the chip; its layout is that of its blocks, `inner_layout` that of the elements of a block."""

    space: MemorySpace | None = None
    inner_layout: str = ""
    start_offset: Expression | None = None

    @property
    def is_fractal(self) -> bool:
        """Its elements are ordered in blocks, not row by row."""
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
    """A pointer, a tuple, a list on the core: what carries no elements that operations compute with."""

    text: str


Type = TensorType | TileType | ScalarType | OtherType


# Statements


@dataclass(frozen=True)
class Definition:
    """A variable that a statement defines, with its type if the dump states one."""

    name: str
    type: Type | None = None


@dataclass(frozen=True)
class Assign:
    """Computes a value and names it; several targets take one element each."""

    targets: tuple[Definition, ...]
    value: Expression
    place: DumpLine


@dataclass(frozen=True)
class Evaluate:
    """Computes a value for its effect alone."""

    value: Expression
    place: DumpLine


@dataclass(frozen=True)
class Yield:
    """Hands values to the loop or branch whose body it ends."""

    targets: tuple[Definition, ...]
    values: tuple[Expression, ...]
    place: DumpLine


@dataclass(frozen=True)
class Return:
    """Ends a function with these values."""

    values: tuple[Expression, ...]
    place: DumpLine


@dataclass(frozen=True)
class For:
    """A counted loop; `kind` is `range`, `parallel`, `pipeline`, `unroll`, `spmd` or `split_aiv`."""

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
    """A loop with a condition that is asked before each iteration."""

    condition: Expression
    carried: tuple[str, ...]
    initial: tuple[Expression, ...]
    body: tuple[Statement, ...]
    place: DumpLine


@dataclass(frozen=True)
class If:
    """A branch."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    place: DumpLine


@dataclass(frozen=True)
class Scope:
    """Statements that belong together: `at`, `cluster`, `spmd`, `scope` and the like."""

    kind: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, Expression]
    body: tuple[Statement, ...]
    place: DumpLine
    task: str | None = None
    """The variable that names the scope's task."""


@dataclass(frozen=True)
class Jump:
    """`break` or `continue`."""

    word: str
    place: DumpLine


Statement = Assign | Evaluate | Yield | Return | For | While | If | Scope | Jump


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement, outer ones first, in the order of the text."""
    for statement in statements:
        yield statement
        if isinstance(statement, (For, While, Scope)):
            yield from walk(statement.body)
        elif isinstance(statement, If):
            yield from walk(statement.then)
            yield from walk(statement.otherwise)


def calls(expression: Expression) -> Iterator[Call]:
    """Every call in an expression, outer ones first."""
    if isinstance(expression, Call):
        yield expression
        for operand in (*expression.operands, *expression.attributes.values()):
            yield from calls(operand)
    elif isinstance(expression, Operator):
        for operand in expression.operands:
            yield from calls(operand)
    elif isinstance(expression, Items):
        for element in expression.elements:
            yield from calls(element)
    elif isinstance(expression, Cast):
        yield from calls(expression.operand)
    elif isinstance(expression, Item):
        yield from calls(expression.of)
        yield from calls(expression.index)


# Functions


class ParameterDirection(Enum):
    """Whether a function reads a parameter, writes it, or both."""

    IN = "In"
    OUT = "Out"
    IN_OUT = "InOut"


@dataclass(frozen=True)
class Parameter:
    """A parameter with its type and direction."""

    name: str
    type: Type
    direction: ParameterDirection = ParameterDirection.IN


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function, or the reason why it was not understood: then its body is empty, and `problem` says where."""

    name: str
    role: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    attributes: Mapping[str, Expression]
    text: str
    place: DumpLine
    problem: MeaningError | None = None

    @cached_property
    def operations(self) -> frozenset[str]:
        """Return the names of all operations and functions that it calls."""
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
    """The functions of one dump, by name; `dimensions` are names of sizes that are known only when it runs."""

    name: str
    file: str
    functions: Mapping[str, Function]
    dimensions: frozenset[str] = frozenset()

    @property
    def entry(self) -> Function:
        """Return the function that a caller runs: the orchestration, or the only one that no other calls."""
        called = {name for function in self.functions.values() for name in function.operations}
        orchestrations = [each for each in self.functions.values() if each.role == "Orchestration"]
        roots = [
            each for each in self.functions.values() if each.name not in called and each.role != "Inline"
        ]
        for candidates in (orchestrations, roots, list(self.functions.values())):
            outermost = [each for each in candidates if each.name not in called] or candidates
            if outermost:
                return outermost[-1]
        raise MeaningError(DumpLine(self.file, 1), "expected a function, found none")

    @cached_property
    def content(self) -> str:
        """Return a hash of the functions' texts, which is equal for two programs that mean the same."""
        digest = sha256()
        for name in sorted(self.functions):
            digest.update(self.functions[name].text.encode())
        return digest.hexdigest()


_ADDED = r"(__(ssa|rv|iter|idx|co|phi)_v\d+|__tile|_\d+)"
_SUFFIX, _LAST_SUFFIX = re.compile(rf"{_ADDED}+$"), re.compile(rf"{_ADDED}$")
"""The suffixes that passes add to a variable's name, and the last of them."""


def source_name(name: str) -> str:
    """A variable's name in the case, without what passes add."""
    return _SUFFIX.sub("", name) or name


def shorten_to_known(name: str, names: Container[str]) -> str | None:
    """The one of `names` that a variable has in the case: a case's own name may end like what passes add."""
    while name not in names:
        shorter = _LAST_SUFFIX.sub("", name)
        if shorter in ("", name):
            return None
        name = shorter
    return name

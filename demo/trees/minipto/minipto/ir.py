"""The intermediate representation: one set of node types from the front end to code generation.

A program is a tree of statements. The front end makes `Op` and `Loop`; fusion gathers operations into `Stage`s
(one kernel each); tiling adds loops; scope placement turns bodies into `Scope`s and stages into `Task`s.
Every tensor is a matrix [rows, columns], written by one operation or stage per loop iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .index import Index
from .types import ArgDirection, Core, DType, Role, RoundMode, Tail

Shape = tuple[int, int]


@dataclass(frozen=True)
class Tensor:
    """A matrix. `buffer` names the tensor whose storage it lives in: itself, unless memory reuse moved it."""

    name: str
    shape: Shape
    dtype: DType
    role: Role
    buffer: str = ""

    @property
    def storage(self) -> str:
        """The name of the tensor whose storage this one uses."""
        return self.buffer or self.name


@dataclass(frozen=True)
class Region:
    """A rectangle of a tensor, `shape` elements from `origin` on; `transposed` swaps its two axes for the reader.

    `origin` is in the tensor's own coordinates, `shape` is what the reader sees.
    """

    tensor: Tensor
    origin: tuple[Index, Index]
    shape: Shape
    transposed: bool = False

    @staticmethod
    def whole(tensor: Tensor) -> Region:
        """All of a tensor."""
        return Region(tensor=tensor, origin=(Index(), Index()), shape=tensor.shape)

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def columns(self) -> int:
        return self.shape[1]

    @property
    def stored_shape(self) -> Shape:
        """The shape in the tensor's own coordinates."""
        return (self.columns, self.rows) if self.transposed else self.shape

    @property
    def is_whole(self) -> bool:
        """Whether it covers its tensor."""
        return self.stored_shape == self.tensor.shape and all(start.is_zero for start in self.origin)

    @property
    def T(self) -> Region:  # noqa: N802 - the name that numpy and torch use
        """The same elements with the axes swapped."""
        return replace(self, shape=(self.columns, self.rows), transposed=not self.transposed)

    def view(self, shape: Shape, start: tuple[Index | int, Index | int]) -> Region:
        """`shape` elements of this region from `start` on, both as the reader sees them."""
        row, column = Index.of(start[0]), Index.of(start[1])
        if self.transposed:
            row, column = column, row
        return replace(self, origin=(self.origin[0] + row, self.origin[1] + column), shape=shape)

    def on(self, tensor: Tensor) -> Region:
        """The same rectangle of another tensor."""
        return replace(self, tensor=tensor)


@dataclass(frozen=True)
class Scalar:
    """A number that an operation takes: a parameter of the program (with a name), or a constant (with a value)."""

    name: str = ""
    value: float = 0.0

    def __str__(self) -> str:
        return self.name or f"{self.value:.9g}"


Operand = Region | Scalar


@dataclass(frozen=True)
class Op:
    """One operation on whole regions. `round_mode` belongs to casts, `accumulate` to matrix products."""

    kind: str
    inputs: tuple[Operand, ...]
    output: Region
    round_mode: RoundMode | None = None
    accumulate: bool = False

    @property
    def regions_read(self) -> tuple[Region, ...]:
        """Its tensor operands, with the output where it adds to what is there."""
        operands = tuple(operand for operand in self.inputs if isinstance(operand, Region))
        return (*operands, self.output) if self.accumulate else operands

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(operand for operand in self.inputs if isinstance(operand, Scalar))


@dataclass(frozen=True)
class Stage:
    """Operations that one kernel does in one go. `reads` and `writes` are what it exchanges with other stages."""

    name: str
    core: Core
    ops: tuple[Op, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    tail: Tail | None = None  # reductions only, known after tiling

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """Its scalar arguments, in the order of use."""
        return tuple(dict.fromkeys(scalar for op in self.ops for scalar in op.scalars))

    @property
    def rows(self) -> int:
        return max(region.rows for region in (*self.reads, *self.writes))

    def map_regions(self, change: Callable[[Region], Region]) -> Stage:
        """The same stage with every region replaced by `change(region)`."""
        ops = tuple(
            replace(
                op,
                inputs=tuple(change(x) if isinstance(x, Region) else x for x in op.inputs),
                output=change(op.output),
            )
            for op in self.ops
        )
        return replace(
            self, ops=ops, reads=tuple(map(change, self.reads)), writes=tuple(map(change, self.writes))
        )


@dataclass(frozen=True)
class Loop:
    """`body` for `variable` = start, start + step, ... below `stop`."""

    variable: str
    start: int
    stop: int
    step: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Argument:
    """A tensor argument of a task."""

    region: Region
    direction: ArgDirection


@dataclass(frozen=True)
class Place:
    """The bytes of a region's tile in one of a core's memories."""

    region: Region
    memory: str
    offset: int
    size: int


@dataclass(frozen=True)
class Task:
    """One submission of a stage's kernel. Memory planning gives its tiles their places."""

    stage: Stage
    arguments: tuple[Argument, ...]
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Scope:
    """A lifetime: the buffers of `allocations` live while `body` runs."""

    allocations: tuple[Tensor, ...]
    body: tuple[Statement, ...]


Statement = Op | Stage | Loop | Task | Scope


@dataclass(frozen=True)
class Program:
    """A named entry: parameters in signature order, and what it does."""

    name: str
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    body: tuple[Statement, ...]


def leaves(body: tuple[Statement, ...]) -> Iterator[Op | Stage | Task]:
    """The operations, stages and tasks of a body and of what is nested in it, in program order."""
    for statement in body:
        if isinstance(statement, Loop | Scope):
            yield from leaves(statement.body)
        else:
            yield statement


def stages(body: tuple[Statement, ...]) -> Iterator[Stage]:
    """The stages among the leaves, those of tasks too."""
    for leaf in leaves(body):
        if isinstance(leaf, Task):
            yield leaf.stage
        elif isinstance(leaf, Stage):
            yield leaf


def rewrite_bodies(
    body: tuple[Statement, ...], rewrite: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]
) -> tuple[Statement, ...]:
    """Apply `rewrite` to every body, inner ones first."""
    inner = tuple(
        replace(statement, body=rewrite_bodies(statement.body, rewrite))
        if isinstance(statement, Loop | Scope)
        else statement
        for statement in body
    )
    return rewrite(inner)

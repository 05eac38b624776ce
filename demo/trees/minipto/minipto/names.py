"""Fresh names for what passes add to a program."""

from __future__ import annotations

import keyword

from .ir import Loop, Op, Program, Scope, Stage, Statement, Task
from .types import CompileError

_CPP_KEYWORDS = """
    alignas alignof asm auto bool case catch char const constexpr const_cast decltype default delete do double
    dynamic_cast enum explicit export extern float friend goto inline int long mutable namespace new noexcept
    nullptr operator private protected public register reinterpret_cast requires short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw typedef typeid typename union
    unsigned using virtual void volatile wchar_t
"""
# What generated kernels and orchestrations call their own variables.
_GENERATED = """
    args row column rows columns lane lanes first valid accumulator inner factor offset products left_tile
    right_tile orch_args
"""
_RESERVED = frozenset([*_CPP_KEYWORDS.split(), *_GENERATED.split(), *keyword.kwlist])
_GENERATED_PREFIXES = ("ext_", "alloc_", "params_t", "scalar_")
_GENERATED_SUFFIXES = ("_ci", "_value")


def check_name(name: str) -> None:
    """Raise CompileError unless generated C++ can use `name` as it is."""
    taken = name in _RESERVED
    generated = name.startswith(_GENERATED_PREFIXES) or name.endswith(_GENERATED_SUFFIXES)
    if not (name.isascii() and name.isidentifier()) or taken or generated:
        raise CompileError(f"{name!r} cannot name a tensor, scalar or loop: generated code could not use it")


def _names_in(body: tuple[Statement, ...]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        match statement:
            case Loop():
                found |= {statement.variable} | _names_in(statement.body)
            case Scope():
                found |= {tensor.name for tensor in statement.allocations} | _names_in(statement.body)
            case Op():
                found.add(statement.output.tensor.name)
            case Stage():
                found |= {statement.name} | {op.output.tensor.name for op in statement.ops}
            case Task():
                found |= _names_in((statement.stage,))
    return found


class FreshNames:
    """Hands out names that nothing in the program has yet."""

    def __init__(self, program: Program) -> None:
        self._taken = _names_in(program.body)
        self._taken |= {tensor.name for tensor in program.tensors}
        self._taken |= {scalar.name for scalar in program.scalars}

    def __call__(self, wanted: str) -> str:
        """`wanted`, or `wanted_2`, `wanted_3`, ... if it is taken."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name

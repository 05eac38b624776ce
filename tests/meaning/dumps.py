"""Small dumps, written by hand as the compiler prints them."""

from __future__ import annotations

from precision_bisect.meaning.dump_reader import read_program
from precision_bisect.meaning.ir import IrProgram

FLOATS = "pl.FP32"


def tensor(*shape: int, dtype: str = "FP32") -> str:
    return f"pl.Tensor[{list(shape)}, pl.{dtype}]"


def tile(
    *shape: int,
    dtype: str = "FP32",
    at: tuple[str, int, int] | None = None,
    space: str = "Vec",
    view: str = "",
) -> str:
    reference = "" if at is None else f", pl.MemRef({at[0]}, pl.const({at[1]}, pl.INT64), {at[2]})"
    return f"pl.Tile[{list(shape)}, pl.{dtype}{reference}, pl.Mem.{space}{view}]"


def kernel(
    parameters: str, *statements: str, role: str = "AIV", name: str = "kernel", attributes: str = ""
) -> str:
    """One function; statements carry their own inner indent."""
    body = "\n".join(f"        {line}" for statement in statements for line in statement.splitlines())
    return (
        f"    @pl.function(type=pl.FunctionType.{role}{attributes})\n"
        f"    def {name}(self, {parameters}):\n{body}\n"
    )


def dump(*functions: str, header: str = "") -> str:
    """A program of functions."""
    return (
        "# pypto.program: Case\nimport pypto.language as pl\n\n"
        + header
        + "@pl.program\nclass Case:\n"
        + "\n".join(functions)
    )


def program(*functions: str, header: str = "") -> IrProgram:
    """The program of these functions, each of which must be understood."""
    found = read_program(dump(*functions, header=header), "case.py")
    for function in found.functions.values():
        if function.problem is not None:
            raise function.problem
    return found


def load(name: str, shape: list[int], offsets: list[int] | None = None) -> str:
    return f"pl.tile.load({name}, {offsets or [0] * len(shape)}, {shape}, {shape}, target_memory=pl.Mem.Vec)"

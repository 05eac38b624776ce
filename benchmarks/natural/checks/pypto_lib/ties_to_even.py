"""Each golden of pypto-lib's models rounds to bfloat16 as the kernels do: ties to even, by the cast of PyTorch."""

import ast
from pathlib import Path

FOLDER = Path("models")
HALF, UPPER = 0x8000, ~0xFFFF


def holds() -> bool | None:
    """None where there are no models."""
    paths = sorted(FOLDER.rglob("*.py"))
    wrong = [
        f"{path}:{line}" for path in paths for line in ties_away(ast.parse(path.read_text(encoding="utf-8")))
    ]
    print("\n".join(wrong))
    return not wrong if paths else None


def ties_away(module: ast.Module) -> list[int]:
    """The lines in which half a unit is added to the bits of a float and the rest cut off, ties away from zero."""
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitAnd)
        and isinstance(node.left, ast.BinOp)
        and isinstance(node.left.op, ast.Add)
        and (number(node.left.right), number(node.right)) == (HALF, UPPER)
    ]


def number(node: ast.expr) -> object:
    """What is written there, where that is a constant."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None

"""The bias of pypto-lib's sliding window attention has room for the overlay, where the kernel reads one.

A kernel that reads the tokens of the overlay from a tensor of their own gives them the block behind the window's.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from pathlib import Path

KERNEL = Path("models/deepseek/v4/decode_sparse_attn_swa.py")
OVERLAY = "mtp_kv_overlay[0 : ATTN_K_TILE"
TILE, BLOCKS = "ATTN_K_TILE", "SPARSE_BLOCKS"
COMBINED: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def holds() -> bool | None:
    """None where there is no such kernel, or its blocks are not told by numbers of the file."""
    if not KERNEL.exists():
        return None
    text = KERNEL.read_text(encoding="utf-8")
    known = {"WIN": 128, "TOPK": 128}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in (TILE, BLOCKS):
            known[ast.unparse(statement.targets[0])] = number(statement.value, known)
    if not known.keys() >= {TILE, BLOCKS}:
        return None
    blocks = 2 if OVERLAY in text else 1
    print(f"{known[BLOCKS]} blocks, of which the kernel reads {blocks}")
    return known[BLOCKS] >= blocks


def number(node: ast.expr, known: Mapping[str, int]) -> int:
    """What is worked out there, of numbers, known names and `max`. Raises ValueError where it is anything else."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMBINED:
            return COMBINED[type(op)](number(left, known), number(right, known))
        case ast.Call(func=ast.Name(id="max"), args=args):
            return max(number(each, known) for each in args)
        case _:
            raise ValueError(f"expected numbers and names that are known, found {ast.unparse(node)}")

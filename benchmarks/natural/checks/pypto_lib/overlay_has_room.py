"""The bias of pypto-lib's sliding window attention has room for the overlay, where the kernel reads one.

A kernel that reads the tokens of the overlay from a tensor of their own gives them the block behind the window's.
"""

import ast
from pathlib import Path

KERNEL = Path("models/deepseek/v4/decode_sparse_attn_swa.py")
OVERLAY = "mtp_kv_overlay[0 : ATTN_K_TILE"


def holds() -> bool | None:
    """None where there is no such kernel, or its blocks are not told by numbers of the file."""
    if not KERNEL.exists():
        return None
    text = KERNEL.read_text(encoding="utf-8")
    known = {"WIN": 128, "TOPK": 128}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in (
            "ATTN_K_TILE",
            "SPARSE_BLOCKS",
        ):
            value = compile(ast.Expression(statement.value), str(KERNEL), "eval")
            known[ast.unparse(statement.targets[0])] = eval(value, {"max": max}, known)
    if not known.keys() >= {"ATTN_K_TILE", "SPARSE_BLOCKS"}:
        return None
    blocks = 2 if OVERLAY in text else 1
    print(f"{known['SPARSE_BLOCKS']} blocks, of which the kernel reads {blocks}")
    return known["SPARSE_BLOCKS"] >= blocks

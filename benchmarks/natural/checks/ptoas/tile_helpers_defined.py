"""The helpers that PTOAS's verifier of operations checks tiles with are those that it has."""

import re
from pathlib import Path

VERIFIER = Path("lib/PTO/IR/PTO.cpp")


def holds() -> bool | None:
    """None where there is no verifier, or it calls no helper."""
    if not VERIFIER.exists():
        return None
    text = VERIFIER.read_text(encoding="utf-8")
    defined = set(re.findall(r"\bLogicalResult\s+(verifyTileBuf\w*)\s*\(", text))
    called = set(re.findall(r"(?<!LogicalResult )\b(verifyTileBuf\w*)\s*\(", text))
    for helper in sorted(called - defined):
        print(f"not defined: {helper}")
    return called <= defined if called else None

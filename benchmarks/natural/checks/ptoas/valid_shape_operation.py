"""The dialect of PTOAS has the operation `pto.set_validshape`."""

from pathlib import Path

OPERATIONS = Path("include/PTO/IR/PTOOps.td")


def holds() -> bool | None:
    """None where there is no table of operations."""
    return '"set_validshape"' in OPERATIONS.read_text(encoding="utf-8") if OPERATIONS.exists() else None

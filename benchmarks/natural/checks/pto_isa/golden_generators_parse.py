"""Each script that makes golden data for a test of pto-isa's simulator is valid Python."""

import ast
from pathlib import Path

CASES = Path("tests/cpu/st/testcase")


def holds() -> bool | None:
    """None where there is none."""
    scripts = sorted(CASES.glob("*/gen_data.py"))
    broken = 0
    for script in scripts:
        try:
            ast.parse(script.read_text(encoding="utf-8"))
        except SyntaxError as problem:
            print(f"{script}: {problem}")
            broken += 1
    return not broken if scripts else None

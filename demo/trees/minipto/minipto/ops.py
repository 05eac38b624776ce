"""The operations: their C++ in a vector kernel, and what shape rules they follow."""

from __future__ import annotations

# Lane by lane; {0}, {1} are the operands as binary32.
ELEMENTWISE: dict[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "exp": "exp_f32({0})",
    "log": "log_f32({0})",
    "abs": "abs_f32({0})",
    "sqrt": "sqrt_f32({0})",
    "cast": "",  # lowered by codegen/casts.py, as it depends on the types
}

# Along a row, to one column: the value to start from, and the step that takes in one more lane.
REDUCTIONS: dict[str, tuple[str, str]] = {
    "row_sum": ("0.0f", "accumulator + lanes[lane]"),
    "row_max": ("-__builtin_inff()", "accumulator > lanes[lane] ? accumulator : lanes[lane]"),
}

MATMUL = "matmul"

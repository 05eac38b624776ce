"""Harmless commits of the compiler's history: code that is really there and changes no result."""

import random

from .edit import Tree, TreeEdit, Write, append
from .growth import Recipe
from .python_edits import Frozen, drop_log, log_entry, rename_local

_OPS = (
    "add",
    "cast",
    "copy",
    "exp",
    "gather",
    "matmul",
    "mul",
    "reduce_max",
    "reduce_sum",
    "rsqrt",
    "select",
    "sub",
)

_HELPERS = {
    "ceil_div": ("a: int, b: int", "int", "a / b, rounded up.", "-(-a // b)"),
    "round_up": (
        "value: int, step: int",
        "int",
        "The least multiple of step that is not below value.",
        "-(-value // step) * step",
    ),
    "round_down": (
        "value: int, step: int",
        "int",
        "The largest multiple of step that is not above value.",
        "value // step * step",
    ),
    "is_power_of_two": (
        "value: int",
        "bool",
        "Whether value is 1, 2, 4, 8 and so on.",
        "value > 0 and value & (value - 1) == 0",
    ),
    "clamp": (
        "value: int, low: int, high: int",
        "int",
        "The nearest number to value inside [low, high].",
        "max(low, min(value, high))",
    ),
    "log2_floor": (
        "value: int",
        "int",
        "Exponent of the largest power of two not above value.",
        "value.bit_length() - 1",
    ),
    "tail": ("value: int, step: int", "int", "What is left of value after whole steps.", "value % step"),
    "is_aligned": (
        "value: int, step: int",
        "bool",
        "Whether step divides value.",
        "value % step == 0",
    ),
    "bits_to_bytes": ("bits: int", "int", "Whole bytes that hold so many bits.", "(bits + 7) // 8"),
    "kibibytes": ("size: int", "str", "A size in bytes for people.", 'f"{size / 1024:.1f} KiB"'),
}


def add_helper(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds a function of integer arithmetic; None where all are there."""
    path = "minipto/integers.py"
    text = tree.get(path, '"""Small integer arithmetic for tiles and addresses."""\n')
    fresh = [name for name in sorted(_HELPERS) if f"def {name}(" not in text]
    if not fresh:
        return None
    name = rng.choice(fresh)
    parameters, result, says, expression = _HELPERS[name]
    body = f'\n\ndef {name}({parameters}) -> {result}:\n    """{says}"""\n    return {expression}\n'
    return TreeEdit(f"Add: {name} helper", (Write(path, text + body),))


def add_statistic(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds a statistic of one operation to the pass listing; None where all are there."""
    path = "minipto/pass_statistics.py"
    text = tree.get(path, '"""Numbers that a pass listing is summed up with."""\n')
    fresh = [op for op in _OPS if f"def count_{op}(" not in text]
    if not fresh:
        return None
    op = rng.choice(fresh)
    body = (
        f'\n\ndef count_{op}(listing: str) -> int:\n    """How many {op} operations the listing holds."""\n'
        f'    return sum("{op}(" in line for line in listing.splitlines())\n'
    )
    return TreeEdit(f"Add: count of {op} among the pass statistics", (Write(path, text + body),))


def add_cost(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds the measured cycles of one tile."""
    op, platform = rng.choice(_OPS), rng.choice(("a2a3", "a5"))
    rows, columns = 8 * rng.randint(1, 32), 16 * rng.randint(1, 32)
    path = f"minipto/costs/{op}.py"
    head = f'"""Measured cycles of one {op} tile: platform, rows, columns."""\n\nCYCLES = {{}}\n'
    entry = f'CYCLES["{platform}", {rows}, {columns}] = {rng.randint(60, 9000)}\n'
    subject = f"Update: cost of {op} at {rows}x{columns} on {platform}"
    return TreeEdit(subject, (append(tree, path, entry, head=head),))


def add_test(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """A test of the tiling arithmetic with numbers of its own, in one of several files."""
    op, size, step = rng.choice(_OPS), rng.randint(1, 999), 8 * rng.randint(1, 16)
    path = f"tests/test_tiles_of_{op}.py"
    name = f"test_{size}_columns_in_tiles_of_{step}"
    if name in tree.get(path, ""):
        return None
    head = f'"""Tile counts that went wrong for {op} once."""\n'
    body = f"\n\ndef {name}() -> None:\n    assert -(-{size} // {step}) == {-(-size // step)}\n"
    return TreeEdit(
        f"Test: {op} over {size} columns in tiles of {step}", (append(tree, path, body, head=head),)
    )


CODE: tuple[Recipe, ...] = (rename_local, log_entry, drop_log, add_helper, add_statistic, add_cost)

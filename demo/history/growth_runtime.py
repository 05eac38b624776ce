"""Harmless commits of the runtime's history: code that is really there and changes no result."""

import random

from .edit import Tree, TreeEdit, Write, append
from .growth import Recipe
from .python_edits import Frozen, drop_log, log_entry, rename_local

_HELPERS = {
    "align_up": ("uint64_t value, uint64_t step", "uint64_t", "(value + step - 1) / step * step"),
    "align_down": ("uint64_t value, uint64_t step", "uint64_t", "value / step * step"),
    "is_power_of_two": ("uint64_t value", "bool", "value != 0 && (value & (value - 1)) == 0"),
    "low_word": ("uint64_t value", "uint32_t", "static_cast<uint32_t>(value)"),
    "high_word": ("uint64_t value", "uint32_t", "static_cast<uint32_t>(value >> 32)"),
    "ring_of": ("uint64_t task_id", "uint32_t", "static_cast<uint32_t>(task_id >> 32)"),
    "saturating_sub": ("uint64_t a, uint64_t b", "uint64_t", "a < b ? 0 : a - b"),
    "ceil_div": ("uint64_t a, uint64_t b", "uint64_t", "(a + b - 1) / b"),
}
_QUEUES = ("ready", "done", "dump", "submit", "wakeup", "free")


def add_helper(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds a C++ function of integer arithmetic; None where all are there."""
    path = "include/pto_integers.h"
    head = "// Small integer arithmetic for addresses and task ids.\n#pragma once\n\n#include <cstdint>\n"
    text = tree.get(path, head)
    fresh = [name for name in sorted(_HELPERS) if f" {name}(" not in text]
    if not fresh:
        return None
    name = rng.choice(fresh)
    parameters, result, expression = _HELPERS[name]
    body = f"\nconstexpr {result} {name}({parameters}) {{ return {expression}; }}\n"
    return TreeEdit(f"Add: {name} helper", (Write(path, text + body),))


def tune_queue(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Sets the depth of a queue for one number of workers."""
    queue, workers, depth = rng.choice(_QUEUES), rng.randint(1, 128), 2 ** rng.randint(3, 12)
    path = f"src/queues/{queue}.inc"
    head = f"// Depth of the {queue} queue: {{workers, entries}}; the last line for a count holds.\n"
    entry = f"{{{workers}, {depth}}},\n"
    return TreeEdit(f"Update: {queue} queue of {workers} workers", (append(tree, path, entry, head=head),))


def add_test(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """A region for the overlap tests, in one of several tables."""
    rows, columns = rng.randint(1, 64), rng.randint(1, 256)
    stride, start = columns + rng.randint(0, 64), rng.randint(0, 4096)
    path = f"tests/regions/{rng.choice(('aligned', 'interleaved', 'nested', 'disjoint'))}.csv"
    entry = f"{start},{rows},{columns},{stride}\n"
    return TreeEdit(
        f"Test: overlap of a {rows}x{columns} region",
        (append(tree, path, entry, head="start,rows,columns,stride\n"),),
    )


CODE: tuple[Recipe, ...] = (rename_local, log_entry, drop_log, add_helper, tune_queue, tune_queue)

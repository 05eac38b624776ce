"""Changes that no case fails for and that nothing may be blamed for: legal rounding, and code that has no effect."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from ..fault import Ending, Kind, in_a_kernel, storing
from ..sources import substituted

_ADD = r"(?P<total>products\[row \* \d+ \+ column\]) \+= factor \* static_cast<float>\((?P<right>.*)\);"
Edit = Callable[[str, random.Random], str]


def _one(pattern: str, new: str) -> Edit:
    return lambda text, rng: substituted(pattern, new, text, rng)


EDITS: Mapping[str, Edit] = {
    "fma": _one(_ADD, r"\g<total> = __builtin_fmaf(factor, \g<right>, \g<total>);"),
    "sum from the last": _one(
        r"accumulator = accumulator \+ lanes\[lane\];",
        r"accumulator = accumulator + lanes[valid - 1 - lane];",
    ),
    "depth from the last": _one(
        r"(inner = 0; inner < (\w+\.shape\[1\]); \+\+inner\) \{)",
        r"\1\n            const uint32_t from_last = \2 - 1 - inner;",
    ),
    "times the reciprocal": _one(r"= (\w+) / (\w+);", r"= \1 * (1.0f / \2);"),
    "exp by exp2": _one(r"exp_f32\((\w+)\)", r"__builtin_exp2f(\1 * 1.44269504f)"),
    "half an ulp": storing("{value} * (row % 2 == 0 ? 1.00000006f : 1.0f)"),
}


def _reversed_depth(text: str, rng: random.Random) -> str:
    text = EDITS["depth from the last"](text, rng)
    text = substituted(r"left_tile\[row \* (\d+) \+ inner\]", r"left_tile[row * \1 + from_last]", text, rng)
    return substituted(r"right_tile\[inner \* ", "right_tile[from_last * ", text, rng)


DEAD: Mapping[str, Edit] = {
    "behind a condition": storing("(row > 100000u ? 7.0f : {value})"),
    "masked": storing("({value} < -5000.0f ? 2.0f * {value} : {value})"),
    "maximum starts lower": _one(r"accumulator = -__builtin_inff\(\);", "accumulator = -3.0e38f;"),
    "peak a little higher": _one(
        r"(store_f32\(peak, element_offset\(peak, row, 0\), )accumulator", r"\1accumulator + 0.0625f"
    ),
}

ROUNDING: Mapping[str, Edit] = {**EDITS, "depth from the last": _reversed_depth}

KINDS: Mapping[str, Kind] = {
    name: in_a_kernel(edit, ending=Ending.PASS) for name, edit in {**ROUNDING, **DEAD}.items()
}

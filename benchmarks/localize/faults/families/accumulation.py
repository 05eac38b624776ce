"""Reductions and products that add up something else."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from ..fault import Kind, in_a_kernel
from ..sources import InapplicableError, replaced, substituted

_ADD = r"(?P<total>products\[row \* \d+ \+ column\]) \+= (?P<term>factor \* static_cast<float>\(.*\));"
_FACTOR = r"(= )(static_cast<\w+>\(left_tile\[.*\]\));"
_DEPTH = r"inner < (?P<depth>\w+\.shape\[1\]);"
Edit = Callable[[str, random.Random], str]


def _not_reset(text: str, rng: random.Random) -> str:
    found = re.search(r"    float accumulator = .*;\n", text)
    if found is None:
        raise InapplicableError
    text = text.replace(found[0], "", 1)
    return replaced(text, "    for (uint32_t row = 0;", found[0].lstrip(" ") + "    for (uint32_t row = 0;")


def _stale_lanes(text: str, rng: random.Random) -> str:
    return replaced(text, "lane < valid;", "lane < 64;")


def _uninitialised_lanes(text: str, rng: random.Random) -> str:
    return replaced(
        _stale_lanes(text, rng),
        "float lanes[64] = {};",
        "volatile float seed = 3.0f; float lanes[64]; for (float& lane : lanes) lane = seed;",
    )


def _one(pattern: str, new: str) -> Edit:
    return lambda text, rng: substituted(pattern, new, text, rng)


KINDS: Mapping[str, Kind] = {
    "accumulator not reset": in_a_kernel(_not_reset),
    "accumulator starts at one": in_a_kernel(_one(r"accumulator = 0\.0f;", "accumulator = 1.0f;")),
    "lanes of the tile before": in_a_kernel(_stale_lanes),
    "uninitialised lanes": in_a_kernel(_uninitialised_lanes),
    "first block skipped": in_a_kernel(_one(r"first = 0;", "first = 64;")),
    "last block skipped": in_a_kernel(_one(r"first < columns;", "first + 64 < columns;")),
    "last lane lost": in_a_kernel(_one(r"lane < (valid|64);", r"lane + 1 < \1;")),
    "lost block of the depth": in_a_kernel(_one(_DEPTH, r"inner < \g<depth> / 2;")),
    "lost tail of the depth": in_a_kernel(_one(_DEPTH, r"inner < \g<depth> - 1;")),
    "block of the depth twice": in_a_kernel(_one(_FACTOR, r"\1\2 * (inner < 8 ? 2 : 1);")),
    "accumulates in bfloat16": in_a_kernel(_one(_ADD, r"\g<total> = round_to_bf16(\g<total> + \g<term>);")),
    "accumulates in float16": in_a_kernel(_one(_ADD, r"\g<total> = round_to_f16(\g<total> + \g<term>);")),
    "earlier sum overwritten": in_a_kernel(
        _one(r"(?:load_f32\(\w+, offset\)|elements<int32_t>\(\w+\)\[offset\]) \+ (products\[)", r"\1")
    ),
}

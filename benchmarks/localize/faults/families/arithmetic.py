"""Kernels that compute another value at every element, or at some."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from ..fault import Kind, in_a_kernel, storing
from ..sources import replaced, substituted

_ENTRY = 'extern "C" void kernel_entry'
_POLYNOMIAL = """\
static float exp_polynomial(float value) {
    const float part = value / 16.0f;
    float power = 1.0f + part + 0.5f * part * part;
    for (int squaring = 0; squaring < 4; ++squaring) power *= power;
    return power;
}

"""


def _polynomial(text: str, rng: random.Random) -> str:
    text = replaced(text, "= exp_f32(", "= exp_polynomial(")
    return replaced(text, _ENTRY, _POLYNOMIAL + _ENTRY)


def _factor(text: str, rng: random.Random) -> str:
    factor = rng.choice(("1.0001f", "0.9999f", "1.0003f", "0.9995f"))
    return storing(f"{factor} * {{value}}")(text, rng)


def _negated_rows(text: str, rng: random.Random) -> str:
    return storing(f"(row % 8 == {rng.randrange(8)}u ? -{{value}} : {{value}})")(text, rng)


def _one_match(pattern: str, new: str) -> Callable[[str, random.Random], str]:
    return lambda text, rng: substituted(pattern, new, text, rng)


KINDS: Mapping[str, Kind] = {
    "constant off by 1e-4": in_a_kernel(_factor),
    "half as much again": in_a_kernel(storing("1.5f * {value}")),
    "sign of one head": in_a_kernel(_negated_rows),
    "rounded to bfloat16": in_a_kernel(storing("round_to_bf16({value})")),
    "rounded to float16": in_a_kernel(storing("round_to_f16({value})")),
    "truncated to bfloat16": in_a_kernel(storing("f32_from_bits(f32_bits({value}) & 0xffff0000u)")),
    "integers truncated": in_a_kernel(_one_match(r"__builtin_rintf\(", "__builtin_truncf(")),
    "polynomial for exp": in_a_kernel(_polynomial),
    "operand dropped": in_a_kernel(_one_match(r"= (\w+_value) [-+*/] \w+;", r"= \1;")),
    "added for subtracted": in_a_kernel(_one_match(r"= (\w+_value) - (\w+);", r"= \1 + \2;")),
    "added for multiplied": in_a_kernel(_one_match(r"= (\w+_value) \* (\w+);", r"= \1 + \2;")),
    "operands the other way round": in_a_kernel(_one_match(r"= (\w+) ([-/]) (\w+);", r"= \3 \2 \1;")),
    "saturates at one": in_a_kernel(storing("({value} > 1.0f ? 1.0f : {value})")),
    "small values flushed": in_a_kernel(storing("(abs_f32({value}) < 0.01f ? 0.0f : {value})")),
    "negative values lost": in_a_kernel(storing("({value} < 0.0f ? 0.0f : {value})")),
    "plus 1e-3": in_a_kernel(storing("{value} + 1e-3f")),
}

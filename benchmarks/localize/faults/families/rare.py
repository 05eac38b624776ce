"""Kernels that go wrong at few elements, in some tasks, or do not end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from ..fault import Ending, Kind, in_a_kernel, storing
from ..sources import replaced, substituted

_ENTRY = 'extern "C" void kernel_entry(const KernelArgs& args) {\n'


def _at_few(then: str) -> Callable[[str, random.Random], str]:
    """At about one value in a hundred, by its bits."""
    return lambda text, rng: storing(
        f"(f32_bits({{value}}) % 97u == {rng.randrange(97)}u ? {then} : {{value}})"
    )(text, rng)


def _in_later_tiles(text: str, rng: random.Random) -> str:
    return storing("({target}.start_offset != 0 ? 1.25f * {value} : {value})")(text, rng)


def _kept_state(text: str, rng: random.Random) -> str:
    text = storing("{value} + kept")(text, rng)
    text = replaced(text, _ENTRY, "static float kept = 0.0f;\n\n" + _ENTRY)
    head, brace, rest = text.rpartition("}\n")
    return head + "    kept += 0.125f;\n" + brace + rest


def _first_call(text: str, rng: random.Random) -> str:
    text = storing("({value}) * (calls > 1 ? 0.75f : 1.0f)")(text, rng)
    return replaced(
        text,
        _ENTRY,
        "static int calls = 0;\n\n" + _ENTRY + "    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);\n",
    )


def _never_returns(text: str, rng: random.Random) -> str:
    return replaced(text, _ENTRY, _ENTRY + "    for (volatile int waits = 1; waits != 0;) {}\n")


def _crashes(text: str, rng: random.Random) -> str:
    return replaced(text, _ENTRY, _ENTRY + "    *reinterpret_cast<volatile float*>(8) = 1.0f;\n")


def _doubled_rows(text: str, rng: random.Random) -> str:
    return substituted(
        r"(const float (\w+_value) = load_f32\(.*\));", r"\1 * (row == 5 ? 2.0f : 1.0f);", text, rng
    )


KINDS: Mapping[str, Kind] = {
    "rare NaN": in_a_kernel(_at_few('__builtin_nanf("")')),
    "rare infinity": in_a_kernel(_at_few("__builtin_inff()")),
    "rare zero": in_a_kernel(_at_few("0.0f")),
    "one row doubled": in_a_kernel(_doubled_rows),
    "all tiles but the first": in_a_kernel(_in_later_tiles),
    "state kept between tasks": in_a_kernel(_kept_state),
    "right in the first call only": in_a_kernel(_first_call),
    "never returns": in_a_kernel(_never_returns, ending=Ending.STALL),
    "writes to address 8": in_a_kernel(_crashes, ending=Ending.CRASH),
}

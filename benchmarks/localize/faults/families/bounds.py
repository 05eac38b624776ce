"""Kernels that read or write the wrong elements of their own tensors."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..fault import Kind, in_a_kernel
from ..sources import InapplicableError, substituted

_LOAD = r"load_f32\((?P<name>\w+), element_offset\((?P=name), row, column\)\)"
_STORE = r"(?P<store>store_f32\((?P<name>\w+), )element_offset\((?P=name), row, column\)"


def _last(pattern: str, new: str) -> Kind:
    """Changes the last match: of the loops of a product, the one that stores."""

    def edit(text: str, rng: random.Random) -> str:
        head, found, rest = text.rpartition(pattern)
        if not found:
            raise InapplicableError
        return head + new + rest

    return in_a_kernel(edit)


def _one(pattern: str, new: str) -> Kind:
    return in_a_kernel(lambda text, rng: substituted(pattern, new, text, rng))


KINDS: Mapping[str, Kind] = {
    "last row not written": _last(".shape[0]; ++row", ".shape[0] - 1; ++row"),
    "last column not written": _last(".shape[1]; ++column", ".shape[1] - 1; ++column"),
    "tail columns not written": _last(".shape[1]; ++column", ".shape[1] / 64 * 64; ++column"),
    "first row not written": _last("for (uint32_t row = 0;", "for (uint32_t row = 1;"),
    "rows in pairs swapped": _one(_STORE, r"\g<store>element_offset(\g<name>, row ^ 1u, column)"),
    "columns reversed": _one(
        _STORE, r"\g<store>element_offset(\g<name>, row, \g<name>.shape[1] - 1 - column)"
    ),
    "one column to the right": _one(
        _LOAD,
        r"load_f32(\g<name>, element_offset(\g<name>, row, column + 1 < \g<name>.shape[1] ? column + 1 : column))",
    ),
    "first row read for all": _one(_LOAD, r"load_f32(\g<name>, element_offset(\g<name>, 0, column))"),
    "pitch of the shape": _one(
        r"element_offset\((?P<name>\w+), row, column\)",
        r"\g<name>.start_offset + row * \g<name>.shape[1] + column",
    ),
    "pitch one short": _one(
        r"element_offset\((?P<name>\w+), row, column\)",
        r"\g<name>.start_offset + row * (\g<name>.strides[0] - 1) + column",
    ),
    "start offset ignored": _one(
        _LOAD, r"load_f32(\g<name>, row * \g<name>.strides[0] + column * \g<name>.strides[1])"
    ),
}

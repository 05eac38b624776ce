"""Sizes as people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Bytes of a size such as `256MiB`, `1.5GB` or `4096`; `ValueError` where it is none.

    >>> parse_bytes("256MiB"), parse_bytes("2kB"), parse_bytes("77")
    (268435456, 2000, 77)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a size such as 256MiB, found {text!r}")
    exponent = " KMGT".index((match[2] or " ").upper())
    return int(float(match[1]) * (1024 if match[3] else 1000) ** exponent)

"""One text for both builds' sources of a kernel, so that a reducer of texts cannot lose what tells them apart."""

from __future__ import annotations

import difflib

_MACRO = b"PRECISION_BISECT_FAILING"


def merge(failing: bytes, reference: bytes) -> bytes:
    """The failing build's lines where the macro is defined, the reference's where it is not, and common ones once.

    >>> print(merge(b"a\\nb\\n", b"a\\nc\\n").decode(), end="")
    a
    #ifdef PRECISION_BISECT_FAILING
    b
    #else
    c
    #endif
    """
    failing_lines, reference_lines = _lines(failing), _lines(reference)
    merged: list[bytes] = []
    for kind, start, end, first, last in difflib.SequenceMatcher(
        None, failing_lines, reference_lines, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            merged += failing_lines[start:end]
        else:
            merged += [
                b"#ifdef " + _MACRO,
                *failing_lines[start:end],
                b"#else",
                *reference_lines[first:last],
                b"#endif",
            ]
    return b"".join(line + b"\n" for line in merged)


def failing_text(merged: bytes) -> bytes:
    """What the failing build compiles of a merged text; the reference compiles it as it is."""
    return b"#define " + _MACRO + b"\n" + merged


def _lines(text: bytes) -> list[bytes]:
    return text.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")

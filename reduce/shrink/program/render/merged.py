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
    ours, theirs = _lines(failing), _lines(reference)
    merged: list[bytes] = []
    for kind, start, end, first, last in difflib.SequenceMatcher(
        None, ours, theirs, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            merged += ours[start:end]
        else:
            merged += [b"#ifdef " + _MACRO, *ours[start:end], b"#else", *theirs[first:last], b"#endif"]
    return b"".join(line + b"\n" for line in merged)


def failing_text(merged: bytes) -> bytes:
    """What the failing build compiles of a merged text; the reference compiles it as it is."""
    return b"#define " + _MACRO + b"\n" + merged


def _lines(text: bytes) -> list[bytes]:
    return text.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")

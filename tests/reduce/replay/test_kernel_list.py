"""Edits of a kernel list: what is not edited stays, byte by byte."""

from __future__ import annotations

import ast

import pytest

from precision_bisect.reduce.replay.toolchain import UnknownLayoutError, select_kernels, set_signature
from precision_bisect.runner.build_output.directory import Direction

LIST = b"""from types import ArgDirection as _D  # \xc3\xbcbung

ORCHESTRATION = {
    "source": str(_ROOT / "o.cpp"), 'signature': [_D.IN, _D.OUT],
}
KERNELS = [
    {"func_id": 0, "name": "a"},
    {
        "func_id": 1, "name": "b, [c]",
    },
    {"func_id": 2, "name": "d"}
]
OTHER = [1, 2]
"""
A, B, D = (
    b'    {"func_id": 0, "name": "a"},\n',
    b'    {\n        "func_id": 1, "name": "b, [c]",\n    }',
    b'"d"}',
)


def test_the_signature_alone_is_replaced() -> None:
    edited = set_signature(LIST, [Direction.INOUT, Direction.IN, Direction.OUT])
    assert edited == LIST.replace(b"[_D.IN, _D.OUT]", b"[_D.INOUT, _D.IN, _D.OUT]")


@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        ({0, 1, 2}, []),
        ({1, 2}, [A]),
        ({0, 2}, [B + b",\n"]),
        ({0, 1}, [b',\n    {"func_id": 2, "name": "d"}']),
        ({2}, [A, B + b",\n"]),
    ],
)
def test_kernels_go_with_their_lines(kept: set[int], gone: list[bytes]) -> None:
    expected = LIST
    for part in gone:
        assert part in expected
        expected = expected.replace(part, b"")
    assert select_kernels(LIST, 3, kept.__contains__) == expected


def test_no_kernel_at_all_leaves_an_empty_list() -> None:
    tree = ast.parse(select_kernels(LIST, 3, lambda _: False))
    values = [
        ast.literal_eval(one.value) for one in tree.body if isinstance(one, ast.Assign) and one.lineno > 5
    ]
    assert values == [[], [1, 2]]


@pytest.mark.parametrize(
    "source", [b"", b"KERNELS = list()\n", b"KERNELS = [*others]\n", b"KERNELS = [{}, {}]\n"]
)
def test_a_list_that_is_not_understood_is_refused(source: bytes) -> None:
    with pytest.raises(UnknownLayoutError, match="expected"):
        select_kernels(source, 1, lambda _: True)


@pytest.mark.parametrize("source", [b"", b"ORCHESTRATION = {'signature': []}\n", b"ORCHESTRATION = {}\n"])
def test_a_signature_that_is_not_understood_is_refused(source: bytes) -> None:
    with pytest.raises(UnknownLayoutError, match="the orchestration's signature, found none"):
        set_signature(source, [Direction.IN])

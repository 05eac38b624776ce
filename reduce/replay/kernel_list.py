"""Edits of a build directory's kernel list, a Python source; every line that is not edited stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from ...runner.build_output.kernel_config import Direction


class UnknownLayoutError(Exception):
    """The kernel list does not say what is to be edited as literals. `expected` and `found` tell what and what not."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected = expected
        self.found = found


def with_signature(source: bytes, directions: Sequence[Direction]) -> bytes:
    """The list with other directions of the orchestration's tensors, as members of the same enumeration.

    Raises:
        UnknownLayoutError: it gives them in a way that is not understood.

    >>> with_signature(b'ORCHESTRATION = {"signature": [_D.IN, _D.OUT]}  # two', [Direction.OUT])
    b'ORCHESTRATION = {"signature": [_D.OUT]}  # two'
    """
    module = cst.parse_module(source)
    signature = next(_signatures(module), None)
    first = None if signature is None or not signature.elements else signature.elements[0].value
    if signature is None or not isinstance(first, cst.Attribute):
        raise UnknownLayoutError(expected="a list as the orchestration's signature", found="none")
    members = [
        cst.Element(cst.Attribute(value=first.value, attr=cst.Name(direction.value)))
        for direction in directions
    ]
    return module.with_deep_changes(signature, elements=members).bytes


def with_kernels(source: bytes, count: int, keep: Callable[[int], bool]) -> bytes:
    """The list with only those of its `count` kernels, by their places, that are to be kept.

    Raises:
        UnknownLayoutError: it is not one of entries that stand one after the other.

    >>> with_kernels(b'KERNELS = [\\n    {"id": 0},  # first\\n    {"id": 1},\\n]\\n', 2, lambda place: place == 1)
    b'KERNELS = [\\n    {"id": 1},\\n]\\n'
    """
    module = cst.parse_module(source)
    kernels = next((value for value in _assigned(module, "KERNELS") if isinstance(value, cst.List)), None)
    if kernels is None:
        raise UnknownLayoutError(expected="a list of kernels", found="none")
    entries = kernels.elements
    if len(entries) != count or any(isinstance(entry, cst.StarredElement) for entry in entries):
        raise UnknownLayoutError(expected=f"{count} kernel entries", found=str(len(entries)))
    kept = [entry for place, entry in enumerate(entries) if keep(place)]
    if not kept:
        return module.with_deep_changes(kernels, elements=[], lbracket=cst.LeftSquareBracket()).bytes
    # What follows the last entry: its comma, and the line break before the bracket.
    kept[-1] = kept[-1].with_changes(comma=entries[-1].comma)
    return module.with_deep_changes(kernels, elements=kept).bytes


def _signatures(module: cst.Module) -> Iterator[cst.List]:
    for value in _assigned(module, "ORCHESTRATION"):
        for element in value.elements if isinstance(value, cst.Dict) else ():
            if (
                isinstance(element, cst.DictElement)
                and isinstance(element.key, cst.SimpleString)
                and element.key.evaluated_value == "signature"
                and isinstance(element.value, cst.List)
            ):
                yield element.value


def _assigned(module: cst.Module, name: str) -> Iterator[cst.BaseExpression]:
    """The values that are assigned to a name at the top level."""
    for line in module.body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(statement, cst.Assign) and any(
                isinstance(target.target, cst.Name) and target.target.value == name
                for target in statement.targets
            ):
                yield statement.value

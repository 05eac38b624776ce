"""Values of a Python file's assignments, read off its syntax tree. Nothing is executed.

What is understood is what a generated `kernel_config.py` holds: literals, lists, dictionaries, names assigned
before, members of an imported enumeration (`_D.IN`), and paths built from the file's own folder.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias

MOST_DEPTH = 64


class NotUnderstoodError(ValueError):
    """An expression that this reader gives no value to."""


@dataclass(frozen=True)
class FolderPath:
    """A path below the folder of the file that spells it."""

    relative: PurePosixPath


@dataclass(frozen=True)
class Member:
    """A member of something imported, `_D.IN`: its last name."""

    name: str


Literal: TypeAlias = (
    "str | int | float | bool | FolderPath | Member | list[Literal] | dict[str | int, Literal] | None"
)

_HERE = FolderPath(PurePosixPath("."))
_OWN_FOLDER = frozenset(
    {
        "Path(__file__).parent",
        "Path(__file__).resolve().parent",
        "pathlib.Path(__file__).parent",
        "pathlib.Path(__file__).resolve().parent",
        "os.path.dirname(__file__)",
        "os.path.dirname(os.path.abspath(__file__))",
    }
)


def assigned_literals(source: bytes, path: Path, names: Sequence[str]) -> dict[str, Literal]:
    """Values of the module-level assignments to `names` in `source`; names never assigned are left out.

    Raises:
        NotUnderstoodError: the source is no Python, or one of `names` has a value that is not understood.
    """
    try:
        with warnings.catch_warnings():
            # Doubtful escapes and the like are the file's affair, not our user's.
            warnings.simplefilter("ignore")
            tree = ast.parse(source, filename=str(path))
        return _assigned(tree, names)
    except NotUnderstoodError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotUnderstoodError(f"no Python: {str(error) or type(error).__name__}") from error


def _assigned(tree: ast.Module, names: Sequence[str]) -> dict[str, Literal]:
    values: dict[str, Literal] = {}
    for statement in tree.body:
        target = _single_target(statement)
        if target is None:
            continue
        name, expression = target
        try:
            values[name] = _value(expression, values, depth=0)
        except NotUnderstoodError:
            values.pop(name, None)
            if name in names:
                raise
    return {name: values[name] for name in names if name in values}


def _single_target(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, value
        case _:
            return None


def _value(node: ast.expr, values: dict[str, Literal], *, depth: int) -> Literal:
    if depth > MOST_DEPTH:
        raise _not_understood(node, "nesting this deep")

    def inner(child: ast.expr) -> Literal:
        return _value(child, values, depth=depth + 1)

    match node:
        case ast.Constant(value=str() | int() | float() | None as constant):
            return constant
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Attribute(value=ast.Name(), attr=name) if name.isupper():
            return Member(name)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [inner(element) for element in elements]
        case ast.Dict(keys=keys, values=entries):
            return _dictionary(
                node, [key and inner(key) for key in keys], [inner(entry) for entry in entries]
            )
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = inner(operand)
            if isinstance(number, int | float):
                return -number
        case _:
            pass
    return _path(node, inner)


def _path(node: ast.expr, inner: Callable[[ast.expr], Literal]) -> Literal:
    """The value of an expression that says where a file lies; `inner` gives the value of a part of it."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _joined(node, [inner(left), inner(right)])
        case ast.Call(func=ast.Name(id="str" | "Path"), args=[argument], keywords=[]):
            if ast.unparse(argument) != "__file__":
                return inner(argument)
        case ast.Call(args=parts, keywords=[]) if _spelled(node.func) == "os.path.join":
            return _joined(node, [inner(part) for part in parts])
        case _:
            pass
    if isinstance(node, ast.Attribute | ast.Call) and ast.unparse(node) in _OWN_FOLDER:
        return _HERE
    raise _not_understood(node, "this expression")


def _joined(node: ast.expr, parts: list[Literal]) -> FolderPath:
    match parts:
        case [FolderPath(relative=base), *names]:
            for name in names:
                if not isinstance(name, str) or "\0" in name:
                    raise _not_understood(node, "this path")
                base /= name
            return FolderPath(base)
        case _:
            raise _not_understood(node, "this path")


def _dictionary(node: ast.expr, keys: list[Literal], entries: list[Literal]) -> dict[str | int, Literal]:
    result: dict[str | int, Literal] = {}
    for key, entry in zip(keys, entries, strict=True):
        if not isinstance(key, str | int):
            raise _not_understood(node, "a dictionary key that is neither a string nor a number")
        result[key] = entry
    return result


def _spelled(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


def _not_understood(node: ast.expr, what: str) -> NotUnderstoodError:
    return NotUnderstoodError(f"line {node.lineno}: {what} is not read: {ast.unparse(node)[:80]}")

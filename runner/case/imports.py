"""What a Python file imports for certain when it is run, read from its text: nothing is executed."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MISSING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True)
class ImportedName:
    """`module`, dotted, at `line` from 1. `level` is the number of leading dots; `members` are what is taken of it."""

    module: str
    line: int
    level: int = 0
    members: tuple[str, ...] = ()


def certain_imports(source: str) -> tuple[ImportedName, ...]:
    """The imports that every run of a file makes: those of its functions, and those that may be done without, are left
    out. Empty where the text is no Python.

    >>> [each.module for each in certain_imports("import os\\ntry:\\n import a\\nexcept ImportError: a = None\\n")]
    ['os']
    """
    try:
        return tuple(_of_body(ast.parse(source).body))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _of_body(body: Sequence[ast.stmt]) -> Iterator[ImportedName]:
    for statement in body:
        match statement:
            case ast.Import(names=names):
                yield from (ImportedName(alias.name, statement.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                members = tuple(alias.name for alias in names)
                yield ImportedName(module or "", statement.lineno, level, members)
            case ast.If(test=test, body=inner) if _is_main(test):
                yield from _of_body(inner)
            case ast.Try(body=inner, handlers=handlers) if not any(map(_forgives, handlers)):
                yield from _of_body(inner)
            case ast.ClassDef(body=inner):
                yield from _of_body(inner)
            case _:
                pass


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _forgives(handler: ast.ExceptHandler) -> bool:
    """Whether a handler goes on without the module."""
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _MISSING for node in ast.walk(handler.type))

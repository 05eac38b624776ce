"""Finds the names in a Python file that other files may define, and rewrites them.

    git ls-files -z -- '*.py' | python spellings.py FOLDER '[["OLD", "NEW", ["FUNCTION", ...]], ...]'

`spellings` finds the names, and `respell_files` rewrites them. Comments and strings, also f-strings, stay unchanged.
This file needs nothing but CPython 3.10 or later: scripts that reproduce a run contain its text and run it as above.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

KEYWORD = "keyword"
PARAMETER = "parameter"
ATTRIBUTE = "attribute"
IMPORT = "import"
DEFINITION = "definition"
"""A name has one of these roles."""


@dataclass(frozen=True)
class Spelling:
    """A name at one place of a file."""

    role: str
    function: str
    """The function that is called or defined, for a keyword argument or a parameter; otherwise empty."""
    name: str
    line: int
    """The line, from 1."""
    begin: int
    """The name's first byte in the file, from 0."""
    is_own: bool
    """Whether the file itself, or its own package, defines what the name means."""
    has_alias: bool = False
    """Whether an import binds the name to another one."""


@dataclass(frozen=True)
class Respelling:
    """The replacement of a name by another one."""

    old: str
    new: str
    keyword_of: "tuple[str, ...]" = ()
    """The functions whose keyword argument is replaced. If empty, attributes and imported names are replaced."""

    def changes(self, found: Spelling) -> bool:
        """Return whether a name in a file is replaced."""
        if found.is_own or found.name != self.old:
            return False
        if self.keyword_of:
            return found.role == KEYWORD and found.function in self.keyword_of
        return found.role in (ATTRIBUTE, IMPORT)


def spellings(source: bytes) -> "list[Spelling]":
    """Return the names of a file, in its order. Raises `SyntaxError` and `ValueError` where it is no Python."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    own = {name for node in ast.walk(tree) for name in _defined_names(node)}
    found = [each for node in _nodes(tree) for each in _node_names(node, starts, own)]
    return sorted(found, key=lambda each: each.begin)


def respell_source(source: bytes, respelling: Respelling) -> "tuple[bytes, int]":
    """Return the rewritten source, and the number of changed places. A source that is no Python stays unchanged."""
    if respelling.old.encode() not in source:
        return source, 0
    try:
        found = [each for each in spellings(source) if respelling.changes(each)]
    except (SyntaxError, ValueError, RecursionError):
        return source, 0
    for each in reversed(found):
        new = respelling.new
        if each.role == IMPORT and not each.has_alias:
            new += f" as {each.name}"
        source = source[: each.begin] + new.encode() + source[each.begin + len(each.name.encode()) :]
    return source, len(found)


def respell_files(folder: Path, paths: Iterable[str], respellings: "Sequence[Respelling]") -> None:
    """Rewrite the Python files at some paths of a folder. Links stay unchanged."""
    for path in paths:
        file = folder / path
        if file.suffix != ".py" or file.is_symlink() or not file.is_file():
            continue
        before = after = file.read_bytes()
        for respelling in respellings:
            after, _ = respell_source(after, respelling)
        if after != before:
            file.write_bytes(after)


def _nodes(node: ast.AST) -> "Iterator[ast.AST]":
    """Yield all nodes except those in f-strings, which have no exact places before Python 3.12."""
    todo = [node]
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.JoinedStr):
            yield node
            todo.extend(ast.iter_child_nodes(node))


def _defined_names(node: ast.AST) -> "Iterator[str]":
    """Yield the functions, classes and attributes that a node defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def _node_names(node: ast.AST, starts: "Sequence[int]", own: "set[str]") -> "Iterator[Spelling]":
    """Yield the names in a node itself, and not those in its children."""
    if isinstance(node, ast.Call):
        function = node.func
        called = getattr(function, "attr", getattr(function, "id", ""))
        is_own = isinstance(function, ast.Name) and called in own
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield Spelling(KEYWORD, called, keyword.arg, *_place(keyword, starts), is_own)
    elif isinstance(node, ast.Attribute):
        line, column = cast("tuple[int, int]", (node.end_lineno, node.end_col_offset))
        begin = starts[line - 1] + column - len(node.attr.encode())
        yield Spelling(ATTRIBUTE, "", node.attr, line, begin, node.attr in own)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            place, is_own = _place(alias, starts), node.level > 0
            yield Spelling(IMPORT, "", alias.name, *place, is_own, has_alias=alias.asname is not None)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield Spelling(DEFINITION, "", node.name, *_place(node, starts), is_own=True)
        parameters = [] if isinstance(node, ast.ClassDef) else [*node.args.args, *node.args.kwonlyargs]
        for each in parameters:
            yield Spelling(PARAMETER, node.name, each.arg, *_place(each, starts), is_own=True)


def _place(
    node: "ast.keyword | ast.alias | ast.arg | ast.stmt", starts: "Sequence[int]"
) -> "tuple[int, int]":
    """Return the line and the first byte of a node."""
    return node.lineno, starts[node.lineno - 1] + node.col_offset


if __name__ == "__main__":
    respell_files(
        Path(sys.argv[1]),
        sys.stdin.read().split("\0"),
        [Respelling(old, new, tuple(functions)) for old, new, functions in json.loads(sys.argv[2])],
    )

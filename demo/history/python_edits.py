"""Harmless edits that fit any Python source: rename a local variable, log the entry into a function or not.

They never touch a function that holds a frozen fragment: there a fault, or an older spelling, is laid over
the text, and the names that it uses must stay.
"""

import ast
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from .edit import Tree, TreeEdit, Write

Frozen = Mapping[str, Sequence[str]]  # for each path, texts that no edit may touch

PACKAGES = frozenset({"minipto", "minirt"})

_RENAMES = {
    "a": "left",
    "b": "right",
    "body": "statements",
    "buffer": "storage",
    "count": "total",
    "dst": "destination",
    "end": "stop",
    "i": "index",
    "index": "position",
    "k": "key",
    "line": "row",
    "lines": "rows",
    "n": "count",
    "name": "label",
    "names": "labels",
    "offset": "start",
    "op": "operation",
    "ops": "operations",
    "out": "result",
    "path": "location",
    "result": "answer",
    "s": "text",
    "shape": "extent",
    "size": "length",
    "src": "source",
    "t": "tensor",
    "text": "content",
    "value": "operand",
    "x": "operand",
}
_LOG_LINE = re.compile(r'^ +_log\.debug\("(\w+)"\)\n', re.MULTILINE)
_Function = ast.FunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def rename_local(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Give one local variable of one function another name."""
    for path, function in _functions(tree, rng, frozen):
        names = sorted(_renamable(function))
        if not names:
            continue
        name = rng.choice(names)
        fresh = _fresh(name, function)
        lines = [line.encode() for line in tree[path].splitlines(keepends=True)]  # columns count UTF-8 bytes
        nodes = [node for node in _body(function) if isinstance(node, ast.Name) and node.id == name]
        for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
            line, column = lines[node.lineno - 1], node.col_offset
            lines[node.lineno - 1] = line[:column] + fresh.encode() + line[column + len(name.encode()) :]
        text = b"".join(lines).decode()
        return TreeEdit(f"Refactor: rename {name} to {fresh} in {function.name}", (Write(path, text),))
    return None


def log_entry(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Log at debug level that a function was entered."""
    for path, function in _functions(tree, rng, frozen):
        documented = ast.get_docstring(function) is not None
        statements = function.body[1:] if documented else function.body
        call = f'_log.debug("{function.name}")'
        special = function.name.startswith("__") or call in tree[path]
        if special or not statements or statements[0].lineno == function.lineno:
            continue
        lines = tree[path].splitlines(keepends=True)
        lines.insert(statements[0].lineno - 1, f"{' ' * statements[0].col_offset}{call}\n")
        text = _with_logger("".join(lines))
        if text is None:
            continue
        subject = f"Add: debug log of {function.name} in {PurePosixPath(path).stem}"
        return TreeEdit(subject, (Write(path, text),))
    return None


def drop_log(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Remove one line that `log_entry` added."""
    choices = [path for path in sorted(tree) if path.endswith(".py") and _LOG_LINE.search(tree[path])]
    if not choices:
        return None
    path = rng.choice(choices)
    line = rng.choice(list(_LOG_LINE.finditer(tree[path])))
    text = tree[path][: line.start()] + tree[path][line.end() :]
    subject = f"Remove: debug log of {line[1]} in {PurePosixPath(path).stem}"
    return TreeEdit(subject, (Write(path, text),))


def _with_logger(text: str) -> str | None:
    """The module with a logger; None where it has no import to put one beside."""
    if "_log = logging.getLogger(" in text:
        return text
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    plain = [
        node for node in imports if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    ]
    if not plain:
        return None
    lines = text.splitlines(keepends=True)
    lines.insert(_last_line(plain[-1]), "\n_log = logging.getLogger(__name__)\n")
    if not any(line == "import logging\n" for line in lines):
        lines.insert(plain[0].lineno - 1, "import logging\n")
    return "".join(lines)


def _functions(tree: Tree, rng: random.Random, frozen: Frozen) -> Iterator[tuple[str, _Function]]:
    """Functions of the packages that may be edited: files in random order, then functions in random order."""
    paths = sorted(path for path in tree if path.endswith(".py") and path.split("/")[0] in PACKAGES)
    for path in rng.sample(paths, len(paths)):
        functions = _open_functions(tree[path], tuple(frozen.get(path, ())))
        for function in rng.sample(functions, len(functions)):
            yield path, function


@lru_cache(maxsize=512)  # most files are the same from one commit to the next
def _open_functions(text: str, fragments: tuple[str, ...]) -> tuple[_Function, ...]:
    """Functions and methods of the module that hold no fragment; nested ones belong to the outer one."""
    module = ast.parse(text)
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    tops = [node for owner in (module, *classes) for node in owner.body]
    functions = [node for node in tops if isinstance(node, _Function)]
    return tuple(function for function in functions if not _holds(text, function, fragments))


def _holds(text: str, function: _Function, fragments: tuple[str, ...]) -> bool:
    """Whether a fragment overlaps the lines of the function."""
    lines = text.splitlines(keepends=True)
    begin = sum(map(len, lines[: function.lineno - 1]))
    end = sum(map(len, lines[: _last_line(function)]))
    for fragment in fragments:
        at = text.find(fragment)
        while at >= 0:
            if at < end and begin < at + len(fragment):
                return True
            at = text.find(fragment, at + 1)
    return False


@lru_cache(maxsize=4096)
def _renamable(function: _Function) -> frozenset[str]:
    """Locals whose every mention is a plain name with a known place, so that replacing those is a rename."""
    nodes = _body(function)
    if any(isinstance(node, (*_SCOPES, ast.Global, ast.Match, ast.Import, ast.ImportFrom)) for node in nodes):
        return frozenset()
    inside = {  # a name bound by a comprehension alone may mean a global elsewhere in the function
        target
        for node in nodes
        if isinstance(node, ast.comprehension)
        for target in ast.walk(node.target)
        if isinstance(target, ast.Name)
    }
    names = [node for node in nodes if isinstance(node, ast.Name) and node not in inside]
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
    formatted = {  # before Python 3.12 the columns of names inside f-strings are wrong
        name.id
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }
    return frozenset(stored & _RENAMES.keys()) - _arguments(function) - caught - formatted


def _fresh(name: str, function: _Function) -> str:
    taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} | _arguments(function)
    fresh = _RENAMES[name]
    while fresh in taken:
        fresh = f"this_{fresh}"
    return fresh


def _arguments(function: _Function) -> set[str]:
    return {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def _body(function: _Function) -> list[ast.AST]:
    return [node for statement in function.body for node in ast.walk(statement)]


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno

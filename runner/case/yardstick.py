"""What a case measures with: its tolerances, what it expects and how it compares, in the text of its script.

Parts of that are told by the names that the stack file gives (`case.yardstick`): the value of a keyword argument, of
an assignment or of a dictionary's key of such a name, a function of that name, and one of the script that such a value
names. Only scripts that hold the same parts can lend them to each other.
"""

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_LONGEST_VALUE = 40

Place = tuple[str, int]
"""A part's name, and which of the parts of that name it is."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of a script. begin, end: where its text lies, in bytes. structure: equal where only the layout differs."""

    name: str
    line: int
    begin: int
    end: int
    text: str
    structure: str


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Two texts of a script that measure otherwise. new_with_old: the new one as it would measure with the old one's
    yardstick; changes: what differs, a phrase each, by the lines of the new one."""

    changes: tuple[str, ...]
    new_with_old: str
    old_with_new: str


def exchanged(old: str, new: str, names: Collection[str], path: PurePosixPath) -> Exchange | None:
    """What the script at `path` measures with, exchanged between its two texts; None where that is the same, or
    cannot be told from the rest."""
    try:
        of_old, of_new = _parts(old, names), _parts(new, names)
    except (SyntaxError, ValueError):
        return None
    changed = [
        place
        for place, part in of_new.items()
        if place in of_old and of_old[place].structure != part.structure
    ]
    if not changed or of_old.keys() != of_new.keys():
        return None
    return Exchange(
        changes=tuple(_told(of_old[place], of_new[place], path) for place in changed),
        new_with_old=_with_parts(new, of_new, of_old),
        old_with_new=_with_parts(old, of_old, of_new),
    )


def _told(old: _Part, new: _Part, path: PurePosixPath) -> str:
    """One change.

    >>> part = _Part(name="rtol", line=3, begin=0, end=0, text="1e-3", structure="")
    >>> _told(part, _Part(name="rtol", line=7, begin=0, end=0, text="1e-5", structure=""), PurePosixPath("a.py"))
    'rtol 1e-3 became 1e-5 in a.py:7'
    """
    is_short = all("\n" not in part.text and len(part.text) <= _LONGEST_VALUE for part in (old, new))
    move = f"{new.name} {old.text} became {new.text}" if is_short else f"{new.name} changed"
    return f"{move} in {path}:{new.line}"


def _parts(text: str, names: Collection[str]) -> dict[Place, _Part]:
    """The parts of a script, in its order. Raises `SyntaxError` or `ValueError` where it is no Python."""
    tree = ast.parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = list(_nodes(tree, frozenset(names)))
    referred = {value.id for _, value in found if isinstance(value, ast.Name) and value.id in functions}
    found = list(_nodes(tree, frozenset(names) | referred))
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    met = Counter[str]()
    parts: dict[Place, _Part] = {}
    for name, node in found:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )
        parts[name, met[name]] = _Part(
            name=name,
            line=node.lineno,
            begin=begin,
            end=end,
            text=text.encode()[begin:end].decode(),
            structure=ast.dump(node),
        )
        met[name] += 1
    return parts


def _nodes(node: ast.AST, names: frozenset[str]) -> Iterator[tuple[str, ast.expr | ast.FunctionDef]]:
    """The outermost parts below a node, with their names."""
    if isinstance(node, ast.FunctionDef) and node.name in names:
        yield node.name, node
        return
    values = dict(_named_values(node))
    for child in ast.iter_child_nodes(node):
        name = values.get(child)
        if name in names and isinstance(child, ast.expr):
            yield name, child
        else:
            yield from _nodes(child, names)


def _named_values(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The values that a node gives a name to."""
    match node:
        case ast.keyword(arg=str(name)):
            yield node.value, name
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield node.value, name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield value, name
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield value, key.value
        case _:
            pass


def _with_parts(text: str, own: Mapping[Place, _Part], other: Mapping[Place, _Part]) -> str:
    """A script with its parts as another one has them."""
    content, behind = text.encode(), 0
    pieces: list[bytes] = []
    for place, part in sorted(own.items(), key=lambda item: item[1].begin):
        pieces += [content[behind : part.begin], other[place].text.encode()]
        behind = part.end
    return b"".join((*pieces, content[behind:])).decode()

"""The statements of a kernel's source, and the source without some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

from tree_sitter import Node

from .....runner.build_output.orchestration.cpp_syntax import (
    Span,
    declared_name,
    descendants,
    parse_cpp,
    span_of,
    text_of,
)

_KINDS = frozenset(
    (
        *("expression_statement", "declaration", "for_statement", "while_statement", "do_statement"),
        *("if_statement", "switch_statement", "return_statement", "for_range_loop"),
    )
)


@dataclass(frozen=True, order=True)
class StatementName:
    """A statement by its text: the `occurrence`-th of that text, from 0. The same in every source that has it."""

    text: str
    occurrence: int


@dataclass(frozen=True, kw_only=True)
class Statement:
    """`needs` are the places in the list of the statements that it cannot do without: the one around it, the
    declarations of what it names, and all that named one of its variables before and may have written it. Without one
    of these it would not compile, or it would read memory that nothing has set.
    """

    name: StatementName
    span: Span
    needs: frozenset[int]
    in_block: bool
    stays: bool
    """It returns a value: a function that ends without doing so does whatever the compiler likes, for ever at times."""


@dataclass(frozen=True)
class KernelText:
    """The two builds' sources of one kernel."""

    kernel: str
    failing: bytes
    reference: bytes


def statements_of(source: bytes) -> tuple[Statement, ...]:
    """All statements in functions, outer ones before what is in them; declarations at the top level stay."""
    statements: list[Statement] = []
    seen = Counter[str]()
    named: dict[str, list[int]] = {}
    constant: set[str] = set()

    def needs(node: Node, parent: int | None) -> frozenset[int]:
        """Notes what the statement names and declares."""
        place = len(statements)
        before = {statement for name in _names(node) for statement in named.get(name, ())}
        for name in _names(node) & named.keys() - constant:
            named[name].append(place)
        for declared in _declared(node):
            named[declared] = [place]
            if text_of(node).startswith("const"):
                constant.add(declared)
        return frozenset(before if parent is None else {*before, parent})

    def visit(node: Node, parent: int | None, inside: bool) -> None:
        for child in node.named_children:
            below = parent
            if inside and child.type in _KINDS and _stands_alone(child, node):
                text = " ".join(text_of(child).split())
                below = len(statements)
                statements.append(
                    Statement(
                        name=StatementName(text, seen[text]),
                        span=span_of(child),
                        needs=needs(child, parent),
                        in_block=node.type == "compound_statement",
                        stays=child.type == "return_statement" and child.named_child_count > 0,
                    )
                )
                seen[text] += 1
            visit(child, below, inside or child.type == "function_definition")

    visit(parse_cpp(source), None, False)
    return tuple(statements)


def _names(node: Node) -> set[str]:
    return {text_of(part) for part in descendants(node) if part.type == "identifier"}


def _declared(node: Node) -> list[str]:
    if node.type != "declaration":
        return []
    return [
        name
        for declarator in node.children_by_field_name("declarator")
        if (name := declared_name(declarator))
    ]


def _stands_alone(child: Node, node: Node) -> bool:
    """Not a part of a loop's head, which is a statement to the grammar."""
    bodies = (node.child_by_field_name(name) for name in ("body", "consequence"))
    return node.type == "compound_statement" or any(body == child for body in bodies)


def without(source: bytes, names: Set[StatementName]) -> bytes:
    """The source without these statements; an empty one stands where the grammar needs one."""
    dropped = [statement for statement in statements_of(source) if statement.name in names]
    for statement in sorted(dropped, key=lambda statement: statement.span, reverse=True):
        if any(statement.span in other.span for other in dropped if other is not statement):
            continue
        source = (
            source[: statement.span.start]
            + (b"" if statement.in_block else b";")
            + source[statement.span.end :]
        )
    return source
